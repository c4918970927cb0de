"""An agent as a scikit-learn estimator, for pipelines, grid search and whatever else takes one.

Only the translation lives here; learning and adapting are the agent's business. `CualClassifier` is fitted by
scikit-learn; `FittedClassifier` and `FittedDetector` are a version of an agent that is there already.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ModuleNotFoundError as error:
    from cual.errors import MissingPackage

    raise MissingPackage("cual.bridges.sklearn needs scikit-learn: pip install 'cual[sklearn]'") from error

from cual.agent import Agent
from cual.data.pool import Pool, check_width
from cual.errors import BadOption
from cual.loop.adaptation import Adaptation
from cual.methods import Method, methods
from cual.types import AnyArray, ArrayLike, FloatArray, Label

BLOCK = 64
"""Rows that are classified at once, always as many: matrix products of other shapes round differently, and
scikit-learn wants the same probabilities for a sample whatever else it is predicted with."""


class AgentBytes(bytes):
    """The bytes of an agent's file: safetensors and JSON. Short to look at.

    >>> AgentBytes(b"0123")
    AgentBytes(4 bytes)
    """

    @classmethod
    def of(cls, agent: Agent) -> Self:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "agent"
            agent.save(path)
            return cls(path.read_bytes())

    def __repr__(self) -> str:
        return f"AgentBytes({len(self)} bytes)"

    def agent(self, device: str) -> Agent:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "agent"
            path.write_bytes(self)
            return Agent.load(path, device)


class CualClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that can be asked what is novel, and that learns new classes from unlabelled data.

    Parameters
    ----------
    method
        A name from `cual.methods`, or a `Method`.
    random_state
        Everything random derives from it; an int is the agent's seed.
    buffer, hidden, epochs
        Samples in the replay memory, width of the long-term head's hidden layer, and epochs of its training;
        None for what the method says. A head that is not trained (cual-plus's) has no hidden layer and no
        epochs: giving them is a `BadOption` error.
    options
        Further options of the method, for example ``{"learner": {"strange_weight": 1.0}}``.
    device
        Where to compute: "cpu" or "cuda".

    Attributes
    ----------
    classes_
        The known classes, sorted.
    agent_
        The agent behind it. It sees labels that are whole numbers as int (also 1.0 and True) and names as str:
        that is how to `tell` them to an adaptation.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, new = np.concatenate([rng.normal(c, 1, (40, 8)) for c in (0, 6)]), rng.normal(-6, 1, (30, 8))
    >>> clf = CualClassifier().fit(X, ["cat"] * 40 + ["dog"] * 40)
    >>> task = clf.adapt(np.concatenate([X[::4], new]), budget=3)
    >>> while query := task.ask():
    ...     task.tell(query.id, {i: "owl" if i >= 20 else "cat" for i in query.ids})
    >>> clf.adopt(task.finish()).predict(new[:1]).tolist(), clf.classes_.tolist()
    (['owl'], ['cat', 'dog', 'owl'])
    """

    n_features_in_: int

    def __init__(
        self,
        method: str | Method = "cual-plus",
        *,
        random_state: int | np.random.RandomState | None = 0,
        buffer: int | None = None,
        hidden: int | None = None,
        epochs: int | None = None,
        options: Mapping[str, Any] | None = None,
        device: str = "cpu",
    ) -> None:
        self.method = method
        self.random_state = random_state
        self.buffer = buffer
        self.hidden = hidden
        self.epochs = epochs
        self.options = options
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the first classes."""
        features, labels = cast(
            tuple[AnyArray, AnyArray], validate_data(self, X, y, dtype=(np.float32, np.float64))
        )
        check_classification_targets(labels)
        agent = Agent.fit(
            features, _plain(labels), method=self._method(), seed=self._seed(), device=self.device
        )
        return self._take(agent, labels.dtype)

    def adapt(
        self, pool: Pool | ArrayLike, budget: float | int, ids: Sequence[Any] | AnyArray | None = None
    ) -> Adaptation:
        """Begin to adapt to unlabelled data (see `Agent.adapt`); `adopt` takes over what comes of it."""
        check_is_fitted(self)
        return self.agent_.adapt(pool, budget, ids)

    def adopt(self, agent: Agent) -> Self:
        """Go on with another agent on the same features, such as the next version from ``task.finish()``."""
        check_is_fitted(self)
        check_width(agent.width, self.n_features_in_, "the agent")
        return self._take(agent, self._dtype)

    def predict(self, X: Any) -> AnyArray:
        """The class of each sample."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities (n, classes), columns in the order of `classes_`."""
        features = self._checked(X)
        n, width = features.shape
        whole = np.concatenate([features, np.zeros((-n % BLOCK, width), features.dtype)])
        blocks = [self.agent_.predict_proba(whole[i : i + BLOCK]) for i in range(0, n, BLOCK)]
        return np.concatenate(blocks)[:n, self._order]

    def novelty(self, X: Any) -> FloatArray:
        """How novel each sample looks to the method; compare with ``agent_.threshold.value``."""
        features = self._checked(X)
        return self.agent_.novelty(features)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to one file."""
        check_is_fitted(self)
        self.agent_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "cpu") -> Self:
        """A fitted classifier around an agent that was saved, by this class or by `Agent.save`."""
        return cls.from_agent(Agent.load(path, device))

    @classmethod
    def from_agent(cls, agent: Agent) -> Self:
        """A fitted classifier around an agent; its clones are fitted anew, `FittedClassifier` is not."""
        fitted = cls(agent.method, random_state=agent.seed, device=str(agent.device))
        fitted.n_features_in_ = agent.width
        return fitted._take(agent, agent.classes_.dtype)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and joblib: the agent goes along as its file, and nothing of it is pickled."""
        state = dict(cast(dict[str, Any], super().__getstate__()))
        if "agent_" in state:
            state["agent_"] = AgentBytes.of(state["agent_"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        held = state.get("agent_")
        if isinstance(held, AgentBytes):  # earlier pickles hold the agent itself
            self.agent_ = held.agent(self.device)

    def _checked(self, X: Any) -> AnyArray:
        check_is_fitted(self)
        return cast(AnyArray, validate_data(self, X, reset=False, dtype=(np.float32, np.float64)))

    def _take(self, agent: Agent, dtype: np.dtype[Any]) -> Self:
        names = _restored(agent.classes_, dtype)
        self.agent_, self._dtype = agent, dtype
        self._order = np.argsort(names)
        self.classes_ = names[self._order]
        return self

    def _method(self) -> Method:
        method = methods[self.method] if isinstance(self.method, str) else self.method
        changed = dict(self.options or {})
        if self.buffer is not None:
            changed["buffer"] = self.buffer
        method = method.but(**changed)
        head = {"hidden": self.hidden, "epochs": self.epochs}
        given = {name: value for name, value in head.items() if value is not None}
        return method.but(head=given) if given else method

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))


