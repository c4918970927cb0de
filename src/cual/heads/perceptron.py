"""What the linear and the MLP head share: fully connected layers that grow, classify and are saved."""

import copy
import itertools
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from cual.errors import BadFeatures, BadLabels
from cual.graph import Value
from cual.heads.base import Lesson, Steps
from cual.heads.training import Layers, packed, train

CHUNK = 1024  # rows whose hidden values are held at once when classifying


class Perceptron:
    """Fully connected layers with ReLU between; subclasses name their options and give the widths.

    Options are attributes of the name and type that `OPTIONS` says; they are saved with the weights.
    """

    OPTIONS: ClassVar[Mapping[str, type[int] | type[float]]]

    width: int = 0
    """Of the features; 0 before the first lesson."""
    epochs: int
    batch: int
    lr: float
    _layers: Layers = ()

    def _hidden_widths(self) -> tuple[int, ...]:
        raise NotImplementedError

    @property
    def n_classes(self) -> int:
        """Classes known so far; 0 before the first lesson."""
        return len(self._layers[-1][1]) if self._layers else 0

    @torch.no_grad()
    def logits(self, X: Tensor) -> Tensor:
        """Logits (n, n_classes) in float32, on the head's device."""
        if not self._layers:
            return torch.empty(len(X), 0, dtype=torch.float32, device=X.device)
        device = self._layers[0][0].device
        logits = torch.empty(len(X), self.n_classes, dtype=torch.float32, device=device)
        for start in range(0, len(X), CHUNK):
            values = X[start : start + CHUNK].to(device, torch.float32)
            for weight, bias in self._layers[:-1]:
                values = torch.addmm(bias, values, weight.t()).relu_()
            weight, bias = self._layers[-1]
            torch.addmm(bias, values, weight.t(), out=logits[start : start + CHUNK])
        return logits

    def draw(self, X: Value) -> Value:
        """The logits as a graph."""
        values = X
        for weight, bias in self._layers[:-1]:
            values = (values @ weight.t() + bias).relu()
        weight, bias = self._layers[-1]
        return values @ weight.t() + bias

    def learn(self, lesson: Lesson, rng: np.random.Generator, progress: Steps | None = None) -> Self:
        """A new head that has learned `lesson`: known classes go on from here, new ones start anew."""
        head = self.sized(lesson)
        for samples, _ in lesson.sources():
            if samples.X.shape[1] != head.width:
                raise BadFeatures(f"the head takes features of width {head.width}, not {samples.X.shape[1]}")
        head = head.grown(lesson.n_classes, rng)
        head._layers = train(
            head._layers, lesson, rng, epochs=self.epochs, batch=self.batch, lr=self.lr, progress=progress
        )
        return head

    def sized(self, lesson: Lesson) -> Self:
        """A head for features as wide as those of its first lesson; later ones must fit."""
        head = copy.copy(self)
        head.width = self.width or lesson.width
        return head

    def grown(self, n_classes: int, rng: np.random.Generator) -> Self:
        """A head with rows for `n_classes` classes: the known ones bit for bit, the rest anew."""
        if n_classes < self.n_classes:
            raise BadLabels(f"a head of {self.n_classes} classes cannot shrink to {n_classes}")
        widths = [self.width, *self._hidden_widths()]
        layers = self._layers or (
            *(_drawn(out, inputs, rng) for inputs, out in itertools.pairwise(widths)),
            _drawn(0, widths[-1], rng),
        )
        weight, bias = layers[-1]
        new_weight, new_bias = self._new_rows(n_classes - len(bias), widths[-1], rng)
        head = copy.copy(self)
        last = torch.cat([weight, new_weight.to(weight.device)]), torch.cat([bias, new_bias.to(bias.device)])
        head._layers = (*layers[:-1], last)
        return head

    def _new_rows(self, n: int, inputs: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        """How the rows of `n` new classes begin: drawn like torch's own."""
        return _drawn(n, inputs, rng)

    def state(self) -> dict[str, Tensor]:
        """Options as 0-d tensors, then ``weight_0, bias_0, …`` by layer (none before the first lesson)."""
        dtypes = {int: torch.int64, float: torch.float64}
        options = {"width": int, **self.OPTIONS}
        state = {name: torch.tensor(getattr(self, name), dtype=dtypes[kind]) for name, kind in options.items()}
        for i, (weight, bias) in enumerate(self._layers):
            state |= {f"weight_{i}": weight, f"bias_{i}": bias}
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], **options: int | float) -> Self:
        """The head that `state` was taken from, on its weights' device; `options` replace saved ones."""
        saved = {name: kind(state[name].item()) for name, kind in cls.OPTIONS.items()}
        head = cls(**(saved | options))
        head.width = int(state["width"])
        n_layers = sum(name.startswith("weight_") for name in state)
        if n_layers:
            layers = tuple((state[f"weight_{i}"], state[f"bias_{i}"]) for i in range(n_layers))
            _, head._layers = packed(layers, layers[0][0].device)
        return head


def _drawn(out: int, inputs: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """A layer's weight and bias, uniform within ±1/√inputs like torch's own."""
    bound = np.float32(inputs**-0.5)
    values = rng.random((out, inputs + 1), dtype=np.float32)
    values -= np.float32(0.5)
    values *= 2 * bound
    drawn = torch.from_numpy(values)
    return drawn[:, :-1], drawn[:, -1]
