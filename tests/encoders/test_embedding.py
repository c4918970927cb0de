"""Embedding: everything readable is encoded once, whatever happens in between; the rest is listed."""

import csv
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cual.data.files import read, write
from cual.data.folder import FeaturesFolder
from cual.data.table import Table
from cual.encoders import FunctionEncoder, Setup, features_of
from cual.encoders.embedding import embed
from cual.encoders.sources import Item, Source, open_source
from cual.errors import BadFile, BadImage, BadLabels, BadOption, DuplicateIds, WrongEncoder

TOY = Path(__file__).parent / "toy.py"


def colours(images):
    return [np.asarray(i, float).mean(axis=(0, 1)) / 10 for i in images]


ENCODER = FunctionEncoder(colours, "colours", version="1")


@pytest.fixture
def folder(tmp_path):
    """Ten images of two classes, each of its own colour, and three that cannot be read."""
    for i in range(10):
        file = tmp_path / "images" / "ab"[i % 2] / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (10 * i, 20, 30)).save(file)
    good = (tmp_path / "images" / "a" / "0.png").read_bytes()
    (tmp_path / "images" / "a" / "cut.png").write_bytes(good[:40])
    (tmp_path / "images" / "b" / "empty.jpg").write_bytes(b"")
    (tmp_path / "images" / "b" / "text.gif").write_bytes(b"hello")
    return tmp_path / "images"


def test_everything_readable_is_there_and_the_rest_is_listed(folder, tmp_path):
    seen = []
    outcome = embed(
        open_source(folder),
        ENCODER,
        tmp_path / "f",
        batch=4,
        progress=lambda *told: seen.append(told),
        dtype="float32",
    )
    held = FeaturesFolder.open(tmp_path / "f")
    assert (outcome.encoded, outcome.reused, len(outcome.skipped)) == (10, 0, 3)
    assert outcome.rate > 0
    assert seen[-1] == ("encoding", 13, 13) or seen[-1][1] <= 13
    for sample, label, source, x in zip(held.ids, held.labels, held.sources, held.X[:], strict=True):
        i = int(Path(sample).stem)
        assert label == "ab"[i % 2]
        assert source == str(folder / sample)
        assert x.tolist() == [i, 2, 3]
    rows = list(csv.DictReader((tmp_path / "f" / "skipped.csv").open()))
    assert {Path(r["source"]).name for r in rows} == {"cut.png", "empty.jpg", "text.gif"}
    assert all(r["reason"] for r in rows)
    assert held.manifest.made.fingerprint == ENCODER.fingerprint


def test_only_what_changed_is_encoded_again(folder, tmp_path):
    embed(open_source(folder), ENCODER, tmp_path / "f")
    Image.new("RGB", (9, 9), (200, 0, 0)).save(folder / "a" / "0.png")
    Image.new("RGB", (9, 9), (100, 0, 0)).save(folder / "a" / "cut.png")
    outcome = embed(open_source(folder), ENCODER, tmp_path / "f")
    assert (outcome.encoded, outcome.reused, len(outcome.skipped)) == (2, 9, 2)
    held = FeaturesFolder.open(tmp_path / "f")
    assert held.X[held.row_of["a/0.png"]].tolist() == [20, 0, 0]
    assert len(held) == 11


def test_what_the_source_no_longer_has_is_counted(folder, tmp_path):
    embed(open_source(folder), ENCODER, tmp_path / "f")
    (folder / "a" / "0.png").unlink()
    outcome = embed(open_source(folder), ENCODER, tmp_path / "f")
    assert (outcome.reused, outcome.others) == (9, 1)


def test_an_item_that_cannot_be_prepared_is_skipped(folder, tmp_path):
    class Picky(FunctionEncoder):
        def prepare(self, item):
            if np.asarray(item)[0, 0, 0] == 50:
                raise MemoryError
            return item

    outcome = embed(open_source(folder), Picky(colours, "colours", version="1"), tmp_path / "f")
    assert outcome.encoded == 9
    assert "MemoryError" in {s.reason.partition(":")[0] for s in outcome.skipped}


