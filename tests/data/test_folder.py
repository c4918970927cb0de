"""Features folders: what is written is what is read, whatever happens to the writer."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cual import Agent
from cual.data.files import read
from cual.data.folder import FeaturesFolder, FeaturesWriter, Made, is_features_folder, row_table, write_part
from cual.data.pool import Pool
from cual.errors import (
    BadFeatures,
    BadLabels,
    BadOption,
    DamagedFile,
    DuplicateIds,
    FolderInUse,
    ForeignFile,
    NewerFormat,
    WrongEncoder,
)
from cual.loop.adaptation import Adaptation

MADE = Made("toy@0123456789ab", {"size": 224})


def filled(path, n=10, width=4, shard_rows=4, **options):
    X = np.random.default_rng(0).normal(size=(n, width)).astype(np.float32)
    with FeaturesWriter(path, width, shard_rows=shard_rows, **options) as writer:
        for start in range(0, n, 3):
            rows = range(start, min(n, start + 3))
            writer.append(X[start : start + 3], [f"{i}.jpg" for i in rows], [f"c{i % 2}" for i in rows])
    return X


def test_rows_come_back_as_they_were(tmp_path):
    X = filled(tmp_path / "f", dtype="float32", made=MADE)
    held = FeaturesFolder.open(tmp_path / "f")
    assert [s.rows for s in held.manifest.shards] == [4, 4, 2]
    assert np.array_equal(held.X[:], X)
    assert held.ids == [f"{i}.jpg" for i in range(10)]
    assert held.X.encoder == MADE.fingerprint
    assert held.manifest.made == MADE
    held.verify()
    features = read(tmp_path / "f")
    assert features.labels().tolist() == [f"c{i % 2}" for i in range(10)]
    assert features.encoder == MADE.fingerprint
    assert features.sha256() == type(features)(X, features.y).sha256()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_indexing_is_numpy_s(data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "indexed"
    if not is_features_folder(path):
        filled(path, n=11, dtype="float32")
    X = np.random.default_rng(0).normal(size=(11, 4)).astype(np.float32)
    lazy = FeaturesFolder.open(path).X
    edge = st.none() | st.integers(-13, 13)
    key = data.draw(
        st.builds(slice, edge, edge, st.none() | st.integers(1, 4) | st.integers(-3, -1))
        | st.lists(st.integers(-11, 10))
        | st.lists(st.booleans(), min_size=11, max_size=11)
        | st.integers(-11, 10)
    )
    expected = X[np.array(key, dtype=np.int64)] if key == [] else X[key]
    assert np.array_equal(lazy[key], expected)
    rows = np.array([7, 0, 3])
    assert np.array_equal(lazy.select(rows)[:], X[rows])


@pytest.mark.parametrize("rows", [[0, 2, 1, 3], [4, 4, 6, 7], [3, 2, 1, 0], [1, 5, 3, 7, 2, 6]])
def test_shuffled_rows_of_one_shard_are_not_taken_for_a_stretch(rows, tmp_path):
    """The first and the last of them lie as far apart as in a stretch."""
    X = filled(tmp_path / "f", n=8, dtype="float32")
    assert np.array_equal(FeaturesFolder.open(tmp_path / "f").X[rows], X[rows])


def test_rows_that_are_not_there_are_an_error(tmp_path):
    filled(tmp_path / "f")
    X = FeaturesFolder.open(tmp_path / "f").X
    with pytest.raises(IndexError, match="10 rows"):
        X[[10]]
    with pytest.raises(TypeError, match="whole numbers"):
        X[np.array([0.5])]


def test_appending_later_keeps_what_is_there(tmp_path):
    filled(tmp_path / "f", made=MADE)
    before = FeaturesFolder.open(tmp_path / "f")
    with FeaturesWriter(tmp_path / "f", 4, made=MADE) as writer:
        assert len(writer) == 10
        assert "3.jpg" in writer
        writer.append(np.ones((1, 4)), ["new.jpg"])
        with pytest.raises(DuplicateIds, match=r"3\.jpg"):
            writer.append(np.ones((1, 4)), ["3.jpg"])
        writer.append(np.full((1, 4), 7.0), ["3.jpg"], replace=True)
    after = FeaturesFolder.open(tmp_path / "f")
    assert len(before.X) == 10  # a reader keeps what it opened
    assert before.X[3].tolist() != [7.0] * 4
    assert len(after) == 11
    assert after.X[after.row_of["3.jpg"]].tolist() == [7.0] * 4
    assert after.table().y is None  # not every row has a label
    assert np.array_equal(np.asarray(after.X), after.X[:])


def test_another_encoder_width_or_type_is_refused(tmp_path):
    filled(tmp_path / "f", made=MADE)
    with pytest.raises(WrongEncoder, match=r"toy@0123.*other@1"):
        FeaturesWriter(tmp_path / "f", 4, made=Made("other@1"))
    with pytest.raises(WrongEncoder, match="unknown encoder"):
        FeaturesWriter(tmp_path / "f", 4)
    with pytest.raises(BadFeatures, match="4 wide, not 5"):
        FeaturesWriter(tmp_path / "f", 5, made=MADE)
    with pytest.raises(BadOption, match="float16 features"):
        FeaturesWriter(tmp_path / "f", 4, "float32", MADE)
    with pytest.raises(BadOption, match="int8"):
        FeaturesWriter(tmp_path / "g", 4, "int8")
    with FeaturesWriter(tmp_path / "g", 4) as writer:
        with pytest.raises(BadFeatures, match="use float32"):
            writer.append(np.full((1, 4), 1e6), ["a"])
        with pytest.raises(BadFeatures, match="NaN"):
            writer.append(np.full((1, 4), np.nan), ["a"])
        with pytest.raises(BadFeatures, match="4 wide"):
            writer.append(np.ones((1, 3)), ["a"])
    assert len(FeaturesFolder.open(tmp_path / "g")) == 0


@pytest.mark.parametrize(
    ("ids", "labels", "said"),
    [
        ([None], None, "ids are names or whole numbers, not None"),
        ([1.5], None, "not 1.5"),
        ([b"a"], None, "not b'a'"),
        (["a"], [2.5], "labels are names or whole numbers, not 2.5"),
        (["a"], [True], "not True"),
        (["a"], ["x", "y"], "of another number"),
    ],
)
def test_ids_and_labels_are_checked_before_they_are_kept(tmp_path, ids, labels, said):
    with FeaturesWriter(tmp_path / "f", 4) as writer, pytest.raises(BadLabels, match=said):
        writer.append(np.ones((1, 4)), ids, labels)
    assert len(FeaturesFolder.open(tmp_path / "f")) == 0


def test_an_id_given_twice_and_a_bad_row_are_named(tmp_path):
    with FeaturesWriter(tmp_path / "f", 4) as writer:
        with pytest.raises(DuplicateIds, match="'b' is there already, or given twice"):
            writer.append(np.ones((3, 4)), ["a", "b", "b"])
        bad = np.ones((3, 4))
        bad[1, 2] = np.inf
        with pytest.raises(BadFeatures, match="1 of 3 samples are NaN or infinite; the first is 'b'"):
            writer.append(bad, ["a", "b", "c"])


def test_names_that_are_no_text_come_back(tmp_path):
    name = b"caf\xe9".decode(errors="surrogateescape")
    with FeaturesWriter(tmp_path / "f", 4) as writer:
        writer.append(np.ones((1, 4)), [name], ["森"], [name])
    held = FeaturesFolder.open(tmp_path / "f")
    assert (held.ids, held.labels, held.sources) == ([name], ["森"], [name])


def test_samples_without_a_label_are_named(tmp_path):
    with FeaturesWriter(tmp_path / "f", 4) as writer:
        writer.append(np.ones((3, 4)), ["a", "b", "c"], ["x", None, None])
    with pytest.raises(BadLabels, match="2 of 3 samples have no label, the first is 'b'"):
        read(tmp_path / "f").labels()


def test_a_file_in_the_way_is_left_alone(tmp_path):
    (tmp_path / "f").write_text("mine")
    with pytest.raises(ForeignFile, match="is a file"):
        FeaturesWriter(tmp_path / "f", 4)
    assert (tmp_path / "f").read_text() == "mine"


FULL = """
import resource, sys, numpy as np
from cual.errors import BadFile
from cual.data.folder import FeaturesWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
try:
    with FeaturesWriter(sys.argv[1], 64, "float32") as writer:
        for i in range(10):
            writer.append(np.full((20, 64), i), range(20 * i, 20 * i + 20))
            if i < 3:
                writer.flush()