class _OfAgent(BaseEstimator):
    """What classifier and detector share: an agent's file, and that fitting changes nothing."""

    def __init__(self, agent: str | os.PathLike[str] | bytes, *, device: str = "cpu") -> None:
        self.agent = agent
        self.device = device

    @classmethod
    def of(cls, agent: Agent) -> Self:
        """Of an agent in memory: holds the bytes of its file."""
        return cls(AgentBytes.of(agent), device=str(agent.device))

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Nothing is learned; the agent is as it is."""
        _ = self._classifier
        return self

    @property
    def agent_(self) -> Agent:
        """The agent behind it."""
        return self._classifier.agent_

    @property
    def n_features_in_(self) -> int:
        return self._classifier.n_features_in_

    def score_samples(self, X: Any) -> FloatArray:
        """How familiar each sample looks: the agent's novelty with the other sign, as scikit-learn has it."""
        return -self._classifier.novelty(X)

    @property
    def _classifier(self) -> CualClassifier:
        """Read when it is needed, and again when another agent or device was set."""
        given = (self.agent, self.device)
        if getattr(self, "_read", (None, None))[0] != given:
            self._read = (given, CualClassifier.from_agent(self._loaded()))
        return self._read[1]

    def _loaded(self) -> Agent:
        if isinstance(self.agent, bytes):
            return AgentBytes(self.agent).agent(self.device)
        if isinstance(self.agent, Agent):
            raise BadOption(f"agent takes a file or its bytes; of an Agent, {type(self).__name__}.of makes one")
        return Agent.load(self.agent, self.device)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and joblib: the path or the bytes of the file, nothing that was made of them."""
        state = cast(dict[str, Any], super().__getstate__())
        return {name: value for name, value in state.items() if name != "_read"}

    def __sklearn_is_fitted__(self) -> bool:
        return True


class FittedClassifier(ClassifierMixin, _OfAgent):
    """A version of an agent as a classifier that is fitted already: clones are, too, and `fit` changes nothing.

    Parameters
    ----------
    agent
        The agent's file, or the bytes of it.
    device
        Where to compute: "cpu" or "cuda".

    Examples
    --------
    >>> from sklearn.base import clone
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(c, 1, (40, 8)) for c in (0, 6)])
    >>> clf = clone(FittedClassifier.of(Agent.fit(X, ["cat"] * 40 + ["dog"] * 40)))
    >>> clf.predict(X[-1:]).tolist(), clf.classes_.tolist(), clf
    (['dog'], ['cat', 'dog'], FittedClassifier(agent=AgentBytes(... bytes)))
    """

    @property
    def classes_(self) -> AnyArray:
        """The known classes, sorted."""
        return self._classifier.classes_

    def predict(self, X: Any) -> AnyArray:
        """The class of each sample."""
        return self._classifier.predict(X)

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities (n, classes), columns in the order of `classes_`."""
        return self._classifier.predict_proba(X)


