"""A_s of cual-plus: the whole pool is labelled at once, old and novel classes competing for every sample.

Classes are directions (prototypes) in the space that the ridge head whitens. Old ones are known; novel ones
start from the answers and are refined by what they win in the pool. Whom to ask is decided elsewhere.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from cual.heads import Ridge
from cual.pool import Pool
from cual.short_term import Accepted, Scored
from cual.types import FloatArray, IntArray
from cual.uncertainty import Threshold

if TYPE_CHECKING:
    from cual.agent import Agent

REFINEMENTS = 4
"""Rounds in which novel prototypes win samples and move."""
ANSWER_WEIGHT = 5.0
"""What a person's answer counts in a prototype, against 1 for a sample that was only won."""
LEAST_SHARE = 0.3
"""A sample moves a prototype only if the class holds at least this share of it."""
KEEP_BYTES = 2**30
"""Whitened pools up to this size are kept; larger ones are whitened again when needed."""
EVEN = Threshold(value=0.5, mean=0.0, std=0.2)
"""Where old and novel classes hold the same share of a sample, and how far around that is ambiguous."""


class PrototypeLearner:
    """Novelty: the angle to the nearest old prototype; later, the share of a sample that novel classes hold."""

    def __init__(self, agent: "Agent", pool: Pool) -> None:
        self._agent, self._pool, self._n_old = agent, pool, len(agent.names)
        self._head = cast("Ridge", agent.head)
        self._old = normalize(self._head.whitened_means(), dim=1)
        self._answers: tuple[IntArray, IntArray] = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._kept: Tensor | None = None
        self._shares: tuple[IntArray, FloatArray] | None = None
        validation = agent.validation
        self._validation = self._directions(validation.X) @ self._old.T
        own = self._validation.gather(1, validation.y[:, None])[:, 0]
        self._likeness = float(own.mean().clamp(0.01, 0.99)) ** 2
        """Expected cosine of two samples of one class: the square of that of a sample and its class."""
        self._sharpness = _sharpness(self._validation, validation.y)

    def _directions(self, X: Tensor) -> Tensor:
        return normalize(self._head.whiten(X), dim=1)

    def _chunks(self, rows: IntArray) -> Iterator[tuple[slice, Tensor]]:
        """Whitened directions of pool rows, in chunks."""
        device, width = self._agent.device, self._old.shape[1]
        if self._kept is None and len(self._pool) * width * 4 <= KEEP_BYTES:
            every = np.arange(len(self._pool))
            self._kept = torch.cat([self._directions(X) for _, X in self._pool.chunks(every, device)])
        if self._kept is not None:
            yield slice(0, len(rows)), self._kept[torch.from_numpy(rows).to(device)]
            return
        for part, X in self._pool.chunks(rows, device):
            yield part, self._directions(X)

    def score(self, rows: IntArray) -> Scored:
        if not len(self._answers[0]):
            nearest = torch.cat([(U @ self._old.T).max(dim=1).values for _, U in self._chunks(rows)])
            scores = (1 - nearest).cpu().numpy()
            return Scored(scores, np.full(len(rows), -1), 1 - self._validation.max(dim=1).values)
        prototypes, counts = self._refined(rows)
        shares = torch.cat([self._share(U, prototypes, counts) for _, U in self._chunks(rows)])
        novel = shares[:, self._n_old :].sum(dim=1)
        known = self._share_of(self._validation, self._agent.validation.X, prototypes, counts)
        self._shares = rows, shares.cpu().numpy()
        classes = self._numbers()[shares.argmax(dim=1).cpu().numpy()]
        return Scored(novel.cpu().numpy(), classes, known[:, self._n_old :].sum(dim=1), EVEN)

    def _numbers(self) -> IntArray:
        """The class of each column of the shares."""
        return np.concatenate([np.arange(self._n_old), np.unique(self._answers[1])])

    def _refined(self, rows: IntArray) -> tuple[Tensor, Tensor]:
        """Prototypes of the novel classes and what they rest on, after a few rounds of winning samples."""
        answered, classes = self._answers
        _, column = np.unique(classes, return_inverse=True)
        one_hot = torch.eye(int(column.max()) + 1, device=self._old.device)[torch.from_numpy(column)]
        said = torch.zeros(one_hot.shape[1], self._old.shape[1], device=self._old.device)
        for part, directions in self._chunks(answered):
            said += one_hot[part].T @ directions
        counts = one_hot.sum(dim=0)
        sums, mass = said.clone(), counts.clone()
        for _ in range(REFINEMENTS - 1):
            prototypes = normalize(sums, dim=1)
            sums, won = ANSWER_WEIGHT * said, torch.zeros_like(counts)
            for _, U in self._chunks(rows):
                share = self._share(U, prototypes, mass)[:, self._n_old :]
                share = share * (share > LEAST_SHARE)
                sums, won = sums + share.T @ U, won + share.sum(dim=0)
            mass = won + ANSWER_WEIGHT * counts
        return normalize(sums, dim=1), mass

    def _share(self, U: Tensor, prototypes: Tensor, mass: Tensor) -> Tensor:
        return self._compete(U @ self._old.T, U @ prototypes.T, mass)

    def _share_of(self, old: Tensor, X: Tensor, prototypes: Tensor, mass: Tensor) -> Tensor:
        return self._compete(old, self._directions(X) @ prototypes.T, mass)

    def _compete(self, old: Tensor, novel: Tensor, mass: Tensor) -> Tensor:
        """Softmax over all classes; a prototype of few samples is noisy, which is made up for.

        With ρ the cosine expected of two samples of one class, the cosine to the mean of n samples is expected
        to be √(ρ / (ρ + (1 − ρ) / n)) of that to the true mean.
        """
        rho = self._likeness
        fair = ((rho + (1 - rho) / mass.clamp(min=1)) / rho).sqrt()
        return torch.softmax(self._sharpness * torch.cat([old, novel * fair], dim=1), dim=1)

    def learn(self, accepted: Accepted, iteration: int) -> None:
        """Take over the answers; prototypes are refined when the pool is scored."""
        del iteration
        self._answers, self._shares = accepted.of(True, self._n_old), None

    def probabilities(self, rows: IntArray) -> FloatArray:
        """The share of each row that each class holds."""
        if self._shares is None or not np.array_equal(self._shares[0], rows):
            if not len(self._answers[0]):
                parts = [
                    torch.softmax(self._sharpness * (U @ self._old.T), dim=1) for _, U in self._chunks(rows)
                ]
                return torch.cat(parts).cpu().numpy()
            self.score(rows)
        assert self._shares is not None
        return self._shares[1]

    def features(self, rows: IntArray) -> FloatArray:
        return torch.cat([U for _, U in self._chunks(rows)]).cpu().numpy()

    def nearest_old(self, rows: IntArray) -> IntArray:
        return torch.cat([(U @ self._old.T).argmax(dim=1) for _, U in self._chunks(rows)]).cpu().numpy()

    def state(self) -> dict[str, Tensor]:
        rows, classes = self._answers
        return {"rows": torch.from_numpy(rows), "classes": torch.from_numpy(classes)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._answers = state["rows"].cpu().numpy(), state["classes"].cpu().numpy()


def _sharpness(cosines: Tensor, y: Tensor) -> float:
    """The factor on cosines under which the known validation samples are likeliest, of 1 to 256."""
    factors = 2 ** torch.linspace(0, 8, 33)
    losses = torch.stack([cross_entropy(float(f) * cosines, y) for f in factors])
    return float(factors[int(losses.argmin())])
