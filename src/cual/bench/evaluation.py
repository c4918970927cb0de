"""How good an agent is on labelled data: accuracy, confusions, calibration, novelty. Numbers only."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cual.agent import Agent
from cual.bench.measures import auroc, calibration_error
from cual.data.labels import as_label
from cual.errors import BadLabels, TooFewSamples
from cual.types import AnyArray, ArrayLike, BoolArray, Label, Progress, Row

AT_ONCE = 4096


@dataclass(frozen=True)
class OfClass:
    """What became of the samples of one class.

    >>> OfClass("owl", known=True, samples=20, right=18, novel=1).accuracy
    0.9
    """

    label: Label
    known: bool
    samples: int
    right: int
    novel: int | None
    """Samples above the agent's threshold; None where it can set none."""

    @property
    def accuracy(self) -> float:
        return self.right / self.samples


@dataclass(frozen=True)
class Evaluation:
    """What labelled samples say of an agent.

    Attributes
    ----------
    classes
        True classes: known ones in the agent's order, then the others by name.
    predicted
        The agent's classes: the columns of `confusion`.
    confusion
        Samples of each true class (rows) that were taken for each class of the agent.
    confidence, calibration
        Mean probability of the predicted class on samples of known classes, and how far probabilities are from
        the share that is right (expected calibration error, ten bins).
    novelty
        Chance that a sample of an unknown class scores above one of a known class (AUROC); None without both.

    >>> owl = OfClass("owl", known=True, samples=90, right=81, novel=9)
    >>> cat = OfClass("cat", known=True, samples=10, right=10, novel=0)
    >>> fox = OfClass("fox", known=False, samples=10, right=0, novel=8)
    >>> said = Evaluation((owl, cat, fox), ("owl", "cat"), [[81, 9], [0, 10], [6, 4]], 0.9, 0.05, 0.97)
    >>> said.accuracy, said.right, said.false_alarms, said.found
    (0.95, 0.91, 0.09, 0.8)
    """

    classes: tuple[OfClass, ...]
    predicted: tuple[Label, ...]
    confusion: list[list[int]]
    confidence: float | None
    calibration: float | None
    novelty: float | None

    @property
    def known(self) -> list[OfClass]:
        return [each for each in self.classes if each.known]

    @property
    def unknown(self) -> list[OfClass]:
        return [each for each in self.classes if not each.known]

    @property
    def accuracy(self) -> float | None:
        """The mean over known classes of the share that is right; None where no sample is of one."""
        return float(np.mean([each.accuracy for each in self.known])) if self.known else None

    @property
    def right(self) -> float | None:
        """The share of all samples of known classes that is right."""
        samples = sum(each.samples for each in self.known)
        return sum(each.right for each in self.known) / samples if samples else None

    @property
    def false_alarms(self) -> float | None:
        """The share of samples of known classes that lie above the agent's threshold."""
        return _share(self.known)

    @property
    def found(self) -> float | None:
        """The share of samples of unknown classes that lie above it."""
        return _share(self.unknown)

    def to_json(self) -> Row:
        """Everything as plain JSON."""
        return {
            "samples": sum(each.samples for each in self.classes),
            "accuracy": self.accuracy,
            "right": self.right,
            "confidence": self.confidence,
            "calibration_error": self.calibration,
            "novelty_auroc": self.novelty,
            "false_alarms": self.false_alarms,
            "found": self.found,
            "classes": [vars(each) for each in self.classes],
            "predicted": list(self.predicted),
            "confusion": self.confusion,
        }


def _share(classes: list[OfClass]) -> float | None:
    novel = [each.novel for each in classes if each.novel is not None]
    return sum(novel) / sum(each.samples for each in classes) if novel else None


def evaluate(agent: Agent, X: ArrayLike, y: Any, progress: Progress | None = None) -> Evaluation:
    """Compare what an agent says with labels; those of classes that it does not know measure its novelty.

    Parameters
    ----------
    X, y
        Features, and a label for each of them, of the type that the agent's classes have.
    progress
        Called as ``progress(stage, done, total)``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(c, 1, (30, 8)) for c in (0, 6, -6)])
    >>> agent = Agent.fit(X[:60], ["cat"] * 30 + ["dog"] * 30)
    >>> found = evaluate(agent, X, ["cat"] * 30 + ["dog"] * 30 + ["owl"] * 30)
    >>> found.accuracy, [each.label for each in found.unknown], found.novelty
    (1.0, ['owl'], 1.0)
    """
    truth = _labels(agent, y, len(X))
    predicted, confidence, novelty = _said(agent, X, progress)
    try:
        above: BoolArray | None = novelty > agent.threshold
    except TooFewSamples:
        above = None
    labels = list(dict.fromkeys(truth.tolist()))
    known = [name for name in agent.names.names if name in labels]
    others = sorted(label for label in labels if label not in agent.names)
    classes: list[OfClass] = []
    for label in (*known, *others):
        mine = truth == label
        novel = None if above is None else int(above[mine].sum())
        right = int((predicted[mine] == label).sum())
        classes.append(OfClass(label, label in agent.names, int(mine.sum()), right, novel))
    of_known = np.isin(truth, agent.classes_)
    hits = (predicted == truth)[of_known]
    columns = agent.names.names
    return Evaluation(
        tuple(classes),
        columns,
        [[int(((truth == each.label) & (predicted == c)).sum()) for c in columns] for each in classes],
        float(confidence[of_known].mean()) if len(hits) else None,
        calibration_error(confidence[of_known], hits) if len(hits) else None,
        auroc(novelty, ~of_known),
    )


def _labels(agent: Agent, y: Any, n: int) -> AnyArray:
    values: list[Any] = list(y.tolist() if hasattr(y, "tolist") else y)
    if len(values) != n:
        raise BadLabels(f"{n} samples came with {len(values)} labels")
    if not values:
        raise TooFewSamples("there are no samples to compare with")
    for label in dict.fromkeys(values):
        agent.names.check(as_label(label))
    return np.array(values)


def _said(agent: Agent, X: ArrayLike, progress: Progress | None) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Label, its probability, and novelty of each sample, some thousand at a time."""
    parts: list[tuple[AnyArray, AnyArray, AnyArray]] = []
    for start in range(0, len(X), AT_ONCE):
        some = X[start : start + AT_ONCE]
        parts.append((agent.predict(some), agent.predict_proba(some).max(axis=1), agent.novelty(some)))
        if progress is not None:
            progress("evaluating", min(len(X), start + AT_ONCE), len(X))
    labels, confidence, novelty = (np.concatenate(column) for column in zip(*parts, strict=True))
    return labels, confidence, novelty
