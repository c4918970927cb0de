"""Small files that unpack to much: what they take is known before it is read, and memory stays bounded."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import limited_worker
from cual.data import npz
from cual.data.files import read
from cual.encoders.sources import Most, open_source
from cual.errors import TooLarge
from cual.serve.jobs import encoding
from cual.serve.jobs.worker import work_until_idle
from cual.serve.rules.records import OPERATOR
from cual.serve.rules.workspace import Workspace
from running import environment
from serving import Service

WIDTH = limited_worker.WIDTH
ROWS = encoding.MOST_LABELLED // WIDTH + 1


def many_rows(folder: Path) -> Path:
    """8 MiB of a table with a letter in each line."""
    path = folder / "many.csv"
    path.write_bytes(b"text,label\n" + b"a,b\n" * 2**21)
    return path


def zeros(folder: Path, **arrays: Any) -> Path:
    """A MiB of arrays that take a GiB."""
    path = folder / "zeros.npz"
    np.savez_compressed(path, X=np.zeros((ROWS, WIDTH), np.float32), **arrays)
    assert path.stat().st_size < 2**21
    return path


def worked(folder: Path, file: Path, kind: str, mib: int) -> tuple[str, str]:
    """What became of a file, where the worker may take so many MiB."""
    command = [sys.executable, limited_worker.__file__, str(folder), str(file), kind, str(mib)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.attacks
def test_a_table_of_very_many_rows_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    for kind in ("pool", "agent"):
        state, error = worked(tmp_path / kind, _in(tmp_path / kind, many_rows), kind, 512)
        assert state == "failed"
        assert "more than 1,000,000 rows" in error


@pytest.mark.attacks
def test_features_that_unpack_to_much_do_not_fill_the_memory(tmp_path: Path) -> None:
    assert worked(tmp_path / "pool", _in(tmp_path / "pool", zeros), "pool", 700) == ["ready", None]


@pytest.mark.attacks
def test_an_agent_is_not_made_of_more_than_fits(tmp_path: Path) -> None:
    def labelled(folder: Path) -> Path:
        return zeros(folder, y=np.arange(ROWS) % 2)

    state, error = worked(tmp_path / "agent", _in(tmp_path / "agent", labelled), "agent", 700)
    assert state == "failed"
    assert "too many to learn from here" in error


def _in(folder: Path, make: Any) -> Path:
    folder.mkdir()
    return make(folder)


# -- the same rules, with small limits -------------------------------------------------------------------------


def added(service: Service, name: str) -> Any:
    w = service.workspace
    pool = w.add_pool("sent", w.home.roots[0] / name, service.agent, OPERATOR).id
    work_until_idle(w)
    return w.pool(pool)


def root(workspace: Workspace) -> Path:
    return workspace.home.roots[0]


def test_limits_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("text\n" + "abcd\n" * 10)
    (tmp_path / "t.jsonl").write_text('{"text": "abcd"}\n' * 10)
    pq.write_table(pa.table({"text": ["abcd"] * 10}), tmp_path / "t.parquet")
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        assert len(open_source(tmp_path / name, most=Most(10, 40))) == 10
        with pytest.raises(TooLarge, match="more than 9 rows"):
            open_source(tmp_path / name, most=Most(rows=9))
        with pytest.raises(TooLarge, match="more than 39 characters"):
            open_source(tmp_path / name, most=Most(characters=39))


def test_limits_of_what_lies_beside_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "f.npz", X=np.ones((3, 2)), ids=np.array(["a" * 1000, "b", "c"]))
    assert read(tmp_path / "f.npz", unpack=tmp_path).ids is not None
    monkeypatch.setattr(npz, "MOST_BESIDE", 10_000)
    with pytest.raises(TooLarge, match="labels and ids take 12,1"):
        read(tmp_path / "f.npz", unpack=tmp_path)
    assert read(tmp_path / "f.npz").ids is not None  # one's own file is read as it is


def test_large_features_are_mapped_and_nothing_stays_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(50, 3)).astype(np.float16))
    np.savez_compressed(tmp_path / "f.npz", X=X, y=np.arange(50))
    monkeypatch.setattr(npz, "_SMALL", 0)
    table = read(tmp_path / "f.npz", unpack=tmp_path)
    assert isinstance(table.X, np.memmap)
    assert np.array_equal(table.X, X)
    assert [path.name for path in tmp_path.iterdir()] == ["f.npz"]


def test_limits_of_pools_and_agents(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    w, world = service.workspace, service.world
    np.savez(root(w) / "f.npz", X=world.pool)
    monkeypatch.setattr(encoding, "MOST_ROWS", len(world.pool) - 1)
    record = added(service, "f.npz")
    assert (record.state, "are too many for one pool" in record.error) == ("failed", True)
    np.savez(root(w) / "l.npz", X=world.X, y=world.y)
    monkeypatch.setattr(encoding, "MOST_LABELLED", world.X.size - 1)
    agent = w.make_agent("sent", root(w) / "l.npz", OPERATOR)
    work_until_idle(w)
    assert "too many to learn from here" in (w.agent(agent.id).error or "")


def test_a_parquet_that_writes_a_value_down_once_is_counted_in_full(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, file = 100_000, root(service.workspace) / "f.parquet"
    pq.write_table(pa.table({f"x{i}": np.zeros(rows, np.float32) for i in range(16)}), file)
    assert file.stat().st_size < 20_000
    monkeypatch.setattr(encoding, "MOST_PARQUET", 16 * rows * 8 - 1)
    record = added(service, "f.parquet")
    assert (record.state, "unpacks to 12,800,000 bytes" in record.error) == ("failed", True)