except BadFile as error:
    print(error)
"""


def test_a_full_disk_is_said_once_and_loses_nothing_before_it(tmp_path):
    """As a limit on the size of files is: the last shard is too large for it."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path / "f"], capture_output=True, text=True, check=True
    )
    assert "cannot be written (File too large). The 60 rows that are there are whole" in done.stdout
    held = FeaturesFolder.open(tmp_path / "f")
    held.verify()
    assert held.ids == list(range(60))
    with FeaturesWriter(tmp_path / "f", 64, "float32") as writer:
        writer.append(np.ones((140, 64)), list(range(60, 200)))
    assert len(FeaturesFolder.open(tmp_path / "f")) == 200


def test_a_writer_can_wait_for_another(tmp_path):
    def append(i):
        with FeaturesWriter(tmp_path / "f", 4, wait=True) as writer:
            writer.append(np.full((1, 4), i), [i])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(8)))
    assert sorted(FeaturesFolder.open(tmp_path / "f").ids) == list(range(8))


def test_one_writer_at_a_time_and_readers_do_not_wait(tmp_path):
    with FeaturesWriter(tmp_path / "f", 4) as writer:
        writer.append(np.ones((2, 4)), ["a", "b"])
        writer.flush()
        with pytest.raises(FolderInUse, match=str(os.getpid())):
            FeaturesWriter(tmp_path / "f", 4)
        assert len(FeaturesFolder.open(tmp_path / "f")) == 2
    with FeaturesWriter(tmp_path / "f", 4):
        pass


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"x")
    with pytest.raises(ForeignFile, match=r"photo\.jpg"):
        FeaturesWriter(tmp_path, 4)
    with pytest.raises(ForeignFile, match=r"no manifest\.json"):
        read(tmp_path)


