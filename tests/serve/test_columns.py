"""Columns that came with a pool: kept by row, told with questions, never labels, never seen by the learner."""

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cual import Client, Pool
from cual.cli import app as command_line
from cual.data.folder import FeaturesWriter
from cual.errors import BadFile, BadOption, NotFound
from cual.export import COLUMNS, formats
from cual.serve.jobs import preparing
from cual.serve.jobs.worker import Worker
from cual.serve.rules import pool_columns
from cual.serve.rules.records import OPERATOR, PoolRecord, Role
from cual.serve.rules.sources import TableColumns
from cual.serve.rules.workspace import Workspace
from serve.test_client import admin, here, url  # noqa: F401
from serve.test_exports import read
from serve.test_pools import _tiny, agent_of, prepared  # noqa: F401
from serving import Service
from visiting import Site

EVIL = "=HYPERLINK(1)"


def features(service: Service, folder: Path, **arrays: Any) -> Path:
    world = service.world
    np.savez(folder / "x.npz", X=world.pool, ids=np.array(world.ids), **arrays)
    return folder / "x.npz"


def with_pool(service: Service, source: Path | Pool, **more: Any) -> PoolRecord:
    record = prepared(service.workspace, "with columns", source, service.agent, **more)
    service.pool = record.id
    return record


def test_arrays_of_a_features_file_are_kept_by_row(service: Service, tmp_path: Path) -> None:
    n = len(service.world.ids)
    file = features(
        service,
        tmp_path / "data",
        colour=np.array([f"c{i}" for i in range(n)]),
        price=np.arange(n) / 2,
        y=np.zeros(n, int),
        Label=np.array(["cat"] * n),
    )
    record = with_pool(service, file)
    assert (record.state, record.kind, record.columns) == ("ready", "features", ["colour", "price"])
    assert [(note.column, note.why) for note in record.column_notes] == [("Label", "labels")]
    assert "labels" in record.column_notes[0].text
    w = service.workspace
    assert w.columns(record.id, [3, 0]) == {
        3: {"colour": "c3", "price": 1.5},
        0: {"colour": "c0", "price": 0.0},
    }
    assert w.columns(record.id, [-1, n]) == {-1: {}, n: {}}
    for pool, row in ((record.id, n), (99, 0), (1, 0)):
        with pytest.raises(NotFound):
            w.columns_of(pool, row)
    kept = b"".join(file.read_bytes() for file in w.home.pool_folder(record.id).glob("columns.*"))
    assert b"cat" not in kept, "what may be a label is not even kept"