class FittedDetector(OutlierMixin, _OfAgent):
    """A version of an agent as a detector of what is unlike anything known, in scikit-learn's signs.

    Parameters
    ----------
    agent
        The agent's file, or the bytes of it.
    false_alarms
        The share of known samples that may be called unlike; None for the method's own threshold.
    device
        Where to compute: "cpu" or "cuda".
    """

    def __init__(
        self,
        agent: str | os.PathLike[str] | bytes,
        *,
        false_alarms: float | None = None,
        device: str = "cpu",
    ) -> None:
        super().__init__(agent, device=device)
        self.false_alarms = false_alarms

    @property
    def offset_(self) -> float:
        """The score below which a sample is unlike anything known."""
        agent, rate = self.agent_, self.false_alarms
        return -(agent.threshold if rate is None else agent.threshold_at(rate)).value

    def decision_function(self, X: Any) -> FloatArray:
        """`score_samples` less `offset_`: below 0 is unlike anything known."""
        return self.score_samples(X) - np.float32(self.offset_)

    def predict(self, X: Any) -> AnyArray:
        """1 for samples that look known, −1 for others."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> AnyArray:
        return self.fit().predict(X)


def _plain(y: AnyArray) -> list[Label]:
    """Labels as the agent takes them: scikit-learn lets floats and bools through where they are whole numbers.

    >>> _plain(np.array([1.0, 2.0])), _plain(np.array(["a", "b"], dtype=object))
    ([1, 2], ['a', 'b'])
    """
    return y.astype(np.int64).tolist() if y.dtype.kind in "fb" else y.tolist()


def _restored(labels: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """The agent's labels in the type of `y`, unless a class came later that the type cannot hold.

    >>> _restored(np.array([0, 1]), np.dtype(bool)), _restored(np.array([0, 1, 2]), np.dtype(bool))
    (array([False,  True]), array([0, 1, 2]))
    """
    converted = labels.astype(dtype)
    return converted if (converted == labels).all() else labels
