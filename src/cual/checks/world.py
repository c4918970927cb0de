"""A small world that learners and methods are checked in: flat Gaussian classes in sixteen dimensions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cual.checks.base import copied, expect, objects, same_state
from cual.data.labels import ClassNames
from cual.data.pool import Pool
from cual.errors import BadOption
from cual.heads import Head, Lesson, Samples, heads
from cual.learners import Accepted, Learner, ModelsClasses
from cual.replay import Replay
from cual.types import AnyArray, IntArray
from cual.uncertainty import ClassModel

OLD = ("cat", "dog")
NOVEL = ("fox", "owl")
WIDTH = 16


@dataclass(frozen=True)
class World:
    """Known samples with labels, and a pool of known and novel ones, whose labels only the checks know."""

    X: AnyArray
    y: tuple[str, ...]
    pool: AnyArray
    truth: Mapping[str, str]
    """Of each sample of the pool, by id."""


@cache
def world() -> World:
    rng = np.random.default_rng(0)
    names = (*OLD, *NOVEL)
    centres = {name: rng.normal(0, 2, WIDTH) for name in names}
    planes = {name: rng.normal(0, 1, (4, WIDTH)) for name in names}

    def draw(name: str, n: int) -> AnyArray:
        inside = rng.normal(0, 1, (n, 4)) @ planes[name]
        return (centres[name] + inside + rng.normal(0, 0.1, (n, WIDTH))).astype(np.float32)

    known = np.concatenate([draw(name, 30) for name in OLD])
    pool = np.concatenate([*(draw(name, 20) for name in OLD), *(draw(name, 15) for name in NOVEL)])
    labels = [name for name in OLD for _ in range(20)] + [name for name in NOVEL for _ in range(15)]
    order = rng.permutation(len(labels)).tolist()
    truth = {f"sample {i:03}": labels[row] for i, row in enumerate(order)}
    return World(known, tuple(name for name in OLD for _ in range(30)), pool[order], truth)


@dataclass(frozen=True, eq=False)
class Known:
    """An agent as a learner sees it, which knows `OLD`: a `Knowledge` that no method is needed for."""

    names: ClassNames
    head: Head
    replay: Replay
    validation: Samples
    models: Sequence[ClassModel]
    unexplained: Tensor = torch.empty(0, WIDTH)  # noqa: RUF009
    seed: int = 0
    version: int = 0
    width: int = WIDTH
    device: torch.device = torch.device("cpu")  # noqa: RUF009

    @classmethod
    def of(cls, learner: Learner, head: Head) -> "Known":
        """What an agent with such a head knows; models of classes where the learner wants them."""
        X = torch.from_numpy(world().X)
        y = torch.arange(len(OLD)).repeat_interleave(30)
        held_out = torch.arange(len(X)) % 5 == 0
        train = Samples(X[~held_out], y[~held_out])
        none = Samples(X[:0], y[:0])
        models: list[ClassModel] = []
        if isinstance(learner, ModelsClasses):
            models = [learner.uncertainty.fit(train.X[train.y == c]) for c in range(len(OLD))]
        return cls(
            ClassNames(OLD),
            head.learn(Lesson(len(OLD), train, none, none), np.random.default_rng(0)),
            Replay(60).updated(train.X, train.y, np.random.default_rng(1)),
            Samples(X[held_out], y[held_out]),
            models,
        )

    def state(self) -> dict[str, Tensor]:
        """All that a learner could change by mistake."""
        state = {"validation.X": self.validation.X, "validation.y": self.validation.y}
        state |= {f"head.{name}": tensor for name, tensor in self.head.state().items()}
        state |= {f"replay.{name}": tensor for name, tensor in self.replay.state().items()}
        for c, model in enumerate(self.models):
            state |= {f"model.{c}.{name}": tensor for name, tensor in model.state().items()}
        return state


@dataclass(frozen=True, eq=False)
class Stage:
    """Where a learner is put to work: what an agent knows, and a pool."""

    learner: Learner
    agent: Known
    pool: Pool

    @classmethod
    def of(cls, learner: Learner, head: Head | None = None) -> "Stage":
        """Beside a head, or beside the first one that the learner accepts."""
        if head is None:
            accepted = accepted_heads(learner)
            expect(bool(accepted), f"accepts none of the heads {', '.join(heads)}, so that nothing can use it")
            head = accepted[0]
        return cls(learner, Known.of(learner, head), Pool(world().pool.copy(), list(world().truth)))

    def snapshot(self) -> dict[str, Tensor]:
        """Agent and pool, copied."""
        return copied({**self.agent.state(), "pool": torch.from_numpy(np.asarray(self.pool.data))})

    def expect_unchanged(self, before: Mapping[str, Tensor]) -> None:
        now = self.snapshot()
        changed = [name for name in before if not same_state({"": before[name]}, {"": now[name]})]
        expect(not changed, f"changes the agent or the pool ({', '.join(changed)})")


def accepted_heads(learner: Learner) -> list[Head]:
    """The registered heads that a learner can work with, empty and small; others it must refuse by name."""
    accepted: list[Head] = []
    for name in heads:
        head: Any = objects(heads[name])[0][0]
        try:
            learner.check(head)
        except BadOption:
            continue
        accepted.append(head)
    return accepted


def codes() -> IntArray:
    """The class number of each pool row; novel ones go on from the old."""
    return ClassNames((*OLD, *NOVEL)).encode(world().truth.values())


def accepted_of(novel: Sequence[str]) -> Accepted:
    """Three answers of each old class and of some novel ones, and four pseudo-labels of those."""
    numbers = codes()
    rows: list[int] = []
    human: list[int] = []
    for name in (*OLD, *novel):
        mine = np.flatnonzero(numbers == (*OLD, *NOVEL).index(name)).tolist()
        believed = mine[3:7] if name in novel else []
        rows += mine[:3] + believed
        human += [1] * 3 + [0] * len(believed)
    chosen = np.array(rows, dtype=np.int64)
    return Accepted(chosen, numbers[chosen], np.array(human, dtype=np.int64))
