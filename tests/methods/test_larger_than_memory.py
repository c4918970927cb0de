"""A pool on disk that is gone through in chunks gives what it gives in memory, and takes little of it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cual import Adaptation, Agent
from cual.data.folder import FeaturesFolder, FeaturesWriter
from cual.data.pool import Pool

pytestmark = pytest.mark.more

OLD, NEW, WIDTH = 4, 2, 24
TRUTH = np.random.default_rng(1).permutation(np.repeat(np.arange(OLD + NEW), [1000] * OLD + [250] * NEW))


def draw(classes: np.ndarray, seed: int) -> np.ndarray:
    means = np.random.default_rng(0).normal(0, 1, (OLD + NEW, WIDTH))
    noise = np.random.default_rng(seed).normal(0, 0.9, (len(classes), WIDTH))
    return (means[classes] + noise).astype(np.float16)


@pytest.fixture(scope="module")
def agent() -> Agent:
    known = np.repeat(np.arange(OLD), 80)
    return Agent.fit(draw(known, 2), known, buffer=200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("pool") / "features"
    with FeaturesWriter(path, WIDTH, shard_rows=512) as writer:
        writer.append(draw(TRUTH, 3), list(range(len(TRUTH))))
    return path


def lean(agent: Agent) -> Agent:
    """The same agent, which keeps nothing of a pool in memory that it need not."""
    return replace(agent, method=agent.method.but(learner={"keep_bytes": 0}))


def adapted(agent: Agent, pool: Pool) -> Adaptation:
    task = agent.adapt(pool, 60)
    while query := task.ask():
        task.tell(query.id, {i: int(TRUTH[i]) for i in query.ids})
    return task


def tensors(agent: Agent) -> dict[str, torch.Tensor]:
    """What an agent knows, without its options."""
    known = {"validation": agent.validation.X, "unexplained": agent.unexplained, "replay": agent.replay.X}
    return {**agent.head.state(), **known}


@pytest.fixture(scope="module")
def ordinary(agent) -> Adaptation:
    """All in memory, at once."""
    return adapted(agent, Pool(draw(TRUTH, 3)))


@pytest.mark.parametrize("rows", [1024, 37])
def test_chunks_on_disk_lead_to_the_same_questions_labels_and_head(agent, folder, ordinary, rows, monkeypatch):
    """Decisions and all that is learned are equal, bit by bit. Scores may differ in their last bits: how a
    product of matrices is rounded depends on how many rows it has."""
    monkeypatch.setattr("cual.data.pool.CHUNK_BYTES", rows * 16 * 512)
    monkeypatch.setattr("cual.loop.rounds.KEPT_ROWS", 0)
    pool = Pool.of(FeaturesFolder.open(folder).table())
    assert len(list(pool.chunks(width=4 * 512))) > 3
    task = adapted(lean(agent), pool)
    assert task.answers == ordinary.answers
    assert task.pseudo_labels == ordinary.pseudo_labels
    assert task.doubts == pytest.approx(ordinary.doubts, rel=1e-4, abs=1e-5)
    for one, other in zip(task.rounds, ordinary.rounds, strict=True):
        assert np.array_equal(one.rows, other.rows)
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-4, atol=1e-5)
    known = tensors(ordinary.finish())
    assert all(torch.equal(tensor, known[name]) for name, tensor in tensors(task.finish()).items())


def test_long_lessons_are_learned_in_parts_with_the_same_bits(ordinary, monkeypatch):
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr("cual.heads.ridge.CHUNK", 128)

    def learned(most: int) -> dict[str, torch.Tensor]:
        monkeypatch.setattr("cual.learners.base.TOGETHER", most)
        names, accepted = ordinary.machine.settled(ordinary.state)
        nothing, timings = np.empty(0, np.int64), ordinary.timings
        progress = lambda stage, done, total: seen.append((done, total))  # noqa: E731
        args = (ordinary.pool, accepted, names, nothing, {}, timings, progress)
        return tensors(ordinary.agent.consolidated(*args))

    monkeypatch.setattr("cual.learners.base.CHUNK_BYTES", 1)
    in_parts = learned(128)
    assert seen[-1][0] == seen[-1][1] > 2
    at_once = learned(2**20)
    assert all(torch.equal(tensor, at_once[name]) for name, tensor in in_parts.items())


def test_a_saved_adaptation_goes_on_with_rounds_on_disk(agent, folder, ordinary, tmp_path, monkeypatch):
    monkeypatch.setattr("cual.loop.rounds.KEPT_ROWS", 0)
    pool = Pool.of(FeaturesFolder.open(folder).table())
    task = agent.adapt(pool, 60)
    while query := task.ask():
        task.tell(query.id, {i: int(TRUTH[i]) for i in query.ids})
        task.save(tmp_path / "task")
        task = Adaptation.load(tmp_path / "task")
    assert task.history == ordinary.history


MEASURED = """
import re, sys
from pathlib import Path
import numpy as np
from cual import Agent
from cual.data.folder import FeaturesFolder
from cual.data import pool
from cual.data.pool import Pool
from cual.loop import rounds

pool.CHUNK_BYTES, rounds.KEPT_ROWS = 2**20, 0
folder, agent = sys.argv[1:]
task = Agent.load(agent).adapt(Pool.of(FeaturesFolder.open(folder).table()), 20)
while query := task.ask():
    task.tell(query.id, {i: 30 + int(i[7:]) % 2 for i in query.ids})
task.finish()
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024)
"""


@pytest.mark.attacks
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_grows_by_a_few_bytes_per_row(tmp_path):
    """Thirty classes and fifteen neighbours in float32 alone would be 180 bytes; an id as an object, 70."""
    rng = np.random.default_rng(0)
    means = rng.normal(0, 1, (31, 16)).astype(np.float32)
    known = np.repeat(np.arange(30), 12)
    options = {"learner": {"keep_bytes": 0, "anchors": 64}, "head": {"expand": 0}, "buffer": 120}
    agent = Agent.fit(means[known] + 0.3 * rng.standard_normal((len(known), 16), np.float32), known, **options)
    agent.save(tmp_path / "agent")
    peaks: list[int] = []
    sizes = 50_000, 300_000
    for n in sizes:
        with FeaturesWriter(tmp_path / str(n), 16, shard_rows=50_000) as writer:
            for start in range(0, n, 50_000):
                classes = rng.integers(0, 30 + (np.arange(50_000) % 50 == 0))
                part = means[classes] + 0.3 * rng.standard_normal((50_000, 16), np.float32)
                writer.append(part, [f"sample {i:08}" for i in range(start, start + 50_000)])
        command = [sys.executable, "-c", MEASURED]
        done = subprocess.run(
            [*command, tmp_path / str(n), tmp_path / "agent"], check=True, capture_output=True, text=True
        )
        peaks.append(int(done.stdout))
    grown = (peaks[1] - peaks[0]) / (sizes[1] - sizes[0])
    print(f"{grown:.0f} bytes per row")
    assert grown < 150, f"{grown:.0f} bytes per row"
