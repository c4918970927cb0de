"""The ridge head: a linear discriminant in closed form, from sums that take samples in and give them back.

Nothing is trained and no sample is kept: what is remembered does not grow with their number.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cual import options as check
from cual.errors import BadFeatures, BadLabels, BadOption, TooFewSamples
from cual.graph import Value
from cual.heads import sums as algebra
from cual.heads.base import TOGETHER, Lesson, Samples, Steps, heads
from cual.heads.calibration import likeliest_factor
from cual.heads.sums import Sums

CHUNK = TOGETHER  # rows that are held in float64 at once
BLOCK = 256  # columns: T is symmetric, so only blocks on and below its diagonal are computed
NO_SAMPLES = 1e-3  # a class that weighs less has none: such a mean is not worth much, and hardly exact
ROUNDING = 1e-9  # less weight than this is what taking soft labels back has left
NO_LOGIT = -1e30  # of a class without samples: below all others, and finite
NARROW = 1024  # features narrower than this are expanded, if asked to
LEAST_SHARE = 1e-3  # of the total variance, least ridge: classes of one sample leave no variance within
LEAST_LENGTH = 1e-12  # squared, of a class mean that is not in the very centre
LEAST_OF_MEAN = 0.1  # squared length of a class mean, against that of the others
LEAST_VARIANCE = 1e-6  # of a unit vector, least ridge: features may not vary at all


class Solution(NamedTuple):
    """Logits are ``(z - centre) @ weights.T + biases``."""

    centre: Tensor
    weights: Tensor
    biases: Tensor


class Whitening(NamedTuple):
    """Whitened is L⁻¹ (z − centre), in float32, where Σ = L Lᵀ."""

    centre: Tensor
    factor: Tensor
    """L."""
    means: Tensor
    """Class means, whitened; zero for a class without samples."""


@heads.add("ridge")
class Ridge:
    """Linear discriminant with a shared, shrunk covariance: new samples are added to its sums, exactly.

    Over unit vectors z with label weights y_c (soft labels, or one for the label), less a fixed offset, the
    head sums up n_c = Σ y_c and s_c = Σ y_c z of each class and T = Σ (Σ_c y_c) z zᵀ of all. From these

    - S = (T − Σ_c s_c s_cᵀ / n_c) / N, the covariance within classes, N = Σ_c n_c;
    - Σ = S + λ · mean(diag S) · I with λ = max(`shrink`, `scarce` · d / N), d the width of the features: the
      fewer samples there are for each dimension, the less is known of S;
    - w_c = Σ⁻¹ μ_c and b_c = −½ l_c², with μ_c = s_c / n_c less the mean of all samples: the same prior for
      every class. The mean of few samples lies too far out: tr(Σ⁻¹ S) / n_c of μ_cᵀ Σ⁻¹ μ_c is expected to be
      noise, and l_c² is what is left without `scarce` times that, a tenth of what is usual at least. Each μ_c
      is stretched by (l / l_c)^`even`, l² the mean of l_c²: a class that lies farther out than others does not
      claim as much less as its distance says.

    So the order and the split of lessons do not matter. `Lesson.replay` is not learned: it was before.

    Parameters
    ----------
    shrink
        Least ridge on the covariance, in units of its mean variance …
    scarce
        … and what it is, at least, where there is one sample for each dimension. 0 for samples that are never
        too few: always `shrink`, and means as they are.
    expand
        Random ReLU features, relu(R x) as unit vectors, that stand in for the features x; 0 for none, −1 for
        four times as many, 512 to 2048, where features are narrower than 1024.
    even
        How far the lengths of class means are evened out, from 0 (the linear discriminant) to 1 (all alike).
    widest
        Features wider than this are projected at random to this width, unless they are expanded.

    Examples
    --------
    >>> X, y = torch.eye(3), torch.arange(3)
    >>> none = Samples(X[:0], y[:0])
    >>> head = Ridge().learn(Lesson(3, Samples(X, y), none, none), np.random.default_rng(0))
    >>> head.logits(X).argmax(1).tolist()
    [0, 1, 2]
    >>> wrong = Samples(X[:1], torch.tensor([2]))
    >>> taught = head.learn(Lesson(3, wrong, none, none), np.random.default_rng(1))
    >>> bool(torch.allclose(taught.without(wrong).logits(X), head.logits(X)))
    True
    >>> head.n_classes, head.counts.tolist(), head.whiten(X).shape == head.whitened_means().shape
    (3, [1.0, 1.0, 1.0], True)
    >>> Ridge.from_state(head.state()).logits(X).equal(head.logits(X)), head.shrunk(2.0).shrink
    (True, 2.0)
    >>> head.joined([0, 1, 1]).n_classes
    2
    """

    OPTIONS: ClassVar[Mapping[str, type[int] | type[float]]] = {
        "shrink": float,
        "expand": int,
        "even": float,
        "widest": int,
        "scarce": float,
    }
    learns_once = True
    width: int = 0
    """Of the features; 0 before the first lesson."""

    def __init__(
        self,
        shrink: float = 0.25,
        expand: int = 0,
        even: float = 0.5,
        widest: int = 4096,
        scarce: float = 1.0,
    ) -> None:
        self.shrink = check.number("shrink", shrink, 0, 1000, without_low=True)
        self.expand = check.whole("expand", expand, -1)
        self.even = check.number("even", even, 0, 1)
        self.widest = check.whole("widest", widest)
        self.scarce = check.number("scarce", scarce, 0, 1000)
        self._seed = 0
        self._offset = torch.zeros(0, dtype=torch.float64)
        self._counts = torch.zeros(0, dtype=torch.float64)
        self._sums = torch.zeros(0, 0, dtype=torch.float64)
        self._moment = torch.zeros(0, 0, dtype=torch.float64)
        self._drawn: Tensor | None = None

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        return [{}, {"shrink": 2.0, "expand": 24, "even": 0.0}, {"expand": -1}, {"widest": 6}]

    @property
    def _inner(self) -> int:
        """Width of z."""
        return self._expanded or min(self.width, self.widest)

    @property
    def _expanded(self) -> int:
        """Random features in the place of the given ones; 0 for none."""
        if self.expand >= 0 or not self.width:
            return self.expand
        return min(2048, max(512, 4 * self.width)) if self.width < NARROW else 0

    @property
    def n_classes(self) -> int:
        """Classes known so far; 0 before the first lesson."""
        return len(self._counts)

    @property
    def counts(self) -> Tensor:
        """Samples learned of each class; soft labels count in part."""
        return self._counts

    @torch.no_grad()
    def logits(self, X: Tensor) -> Tensor:
        """Logits (n, n_classes) in float32, on the head's device."""
        if not self.n_classes:
            return torch.empty(len(X), 0, dtype=torch.float32, device=X.device)
        centre, weights, biases = self._solution
        logits = torch.empty(len(X), self.n_classes, dtype=torch.float32, device=biases.device)
        for rows, z in self._unit_vectors(X):
            logits[rows] = torch.addmm(biases, z.sub_(centre), weights.t()).float()
        return logits

    @torch.no_grad()
    def learn(self, lesson: Lesson, rng: np.random.Generator, progress: Steps | None = None) -> Self:
        """A new head that knows the answers and the pseudo-labels of `lesson` as well."""
        if lesson.n_classes < self.n_classes:
            raise BadLabels(f"a head of {self.n_classes} classes cannot shrink to {lesson.n_classes}")
        given = [lesson.queried, lesson.pseudo, *([] if lesson.old is None else [lesson.old])]
        parts = [samples for samples in given if len(samples)]
        sized = self._sized(lesson)
        for samples in parts:
            sized._check(samples, lesson.n_classes)
        if not parts and not self.n_classes:
            raise TooFewSamples(
                "a head cannot learn from nothing: the lesson has no answer and no pseudo-label"
            )
        head = sized._copied(lesson.n_classes, parts[0].X.device if parts else self._counts.device)
        if not self.n_classes:
            head._seed = int(rng.integers(2**63))
            head._offset = head._mean_of(parts)
        n_chunks = [-(-len(samples) // CHUNK) for samples in parts]
        for i, samples in enumerate(parts):
            for done, chunk in enumerate(_chunks(samples), 1 + sum(n_chunks[:i])):
                head._add(chunk, 1)
                if progress is not None:
                    progress(done, sum(n_chunks))
        return head

    def _sized(self, lesson: Lesson) -> Self:
        """A head for features as wide as those of its first lesson; later ones must fit."""
        if self.width:
            return self
        head = copy.copy(self)
        head.width = lesson.width
        head._offset = torch.zeros(head._inner, dtype=torch.float64)
        head._sums = torch.zeros(0, head._inner, dtype=torch.float64)
        return head

    @torch.no_grad()
    def without(self, samples: Samples) -> Self:
        """A new head that never learned `samples`, whose features and labels are those that it was given."""
        self._check(samples, self.n_classes)
        head = self._copied(self.n_classes, self._counts.device)
        for chunk in _chunks(samples):
            head._add(chunk, -1)
        over = (head._counts < -NO_SAMPLES).nonzero().flatten().tolist()
        if over:
            raise BadLabels(f"class {over[0]} has fewer samples than are taken back from it")
        return head._with(algebra.recentred(head._all_sums))

    @torch.no_grad()
    def joined(self, numbers: Sequence[int]) -> Self:
        """A new head that learned class c as ``numbers[c]``; −1 leaves a class out that has no samples left."""
        for c, number in enumerate(numbers):
            length = float(self._sums[c].norm())
            if number < 0 and (float(self._counts[c]) > NO_SAMPLES or length > NO_SAMPLES):
                raise BadLabels(f"class {c} cannot be left out: samples that it has learned of it remain")
        return self._with(algebra.joined(self._all_sums, numbers))

    @torch.no_grad()
    def without_class(self, number: int) -> Self:
        """A new head without the samples of a class, whose spread is taken for that of all classes."""
        return self._with(algebra.recentred(algebra.without_class(self._all_sums, number)))

    @property
    def _all_sums(self) -> Sums:
        return Sums(self._offset, self._counts, self._sums, self._moment)

    def _with(self, sums: Sums) -> Self:
        """This head with other sums."""
        head = copy.copy(self)
        head._forget()
        head._offset, head._counts, head._sums, head._moment = sums
        return head

    def _check(self, samples: Samples, n_classes: int) -> None:
        X, y = samples.X, samples.y
        if X.shape[1] != self.width:
            raise BadFeatures(f"the head takes features of width {self.width}, not {X.shape[1]}")
        if y.is_floating_point():
            if y.shape[1] > n_classes:
                raise BadLabels(f"targets of {y.shape[1]} classes do not fit into {n_classes}")
            if not bool(((y >= 0) & y.isfinite()).all()):
                raise BadLabels("soft targets are finite and not negative")
        elif len(y) and not 0 <= int(y.min()) <= int(y.max()) < n_classes:
            raise BadLabels(f"class numbers go from 0 to {n_classes - 1}, but one is outside")

    def _copied(self, n_classes: int, device: torch.device) -> Self:
        """A head on `device` with sums of its own, and room for `n_classes`."""
        head = copy.copy(self)
        head._forget()
        new = n_classes - self.n_classes
        head._offset = self._offset.to(device)
        head._counts = F.pad(self._counts, (0, new)).to(device)
        head._sums = F.pad(self._sums, (0, 0, 0, new)).to(device)
        if len(self._moment):
            head._moment = self._moment.to(device, copy=True)
        else:
            head._moment = torch.zeros(self._inner, self._inner, dtype=torch.float64, device=device)
        return head

    def _mean_of(self, parts: list[Samples]) -> Tensor:
        """The offset: any would give the same logits, but close to the data rounding is smallest."""
        sums = [z.sum(dim=0) for samples in parts for _, z in self._unit_vectors(samples.X)]
        return torch.stack(sums).sum(dim=0) / sum(map(len, parts))

    def _add(self, samples: Samples, sign: int) -> None:
        """Add (1) or take away (-1) one chunk."""
        targets = _targets(samples.y, self.n_classes).to(self._counts.device)
        ((_, z),) = self._unit_vectors(samples.X)
        z.sub_(self._offset)
        self._counts.add_(targets.sum(dim=0), alpha=sign)
        self._sums.addmm_(targets.t(), z, alpha=sign)
        z.mul_(targets.sum(dim=1, keepdim=True).sqrt_())
        for start in range(0, len(self._moment), BLOCK):
            columns, until = slice(start, start + BLOCK), slice(start + BLOCK)
            self._moment[columns, until].addmm_(z[:, columns].t(), z[:, until], alpha=sign)

    def _unit_vectors(self, X: Tensor, dtype: torch.dtype = torch.float64) -> Iterator[tuple[slice, Tensor]]:
        """z of each chunk, and its rows.

        In float64 where exact sums or a weak ridge need it: float32 rounds by the size of the chunk, too.
        """
        for start in range(0, len(X), CHUNK):
            rows = slice(start, start + CHUNK)
            z = F.normalize(X[rows].to(self._counts.device, dtype))
            if self._inner != self.width or self._expanded:
                z = torch.cat([z @ block.to(dtype).t() for block in self._directions.split(BLOCK)], dim=1)
                z = F.normalize(z.relu_() if self._expanded else z)
            yield rows, z

    @property
    def _directions(self) -> Tensor:
        """R: rows drawn from a Gaussian, always the same for a seed and a shape."""
        device = self._counts.device
        if self._drawn is None or self._drawn.device != device:
            rng = np.random.default_rng(self._seed)
            drawn = rng.standard_normal((self._inner, self.width), dtype=np.float32)
            self._drawn = torch.from_numpy(drawn).to(device)
        return self._drawn

    def _forget(self) -> None:
        """What was computed from other sums or another ridge."""
        for name in ("_solution", "_whitening"):
            vars(self).pop(name, None)

    def _moments(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Which classes have samples, their means, the mean of all, Σ, and what was added to its diagonal."""
        present = self._counts > NO_SAMPLES
        n, means = self._counts.sum(), self._sums[present] / self._counts[present, None]
        mean = self._sums.sum(dim=0) / n
        total = self._moment.diagonal().mean() / n - mean.square().mean()
        weighs = self._counts > ROUNDING
        between = self._sums[weighs] / self._counts[weighs, None].sqrt()
        covariance = torch.addmm(self._moment, between.t(), between, alpha=-1).div_(n)
        ridge = self._ridge(float(n)) * covariance.diagonal().mean()
        ridge = ridge.clamp(min=LEAST_VARIANCE / self._inner)
        ridge = torch.maximum(ridge, LEAST_SHARE * total)
        covariance.diagonal().add_(ridge)
        return present, means, mean, covariance, ridge

    def _ridge(self, n: float) -> float:
        """λ, if `n` samples were learned. Random features add no dimensions to those that they stand for."""
        return max(self.shrink, self.scarce * min(self.width, self._inner) / max(n, NO_SAMPLES))

    def _noise(self, squares: Tensor, counts: Tensor, factor: Tensor, ridge: Tensor) -> Tensor:
        """What is noise of the squared lengths of whitened class means: tr(Σ⁻¹ S) / n_c, S = Σ − ridge · I."""
        if not self.scarce:
            return torch.zeros_like(squares)
        of_sample = (len(factor) - ridge * torch.cholesky_inverse(factor).trace()).clamp(min=0)
        most = (squares - LEAST_OF_MEAN * squares.mean()).clamp(min=0)
        return torch.minimum(self.scarce * of_sample / counts, most)

    @cached_property
    def _solution(self) -> Solution:
        """Centre, weights and biases, by one Cholesky factorisation."""
        weights, biases = torch.zeros_like(self._sums), torch.full_like(self._counts, NO_LOGIT)
        if not (self._counts > NO_SAMPLES).any():
            return Solution(self._offset, weights, biases)
        present, means, mean, covariance, ridge = self._moments()
        factor = torch.linalg.cholesky(covariance)
        whitened = torch.linalg.solve_triangular(factor, (means - mean).t(), upper=False)
        squares = whitened.square().sum(dim=0)
        noise = self._noise(squares, self._counts[present], factor, ridge)
        squares = squares - noise
        stretch = (squares.mean() / squares.clamp(min=LEAST_LENGTH)).pow(self.even / 2)
        whitened = whitened * stretch
        weights[present] = torch.linalg.solve_triangular(factor.t(), whitened, upper=True).t()
        biases[present] = -0.5 * (whitened.square().sum(dim=0) - noise * stretch.square())
        return Solution(self._offset + mean, weights, biases)

    @cached_property
    def _whitening(self) -> Whitening:
        placed = torch.zeros_like(self._sums, dtype=torch.float32)
        if not (self._counts > NO_SAMPLES).any():
            return Whitening(self._offset.float(), torch.eye(self._inner).to(placed), placed)
        present, means, mean, covariance, _ = self._moments()
        factor = torch.linalg.cholesky(covariance.float())
        placed[present] = torch.linalg.solve_triangular(factor, (means - mean).float().t(), upper=False).t()
        return Whitening((self._offset + mean).float(), factor, placed)

    @torch.no_grad()
    def whiten(self, X: Tensor) -> Tensor:
        """Features in the space where every class has the same round spread, in float32."""
        centre, factor, _ = self._whitening
        whitened = torch.empty(len(X), self._inner, device=factor.device)
        for rows, z in self._unit_vectors(X, torch.float32):
            whitened[rows] = torch.linalg.solve_triangular(factor.t(), z.sub_(centre), upper=True, left=False)
        return whitened

    def draw(self, X: Value) -> Value:
        """The logits as a graph."""
        centre, weights, biases = self._solution
        return ((self._draw_unit_vectors(X) - centre) @ weights.t() + biases).to(np.float32)

    def draw_whitened(self, X: Value) -> Value:
        """What `whiten` does, as a graph: a product with L⁻¹, which ONNX has no solver for."""
        centre, factor, _ = self._whitening
        inverse = torch.linalg.inv(factor.double())
        return (self._draw_unit_vectors(X) - centre).to(np.float32) @ inverse.t()

    def _draw_unit_vectors(self, X: Value) -> Value:
        """z, in float64; the same for logits and whitening."""

        def make() -> Value:
            z = X.to(np.float64).unit()
            if self._inner != self.width or self._expanded:
                z = z @ X.graph.constant(self._directions.t(), np.float32).to(np.float64)
                z = (z.relu() if self._expanded else z).unit()
            return z

        return X.graph.shared((type(self), X.name, self._seed), make)

    def sureness(self, held_out: Samples) -> float:
        """The factor on logits under which held-out labels are likeliest, of 2⁻¹² to 1.

        A head in closed form is far too sure of itself.
        """
        if not len(held_out):
            return 1.0
        return likeliest_factor(self.logits(held_out.X), held_out.y, highest=0)

    def shrunk(self, by: float) -> Self:
        """The same sums under the ridge `by`, however many samples there are."""
        head = copy.copy(self)
        head._forget()
        head.shrink, head.scarce = by, 0.0
        return head

    def whitened_means(self) -> Tensor:
        """Class means (n_classes, width) in the space of `whiten`."""
        return self._whitening.means

    def state(self) -> dict[str, Tensor]:
        """Options as 0-d tensors; from the first lesson on, the seed of R, the offset and the sums.

        Of T (``moment``), only what lies on and below the diagonal counts.
        """
        dtypes = {int: torch.int64, float: torch.float64}
        values = {"width": self.width, **{name: getattr(self, name) for name in self.OPTIONS}}
        values["expand"] = self._expanded
        kinds = {"width": int, **self.OPTIONS}
        state = {name: torch.tensor(value, dtype=dtypes[kinds[name]]) for name, value in values.items()}
        if self.n_classes:
            state |= {
                "seed": torch.tensor(self._seed),
                "offset": self._offset,
                "counts": self._counts,
                "sums": self._sums,
                "moment": self._moment,
            }
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], **options: int | float) -> Self:
        """The head that `state` was taken from, on its sums' device; `options` replace saved ones."""
        state = {"scarce": torch.zeros(()), **state}  # younger than some files
        saved: dict[str, Any] = {name: kind(state[name].item()) for name, kind in cls.OPTIONS.items()}
        merged: dict[str, Any] = {**saved, **options}
        head = cls(**merged)
        head.width = int(state["width"])
        if "counts" not in state:
            return head
        if (head._expanded, head._inner) != (saved["expand"], len(state["offset"])):
            raise BadOption("expand and widest are fixed once a head has learned; fit it anew")
        head._seed = int(state["seed"])
        # In memory of their own, so that BLAS repeats its bits.
        head._offset, head._counts = state["offset"].clone(), state["counts"].clone()
        head._sums, head._moment = state["sums"].clone(), state["moment"].clone()
        return head


def _chunks(samples: Samples) -> Iterator[Samples]:
    for X, y in zip(samples.X.split(CHUNK), samples.y.split(CHUNK), strict=True):
        if len(y):
            yield Samples(X, y)


def _targets(y: Tensor, n_classes: int) -> Tensor:
    """Label weights (n, n_classes) in float64."""
    if y.is_floating_point():
        return F.pad(y.double(), (0, n_classes - y.shape[1]))
    return F.one_hot(y, n_classes).double()
