"""Embedding and streams on real Ray clusters: the same as in one process, whatever is killed in between."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cual.agent import Agent
from cual.bench.folder import read_rows
from cual.bench.jobs import run as run_here
from cual.bench.settings import DIGITS, Setting
from cual.bridges.ray import connected, embed, encoder_on, run
from cual.bridges.ray.cluster import Place
from cual.bridges.ray.embedding import Job, _check_files, _write_shard
from cual.data.folder import FeaturesFolder, FeaturesWriter
from cual.data.folder.writing import LOCK
from cual.encoders import make
from cual.encoders.embedding import embed as embed_here
from cual.encoders.sources import open_source
from cual.errors import BadFile, BadOption, StreamsFailed, Unavailable, UnknownName, WorkersLost
from ray_cluster import TwoNodes, descendants, free_port, two_nodes, until

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_surroundings")]

SLOW = """
import time
import numpy as np

def colours(images):
    time.sleep(0.5)
    return [np.asarray(image, float).mean(axis=(0, 1)) / 7 for image in images]
"""
STREAMS = Setting(
    DIGITS, ("er-random", "cual"), seeds=(0, 1), first=4, increment=3, budget=0.05, buffer=200,
    options={"head": {"hidden": 64, "epochs": 20}},
)  # fmt: skip


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Images of two classes, and some that cannot be read among them."""
    folder = tmp_path_factory.mktemp("source") / "images"
    rng = np.random.default_rng(0)
    for i in range(70):
        file = folder / "ab"[i % 2] / f"{i:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)).save(file)
    for broken in ("a/05.png", "a/06x.png", "b/99.jpg"):
        (folder / broken).write_bytes(b"broken")
    return folder