KILLED = """
import sys, numpy as np
from cual.data.folder import FeaturesWriter
with FeaturesWriter(sys.argv[1], 64, shard_rows=8) as writer:
    for i in range(len(writer), 100000):
        writer.append(np.full((1, 64), i % 1000), [i])
        print(i, flush=True)
"""


@pytest.mark.attacks
def test_a_killed_writer_goes_on_and_half_a_shard_is_never_read(tmp_path):
    folder, counts = tmp_path / "f", [0]
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", KILLED, folder], stdout=subprocess.PIPE)
        for _ in range(50 + 7 * len(counts)):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        held = FeaturesFolder.open(folder)
        held.verify()
        assert held.ids == list(range(len(held)))
        assert np.array_equal(held.X[:], np.repeat(np.arange(len(held)) % 1000, 64).reshape(-1, 64))
        counts.append(len(held))
    assert counts == sorted(set(counts))  # each went on where the last one stopped


def test_leftovers_are_not_read_and_are_removed(tmp_path):
    filled(tmp_path)
    (tmp_path / "000003.npy").write_bytes(b"half a sha")
    (tmp_path / ".000003.json.abc").write_bytes(b"{")
    assert len(FeaturesFolder.open(tmp_path)) == 10
    with FeaturesWriter(tmp_path, 4):
        assert sorted(p.name for p in tmp_path.glob("*00003*")) == []


