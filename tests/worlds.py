"""A small world for tests: flat Gaussian classes in sixteen dimensions, and heads small enough to be quick."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.torch import save

from cual import Adaptation, Agent
from cual.heads import Ridge
from cual.methods import methods

SMALL: dict[str, Any] = {"method": "cual", "head_options": {"hidden": 16, "epochs": 3}, "buffer": 60}


@dataclass
class World:
    """Two known classes, and a pool of known and novel samples whose true labels the tests know."""

    X: np.ndarray
    y: list[str]
    pool: np.ndarray
    truth: dict[str, str]

    @property
    def ids(self) -> list[str]:
        return list(self.truth)

    def agent(self, **options: Any) -> Agent:
        """An agent of the two known classes, by the paper's method unless another is named."""
        given = {**SMALL, **options}
        if isinstance(methods[given["method"]].head, Ridge) and "head_options" not in options:
            del given["head_options"]  # training options, and that head is not trained
        return Agent.fit(self.X, self.y, **given)

    def adapt(self, agent: Agent | None = None, budget: float | int = 8) -> Adaptation:
        return (agent or self.agent()).adapt(self.pool, budget, ids=self.ids)

    def with_second_name(self, name: str, second: str) -> "World":
        """The same, but every other sample of a class is called by another name."""
        others = {i: second for i in self.ids[1::2] if self.truth[i] == name}
        return replace(self, truth=self.truth | others)

    def answer_all(self, task: Adaptation) -> Adaptation:
        while query := task.ask():
            task.tell(query.id, {i: self.truth[i] for i in query.ids})
        return task


def make_world(novel: tuple[str, ...] = ("owl", "Füchsin mit Schal"), old: int = 20, seed: int = 0) -> World:
    rng = np.random.default_rng(seed)
    centres = {name: rng.normal(0, 2, 16) for name in ("cat", "dog", *novel)}
    planes = {name: rng.normal(0, 1, (4, 16)) for name in centres}

    def draw(name: str, n: int) -> np.ndarray:
        inside = rng.normal(0, 1, (n, 4)) @ planes[name]
        return (centres[name] + inside + rng.normal(0, 0.1, (n, 16))).astype(np.float32)

    y = ["cat"] * 30 + ["dog"] * 30
    names = ["cat"] * old + ["dog"] * old + [name for name in novel for _ in range(15)]
    pool = np.concatenate([draw("cat", old), draw("dog", old), *(draw(name, 15) for name in novel)])
    order = rng.permutation(len(names))
    truth = {f"img_{row:03}.jpg": names[row] for row in order}
    return World(np.concatenate([draw("cat", 30), draw("dog", 30)]), y, pool[order], truth)


def file_bytes(agent: Agent, folder: Any) -> bytes:
    """The agent as it would lie on disk: equal bytes are an equal agent."""
    path = folder / "agent.safetensors"
    agent.save(path)
    return path.read_bytes()


def without_sums(path: Path) -> Path:
    """A file of an agent or an adaptation as releases before checksums wrote it: tests can change it."""
    if path.suffix == ".jsonl":
        path.write_bytes(re.sub(rb', "sha256": "[0-9a-f]{64}"\}\n', b"}\n", path.read_bytes()))
        return path
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        meta = json.loads(file.metadata()["cual"])
    del meta["sha256"]
    path.write_bytes(save(tensors, {"cual": json.dumps(meta, ensure_ascii=False, sort_keys=True)}))
    return path
