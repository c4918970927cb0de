"""Adaptations that are scored on real Ray clusters: the same bits as in one process, whatever is killed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from cual import Adaptation, Agent, Client
from cual.bridges.ray import Scoring, connected
from cual.data.folder import FeaturesFolder, FeaturesWriter
from cual.data.pool import Pool
from cual.errors import BadFile
from cual.loop.files import JOURNAL
from cual.serve.storage.home import open_home
from processes import alive, children
from ray_cluster import TwoNodes, descendants, two_nodes, until
from running import running

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_surroundings")]

OLD, NEW, WIDTH, BUDGET = 4, 2, 24, 60
ROWS = 24_012  # a multiple of what `truth` shares out
LEAN = {"learner": {"keep_bytes": 0, "anchors": 1024}}
"""Options under which cual-plus takes a small pool for one that is larger than memory."""
PLUS = ("cual-plus", LEAN, 16 * 512)
PAPER = ("cual", {"learner": {"uncertainty": {"variance": 0.9}}}, 4 * WIDTH)
METHODS = [
    pytest.param(*PLUS, True, id="cual-plus"),
    pytest.param(*PAPER, True, id="cual"),
    pytest.param(*PAPER, False, id="cual, in memory"),
    pytest.param("er-entropy", {}, 4 * WIDTH, True, id="er-entropy"),
]
"""With the bytes that a row takes in a chunk, and whether the pool is a folder."""


def truth(rows: int) -> np.ndarray:
    share = rows // (4 * OLD + NEW)
    return np.random.default_rng(1).permutation(
        np.repeat(np.arange(OLD + NEW), [4 * share] * OLD + [share] * NEW)
    )


def draw(classes: np.ndarray, seed: int) -> np.ndarray:
    means = np.random.default_rng(0).normal(0, 1, (OLD + NEW, WIDTH))
    noise = np.random.default_rng(seed).normal(0, 0.9, (len(classes), WIDTH))
    return (means[classes] + noise).astype(np.float16)


def fitted(method: str, options: dict) -> Agent:
    known = np.repeat(np.arange(OLD), 80)
    return Agent.fit(draw(known, 2), known, method, buffer=200, **options)


def written(path: Path, rows: int) -> Path:
    with FeaturesWriter(path, WIDTH, shard_rows=1000) as writer:
        writer.append(draw(truth(rows), 3), list(range(len(truth(rows)))))
    return path


def adapted(agent: Agent, pool: Pool) -> Adaptation:
    answers, task = truth(len(pool)), agent.adapt(pool, BUDGET)
    while query := task.ask():
        task.tell(query.id, {i: int(answers[i]) for i in query.ids})
    return task


def saved(agent: Agent, path: Path) -> bytes:
    agent.save(path)
    return path.read_bytes()


def timeless(task: Adaptation) -> list[dict]:
    return [{k: v for k, v in row.items() if not k.endswith("_at")} for row in task.ledger]


def same(one: Adaptation, two: Adaptation, folder: Path) -> None:
    """Questions, answers, scores, pseudo-labels and the next agent, bit by bit."""
    assert timeless(one) == timeless(two)
    assert one.history == two.history
    assert (one.pseudo_labels, one.doubts) == (two.pseudo_labels, two.doubts)
    for first, second in zip(one.rounds, two.rounds, strict=True):
        assert first.scores.tobytes() == second.scores.tobytes()
        assert first.classes.tobytes() == second.classes.tobytes()
    assert saved(one.finish(), folder / "one") == saved(two.finish(), folder / "two")


# -- a pool in chunks of the usual size, and what one process makes of it


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """A folder of three chunks, for cual-plus."""
    return written(tmp_path_factory.mktemp("large") / "features", ROWS)


@pytest.fixture(scope="module")
def whole(large) -> Adaptation:
    task = adapted(fitted(*PLUS[:2]), Pool.of(FeaturesFolder.open(large).table()))
    task.finish()
    return task


@pytest.fixture(scope="module")
def files(large, whole, tmp_path_factory) -> Path:
    """The agent and the answers, and the agent that comes of it, as `cual adapt` reads and writes them."""
    folder = tmp_path_factory.mktemp("files")
    whole.agent.save(folder / "before")
    whole.finish().save(folder / "after")
    lines = [f"{row},{label}\n" for row, label in enumerate(truth(ROWS).tolist())]
    (folder / "answers.csv").write_text("id,label\n" + "".join(lines))
    return folder


def adapt(files: Path, pool: Path, output: Path, *others: object) -> subprocess.Popen:
    program = Path(sys.executable).with_name("cual")
    given = (
        files / "before",
        pool,
        "-o",
        output,
        "--budget",
        BUDGET,
        "--labels",
        files / "answers.csv",
        "--only-asked",
    )
    command = [str(word) for word in (program, "adapt", *given, "--task", f"{output}.task", *others)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def asked(task: Path) -> int:
    """Rounds that have been opened, by the journal on disk."""
    lines = (task / JOURNAL).read_text().splitlines() if (task / JOURNAL).exists() else []
    return sum(json.loads(line)["event"] == "asked" for line in lines)


# -- the same as in one process


@pytest.mark.parametrize(("method", "options", "bytes_per_row", "stored"), METHODS)
def test_scores_choice_and_agent(
    cluster: TwoNodes, tmp_path, monkeypatch, method, options, bytes_per_row, stored
):
    monkeypatch.setattr("cual.data.pool.CHUNK_BYTES", 900 * bytes_per_row)
    folder, agent, seen = written(tmp_path / "f", 5000), fitted(method, options), []

    def opened() -> Pool:
        return Pool.of(FeaturesFolder.open(folder).table()) if stored else Pool(draw(truth(5000), 3))

    here = adapted(agent, opened())
    with connected(cluster.address) as nodes:
        pool = opened()
        pool.elsewhere = Scoring(nodes, lambda *now: seen.append(now))
        there = adapted(agent, pool)
        same(here, there, tmp_path)
    stages, done, totals = zip(*seen, strict=True)
    assert set(stages) == {"scoring"}
    assert max(totals) == 6
    assert list(done[:6]) == [1, 2, 3, 4, 5, 6]
    assert done.count(1) >= len(here.rounds), "every round goes over the pool"


def test_a_local_ray(large, files, tmp_path):
    command = adapt(files, large, tmp_path / "after", "--ray", "local")
    said = command.communicate()[0]
    assert command.returncode == 0, said
    assert "new classes" in said
    assert (tmp_path / "after").read_bytes() == (files / "after").read_bytes()


# -- killed


def test_a_node_killed_in_the_middle(large, whole, tmp_path):
    pool, killed = Pool.of(FeaturesFolder.open(large).table()), []
    with two_nodes() as cluster, connected(cluster.address) as nodes:

        def progress(stage, done, total):
            if not killed and done < total and cluster.works("_score"):
                cluster.kill_second()
                killed.append((done, total))

        pool.elsewhere = Scoring(nodes, progress)
        task = adapted(whole.agent, pool)
        same(task, whole, tmp_path)
    assert killed


def test_a_killed_driver_goes_on(cluster: TwoNodes, large, files, tmp_path):
    output = tmp_path / "after"
    driver = adapt(files, large, output, "--ray", cluster.address)
    until(lambda: asked(Path(f"{output}.task")) >= 2)
    until(lambda: cluster.works("_score"))
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate()
    until(lambda: not cluster.works("_score"))
    assert not output.exists()
    again = adapt(files, large, output, "--ray", cluster.address)
    said = again.communicate()[0]
    assert again.returncode == 0, said
    assert "going on with" in said
    assert output.read_bytes() == (files / "after").read_bytes()


def test_the_service(cluster: TwoNodes, large, whole, files, tmp_path):
    """Its worker is killed in the middle, and does the job again."""
    answers, before = truth(ROWS), set(descendants())
    workspace = tmp_path / "workspace"
    with running(workspace, "--root", str(large.parent), "--ray", cluster.address) as service:
        with Client(service.url, service.token("ann", "admin")) as client:
            agent = client.add_agent("flowers", files / "before")
            pool = client.add_pool("garden", agent, path=str(large))
            task = client.start(agent, pool, BUDGET)
            until(lambda: cluster.works("_score"))
            runner = runner_of(service.process.pid)
            os.kill(runner, signal.SIGKILL)
            until(lambda: not alive(runner))
            until(lambda: cluster.works("_score"))
            while query := task.ask():
                task.tell(query.id, {i: int(answers[i]) for i in query.ids})
            after = task.finish()
            assert [row["iteration"] for row in task.history()] == list(range(len(whole.rounds)))
        home = open_home(workspace)
        made = home.agent_file(agent.id, after.version)
        assert made.read_bytes() == (files / "after").read_bytes()
        home.database.close()
        assert service.end() == 0, "it listens to signals, whatever Ray does with them"
    until(lambda: set(descendants()) <= before)


def runner_of(service: int) -> int:
    """The process that does the jobs: the only child of the only child of a service."""
    (keeper,) = children(service)
    (runner,) = children(keeper)
    return runner


# -- refused


def test_options_that_do_not_go_together(files, large, tmp_path):
    refused = adapt(files, large, tmp_path / "after", "--ray", "local", "--device", "cuda")
    assert "--ray scores on CPUs" in " ".join(refused.communicate()[0].split())
    refused = adapt(files, large, tmp_path / "after", "--ray", "somewhere")
    assert "--ray is local, auto" in " ".join(refused.communicate()[0].split())
    with (
        pytest.raises(RuntimeError, match="--ray is local, auto"),
        running(tmp_path / "w", "--ray", "elsewhere"),
    ):
        pass


def test_a_node_that_sees_another_folder_says_so(cluster: TwoNodes, large, tmp_path):
    """As on another machine, where the same name leads elsewhere or nowhere."""
    reference = FeaturesFolder.open(large).X.reference()
    written(tmp_path / "other", 2000)
    for path in (tmp_path / "none", tmp_path / "other"):
        moved = {**reference, "path": str(path)}
        with (
            connected(cluster.address) as nodes,
            pytest.raises(BadFile, match=r"does not see .* storage that all nodes share"),
        ):
            list(Scoring(nodes).map(torch.sum, moved, iter([(slice(0, 5),)]), 1))


@pytest.mark.parametrize(("here", "warned"), [(1, False), (2, True)])
def test_a_worker_has_as_many_threads_as_the_command(cluster: TwoNodes, here, warned, caplog):
    """Where a node has as many cores, because sums are rounded by it; these have one each."""
    threads = torch.get_num_threads()
    torch.set_num_threads(here)
    try:
        with connected(cluster.address) as nodes:
            pieces = iter([(torch.zeros(1),)])
            assert list(Scoring(nodes).map(lambda X: torch.get_num_threads(), None, pieces, 1)) == [1]
    finally:
        torch.set_num_threads(threads)
    assert ("OMP_NUM_THREADS=1" in caplog.text) is warned