def test_rows_that_another_process_wrote_become_a_shard(tmp_path):
    X = np.arange(24, dtype=np.float16).reshape(6, 4)
    with FeaturesWriter(tmp_path, 4) as writer:
        parts = [write_part(tmp_path, X[s : s + 3], row_table([s, s + 1, s + 2])) for s in (0, 3)]
        write_part(tmp_path, X[:1], row_table([9]))  # of a writer that was killed
        assert len(writer) == 0
        for part in reversed(parts):
            writer.adopt(part)
        assert 3 in writer
        writer.drop_leftovers()
        writer.append(X[:1] + 1, [4], replace=True)
    folder = FeaturesFolder.open(tmp_path)
    folder.verify()
    assert folder.ids == [3, 5, 0, 1, 2, 4]
    assert folder.X[:5].tolist() == X[[3, 5, 0, 1, 2]].tolist()
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def _grow(path, n):
    for i in range(n):
        with FeaturesWriter(path, 4, shard_rows=2) as writer:
            writer.append(np.full((3, 4), i), [f"{i}-{j}" for j in range(3)])


def test_readers_beside_a_writer_see_whole_rows(tmp_path):
    _grow(tmp_path, 1)
    process = multiprocessing.get_context("fork").Process(target=_grow_more, args=(tmp_path, 30))
    process.start()
    seen = 0
    end = time.monotonic() + 20
    while process.is_alive() and time.monotonic() < end:
        held = FeaturesFolder.open(tmp_path)
        assert len(held) >= seen
        seen = len(held)
        assert (held.X[:] == held.X[:][:, :1]).all()
    process.join()
    assert process.exitcode == 0
    assert len(FeaturesFolder.open(tmp_path)) == 3 + 30


def _grow_more(path, n):
    with FeaturesWriter(path, 4, shard_rows=1) as writer:
        for i in range(n):
            writer.append(np.full((1, 4), i), [i])


def test_damage_is_named_and_mended(tmp_path):
    filled(tmp_path)
    with (tmp_path / "000001.npy").open("r+b") as file:
        file.truncate(140)
    with pytest.raises(DamagedFile, match=r"000001\.npy is 140 bytes long"):
        FeaturesFolder.open(tmp_path)
    with FeaturesWriter(tmp_path, 4) as writer:  # whoever embeds again gets rid of what is damaged
        assert len(writer) == 6
        assert "5.jpg" not in writer
    assert len(FeaturesFolder.open(tmp_path)) == 6


def test_changed_bytes_are_found(tmp_path):
    filled(tmp_path)
    with (tmp_path / "000000.npy").open("r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"\x01")
    with pytest.raises(DamagedFile, match=r"000000\.npy is not what was written"):
        FeaturesFolder.open(tmp_path).verify()
    (tmp_path / "000000.json").write_text("{}")
    with pytest.raises(DamagedFile, match=r"000000\.json"):
        FeaturesFolder.open(tmp_path)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"format": 99}, NewerFormat, "update cual"),
        ({"cual": "stew"}, ForeignFile, "not written by cual"),
        ({"shards": 3}, DamagedFile, "damaged"),
        ({"width": -1}, DamagedFile, "-1 wide"),
        ({"dtype": "O"}, DamagedFile, "'O'"),
        ({"shards": [{"name": "000000", "rows": 0, "bytes": 9}]}, DamagedFile, "0 rows"),
        ({"shards": [{"name": 7, "rows": 1, "bytes": 9}]}, DamagedFile, "damaged"),
    ],
)
def test_manifests_are_checked(tmp_path, change, error, said):
    filled(tmp_path)
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(error, match=said):
        FeaturesFolder.open(tmp_path)