def test_the_learner_is_the_same_with_and_without_columns(service: Service, tmp_path: Path) -> None:
    n = len(service.world.ids)
    asked: list[Any] = []
    for arrays in ({}, {"noise": np.random.default_rng(0).normal(size=n), "said": np.array(["x"] * n)}):
        with_pool(service, features(service, tmp_path / "data", **arrays))
        task = service.start()
        asked.append([(q.sample, q.score, q.suggestion) for q in service.workspace.questions(task)])
    assert asked[0] == asked[1]


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl.gz", "x.parquet"])
def test_columns_of_a_table_of_text(workspace: Workspace, tmp_path: Path, name: str) -> None:
    rows = [{"id": f"r{i}", "text": f"text{'a' * i}", "label": "secret", "who": f"w{i}"} for i in range(5)]
    rows[2]["text"] = None  # type: ignore[assignment]  # it is left out: the others keep their own columns
    file = tmp_path / "data" / name
    if name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(rows), file)
    elif ".jsonl" in name:
        file.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    else:
        rows[2]["text"] = "two"  # all cells of a CSV are text
        with file.open("w", newline="") as opened:
            writer = csv.DictWriter(opened, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    record = prepared(workspace, "said", file, agent_of(workspace, "text"))
    left = [row for row in rows if row["text"] is not None]
    assert (record.state, record.size, record.columns) == ("ready", len(left), ["who"])
    told = workspace.columns(record.id, range(record.size))
    assert [told[i] for i in range(record.size)] == [{"who": row["who"]} for row in left]
    assert [workspace.text(record.id, i) for i in range(record.size)] == [row["text"] for row in left]


def test_columns_are_chosen_by_name(workspace: Workspace, tmp_path: Path) -> None:
    agent, file = agent_of(workspace, "text"), tmp_path / "data" / "x.csv"
    file.write_text("text,a,b,class\naeiou,1,2,cat\nou,3,4,dog\n")
    assert prepared(workspace, "b", file, agent, shown=["b"]).columns == ["b"]
    assert prepared(workspace, "none", file, agent, shown=[]).columns == []
    assert prepared(workspace, "said", file, agent, columns=TableColumns(text="a")).columns == ["text", "b"]
    before = len(workspace.pools())
    for wanted, error in (
        (["nope"], BadFile),
        (["class"], BadOption),
        (["text"], BadOption),
        (["a"] * 2, BadOption),
        ([f"c{i}" for i in range(21)], BadOption),
        ({"a": [1, 2]}, BadOption),
    ):
        with pytest.raises(error):
            workspace.add_pool("x", file, agent, OPERATOR, shown=wanted)
    assert len(workspace.pools()) == before, "refused at once"


def test_what_has_no_columns_says_so_when_they_are_named(service: Service, tmp_path: Path) -> None:
    with FeaturesWriter(tmp_path / "data" / "folder", 16, "float32") as writer:
        writer.append(service.world.pool, service.world.ids)
    np.save(tmp_path / "data" / "x.npy", service.world.pool)
    for name in ("folder", "x.npy"):
        assert with_pool(service, tmp_path / "data" / name).columns == []
        record = with_pool(service, tmp_path / "data" / name, shown=["colour"])
        assert record.state == "failed"
        assert "has no column 'colour'" in (record.error or "")


def test_columns_of_a_pool_in_memory(service: Service) -> None:
    n = len(service.world.ids)
    pool = Pool(service.world.pool, service.world.ids)
    shown = {"colour": ["x" * 501] + [None] * (n - 1), "count": np.arange(n)}
    record = service.workspace.add_pool("given", pool, service.agent, OPERATOR, shown=shown)
    assert record.columns == ["colour", "count"]
    service.work()
    assert service.workspace.columns(record.id, [0, 1]) == {
        0: {"colour": "x" * 499 + "…", "count": 0},
        1: {"colour": None, "count": 1},
    }
    assert [note.why for note in service.workspace.pool(record.id).column_notes] == ["cut"]
    for wrong in ({"colour": ["red"]}, {"label": ["a"] * n}, ["colour"], {"a\nb": ["x"] * n}):
        with pytest.raises(BadOption):
            service.workspace.add_pool("x", pool, service.agent, OPERATOR, shown=wrong)


def test_a_killed_job_goes_on_to_the_same_columns(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = len(service.world.ids)
    file = features(service, tmp_path / "data", colour=np.array([f"c{i}" for i in range(n)]))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    record = service.workspace.add_pool("x", file, service.agent, OPERATOR)
    with monkeypatch.context() as patch:
        patch.setattr(preparing, "_write_map", killed)  # the columns are there, the database knows nothing yet
        with pytest.raises(KeyboardInterrupt):
            service.work()
    assert service.workspace.pool(record.id).columns == []
    with service.workspace.database.writing() as connection:
        from cual.serve.storage.restoring import _begin_again

        _begin_again(connection, keep_tokens=True)
    service.work()
    assert service.workspace.pool(record.id).columns == ["colour"]
    assert service.workspace.columns_of(record.id, n - 1) == {"colour": f"c{n - 1}"}


def test_backup_restore_and_deletion(service: Service, tmp_path: Path) -> None:
    n, w = len(service.world.ids), service.workspace
    pool = with_pool(service, features(service, tmp_path / "data", colour=np.array(["red"] * n))).id
    given = Pool(service.world.pool, service.world.ids)
    waiting = w.add_pool("waiting", given, service.agent, OPERATOR, shown={"count": list(range(n))}).id
    other = Workspace.restore(w.backup(tmp_path / "b", OPERATOR), tmp_path / "restored")
    Worker(other).run_until_idle()
    assert other.pool(pool).columns == ["colour"]
    assert other.columns_of(pool, 5) == {"colour": "red"}
    assert (other.pool(waiting).state, other.columns_of(waiting, 5)) == ("ready", {"count": 5})
    other.close()
    service.work()
    w.delete_pool(waiting, OPERATOR)
    assert not w.home.pool_folder(waiting).exists()
    task = service.start()
    service.answer_all(task)
    service.finish(task)
    w.delete_pool(pool, OPERATOR)
    assert not w.home.pool_folder(pool).exists()
    assert w.columns(pool, [0]) == {0: {}}
    assert list(w.export(OPERATOR, adaptation=task, columns=True).cells([])) == []


def test_what_a_strange_backup_holds_is_not_shown(service: Service, tmp_path: Path) -> None:
    n = len(service.world.ids)
    pool = with_pool(service, features(service, tmp_path / "data", a=np.arange(n), b=np.arange(n))).id
    file = service.workspace.home.pool_folder(pool) / pool_columns.FILE
    file.write_bytes(file.read_bytes().replace(b"[0, 0]", b"[{},1]"))
    (file.parent / "SHA256SUMS").unlink()  # whoever makes a backup up can leave it out, or make it up, too
    assert service.workspace.columns_of(pool, 0) == {"a": None, "b": 1}


# -- through the API and the client ----------------------------------------------------------------------------


def test_questions_tell_the_columns_of_their_samples(here: Site, url: str, admin: Client) -> None:  # noqa: F811
    world, n = here.service.world, len(here.service.world.ids)
    columns = {"file": [f"scan{i}" for i in range(n)], "price/kg": [None, *range(1, n)]}
    pool = admin.add_pool("far", here.service.agent, X=world.pool, ids=world.ids, columns=columns)
    assert pool.columns == ("file", "price/kg")
    task = admin.start(here.service.agent, pool, 8)
    query = task.ask()
    assert query is not None
    expected = [{"file": f"scan{row}", "price/kg": str(row or "")} for row in query.rows]
    assert list(query.columns) == expected
    assert admin.columns(pool, query.rows[0]) == expected[0]
    client = here.bearer(Role.reader)
    (question, *_) = client.get(f"/api/adaptations/{task.id}/questions").json()
    assert question["columns"]["file"] == f"scan{question['row']}"
    assert client.get(f"/api/pools/{pool.id}/columns/{n}").status_code == 404
    assert client.get("/api/pools/1/columns/0").status_code == 404
    while query := task.ask():
        task.tell(query.id, {sample: world.truth[sample] for sample in query.ids})
    believed = task.pseudo_labels()
    assert believed[0]["columns"]["file"] == f"scan{believed[0]['row']}"


def test_forms_and_paths_name_columns(here: Site, tmp_path: Path) -> None:  # noqa: F811
    n, client = len(here.service.world.ids), here.bearer()
    file = features(here.service, tmp_path / "data", a=np.arange(n), b=np.arange(n))
    form, files = {"name": "x", "agent": "1"}, [("files", ("x.npz", file.read_bytes()))]
    for wanted, shown in ((None, ["a", "b"]), ('["b"]', ["b"]), ("[]", []), ("", ["a", "b"])):
        sent = form if wanted is None else {**form, "columns": wanted}
        made = client.post("/api/pools", data=sent, files=files)
        assert made.status_code == 201, made.text
        here.service.work()
        assert client.get(f"/api/pools/{made.json()['id']}").json()["columns"] == shown
    for wrong in ("a, b", '{"a": 1}', "[1]", json.dumps(["a"] * 21), "[" * 5000):
        assert client.post("/api/pools", data={**form, "columns": wrong}, files=files).status_code == 422
    path = {"name": "x", "agent": 1, "path": str(file)}
    made = client.post("/api/pools", json={**path, "columns": ["a"]})
    here.service.work()
    assert client.get(f"/api/pools/{made.json()['id']}").json()["columns"] == ["a"]
    assert client.post("/api/pools", json={**path, "columns": "a"}).status_code == 422


# -- exports ---------------------------------------------------------------------------------------------------


@pytest.fixture
def answered(service: Service, tmp_path: Path) -> int:
    n = len(service.world.ids)
    odd = {"said": np.array([EVIL] * n), "sample": np.arange(n)}
    with_pool(service, features(service, tmp_path / "data", **odd))
    task = service.start()
    service.answer_all(task)
    return task


@pytest.mark.parametrize("name", formats.names())
def test_exports_carry_them_where_they_are_asked_for(
    service: Service, answered: int, tmp_path: Path, name: str
) -> None:
    for columns in (False, True):
        labels = service.workspace.export(service.eve, adaptation=answered, format=name, columns=columns)
        more = ("columns.said", "columns.sample") if columns else ()
        assert labels.names == (*COLUMNS, *more)
        target = tmp_path / f"{columns}{formats[name].suffix}"
        written = formats[name].write(labels, target)
        if name == "datasets":
            import datasets

            rows = [tuple(row.values()) for row in datasets.load_from_disk(str(target))]
        else:
            rows = read(name, target.read_bytes(), tmp_path)
        assert written == len(rows) > 0
        said = f"'{EVIL}" if name == "csv" else EVIL
        for row in rows:
            number = row[COLUMNS.index("row")]
            number = number if name == "jsonl" else str(number)
            assert row[len(COLUMNS) :] == ((said, number) if columns else ())
    trail = service.workspace.audit(service.ann, action="export")
    assert [row.details.get("columns") for row in trail] == [True, None]


def test_exports_through_every_door(here: Site, answered: int, tmp_path: Path) -> None:  # noqa: F811
    client = here.bearer(Role.reader)
    for address in (f"adaptations/{answered}", f"agents/{here.service.agent}"):
        content = client.get(f"/api/{address}/labels", params={"columns": True}).content.decode()
        rows = list(csv.DictReader(io.StringIO(content)))
        assert {row["columns.said"] for row in rows} == {f"'{EVIL}"}
        assert "columns." not in client.get(f"/api/{address}/labels").text
    workspace = here.service.workspace
    address = workspace.database.url.render_as_string(hide_password=False)
    command = ["export", str(workspace.folder), "--database", address, "-o", str(tmp_path / "l.csv")]
    result = CliRunner().invoke(command_line, [*command, "--columns", "--adaptation", str(answered)])
    assert result.exit_code == 0, result.output
    with (tmp_path / "l.csv").open() as file:
        assert {row["columns.said"] for row in csv.DictReader(file)} == {f"'{EVIL}"}


def test_several_pools_have_columns_of_their_own(service: Service, answered: int, tmp_path: Path) -> None:
    n = len(service.world.ids)
    with_pool(service, features(service, tmp_path / "data", other=np.arange(n)))
    second = service.start()
    service.answer_round(second)
    labels = service.workspace.export(service.eve, agent=service.agent, columns=True)
    assert labels.more == ("said", "sample", "other")
    for row, cells in ((row, labels.cells([row])[0]) for row in labels.rows):
        mine = (EVIL, row.row, None) if row.adaptation == answered else (None, None, row.row)
        assert cells[len(COLUMNS) :] == mine
