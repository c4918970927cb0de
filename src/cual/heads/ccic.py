"""CCIC on features: interpolation consistency, contrast with the past, prediction by nearest neighbours.

After Boschini et al. 2022, "Continual semi-supervised learning through contrastive interpolation consistency".
The numbers below are those of its published code (github.com/aimagelab/CSSL: models/ccic.py and the README).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cual.errors import BadFeatures, TooFewSamples
from cual.graph import Value, joined
from cual.heads.base import Lesson, Samples, Steps, heads
from cual.heads.mlp import MLP
from cual.heads.perceptron import CHUNK
from cual.heads.training import Layers, Step, gathered, plan, repeat

TEMPERATURE = 0.5  # of sharpening
MIXUP = 0.75  # both parameters of the Beta distribution that λ is drawn from
VIEWS = 3  # of each unlabelled sample
CONSISTENCY = 0.5  # what the unlabelled samples' consistency counts
CONTRAST = 0.5  # what the negative-only triplets count
CONTRAST_UNTIL = 0.9  # share of the lesson after which contrast and mixed triplets end
MARGIN = 1.0  # of both triplet losses
MINED = 3  # hardest positives and negatives per anchor: a tenth of the published batch of 32
NEIGHBOURS = 3  # that vote

NO_VOTE = 1e-4  # share of a class without votes, so that its logarithm is finite
TIE = 0.01  # times a distance: decides between equal votes, never against one more vote
FARTHEST = 4.0  # squared distance of opposite unit vectors: that of a class without references


@heads.add("ccic")
class CCIC(MLP):
    """An MLP whose hidden layer is an embedding; the classes of the nearest labelled samples in it vote.

    Each step adds up

    - the cross-entropy of labelled samples of the lesson and of remembered ones, both interpolated (mixup in
      feature space) with each other and with unlabelled samples, targets mixed alike (L_X);
    - the squared error of the probabilities of interpolated unlabelled samples against their guessed
      probabilities, sharpened and mixed alike (L_U: the mean over samples and classes, divided by the number of
      classes once more, as published; times `CONSISTENCY`);
    - a triplet loss on the embeddings of interpolated labelled samples, mined for the hardest;
    - a triplet loss without positives that keeps unlabelled samples away from remembered ones (times
      `CONTRAST`). It takes the unlabelled for new, which holds only where no old classes come along.

    The last two are as published: in the last tenth of a lesson, and where nothing is remembered, the third is
    on samples as they are and the fourth is left out.

    Images are augmented in the original, features cannot be: mixup alone stands in for it. The `VIEWS` of an
    unlabelled sample differ in what they are mixed with and how much, and the guess is the prediction for the
    sample itself. (The published code mixes inputs only and guesses from logits; mixed targets and guessed
    probabilities are MixMatch's, which it adapts. It divides by the classes of all tasks, which it is told
    beforehand; here it is by those that are known so far.)

    Parameters
    ----------
    hidden
        Of the embedding.
    epochs, batch, lr
        Of each lesson; Adam starts afresh each time. Half of a batch is remembered, where there is memory;
        as many unlabelled samples again are interpolated, and contrasted with as many remembered ones.

    Examples
    --------
    >>> X, y = torch.eye(3), torch.arange(3)
    >>> none = Samples(X[:0], y[:0])
    >>> head = CCIC(hidden=64)
    >>> head = head.learn(Lesson(3, Samples(X, y), none, none), np.random.default_rng(0))
    >>> head.logits(X).argmax(1).tolist()
    [0, 1, 2]
    """

    takes_unlabelled = True

    _references: Tensor = torch.empty(0, 0)
    _reference_classes: Tensor = torch.empty(0, dtype=torch.int64)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with: a step of it takes much longer than one of an MLP."""
        return [{"hidden": 16, "epochs": 5}]

    @torch.no_grad()
    def logits(self, X: Tensor) -> Tensor:
        """Logarithms (n, n_classes) of the vote shares, on the head's device."""
        if not self._layers:
            return super().logits(X)
        votes = [
            log_votes(part, self._references, self._reference_classes, self.n_classes)
            for part in self._embedded(X)
        ]
        return torch.cat(votes) if votes else self._references.new_empty(0, self.n_classes)

    def draw(self, X: Value) -> Value:
        """The logits as a graph."""
        weight, bias = self._layers[0]
        embedding = (X @ weight.t() + bias).relu().unit()
        distances = embedding.squared_distances(self._references).to(np.float32)
        classes = self._reference_classes
        _, voters = distances.top(min(NEIGHBOURS, len(classes)), largest=False)
        votes = X.graph.constant(F.one_hot(classes, self.n_classes), np.float32).take(voters).mean(1)
        nearest = [
            distances.take(mine.cpu().numpy(), axis=1).min(1, keep=True)
            if len(mine := (classes == c).nonzero()[:, 0])
            else distances.min(1, keep=True) * 0.0 + FARTHEST
            for c in range(self.n_classes)
        ]
        return votes.at_least(NO_VOTE).log() - joined(nearest) * TIE

    @torch.no_grad()
    def learn(self, lesson: Lesson, rng: np.random.Generator, progress: Steps | None = None) -> Self:
        """A new head that has learned `lesson`, and votes with all its labelled and remembered samples."""
        current = _together([lesson.queried, lesson.pseudo, *([lesson.old] if lesson.old else [])], lesson)
        unlabelled = lesson.replay.X[:0] if lesson.unlabelled is None else lesson.unlabelled
        head = self.sized(lesson)
        for features in (current.X, lesson.replay.X, unlabelled):
            if len(features) and features.shape[1] != head.width:
                raise BadFeatures(f"the head takes features of width {head.width}, not {features.shape[1]}")
        n_labelled = len(current) + len(lesson.replay)
        if not n_labelled:
            raise TooFewSamples("a head cannot learn from nothing: no sample is labelled or remembered")
        head = head.grown(lesson.n_classes, rng)
        draws = draw(
            len(current), len(lesson.replay), len(unlabelled), epochs=self.epochs, batch=self.batch, rng=rng
        )
        guessed = Samples(unlabelled, unlabelled.new_zeros(len(unlabelled), 1))
        sources = [s for s in (current, lesson.replay, guessed) if len(s)]
        X, targets = gathered(sources, lesson.n_classes)
        step = Interpolation(head._layers, X, targets, draws, self.lr)
        repeat(step, len(draws.rows), progress)
        head._layers = step.layers
        head._references = torch.cat(list(head._embedded(X[:n_labelled])))
        head._reference_classes = targets[:n_labelled].argmax(dim=1)
        return head

    def _embedded(self, X: Tensor) -> list[Tensor]:
        """Unit vectors (n, hidden), in chunks."""
        weight, bias = self._layers[0]
        parts = (part.to(weight.device, torch.float32) for part in X.split(CHUNK))
        return [F.normalize(torch.addmm(bias, part, weight.t()).relu_()) for part in parts if len(part)]

    def state(self) -> dict[str, Tensor]:
        """That of an MLP, and the embeddings that vote with their classes (none before the first lesson)."""
        voters = {"references": self._references, "reference_classes": self._reference_classes}
        return super().state() | (voters if self._layers else {})

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], **options: int | float) -> Self:
        """The head that `state` was taken from, on its weights' device; `options` replace saved ones."""
        head = super().from_state(state, **options)
        if head._layers:
            head._references = state[
                "references"
            ].clone()  # in memory of its own, so that BLAS repeats its bits
            head._reference_classes = state["reference_classes"].clone()
        return head


