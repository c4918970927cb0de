"""Whether an ONNX file says what the agent says: both are asked about the same samples. No graph is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cual.agent import Agent
from cual.encoders.base import InOnnx
from cual.errors import NotExportable
from cual.types import AnyArray

TOLERANCE = 1e-4
SAMPLES = 512
"""Known samples that both are asked about, at most."""
ITEMS = 4
"""Made-up pictures or texts that both are asked about."""
LEAST_SCORE = 0.01
"""A classifier that is sure of all it knows has entropies of 1e-5 and a threshold like that; probabilities in
float32 say no more of these than that they are small."""
_ADVICE = {
    "novelty": ". Scores that are measured by a few validation samples which are all alike hang on rounding; "
    "without novelty, classes can be exported alone"
}


@dataclass(frozen=True)
class Difference:
    """The largest difference between what file and agent say.

    Attributes
    ----------
    output
        Of what.
    value
        Of probabilities as it is; of logits as a share of the agent's number or, where that is smaller, of the
        median one; of novelty as a share of the score, the threshold or `LEAST_SCORE`, whichever is largest.
    """

    output: str
    value: float


def check_features(data: bytes, agent: Agent) -> tuple[Difference, ...]:
    """Ask both about samples of the validation set and of the replay memory."""
    known = (agent.validation.X, agent.replay.samples().X)
    X = np.concatenate([part.float().cpu().numpy()[:: -(-len(part) // SAMPLES) or 1] for part in known])
    return _checked(_session(data), {"features": X}, agent, X)


def check_items(data: bytes, agent: Agent, encoder: InOnnx) -> tuple[Difference, ...]:
    """Ask both about pictures of noise, or texts of random letters."""
    batch = [encoder.prepare(item) for item in _made_up(encoder.kind)]
    return _checked(_session(data), encoder.feeds(batch), agent, encoder.encode(batch))


def differences(outputs: Mapping[str, AnyArray], agent: Agent, X: AnyArray) -> tuple[Difference, ...]:
    """Of what a file says of some samples, and the agent of their features `X`."""
    logits = agent.head.logits(torch.from_numpy(X).to(agent.device)).cpu().numpy()
    said: dict[str, tuple[AnyArray | None, float]] = {
        "logits": (logits, float(np.median(np.abs(logits)))),
        "probabilities": (agent.predict_proba(X), 1.0),
        "calibrated": (agent.calibrated(X), 1.0),
    }
    if "novelty" in outputs:
        said["novelty"] = (agent.novelty(X), max(abs(agent.threshold.value), LEAST_SCORE))
    return tuple(
        Difference(name, _largest(outputs[name], right, least))
        for name, (right, least) in said.items()
        if right is not None
    )


def larger(these: Sequence[Difference], others: Sequence[Difference]) -> tuple[Difference, ...]:
    """Of each output, the larger of two differences.

    >>> larger([Difference("novelty", 1e-6)], [Difference("novelty", 3e-6)])
    (Difference(output='novelty', value=3e-06),)
    """
    return tuple(max(pair, key=lambda d: d.value) for pair in zip(these, others, strict=True))


def _checked(session: Any, feeds: Mapping[str, AnyArray], agent: Agent, X: AnyArray) -> tuple[Difference, ...]:
    names = [output.name for output in session.get_outputs()]
    outputs: dict[str, AnyArray] = dict(zip(names, session.run(None, dict(feeds)), strict=True))
    found = differences(outputs, agent, X)
    wrong = [d for d in found if not d.value <= TOLERANCE]
    if wrong:
        output, by = wrong[0].output, wrong[0].value
        raise NotExportable(
            f"nothing was written: {output} of the graph differ from the agent's by {by:.1e}, "
            f"and {TOLERANCE:g} is allowed{_ADVICE.get(output, '')}"
        )
    return found


def _largest(given: AnyArray, right: AnyArray, least: float) -> float:
    """The largest difference as a share of the right number, or of `least` where that is larger."""
    if given.shape != right.shape:
        return np.inf
    gap = np.abs(given.astype(np.float64) - right)
    shares = gap / np.maximum(np.abs(right.astype(np.float64)), max(least, 1e-30))
    return float(shares.max(initial=0.0)) if np.isfinite(shares).all() else np.inf


def _session(data: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _made_up(kind: str) -> list[Any]:
    rng = np.random.default_rng(0)
    if kind == "text":
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz      "))
        return ["".join(rng.choice(letters, 20 * (1 + i))) for i in range(ITEMS)]
    from PIL import Image

    return [Image.fromarray(rng.integers(0, 256, (64, 80 + i, 3), dtype=np.uint8)) for i in range(ITEMS)]
