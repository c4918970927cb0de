"""The one trainer of all perceptron heads: Adam on the weighted cross-entropy of paper eq. 4.

Which layers there are, and how they grow, is the heads' business; how they are trained is all here.
A step is written out by hand (no autograd) over memory that is laid out once, with all parameters in one
flat buffer, so that it costs its matrix products plus a single fused pass of Adam.
"""

import functools
import threading
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adam import adam

from cual.errors import TooFewSamples
from cual.heads.base import Lesson, Samples, Steps

Layers = tuple[tuple[Tensor, Tensor], ...]
"""Weight (out, in) and bias (out,) of each layer, in order; a ReLU lies between two layers."""

ALIGNMENT = 16  # floats: each tensor starts on a cache line, wherever it came from, so BLAS repeats its bits
PROGRESS_CALLS = 100
PART = 1e-3  # targets that sum to one but for so much are of samples that count in full
EAGER_STEPS = 3  # on a GPU: steps taken before one is recorded, so that libraries have set themselves up
MIN_RECORDED = 40  # on a GPU: fewer steps than this are not worth recording, which takes as long as some 20


@torch.no_grad()
def train(
    layers: Layers,
    lesson: Lesson,
    rng: np.random.Generator,
    *,
    epochs: int,
    batch: int,
    lr: float,
    progress: Steps | None = None,
) -> Layers:
    """Copies of `layers`, trained on `lesson` with a fresh Adam, on the device of the samples.

    Same layers, lesson and generator give the same bits on the same device and number of threads.
    """
    sources = lesson.sources()
    if not sources:
        raise TooFewSamples("a head cannot learn from nothing: no source has samples and a weight above zero")
    rows, weights = plan([len(s) for s, _ in sources], [w for _, w in sources], epochs, batch, rng)
    X, targets = gathered([samples for samples, _ in sources], lesson.n_classes)
    step = Step(layers, X, targets, torch.from_numpy(rows), torch.from_numpy(weights), lr)
    repeat(step, len(rows), progress)
    return step.layers