def test_a_manifest_cannot_lead_out_of_its_folder(tmp_path):
    filled(tmp_path / "f")
    file = tmp_path / "f" / "manifest.json"
    held = json.loads(file.read_text())
    held["shards"][0]["name"] = "../f/000000"
    file.write_text(json.dumps(held))
    with pytest.raises(DamagedFile, match="names a shard"):
        FeaturesFolder.open(tmp_path / "f")


# -- with an agent


@pytest.fixture
def world(tmp_path):
    """Three classes in 8 dimensions; a pool of all three in a folder, an agent of the first two."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (60, 8)) + 8 * np.eye(8)[c] for c in range(3)]).astype(np.float16)
    with FeaturesWriter(tmp_path / "pool", 8, made=MADE, shard_rows=50) as writer:
        writer.append(X, [f"{i}" for i in range(180)])
    options = {"method": "cual", "head_options": {"hidden": 32}, "buffer": 100}
    agent = Agent.fit(X[:120], ["a"] * 60 + ["b"] * 60, encoder=MADE.fingerprint, **options)
    return agent, X, FeaturesFolder.open(tmp_path / "pool")


def adapted(task, saved: Path | None = None):
    while query := task.ask():
        task.tell(query.id, {i: "abc"[int(i) // 60] for i in query.ids})
        if saved is not None:
            task.save(saved)
            task = Adaptation.load(saved)
    return task.finish()


def test_a_folder_is_a_pool_like_any_other(world, tmp_path):
    agent, X, folder = world
    in_memory = adapted(agent.adapt(Pool(X, folder.ids), 12))
    on_disk = adapted(agent.adapt(Pool(folder.X, folder.ids), 12))
    resumed = adapted(agent.adapt(Pool(folder.X, folder.ids), 12), saved=tmp_path / "task")
    assert "c" in in_memory.classes_
    for other in (on_disk, resumed):
        assert np.array_equal(in_memory.predict_proba(X), other.predict_proba(X))
    assert (tmp_path / "task" / "pool.safetensors").stat().st_size < X.nbytes + 2000  # it only points there
    assert on_disk.encoder == MADE.fingerprint
    on_disk.save(tmp_path / "a.agent")
    assert Agent.load(tmp_path / "a.agent").encoder == MADE.fingerprint


def test_a_saved_pool_notices_that_its_folder_changed(world, tmp_path):
    agent, _, folder = world
    task = agent.adapt(Pool(folder.X.select(np.arange(100, 180)), folder.ids[100:]), 12)
    task.save(tmp_path / "task")
    with FeaturesWriter(folder.path, 8, made=MADE) as writer:
        writer.append(np.ones((1, 8)), ["more"])
    assert np.array_equal(Adaptation.load(tmp_path / "task").pool.data[:], folder.X[100:])
    for file in folder.path.iterdir():
        file.unlink()
    with FeaturesWriter(folder.path, 8, made=MADE) as writer:
        writer.append(np.ones((180, 8)), [f"{i}" for i in range(180)])
    with pytest.raises(DamagedFile, match="no longer holds"):
        Adaptation.load(tmp_path / "task")


def test_features_of_another_encoder_are_refused(world, tmp_path):
    agent, X, _ = world
    with FeaturesWriter(tmp_path / "other", 8, made=Made("other@1")) as writer:
        writer.append(X, list(range(180)))
    other = FeaturesFolder.open(tmp_path / "other").X
    for use in (agent.predict, agent.predict_proba, agent.novelty, lambda X: agent.adapt(X, 10)):
        with pytest.raises(WrongEncoder, match=r"other@1.*toy@0123"):
            use(other)
    assert Agent.fit(other[:120], ["a"] * 60 + ["b"] * 60, "cual", head_options={"hidden": 8}).encoder is None
    fitted = Agent.fit(FeaturesFolder.open(tmp_path / "other").X, ["a"] * 90 + ["b"] * 90)
    assert fitted.encoder == "other@1"