def _together(parts: list[Samples], lesson: Lesson) -> Samples:
    """The labelled samples of the lesson itself, with soft targets if one part has them."""
    present = [part for part in parts if len(part)] or parts[:1]
    if any(part.y.is_floating_point() for part in present):
        return Samples(*gathered(present, lesson.n_classes))
    return Samples(torch.cat([part.X for part in present]), torch.cat([part.y for part in present]))


# -- what is drawn before training -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """All that is random in a lesson, step by step.

    A step takes `rows`: labelled samples, then unlabelled ones, then remembered ones to contrast those with.
    Each input of the network is a mix of the places `first` and `second` among them: mixed labelled samples,
    mixed views of unlabelled ones, labelled ones for the triplets, and the last two kinds as they are.

    Attributes
    ----------
    rows
        Sample numbers (steps, places), over current, remembered and unlabelled samples in this order.
    weights
        What the cross-entropy of each labelled place counts (labelled,): one in all for each source.
    n_unlabelled
        How many places are unlabelled.
    first, second, share
        Places (inputs,) and (steps, inputs) that are mixed, and λ (steps, inputs), the share of the first.
    contrast
        What the negative-only triplets count (steps,).
    """

    rows: NDArray[np.int64]
    weights: NDArray[np.float32]
    n_unlabelled: int
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    share: NDArray[np.float32]
    contrast: NDArray[np.float32]


def draw(
    n_current: int, n_memory: int, n_unlabelled: int, *, epochs: int, batch: int, rng: np.random.Generator
) -> Draws:
    """Which samples each step takes, and how they are mixed."""
    sizes = [n for n in (n_current, n_memory) if n]
    labelled, weights = plan(sizes, [1.0] * len(sizes), epochs, batch, rng)
    steps, n = labelled.shape
    u = -(-batch // 2) if n_unlabelled else 0
    m = u if n_memory else 0
    rows = np.concatenate(
        [
            labelled,
            _endless(n_current + n_memory, n_unlabelled, (steps, u), rng),
            _endless(n_current, n_memory, (steps, m), rng),
        ],
        axis=1,
    )
    own = np.concatenate([np.arange(n), np.repeat(np.arange(n, n + u), VIEWS)])
    plain = np.arange(n, n + u + m)
    mixing = (np.arange(steps) < CONTRAST_UNTIL * steps) & (n_memory > 0)
    triplet_share = np.where(mixing[:, None], _folded(rng.beta(1, 1, (steps, n))), 1)
    return Draws(
        rows=rows,
        weights=weights,
        n_unlabelled=u,
        first=np.concatenate([own, np.arange(n), plain]),
        second=np.concatenate(
            [
                rng.permuted(np.tile(own, (steps, 1)), axis=1),
                rng.permuted(np.tile(np.arange(n), (steps, 1)), axis=1),
                np.tile(plain, (steps, 1)),
            ],
            axis=1,
        ),
        share=np.concatenate(
            [_folded(rng.beta(MIXUP, MIXUP, (steps, len(own)))), triplet_share, np.ones((steps, u + m))], axis=1
        ).astype(np.float32),
        contrast=np.where(mixing, CONTRAST, 0).astype(np.float32),
    )


def _endless(start: int, n: int, shape: tuple[int, int], rng: np.random.Generator) -> NDArray[np.int64]:
    """Numbers from `start` on, from permutation after permutation of all `n`."""
    wanted = shape[0] * shape[1]
    rounds = -(-wanted // n) if wanted else 0
    order = rng.permuted(np.tile(np.arange(start, start + n), (rounds, 1)), axis=1)
    return order.ravel()[:wanted].reshape(shape)


def _folded(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """λ of at least a half: a mix stays closer to its first sample."""
    return np.maximum(share, 1 - share)


# -- a training step -------------------------------------------------------------------------------------------


class Interpolation(Step):
    """One step of CCIC. The first layer, where the time goes, is written out; autograd does what lies above."""

    def __init__(self, layers: Layers, X: Tensor, targets: Tensor, draws: Draws, lr: float) -> None:
        rows, weights = torch.from_numpy(draws.rows), torch.from_numpy(draws.weights)
        self.n, self.u = len(weights), draws.n_unlabelled
        unweighted = rows.shape[1] - self.n
        super().__init__(layers, X, targets, rows, F.pad(weights, (0, unweighted)), lr)
        self.first, self.second_places, self.shares, self.contrasts = (
            torch.from_numpy(table).to(X.device)
            for table in (draws.first, draws.second, draws.share, draws.contrast)
        )
        self.second, self.share = self.second_places[0], self.shares[0]
        self.contrast, self.inputs = self.contrasts[0], X[:0]

    def _fetch(self) -> None:
        """This step's samples in `values[0]`, by one gather, and the network's inputs mixed from them."""
        self.second = self.second_places.index_select(0, self.position)[0]
        self.share = self.shares.index_select(0, self.position)[0, :, None]
        self.contrast = self.contrasts.index_select(0, self.position)[0]
        super()._fetch()
        self.inputs = self._mixed(self.values[0], slice(None))

    def _mixed(self, values: Tensor, inputs: slice) -> Tensor:
        return mixed(values[self.first[inputs]], values[self.second[inputs]], self.share[inputs])

    def _forward(self) -> None:
        """Nothing yet: `_backward` needs what comes before the first ReLU, and computes it."""

    def _backward(self) -> None:
        weight, bias = self.layers[0]
        with torch.enable_grad():
            before = torch.addmm(bias, self.inputs, weight.t()).detach().requires_grad_()
            output = [tensor.detach().requires_grad_() for tensor in self.layers[1]]
            errors, *last = torch.autograd.grad(self.loss(before.relu(), *output), [before, *output])
        torch.mm(errors.t(), self.inputs, out=self.gradients[0][0])
        torch.sum(errors, 0, out=self.gradients[0][1])
        for gradient, computed in zip(self.gradients[1], last, strict=True):
            gradient.copy_(computed)

    def loss(self, embeddings: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """All four terms, for the embeddings of `inputs` and the output layer."""
        n, u, views = self.n, self.u, self.u * VIEWS
        labelled, unlabelled, triplets, new, old = embeddings.split(
            [n, views, n, u, len(embeddings) - 2 * n - views - u]
        )
        target = self.target[:n]
        guesses = F.linear(new, weight, bias).detach().softmax(dim=1)
        aims = self._mixed(torch.cat([target, sharpened(guesses)]), slice(n + views))
        certain = F.linear(labelled, weight, bias).log_softmax(dim=1)
        loss = -(aims[:n] * certain).sum(dim=1) @ self.weights[:n, 0]
        loss = loss + supervised_triplets(triplets, target.argmax(dim=1))
        if u:
            probable = F.linear(unlabelled, weight, bias).softmax(dim=1)
            loss = loss + CONSISTENCY * (probable - aims[n:]).square().mean() / len(bias)
        if len(old):
            loss = loss + self.contrast * negative_triplets(new, old)
        return loss


# -- formulas --------------------------------------------------------------------------------------------------


def mixed(first: Tensor, second: Tensor, share: Tensor) -> Tensor:
    """λ first + (1 - λ) second, λ = `share` (n, 1): of features and of targets alike.

    >>> mixed(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), torch.tensor([[0.75]]))
    tensor([[0.7500, 0.2500]])
    """
    return torch.lerp(second, first, share)


def sharpened(probabilities: Tensor) -> Tensor:
    """p^(1/T) / Σ p^(1/T), T = `TEMPERATURE`.

    >>> [round(p, 6) for p in sharpened(torch.tensor([[0.75, 0.25]]))[0].tolist()]
    [0.9, 0.1]
    """
    powers = probabilities.pow(1 / TEMPERATURE)
    return powers / powers.sum(dim=1, keepdim=True)


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """‖a - b‖² (n, m), by one matrix product.

    >>> squared_distances(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[25.,  1.]])
    """
    lengths = a.square().sum(dim=1)[:, None] + b.square().sum(dim=1)
    return (lengths - 2 * a @ b.t()).clamp(min=0)


def supervised_triplets(embeddings: Tensor, classes: Tensor) -> Tensor:
    """Mean of max(0, d⁺ - d⁻ + margin) over each anchor's `MINED` farthest of its class and nearest of others.

    The farthest goes with the nearest, the second with the second; short of positives, d⁺ is 0; without a
    negative there is no triplet.

    >>> far, close = torch.tensor([[0.0], [9.0]]), torch.tensor([[0.0], [0.1]])
    >>> [bool(supervised_triplets(embeddings, torch.tensor([0, 1])) > 0) for embeddings in (far, close)]
    [False, True]
    """
    distances = squared_distances(embeddings, embeddings)
    same = classes[:, None] == classes
    mined = min(MINED, len(classes))
    positive = (distances * same).topk(mined, dim=1).values
    negative = distances.masked_fill(same, torch.inf).topk(mined, dim=1, largest=False).values
    losses = (positive - negative + MARGIN).clamp(min=0)
    return losses.sum() / negative.isfinite().sum().clamp(min=1)


def negative_triplets(new: Tensor, old: Tensor) -> Tensor:
    """Mean of max(0, margin - d⁻) over every sample's `MINED` nearest of the other kind.

    >>> new, old = torch.tensor([[0.0]]), torch.tensor([[9.0]])
    >>> float(negative_triplets(new, old)), float(negative_triplets(new, new)) == MARGIN
    (0.0, True)
    """
    distances = squared_distances(new, old)
    nearest_old = distances.topk(min(MINED, len(old)), dim=1, largest=False).values
    nearest_new = distances.topk(min(MINED, len(new)), dim=0, largest=False).values
    return (MARGIN - torch.cat([nearest_old.flatten(), nearest_new.flatten()])).clamp(min=0).mean()


def log_votes(embeddings: Tensor, references: Tensor, classes: Tensor, n_classes: int) -> Tensor:
    """Logarithms (n, n_classes) of the share of the `NEIGHBOURS` nearest references that each class has.

    Among classes with equal votes the one with the nearest reference is ahead by a little.

    >>> references, classes = torch.tensor([[0.0], [1.0], [1.1], [9.0]]), torch.tensor([0, 1, 1, 2])
    >>> [round(share, 2) for share in log_votes(torch.zeros(1, 1), references, classes, 3)[0].exp().tolist()]
    [0.33, 0.66, 0.0]
    """
    distances = squared_distances(embeddings, references)
    voters = distances.topk(min(NEIGHBOURS, len(classes)), dim=1, largest=False).indices
    votes = distances.new_zeros(len(embeddings), n_classes)
    votes.scatter_add_(1, classes[voters], torch.ones_like(voters, dtype=votes.dtype))
    nearest = torch.full_like(votes, FARTHEST)
    nearest.scatter_reduce_(1, classes.expand_as(distances), distances, "amin")
    return (votes / voters.shape[1]).clamp(min=NO_VOTE).log() - TIE * nearest