@pytest.fixture
def slow(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    return f"python:{tmp_path / 'slow.py'}:colours"


def cual(*arguments):
    command = [str(a) for a in (Path(sys.executable).with_name("cual"), *arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def same_folder(one: Path, two: Path) -> None:
    """Arrays, order, labels, stamps, fingerprint and what was skipped."""
    first, second = FeaturesFolder.open(one), FeaturesFolder.open(two)
    first.verify()
    assert first.ids == second.ids
    assert (first.labels, first.sources, first.stamps) == (second.labels, second.sources, second.stamps)
    assert first.manifest.made == second.manifest.made
    assert first.X.dtype == second.X.dtype
    assert first.X[:].tobytes() == second.X[:].tobytes()
    lists = [folder / "skipped.csv" for folder in (one, two)]
    assert lists[0].read_text() == lists[1].read_text()
    assert not [file.name for file in one.iterdir() if file.name.startswith(".")]


def numbers(folder: Path) -> dict:
    """All rows without the times."""
    rows = read_rows(folder / "results.jsonl")
    plain = [{k: v for k, v in row.items() if k not in ("seconds", "timings")} for row in rows]
    keyed = {(row["method"], row["seed"], row["task"]): row for row in plain}
    assert len(keyed) == len(rows), "a task was written twice"
    return keyed


def same_results(one: Path, two: Path) -> None:
    assert numbers(one) == numbers(two)
    assert (one / "summary.json").read_text() == (two / "summary.json").read_text()
    assert not list((one / "state").iterdir())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What one process makes of the streams."""
    folder = tmp_path_factory.mktemp("whole")
    run_here(STREAMS, folder)
    return folder


# -- the same as in one process


def test_images_by_a_network(cluster: TwoNodes, images, tmp_path):
    source, seen = open_source(images), []
    with connected(cluster.address) as nodes:
        encoder = encoder_on(nodes, "efficientnet-lite0")
        told = embed(
            nodes, source, encoder, tmp_path / "f", "float32", 8, lambda *now: seen.append(now), shard_rows=24
        )
        again = embed(nodes, source, encoder, tmp_path / "f")
    here = embed_here(source, make("efficientnet-lite0"), tmp_path / "g", "float32", 8)
    same_folder(tmp_path / "f", tmp_path / "g")
    assert (told.encoded, told.skipped) == (here.encoded, here.skipped)
    assert len(FeaturesFolder.open(tmp_path / "f").manifest.shards) > 3
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[-1] == ("encoding", 73, 73)
    assert (again.encoded, again.reused, len(again.skipped)) == (0, 70, 3)


def test_texts_by_a_network(cluster: TwoNodes, tmp_path):
    texts_by_a_network(cluster.address, tmp_path)


@pytest.mark.slow  # and not in CI: Ray's client server crashes at times (grpcio 1.85.1, after a fork)
def test_through_the_client(cluster: TwoNodes, tmp_path):
    address = f"ray://127.0.0.1:{cluster.client_port}"
    texts_by_a_network(address, tmp_path)
    a_stream_that_fails(address, tmp_path)


def texts_by_a_network(address: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = ["ask", "about", "novel", "samples", "of", "a", "pool", "that", "nobody", "has", "named"]
    rows = [{"text": " ".join(rng.choice(words, rng.integers(1, 30))), "label": "xy"[i % 2]} for i in range(90)]
    rows[11]["text"] = None
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = open_source(tmp_path / "t.jsonl")
    with connected(address) as nodes:
        embed(nodes, source, encoder_on(nodes, "all-minilm-l6-v2"), tmp_path / "f", "float32", 16)
    embed_here(source, make("all-minilm-l6-v2"), tmp_path / "g", "float32", 16)
    same_folder(tmp_path / "f", tmp_path / "g")


def test_what_is_new_goes_into_the_same_folder(cluster: TwoNodes, images, slow, tmp_path):
    """Begun by one process and ended by Ray: there is one kind of folder, and one kind of resuming."""
    part = replace(open_source(images), items=open_source(images).items[:30])
    embed_here(part, make(slow), tmp_path / "f", "float32", 10)
    embed_here(part, make(slow), tmp_path / "g", "float32", 10)
    with connected(cluster.address) as nodes:
        told = embed(nodes, open_source(images), encoder_on(nodes, slow), tmp_path / "f", batch=10)
    assert told.reused == 28
    embed_here(open_source(images), make(slow), tmp_path / "g", batch=10)
    same_folder(tmp_path / "f", tmp_path / "g")


def test_streams(cluster: TwoNodes, whole, tmp_path):
    told = []
    with connected(cluster.address) as nodes:
        assert run(nodes, STREAMS, tmp_path / "r", progress=told.append) == [tmp_path / "r"]
        same_results(tmp_path / "r", whole)
        assert [now.done for now in told] == list(range(9))
        before = (tmp_path / "r" / "results.jsonl").read_bytes()
        run(nodes, STREAMS, tmp_path / "r")
        assert (tmp_path / "r" / "results.jsonl").read_bytes() == before
    a_stream_that_fails(cluster.address, tmp_path)


def a_stream_that_fails(address: str, tmp_path: Path) -> None:
    """… and takes no other along."""
    fine = replace(STREAMS, methods=("er-random",), seeds=(0,))
    with (
        connected(address) as nodes,
        pytest.raises(StreamsFailed, match=r"1 of 2 streams failed(.|\n)*below one label"),
    ):
        run(nodes, {"broken": replace(fine, budget=1e-9), "fine": fine}, tmp_path / "two")
    assert len(read_rows(tmp_path / "two" / "fine" / "results.jsonl")) == 2
    assert read_rows(tmp_path / "two" / "broken" / "results.jsonl") == []


def test_errors_of_workers_are_those_of_one_process(cluster: TwoNodes, images, tmp_path):
    with connected(cluster.address) as nodes:
        with pytest.raises(UnknownName, match="no encoder is called 'vgg'"):
            encoder_on(nodes, "vgg")
        with pytest.raises(Unavailable, match="cannot be loaded"):
            encoder_on(nodes, f"python:{tmp_path / 'none.py'}:f")
        encoder = encoder_on(nodes, "efficientnet-lite0")
        (tmp_path / "t.csv").write_text("text\nhello\n")
        with pytest.raises(BadOption, match="holds texts, but efficientnet-lite0 encodes images"):
            embed(nodes, open_source(tmp_path / "t.csv"), encoder, tmp_path / "f")
        with pytest.raises(BadOption, match="Ray says which GPU"):
            run(nodes, replace(STREAMS, device="cuda:1"), tmp_path / "r")
        with pytest.raises(BadOption, match="up to the cluster"):
            run(nodes, STREAMS, tmp_path / "r", share=2)
    assert not (tmp_path / "r").exists()


def test_the_example_of_the_page(cluster: TwoNodes, images, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "ray.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    results, features = tmp_path / "results", tmp_path / "features"
    here = {"auto": cluster.address, "/shared/photos": images, "/shared/photos.features": features}
    for there, path in {**here, "results": results}.items():
        assert f'"{there}"' in example
        example = example.replace(f'"{there}"', repr(str(path)))
    rng = np.random.default_rng(0)
    known = {"agent": Agent.fit(rng.normal(0, 1, (60, 1280)), [0] * 30 + [1] * 30)}
    exec(compile(example, "docs/ray.md", "exec"), known)
    assert set(known["query"].ids) <= set(FeaturesFolder.open(features).ids)
    assert len(FeaturesFolder.open(features)) == 70
    assert len(read_rows(results / "results.jsonl")) == 16


# -- killed


def test_work_that_kills_every_worker_ends(cluster: TwoNodes, images, tmp_path, monkeypatch):
    monkeypatch.setattr("cual.bridges.ray.cluster.BEGUN_AGAIN", 1)
    (tmp_path / "deadly.py").write_text(
        "import os\n"
        "def colours(images):\n"
        "    return [[i.width] for i in images] if images[0].size == (64, 64) else os._exit(1)\n"
    )
    with connected(cluster.address) as nodes:
        encoder = encoder_on(nodes, f"python:{tmp_path / 'deadly.py'}:colours")
        with pytest.raises(WorkersLost, match="lost its workers 2 times"):
            embed(nodes, open_source(images), encoder, tmp_path / "f")


def test_a_node_killed_in_the_middle_of_an_embedding(images, slow, tmp_path):
    source, killed = open_source(images), []
    with two_nodes() as cluster, connected(cluster.address) as nodes:

        def progress(stage, done, total):
            if not killed:
                until(lambda: cluster.works("_write_shard"))
                cluster.kill_second()
                killed.append(done)

        encoder = encoder_on(nodes, slow)
        embed(nodes, source, encoder, tmp_path / "f", batch=8, progress=progress, shard_rows=8)
    assert 0 < killed[0] < len(source)
    embed_here(source, make(slow), tmp_path / "g", batch=8)
    same_folder(tmp_path / "f", tmp_path / "g")


def test_a_node_killed_in_the_middle_of_streams(whole, tmp_path):
    killed = []
    with two_nodes() as cluster, connected(cluster.address) as nodes:

        def progress(now):
            if now.row and not killed:
                until(lambda: cluster.works("_advance"))
                cluster.kill_second()
                killed.append(now.done)

        run(nodes, STREAMS, tmp_path / "r", progress=progress)
    assert killed == [1]
    same_results(tmp_path / "r", whole)


def test_a_killed_driver_goes_on(cluster: TwoNodes, images, slow, whole, tmp_path):
    """Of an embedding and of streams, given on the command line. Workers do not outlive it for long."""
    features, results = tmp_path / "f", tmp_path / "r"
    given = ("embed", images, "-o", features, "--encoder", slow, "--batch", 4, "--ray", cluster.address)
    driver = cual(*given)
    until(lambda: (features / "manifest.json").exists() and len(FeaturesFolder.open(features)) > 8)
    kill(driver)
    before = len(FeaturesFolder.open(features))
    assert before < 70
    until(lambda: not cluster.works("_write_shard"))
    again = cual(*given)
    said = " ".join(again.communicate()[0].split())
    assert again.returncode == 0, said
    assert f"were there {before}" in said
    assert "3 could not be read" in said
    embed_here(open_source(images), make(slow), tmp_path / "g", batch=4)
    same_folder(features, tmp_path / "g")

    options = json.dumps(STREAMS.options["head"])
    given = (
        "bench",
        "run",
        "--features",
        DIGITS,
        "--methods",
        "er-random,cual",
        "--seeds",
        "0,1",
        "--first",
        4,
    )
    given += ("--increment", 3, "--budget", 0.05, "--buffer", 200, "--option", f"head={options}")
    given += ("--out", results, "--ray", cluster.address)
    driver = cual(*given)
    until(lambda: len(read_rows(results / "results.jsonl")) >= 2)
    kill(driver)
    done = numbers(results)
    assert 2 <= len(done) < 8
    again = cual(*given)
    said = again.communicate()[0]
    assert again.returncode == 0, said
    same_results(results, whole)
    assert {key: numbers(results)[key] for key in done} == done


def kill(driver: subprocess.Popen) -> None:
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate()


def test_a_local_ray_ends_with_its_command(images, slow, tmp_path):
    before = set(descendants())
    started = cual("embed", images, "-o", tmp_path / "f", "--encoder", slow, "--ray", "local")
    began: set[int] = set()
    while started.poll() is None:
        began |= set(descendants(started.pid))
        if began:
            break
    said = started.communicate()[0]
    assert started.returncode == 0, said
    assert "70 images" in said
    assert began
    until(lambda: set(descendants()) <= before)
    assert len(FeaturesFolder.open(tmp_path / "f")) == 70


# -- refused


def test_addresses(tmp_path):
    for address in ("", "somewhere", "ray://", "host:99999999", "http://host:1"):
        with pytest.raises(BadOption, match="--ray is local, auto"), connected(address):
            pass
    with pytest.raises(Unavailable, match="nobody listens"), connected(f"127.0.0.1:{free_port()}"):
        pass


def test_a_node_that_sees_other_files_says_so(cluster: TwoNodes, images, tmp_path):
    """As on another machine, where the same names lead elsewhere or nowhere."""
    file = images / "a" / "00.png"
    _check_files(((str(file), file.stat().st_size),))
    for path, size in ((file, 1), (tmp_path / "none.png", 1)):
        with pytest.raises(BadFile, match=r"does not see .*png .* Ray's workers read the images"):
            _check_files(((str(path), size),))
    with connected(cluster.address) as nodes:
        encoder = encoder_on(nodes, "efficientnet-lite0")
    with FeaturesWriter(tmp_path / "f", encoder.dim) as writer:
        lock = (writer.path / LOCK).read_text()
        for folder, words in ((writer.path, lock + "x"), (tmp_path / "none", lock)):
            job = Job(Place.here(), encoder, folder, words, "float32", 8, ())
            with pytest.raises(BadFile, match=r"does not see .* storage that all nodes share"):
                _write_shard(job, 0, list(open_source(images).items[:2]))
    with pytest.raises(Unavailable, match="install the same on every node"):
        replace(Place.here(), version="0").enter(1)
