"""A version of an agent as an MLflow model (`mlflow.pyfunc`). Predicting is the agent's business.

The model is made "from code": MLflow keeps a few lines that call `agent_model`, and the agent's own file beside
them, so that nothing is pickled.
"""

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from cual import options
from cual.agent import Agent
from cual.errors import Unavailable
from cual.types import AnyArray

CODE = '''"""A cual agent as an MLflow model: the agent is the artifact beside this file."""

from mlflow.models import set_model

from cual.bridges.mlflow import agent_model

set_model(agent_model())
'''
"""What MLflow runs in order to load the model."""
FILE = "agent.safetensors"
EXAMPLES = 2


def save_model(agent: Agent, path: str | os.PathLike[str], false_alarms: float | None = None) -> None:
    """Write an agent as a folder that `mlflow.pyfunc.load_model` and `mlflow models serve` take.

    Parameters
    ----------
    path
        The folder to make; it must not be there yet, or be empty.
    false_alarms
        The share of known samples that may be called unlike anything known; None for the method's own
        threshold. Whoever loads the model can set another (``model_config={"false_alarms": 0.01}``).
    """
    mlflow = _mlflow()
    with _described(agent, false_alarms) as described:
        mlflow.pyfunc.save_model(path=os.fspath(path), **described)


def log_agent(
    agent: Agent,
    name: str = "agent",
    false_alarms: float | None = None,
    registered_model_name: str | None = None,
) -> Any:
    """Log an agent to the MLflow run that is active, or to a new one; MLflow's `ModelInfo` of it.

    Parameters
    ----------
    name
        Of the logged model.
    false_alarms
        As of `save_model`.
    registered_model_name
        Under which it becomes the next version in MLflow's registry; in none if not given.
    """
    mlflow = _mlflow()
    with _described(agent, false_alarms) as described:
        return mlflow.pyfunc.log_model(name=name, registered_model_name=registered_model_name, **described)


def agent_model() -> Any:
    """What MLflow loads and asks: a `mlflow.pyfunc.PythonModel` around the agent's file."""
    _mlflow()
    from mlflow.pyfunc import PythonModel  # pyright: ignore

    class AgentModel(PythonModel):  # pyright: ignore
        """Features in, a table out: label, probability, calibrated, novelty, unlike."""

        def load_context(self, context: Any) -> None:
            settings = context.model_config or {}
            self.agent = Agent.load(context.artifacts["agent"], settings.get("device") or "cpu")
            self.false_alarms = settings.get("false_alarms")

        # MLflow would take a type of `model_input` for the model's signature.
        def predict(self, context: Any, model_input, params: Any = None) -> Any:  # pyright: ignore
            del context, params
            return judged(self.agent, np.asarray(model_input), self.false_alarms)

    return AgentModel()


def judged(agent: Agent, X: AnyArray, false_alarms: float | None = None) -> Any:
    """What an agent says of samples, as a `pandas.DataFrame` with a row for each.

    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1, (30, 8)) for c in (0, 6)])
    >>> judged(Agent.fit(X, ["cat"] * 30 + ["dog"] * 30), X[:1])[["label", "unlike"]].values.tolist()
    [['cat', False]]
    """
    import pandas as pd

    probabilities, calibrated = agent.predict_proba(X), agent.calibrated(X)
    best = probabilities.argmax(axis=1)
    rows = np.arange(len(best))
    novelty = agent.novelty(X)
    threshold = agent.threshold if false_alarms is None else agent.threshold_at(false_alarms)
    return pd.DataFrame(
        {
            "label": agent.classes_[best].tolist(),
            "probability": probabilities[rows, best],
            "calibrated": np.full(len(best), np.nan) if calibrated is None else calibrated[rows, best],
            "novelty": novelty,
            "unlike": novelty > threshold.value,
        }
    )


@contextmanager
def _described(agent: Agent, false_alarms: float | None) -> Generator[dict[str, Any]]:
    """What MLflow is told of the model; its files are there as long as the block."""
    from mlflow.models import infer_signature  # pyright: ignore

    if false_alarms is not None:
        options.number("false_alarms", false_alarms, 0, 1)
    # Made up: real samples would stay with the model when the agent has long forgotten them.
    example = np.random.default_rng(0).standard_normal((EXAMPLES, agent.width), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        code, file = Path(folder) / "cual_agent.py", Path(folder) / FILE
        code.write_text(CODE, encoding="utf-8")
        agent.save(file)
        yield {
            "python_model": str(code),
            "artifacts": {"agent": str(file)},
            "signature": infer_signature(example, judged(agent, example, false_alarms)),
            "input_example": example,
            "pip_requirements": [f"cual=={version('cual')}", f"pandas=={version('pandas')}"],
            "model_config": {"false_alarms": false_alarms, "device": "cpu"},
            "metadata": {
                "version": agent.version,
                "method": agent.method.name,
                "encoder": agent.encoder,
                "classes": [str(name) for name in agent.names.names],
            },
        }


def _mlflow() -> Any:
    try:
        import mlflow.pyfunc  # pyright: ignore
    except ImportError as error:
        raise Unavailable("an MLflow model needs mlflow: pip install 'cual[mlflow]'") from error
    return mlflow