def test_what_is_skipped_moves_no_other_item_into_another_batch(tmp_path):
    """A network may give other last digits in another batch: what one item is worth must not change others."""
    batches = []

    def encode(texts):
        batches.append(list(texts))
        return [[len(t)] for t in texts]

    def load(i):
        if i in (1, 4, 5):
            raise BadImage("broken")
        return str(i)

    items = [Item(i, lambda _, i=i: load(i)) for i in range(9)]
    encoder = FunctionEncoder(encode, "n", "text", "1")
    batches.clear()
    outcome = embed(Source(Path("x"), "text", items), encoder, tmp_path / "f", batch=2)
    assert batches == [["0"], ["2", "3"], ["6", "7"], ["8"]]
    assert [s.source for s in outcome.skipped] == ["1", "4", "5"]
    assert FeaturesFolder.open(tmp_path / "f").ids == [0, 2, 3, 6, 7, 8]


def test_slow_work_is_made_safe_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr("cual.encoders.embedding.SAFE_AFTER", 0.0)
    seen = []

    def encode(texts):
        if len(texts) == 2:
            seen.append(len(FeaturesFolder.open(tmp_path / "f")) if seen else 0)
        return [[len(t)] for t in texts]

    items = [Item(i, lambda _, i=i: str(i)) for i in range(6)]
    encoder = FunctionEncoder(encode, "n", "text", "1")
    embed(Source(Path("x"), "text", items), encoder, tmp_path / "f", batch=2)
    assert seen == [0, 2, 4]


def test_refusals(folder, tmp_path):
    with pytest.raises(BadOption, match="holds images, but letters encodes texts"):
        embed(
            open_source(folder),
            FunctionEncoder(lambda t: np.ones((len(t), 1)), "letters", "text"),
            tmp_path / "f",
        )
    twice = Source(folder, "image", [open_source(folder).items[0]] * 2)
    with pytest.raises(DuplicateIds, match=r"'a/0\.png' stands in .* rows"):
        embed(twice, ENCODER, tmp_path / "f")
    embed(open_source(folder), ENCODER, tmp_path / "f")
    other = FunctionEncoder(colours, "colours", version="2")
    with pytest.raises(WrongEncoder, match="colours@"):
        embed(open_source(folder), other, tmp_path / "f")


def test_an_encoder_that_fails_loses_nothing_before_it(folder, tmp_path):
    calls = []

    def fails(images):
        calls.append(len(images))
        if len(calls) > 3:
            raise RuntimeError("out of memory")
        return colours(images)

    broken = FunctionEncoder(fails, "colours", version="1")
    with pytest.raises(RuntimeError, match="out of memory"):
        embed(open_source(folder), broken, tmp_path / "f", batch=2)
    assert len(FeaturesFolder.open(tmp_path / "f")) == 4
    assert embed(open_source(folder), ENCODER, tmp_path / "f").encoded == 6


KILLED = """
import sys, time
from cual.encoders import FunctionEncoder
from cual.encoders.embedding import embed
from cual.encoders.sources import Item, Source
def slowly(texts):
    print(len(texts), flush=True)
    time.sleep(0.002)
    return [[len(t)] for t in texts]
items = [Item(i, lambda _, i=i: str(i), stamp="x") for i in range(2000)]
encoder = FunctionEncoder(slowly, "n", "text", "1")
outcome = embed(Source("x", "text", items), encoder, sys.argv[1], batch=4, shard_rows=32)
print("encoded", outcome.encoded, "reused", outcome.reused)
"""


