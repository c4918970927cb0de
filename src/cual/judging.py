"""What an agent says of samples: class, probability, how novel they look. What it knows is in `cual.agent`."""

from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor

from cual import options as check
from cual.data.labels import ClassNames
from cual.data.pool import Pool, as_features, check_width, chunks, encoder_of
from cual.errors import WrongEncoder
from cual.graph import Value, cannot
from cual.heads import Calibrates, DrawsLogits, Head, Samples, likeliest_factor
from cual.learners import Detector, DrawsNovelty, Knowledge, SeesTogether
from cual.methods import Method
from cual.replay import Replay
from cual.types import AnyArray, ArrayLike, FloatArray
from cual.uncertainty import Threshold, at_rate


class Judges:
    """The methods of an agent that judge samples. Nothing is learned here."""

    method: Method
    names: ClassNames
    head: Head
    replay: Replay
    validation: Samples
    encoder: str | None

    def predict(self, X: ArrayLike) -> AnyArray:
        """The class of each sample, by name.

        >>> from cual import Agent
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(c, 1, (30, 8)) for c in (0, 6)])
        >>> Agent.fit(X, ["cat"] * 30 + ["dog"] * 30).predict(X[[0, -1]]).tolist()
        ['cat', 'dog']
        """
        return self.names.decode(self._logits(X).argmax(dim=1).cpu().numpy())

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Class probabilities (n, classes), columns in the order of `classes_`."""
        return torch.softmax(self._sureness * self._logits(X), dim=1).cpu().numpy()

    @cached_property
    def _sureness(self) -> float:
        """Factor on logits; a head that is not on the scale of probabilities finds it on what is held out."""
        return self.head.sureness(self.validation) if isinstance(self.head, Calibrates) else 1.0

    def calibrated(self, X: ArrayLike) -> FloatArray | None:
        """Class probabilities (n, classes) under the one factor on logits that fits the validation set best.

        The probabilities of a head that `Calibrates` itself are that already; others are often too sure. None
        where there is no validation set.

        >>> from cual import Agent
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(c, 1, (30, 8)) for c in (0, 6)])
        >>> agent = Agent.fit(X, ["cat"] * 30 + ["dog"] * 30)
        >>> agent.calibrated(X[:2]).sum(axis=1).round(3).tolist()
        [1.0, 1.0]
        """
        sureness = self._temperature
        return None if sureness is None else torch.softmax(sureness * self._logits(X), dim=1).cpu().numpy()

    @cached_property
    def _temperature(self) -> float | None:
        """Factor on logits under which labels of the validation set are likeliest: one over the temperature."""
        if not len(self.validation):
            return None
        if isinstance(self.head, Calibrates):
            return self._sureness
        return likeliest_factor(self.head.logits(self.validation.X), self.validation.y)

    def novelty(self, X: ArrayLike) -> FloatArray:
        """How novel each sample looks to the method, one by one; above `threshold` is probably novel.

        >>> from cual import Agent
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(c, 1, (30, 8)) for c in (0, 6)])
        >>> agent = Agent.fit(X, ["cat"] * 30 + ["dog"] * 30)
        >>> known, fox = agent.novelty(X[:1])[0], agent.novelty(rng.normal(-6, 1, (1, 8)))[0]
        >>> bool(known < agent.threshold < fox)
        True
        """
        features = self._features(X)
        parts = [self._detector.novelty(features[rows].to(self.device)) for rows in chunks(*features.shape)]
        return torch.cat(parts).cpu().numpy() if parts else np.empty(0, np.float32)

    def novelty_together(self, X: ArrayLike) -> tuple[FloatArray, Threshold]:
        """How novel samples look that arrived together, and above which score they probably are.

        A method that looks at the company of a sample tells novel ones far better in a batch: they have each
        other for neighbours. Others say the same as `novelty` and `threshold`.

        >>> from cual import Agent
        >>> rng = np.random.default_rng(0)
        >>> agent = Agent.fit(rng.normal(size=(60, 8)), [0] * 30 + [1] * 30)
        >>> old, new = rng.normal(size=(20, 8)), rng.normal(6, 1, (20, 8))
        >>> scores, threshold = agent.novelty_together(np.concatenate([old, new]))
        >>> bool((scores[20:] > threshold).sum() > (scores[:20] > threshold).sum())
        True
        """
        self.check_encoder(encoder_of(X), "X")
        learner = self.method.learner
        if not isinstance(learner, SeesTogether) or len(X) < 2:
            return self.novelty(X), self.threshold
        pool = Pool(X)
        check_width(pool.width, self.width, "X")
        scores, threshold = learner.novelty_together(cast("Knowledge", self), pool)
        return scores.cpu().numpy(), threshold

    @property
    def classes_(self) -> AnyArray:
        """Names of the known classes, in the order in which they were learned."""
        return self.names.array()

    @property
    def width(self) -> int:
        """Width of the features."""
        return int(self.replay.X.shape[1])

    @property
    def device(self) -> torch.device:
        return self.replay.X.device

    @cached_property
    def threshold(self) -> Threshold:
        """Above which `novelty` speaks for a class that is not known; from the validation set."""
        return self._detector.threshold

    def threshold_at(self, false_alarms: float) -> Threshold:
        """Above which a share `false_alarms` of known samples lies, in `novelty`; from the validation set.

        A rate below one in so many validation samples as there are, plus one, cannot be told: then it is their
        highest score.

        >>> from cual import Agent
        >>> rng = np.random.default_rng(0)
        >>> agent = Agent.fit(rng.normal(size=(400, 8)), [0] * 200 + [1] * 200)
        >>> agent.threshold_at(0.01) > agent.threshold_at(0.2)
        True
        """
        return at_rate(self._known_novelty, check.number("false_alarms", false_alarms, 0, 1))

    @property
    def known_novelty(self) -> FloatArray:
        """`novelty` of the validation samples, which thresholds are set by."""
        return self._known_novelty.cpu().numpy()

    @cached_property
    def _known_novelty(self) -> Tensor:
        return torch.from_numpy(self.novelty(self.validation.X))

    @cached_property
    def _detector(self) -> Detector:
        return self.method.learner.detector(cast("Knowledge", self), self.method.stds)

    def draw(self, X: Value, novelty: bool = True) -> dict[str, Value]:
        """What the agent says of features, as a graph: logits, label, probabilities, calibrated, novelty.

        The label is a number, `calibrated` is there where there is a validation set. Parts that cannot be drawn
        raise `NotExportable`. `cual.deploy` makes a file of it.
        """
        if not isinstance(self.head, DrawsLogits):
            raise cannot(self.head)
        logits = self.head.draw(X)
        drawn = {"logits": logits, "label": logits.argmax()}
        drawn["probabilities"] = (logits * self._sureness).softmax()
        if self._temperature is not None:
            drawn["calibrated"] = (logits * self._temperature).softmax()
        if novelty:
            if not isinstance(self._detector, DrawsNovelty):
                raise cannot(self._detector)
            drawn["novelty"] = self._detector.draw(X)
        return drawn

    def _logits(self, X: ArrayLike) -> Tensor:
        return self.head.logits(self._features(X).to(self.device))

    def _features(self, X: ArrayLike) -> Tensor:
        self.check_encoder(encoder_of(X), "X")
        return as_features(X, "X", self.width)

    def check_encoder(self, encoder: str | None, what: str) -> None:
        """Refuse features of another encoder; where one of the two is not known, only the width can tell.

        >>> from cual import Agent
        >>> agent = Agent.fit(np.random.default_rng(0).normal(size=(40, 8)), ["cat"] * 40, encoder="mine@0123")
        >>> agent.check_encoder("other@4567", "the pool")
        Traceback (most recent call last):
        cual.errors.WrongEncoder: the pool was made by the encoder other@4567, but the agent learned ...
        """
        if encoder is not None and self.encoder is not None and encoder != self.encoder:
            raise WrongEncoder(
                f"{what} was made by the encoder {encoder}, but the agent learned from {self.encoder}; "
                "features of different encoders cannot be compared"
            )