def plan(
    sizes: Sequence[int], weights: Sequence[float], epochs: int, batch: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Which samples each step takes, and what a sample at each place of the batch counts.

    Every source has the same share of each batch, filled from its own endless sequence of permutations.

    Parameters
    ----------
    sizes, weights
        Samples and weight of each source; sample numbers run on from source to source.

    Returns
    -------
    rows
        Sample numbers (steps, batch).
    weights
        Of the places in the batch (batch,): the source's weight over the source's places.

    Examples
    --------
    >>> rows, weights = plan([1, 3], [0.25, 0.75], epochs=1, batch=3, rng=np.random.default_rng(0))
    >>> rows.tolist(), weights.tolist()
    ([[0, 0, 3], [0, 0, 1]], [0.125, 0.125, 0.75])
    """
    batch = max(batch, len(sizes))
    steps = epochs * -(-sum(sizes) // batch)
    parts = [len(part) for part in np.array_split(np.arange(batch), len(sizes))]
    starts = np.cumsum([0, *sizes[:-1]])
    columns: list[NDArray[np.int64]] = []
    for start, size, part in zip(starts, sizes, parts, strict=True):
        rounds = -(-steps * part // size)
        order = rng.permuted(np.tile(np.arange(start, start + size), (rounds, 1)), axis=1)
        columns.append(order.ravel()[: steps * part].reshape(steps, part))
    per_place = np.repeat([w / part for w, part in zip(weights, parts, strict=True)], parts)
    return np.concatenate(columns, axis=1), per_place.astype(np.float32)


def gathered(sources: Sequence[Samples], n_classes: int) -> tuple[Tensor, Tensor]:
    """All features and all targets (n, n_classes) in float32, source after source; class numbers one-hot.

    >>> hard = Samples(torch.zeros(1, 2), torch.tensor([1]))
    >>> soft = Samples(torch.ones(1, 2), torch.tensor([[0.3, 0.7]]))
    >>> gathered([hard, soft], n_classes=3)[1]
    tensor([[0.0000, 1.0000, 0.0000],
            [0.3000, 0.7000, 0.0000]])
    """
    n, device = sum(map(len, sources)), sources[0].X.device
    X = torch.empty(n, sources[0].X.shape[1], dtype=torch.float32, device=device)
    targets = X.new_zeros(n, n_classes)
    start = 0
    for samples in sources:
        part = slice(start, start + len(samples))
        X[part] = samples.X
        if samples.y.is_floating_point():
            targets[part, : samples.y.shape[1]] = samples.y
        else:
            targets[part].scatter_(1, samples.y[:, None].to(device), 1.0)
        start = part.stop
    return X, targets


def packed(layers: Layers, device: torch.device | str) -> tuple[Tensor, Layers]:
    """A flat buffer with copies of all parameters (and zeros between), and the layers as views of it.

    >>> layer = (torch.ones(2, 3), torch.zeros(2))
    >>> flat, ((weight, bias),) = packed([layer], "cpu")
    >>> weight.equal(layer[0]), weight.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr()
    (True, True)
    """
    flat, views = blank(layers, device)
    for (weight, bias), (new_weight, new_bias) in zip(layers, views, strict=True):
        new_weight.copy_(weight)
        new_bias.copy_(bias)
    return flat, views


def blank(layers: Layers, device: torch.device | str) -> tuple[Tensor, Layers]:
    """A flat buffer of zeros in which `layers` find room, and views of it in their shapes."""
    tensors = [tensor for layer in layers for tensor in layer]
    starts = np.cumsum([0, *(-(-t.numel() // ALIGNMENT) * ALIGNMENT for t in tensors)]).tolist()
    flat = torch.zeros(starts[-1], dtype=torch.float32, device=device)
    views = [flat[start : start + t.numel()].view(t.shape) for start, t in zip(starts, tensors, strict=False)]
    return flat, tuple(zip(views[::2], views[1::2], strict=True))


class Step:
    """One training step, over memory that is laid out beforehand; call it once per row of the plan."""

    def __init__(
        self, layers: Layers, X: Tensor, targets: Tensor, rows: Tensor, weights: Tensor, lr: float
    ) -> None:
        device, batch = X.device, len(weights)
        self.X, self.targets, self.lr = X, targets, lr
        self.rows, self.weights = rows.to(device), weights[:, None].to(device)
        self.parameters, self.layers = packed(layers, device)
        self.gradient, self.gradients = blank(layers, device)
        self.moments = torch.zeros_like(self.parameters), torch.zeros_like(self.parameters)
        # The counters live on the device, so that a recorded step finds its row and its Adam step by itself.
        self.position = self.rows.new_zeros(1)
        self.adam_steps = X.new_zeros(())
        self.row = self.rows.new_empty(1, batch)
        self.target = X.new_empty(batch, targets.shape[1])
        self.in_part = bool(((targets.sum(dim=1) - 1).abs() > PART).any())
        widths = [X.shape[1], *(len(bias) for _, bias in layers)]
        self.values = [X.new_empty(batch, width) for width in widths]
        self.errors = [X.new_empty(batch, width) for width in widths[1:]]

    def __call__(self) -> None:
        self._fetch()
        self._forward()
        self._backward()
        self._update()

    def _fetch(self) -> None:
        torch.index_select(self.rows, 0, self.position, out=self.row)
        self.position.add_(1)
        torch.index_select(self.X, 0, self.row[0], out=self.values[0])
        torch.index_select(self.targets, 0, self.row[0], out=self.target)

    def _forward(self) -> None:
        for i, (weight, bias) in enumerate(self.layers):
            if i:
                self.values[i].relu_()
            torch.addmm(bias, self.values[i], weight.t(), out=self.values[i + 1])

    def _backward(self) -> None:
        """The gradient of the cross-entropy at the logits is (softmax - target) times the sample's weight.

        Of a sample that counts in part, the target sums to that part.
        """
        torch.softmax(self.values[-1], 1, out=self.errors[-1])
        if self.in_part:
            self.errors[-1].mul_(self.target.sum(dim=1, keepdim=True))
        self.errors[-1].sub_(self.target).mul_(self.weights)
        for i in reversed(range(len(self.layers))):
            torch.mm(self.errors[i].t(), self.values[i], out=self.gradients[i][0])
            torch.sum(self.errors[i], 0, out=self.gradients[i][1])
            if i:
                torch.mm(self.errors[i], self.layers[i][0], out=self.errors[i - 1])
                self.errors[i - 1].mul_(self.values[i].sign_())  # the slope of a ReLU is its value's sign

    def _update(self) -> None:
        adam(
            [self.parameters],
            [self.gradient],
            [self.moments[0]],
            [self.moments[1]],
            [],
            [self.adam_steps],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.lr,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )


def repeat(step: Step, steps: int, progress: Steps | None) -> None:
    """Take `steps` steps; on a GPU, where there are many, all but the first few replay a recorded one."""
    record_after = EAGER_STEPS if step.X.is_cuda and steps >= MIN_RECORDED else None
    every = -(-steps // PROGRESS_CALLS)
    take: Callable[[], None] = step
    for done in range(1, steps + 1):
        take()
        if done == record_after:
            take = recorded(step)
        if progress is not None and (done % every == 0 or done == steps):
            progress(done, steps)
    if step.X.is_cuda:
        torch.cuda.synchronize(step.X.device)  # a recorded step must outlive its replays


def recorded(step: Step) -> Callable[[], None]:
    """`step` as one launch: a CUDA graph. Recording takes no step."""
    graph, device = torch.cuda.CUDAGraph(), step.X.device
    # Other threads (a labelling service's) may use the GPU meanwhile, but only one at a time may record.
    with (
        _recording,
        torch.cuda.device(device),
        torch.cuda.graph(graph, stream=_recording_stream(device), capture_error_mode="thread_local"),
    ):
        step()
    return graph.replay


_recording = threading.Lock()


@functools.cache
def _recording_stream(device: torch.device) -> torch.cuda.Stream:
    """The same stream for all recordings on a device: cuBLAS keeps a workspace for every stream it has seen."""
    return torch.cuda.Stream(device)