@pytest.mark.attacks
def test_a_killed_embedding_goes_on(tmp_path):
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path / "f"], stdout=subprocess.PIPE)
        for _ in range(60):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    before = len(FeaturesFolder.open(tmp_path / "f"))
    assert before > 200
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "f"], capture_output=True, text=True, check=True
    )
    assert f"encoded {2000 - before} reused {before}" in done.stdout
    held = FeaturesFolder.open(tmp_path / "f")
    held.verify()
    assert sorted(held.ids) == list(range(2000))


def test_interrupting_keeps_what_was_encoded(tmp_path):
    def encode(texts):
        if "9" in texts:
            raise KeyboardInterrupt
        return [[len(t)] for t in texts]

    items = [Item(i, lambda _, i=i: str(i)) for i in range(20)]
    with pytest.raises(KeyboardInterrupt):
        embed(
            Source(Path("x"), "text", items), FunctionEncoder(encode, "n", "text", "1"), tmp_path / "f", batch=2
        )
    assert len(FeaturesFolder.open(tmp_path / "f")) == 8


# -- features of anything


def test_features_of_images_are_kept_and_reused(folder, tmp_path):
    told = []
    for _ in range(2):
        features = features_of(
            folder,
            f"python:{TOY}:brightness",
            tmp_path / "cache",
            report=lambda s, o: told.append((o.encoded, o.reused)),
        )
    assert told == [(10, 0), (0, 10)]
    assert features.X.shape == (10, 4)
    assert set(features.labels()) == {"a", "b"}
    assert features.encoder.startswith(f"python:{TOY}:brightness@")
    (folder / "a" / "0.png").unlink()
    (folder / "a" / "2.png").write_bytes(b"broken now")
    left = features_of(folder, f"python:{TOY}:brightness", tmp_path / "cache")
    assert "a/0.png" not in left.ids
    assert "a/2.png" not in left.ids
    assert len(left) == 8


def test_features_of_text_and_of_features(tmp_path):
    (tmp_path / "t.csv").write_text("text,label\nabc,x\nbcd,y\n")
    features = features_of(tmp_path / "t.csv", "python:toy:letters?kind=text", tmp_path / "cache", Setup())
    assert features.labels().tolist() == ["x", "y"]
    assert features.X[:].tolist() == [[1, 1, 1, 0, 0, 3], [0, 1, 1, 1, 0, 3]]
    write(tmp_path / "f.npz", Table(np.eye(2)))
    assert features_of(tmp_path / "f.npz").X.shape == (2, 2)
    folder = next((tmp_path / "cache").iterdir())
    assert read(folder).sha256() == features_of(folder).sha256()
    with pytest.raises(BadFile, match="no such file"):
        features_of(tmp_path / "missing")


def test_a_corrected_label_is_not_taken_from_the_cache(tmp_path):
    told = []
    for label in "xy":
        (tmp_path / "t.csv").write_text(f"text,label\nabc,{label}\nbcd,z\n")
        features = features_of(
            tmp_path / "t.csv",
            "python:toy:letters?kind=text",
            tmp_path / "cache",
            report=lambda s, o: told.append(o.encoded),
        )
        assert features.labels().tolist() == [label, "z"]
    assert told == [2, 1]


def test_a_missing_label_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("id,text,label\na,abc,x\nb,bcd,\n")
    features = features_of(tmp_path / "t.csv", "python:toy:letters?kind=text", tmp_path / "cache")
    with pytest.raises(BadLabels, match="1 of 2 samples have no label, the first is 'b'"):
        features.labels()


def test_two_at_once_wait_for_each_other(folder, tmp_path):
    def slowly(images):
        time.sleep(0.05)
        return colours(images)

    def get(_):
        return features_of(folder, FunctionEncoder(slowly, "colours", version="1"), tmp_path / "cache")

    with ThreadPoolExecutor(3) as pool:
        assert {len(features) for features in pool.map(get, range(3))} == {10}


def test_nothing_readable_is_an_error(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.png").write_bytes(b"")
    with pytest.raises(BadFile, match="none of its 1 images could be decoded"):
        features_of(tmp_path / "d", ENCODER, tmp_path / "cache")
