"""Backup and restore: everything comes back, into either database, and a hostile file gets nowhere."""

import hashlib
import json
import resource
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from PIL import Image

import postgres_server
from commands import refused
from cual import Pool
from cual.data.folder import FeaturesWriter
from cual.errors import BadFile, Conflict, CualError, DamagedFile, ForeignFile, NewerFormat, TooLarge
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.records import OPERATOR
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import migrations, restoring
from cual.serve.storage import tables as db
from cual.serve.storage.database import Database
from cual.serve.storage.restoring import Limits
from serving import Service, make_service
from worlds import World, make_world


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def target_url(request: pytest.FixtureRequest) -> str | None:
    """Where to restore to: the other kind of database works as well."""
    if request.param == "sqlite":
        return None
    return postgres_server.new_database(request.getfixturevalue("postgres"))


def test_work_goes_on_in_the_restored_workspace(
    service: Service, tmp_path: Path, target_url: str | None
) -> None:
    w = service.workspace
    adaptation = service.start(budget=20)
    service.answer_round(adaptation)
    service.work()
    one = w.lend(adaptation, service.bob, 1)[0]
    w.answer(adaptation, service.bob, {one.id: "owl"})
    file = w.backup(tmp_path / "out" / "all.backup", OPERATOR)
    assert file.stat().st_mode & 0o077 == 0, "it holds what people said"
    service.answer_all(adaptation)
    service.finish(adaptation)

    other = Workspace.restore(file, tmp_path / "restored", target_url)
    assert other.home.id != w.home.id, "it is another one"
    assert other.question(one.id).answers == w.question(one.id).answers
    assert other.picture(service.pool, 3).read_bytes() == w.picture(service.pool, 3).read_bytes()
    again = Service(other, service.world, service.agent, service.pool, service.ann, service.bob, service.eve)
    again.work()
    again.answer_all(adaptation)
    assert again.finish(adaptation).state == "finished"
    assert again.agent_bytes(1) == service.agent_bytes(1)
    assert other.add_agent("new", make_world().agent(), OPERATOR).id == 2, "ids go on where they were"
    other.close()


def test_all_tables_come_back(service: Service, tmp_path: Path, target_url: str | None) -> None:
    w = service.workspace
    adaptation = service.start()
    service.answer_all(adaptation)
    w.review(adaptation, service.ann, {w.pseudo_labels(adaptation)[0]["row"]: "reject"})
    service.finish(adaptation)
    other = Workspace.restore(w.backup(tmp_path / "b", OPERATOR), tmp_path / "restored", target_url)
    for table in db.metadata.sorted_tables:
        if table.name not in ("sessions", "workspace"):
            order = sa.select(table).order_by(*table.columns)
            with w.database.reading() as one, other.database.reading() as two:
                extra = 1 if table is db.audit else 0  # that it was restored
                assert one.execute(order).all() == two.execute(order).all()[: -extra or None]
    assert other.report(adaptation) == w.report(adaptation)
    other.close()


def test_pools_of_every_kind_come_back(workspace: Workspace, world: World, tmp_path: Path) -> None:
    service = make_service(workspace, world)
    with FeaturesWriter(tmp_path / "data" / "folder", 16, "float32") as writer:
        writer.append(world.pool, world.ids)
    service.pool = workspace.add_pool("folder", tmp_path / "data" / "folder", service.agent, OPERATOR).id
    photos = [Image.new("L", (900, 100))] * 2
    seen = workspace.add_pool("seen", Pool(world.pool[:2]), service.agent, OPERATOR, pictures=photos).id
    service.work()
    adaptation = service.start()
    texts = [f"text {i}" for i in range(70)]
    said = workspace.add_pool("said", Pool(world.pool), service.agent, OPERATOR, texts=texts).id
    waiting = workspace.add_pool(
        "waiting", Pool(world.pool), service.agent, OPERATOR, pictures=np.zeros((70, 4, 4), np.uint8)
    ).id
    read = workspace.add_pool("read", tmp_path / "data" / "folder", service.agent, OPERATOR).id
    file = workspace.backup(tmp_path / "b", OPERATOR)
    workspace.close()
    (tmp_path / "data").rename(tmp_path / "gone")
    workspace.folder.rename(tmp_path / "also gone")

    service.workspace = Workspace.restore(file, tmp_path / "restored")
    service.work()
    states = {pool.id: pool.state for pool in service.workspace.pools()}
    assert (states[said], states[waiting], states[read]) == ("ready", "ready", "failed")
    assert service.workspace.text(said, 69) == "text 69"
    assert service.workspace.picture(waiting, 0).exists()
    with Image.open(service.workspace.picture(seen, 1, large=True)) as shown:
        assert shown.size == (900, 100)
    assert "add it again" in (service.workspace.pool(read).error or "")
    service.answer_all(adaptation)
    assert service.finish(adaptation).state == "finished"
    service.workspace.close()


@pytest.mark.attacks
def test_a_backup_while_people_and_workers_go_on(service: Service, tmp_path: Path) -> None:
    w = service.workspace
    adaptation = service.start(budget=20)
    files: list[Path] = []
    over = threading.Event()

    def keep_copying() -> None:
        while not over.is_set():
            files.append(w.backup(tmp_path / f"{len(files)}.backup", OPERATOR))

    copying = threading.Thread(target=keep_copying)
    copying.start()
    service.answer_all(adaptation)
    service.finish(adaptation)
    over.set()
    copying.join()
    assert not list(w.uploads.iterdir())
    for n, file in enumerate(files[:: max(1, len(files) // 4)]):
        other = Workspace.restore(file, tmp_path / f"restored {n}")
        again = Service(
            other, service.world, service.agent, service.pool, service.ann, service.bob, service.eve
        )
        again.work()
        again.answer_all(adaptation)
        if other.adaptation(adaptation).state != "finished":
            again.finish(adaptation)
        assert again.agent_bytes(1) == service.agent_bytes(1)
        other.close()


def test_only_empty_places_are_restored_to(service: Service, tmp_path: Path) -> None:
    file = service.workspace.backup(tmp_path / "b", OPERATOR)
    with pytest.raises(Conflict, match="is not empty"):
        Workspace.restore(file, service.workspace.folder)
    used = f"sqlite:///{tmp_path / 'used.sqlite3'}"
    make_service(Workspace.open(tmp_path / "other", used), make_world())
    with pytest.raises(Conflict, match="database is not empty"):
        Workspace.restore(file, tmp_path / "new", used)
    assert not (tmp_path / "new").exists()


# -- hostile and damaged ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    workspace = Workspace.open(folder / "w")
    make_service(workspace, make_world()).start()
    file = workspace.backup(folder / "good.backup", OPERATOR)
    workspace.close()
    return file


@pytest.fixture
def good(made_once: Path, tmp_path: Path) -> Path:
    return shutil.copy(made_once, tmp_path / "good.backup")


@pytest.mark.parametrize("schema", [4, 9, 10, 11])
def test_a_backup_of_an_older_cual_is_restored(good: Path, tmp_path: Path, schema: int) -> None:
    """Schema 4 had no audit trail; a backup of release 0.1.0, with schema 2, is in `tests/upgrades`."""
    workspace = Workspace.restore(as_of(schema, good), tmp_path / "new")
    (record,) = workspace.adaptations()
    assert record.state == "asking"
    lent = [question.lent_to for question in workspace.questions(record.id)]
    with workspace.database.reading() as connection:
        assert migrations.current(connection) == migrations.newest()
        assert connection.execute(sa.select(db.loans.c.person)).scalars().all() == [1] * (schema < 10)
    assert [name for name in lent if name] == ["ann"] * (schema < 10), (
        "in schema 9 it is in the question itself"
    )
    workspace.close()


def as_of(schema: int, good: Path) -> Path:
    """The backup with only those tables and columns that an older schema has."""
    database = Database(f"sqlite:///{good.with_name('older.sqlite3')}")
    migrations.migrate(database, schema)
    members: dict[str, str | None] = {
        "manifest.json": json.dumps({"cual": "backup", "format": 1, "schema": schema})
    }
    with database.reading() as connection, zipfile.ZipFile(good) as packed:
        inspector = sa.inspect(connection)
        for name in db.metadata.tables:
            member = f"tables/{name}.jsonl"
            if member not in packed.namelist():
                continue
            if not inspector.has_table(name):
                members[member] = None
                continue
            columns = {column["name"] for column in inspector.get_columns(name)}
            rows = [json.loads(line) for line in packed.read(member).splitlines()]
            if "lent_to" in columns:  # until schema 11
                rows = [{**row, "lent_to": None, "lent_until": None} for row in rows]
                rows[0] |= {"lent_to": 1, "lent_until": 4e9}
            kept = [{key: value for key, value in row.items() if key in columns} for row in rows]
            members[member] = "".join(json.dumps(row) + "\n" for row in kept)
    database.close()
    return changed(good, **members)


def test_a_backup_with_a_table_that_its_schema_does_not_have_is_refused(good: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(good) as packed:
        audit = packed.read("tables/audit.jsonl")
    file = changed(as_of(4, good).rename(tmp_path / "older.backup"), **{"tables/audit.jsonl": audit})
    with pytest.raises(DamagedFile, match="newer than the backup says"):
        Workspace.restore(file, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("schema", [2, None])
def test_tables_that_hold_nothing_are_made_anew(good: Path, tmp_path: Path, schema: int | None) -> None:
    url = f"sqlite:///{tmp_path / 'there.sqlite3'}"
    migrations.migrate(Database(url), schema)
    workspace = Workspace.restore(good, tmp_path / "new", url)
    assert len(workspace.adaptations()) == 1
    workspace.close()


def changed(good: Path, **members: bytes | str | None) -> Path:
    """The backup with members replaced, added or (None) left out, and without checksums, as before."""
    file = good.with_name("changed.backup")
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            if name == "manifest.json" and name not in members:
                manifest = json.loads(source.read(name))
                manifest.pop("sums", None)
                target.writestr(name, json.dumps(manifest))
            elif name not in members and name != "SHA256SUMS":
                target.writestr(name, source.read(name))
        for name, data in members.items():
            if data is not None:
                target.writestr(name, data)
    return file


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "files/../../outside",
        "/etc/outside",
        "files//etc/outside",
        "files/agents/1/../../../outside",
        "files/agents/1/0.agent/../../../../outside",
        "files/pools/1/source/../../../../outside",
        "files/pools/1/source/a/./b",
        "files/pools/1/source/a\\..\\b",
        "files/pools/1/pictures/0.html",
        "files/cual.sqlite3",
        "files/agents/x/0.agent",
        "tables/sqlite_master.jsonl",
        "tables/sessions.jsonl",
        "files/adaptations/1/1-1/agent.pkl",
        "files/pools/1/",
        "files/workspace.json/",
    ],
)
def test_no_name_leads_out(good: Path, tmp_path: Path, name: str) -> None:
    before = {p for p in tmp_path.rglob("*") if "changed" not in p.name}
    with pytest.raises(BadFile, match="which no workspace has"):
        Workspace.restore(changed(good, **{name: b"x"}), tmp_path / "new")
    assert {p for p in tmp_path.rglob("*") if "changed" not in p.name} == before


def test_links_are_refused(good: Path, tmp_path: Path) -> None:
    file = good.with_name("changed.backup")
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(file, "w") as target:
        for name in source.namelist():
            member = zipfile.ZipInfo(name)
            if name == "files/pools/1/pictures/0.webp":
                member.external_attr = 0o120777 << 16
                target.writestr(member, "/etc/passwd")
            else:
                target.writestr(name, source.read(name))
    with pytest.raises(BadFile, match="no workspace has"):
        Workspace.restore(file, tmp_path / "new")


def test_a_row_that_names_a_path_is_refused(service: Service, tmp_path: Path) -> None:
    service.start()
    file = service.workspace.backup(tmp_path / "b", OPERATOR)
    with zipfile.ZipFile(file) as held:
        row = json.loads(held.read("tables/adaptations.jsonl"))
    row["folder"] = "../../../etc"
    with pytest.raises(DamagedFile, match="which cannot be"):
        Workspace.restore(
            changed(file, **{"tables/adaptations.jsonl": json.dumps(row) + "\n"}), tmp_path / "new"
        )


def test_sizes_are_limited(good: Path, tmp_path: Path) -> None:
    with pytest.raises(TooLarge, match="would unpack to"):
        restoring.restore(good, tmp_path / "new", limits=Limits(most_bytes=1000))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"manifest.json": None}, ForeignFile),
        ({"manifest.json": b"{}"}, ForeignFile),
        ({"manifest.json": b"not json"}, DamagedFile),
        ({"manifest.json": b'{"cual": "backup", "format": 2, "schema": 1}'}, NewerFormat),
        ({"manifest.json": b'{"cual": "backup", "format": 1, "schema": 99}'}, NewerFormat),
        ({"tables/people.jsonl": b"[1]\n"}, DamagedFile),
        ({"tables/people.jsonl": b'{"id": 1}\n'}, DamagedFile),
        ({"tables/people.jsonl": b"no json\n"}, DamagedFile),
        ({"tables/people.jsonl": b""}, DamagedFile),
        ({"tables/jobs.jsonl": b""}, None),
    ],
)
def test_damaged_backups_leave_nothing_behind(
    good: Path, tmp_path: Path, members: dict[str, bytes], error: type[CualError] | None
) -> None:
    file = changed(good, **members)
    if error is None:
        Workspace.restore(file, tmp_path / "new").close()
        return
    with pytest.raises(error):
        Workspace.restore(file, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("keep", [0, 100, 0.5, 0.99])
def test_cut_off_backups_leave_nothing_behind(good: Path, tmp_path: Path, keep: float) -> None:
    data = good.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(data[: keep if keep > 1 else int(keep * len(data))])
    with pytest.raises(DamagedFile):
        Workspace.restore(cut, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_flipped_bit_is_noticed(good: Path, tmp_path: Path) -> None:
    data = bytearray(good.read_bytes())
    for place in range(200, len(data) - 200, len(data) // 40):
        data[place] ^= 0x10
        (tmp_path / "flipped").write_bytes(data)
        try:
            Workspace.restore(tmp_path / "flipped", tmp_path / "new").close()
        except CualError:
            assert not (tmp_path / "new").exists()
        else:
            shutil.rmtree(tmp_path / "new")
        data[place] ^= 0x10


# -- what was planted ------------------------------------------------------------------------------------------


def planted(good: Path) -> tuple[Path, str]:
    """A backup with an administrator's token of ten years in it, and that."""
    secret = "cual_planted"
    token = {
        "id": 9,
        "person": 1,
        "hash": hashlib.sha256(secret.encode()).hexdigest(),
        "kind": "api",
        "note": "",
    }
    token |= {"created_at": 1.0, "expires_at": time.time() + 3650 * 86400, "used_at": None, "revoked_at": None}
    return changed(good, **{"tables/tokens.jsonl": json.dumps(token) + "\n"}), secret


def test_tokens_of_a_backup_are_dropped_unless_they_are_asked_for(good: Path, tmp_path: Path) -> None:
    file, secret = planted(good)
    restored = Workspace.restore(file, tmp_path / "new")
    assert Accounts(restored.database).by_token(secret) is None
    with restored.database.reading() as connection:
        for table in (db.tokens, db.sessions):
            assert not connection.execute(sa.select(table)).all()
    restored.close()
    kept = Workspace.restore(file, tmp_path / "kept", keep_tokens=True)
    visitor = Accounts(kept.database).by_token(secret)
    assert visitor is not None
    assert visitor.person.name == "ann"
    kept.close()
    assert "goes with --restore" in refused("serve", tmp_path / "kept", "--keep-tokens")


@pytest.mark.more
def test_a_row_without_end_is_refused_without_taking_memory(good: Path, tmp_path: Path) -> None:
    """A line that packs well: here of 600 MiB, in the attack of 3 GiB."""
    file = changed(good, **{"tables/loans.jsonl": None})
    piece = b" " * 2**20
    with (
        zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as packed,
        packed.open("tables/loans.jsonl", "w") as line,
    ):
        line.write(b'{"question": "')
        for _ in range(600):
            line.write(piece)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TooLarge, match="loans has more than 134,217,728 bytes"):
        Workspace.restore(file, tmp_path / "new")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 450 * 2**10, f"{grown / 2**10:.0f} MiB"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"[" * 2_000_000, TooLarge),
        (b'{"a": [' + b"{}," * 1_100_000 + b"{}]}", TooLarge),
        (b"[" * 500_000, DamagedFile),
        (b'{"id": ' + b"9" * 5000 + b"}", DamagedFile),
        (b'{"id": 1, "created_at": 1e300}', DamagedFile),
    ],
)
def test_rows_that_would_grow_are_refused(
    good: Path, tmp_path: Path, line: bytes, error: type[CualError]
) -> None:
    with pytest.raises(error):
        Workspace.restore(changed(good, **{"tables/people.jsonl": line + b"\n"}), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_moment_that_there_is_not_is_refused(good: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(good) as packed:
        rows = [json.loads(line) for line in packed.read("tables/people.jsonl").splitlines()]
    rows[0]["created_at"] = 1e300
    text = "".join(json.dumps(row) + "\n" for row in rows)
    with pytest.raises(DamagedFile, match="people cannot be read"):
        Workspace.restore(changed(good, **{"tables/people.jsonl": text}), tmp_path / "new")


@pytest.mark.attacks
def test_a_restore_that_is_killed_leaves_no_workspace(good: Path, tmp_path: Path) -> None:
    """Whatever is there then, it is not served, and the next restore makes room for itself."""
    code = (
        "import os\n"
        "from cual.serve.rules.workspace import Workspace\n"
        "from cual.serve.storage import restoring\n"
        "restoring._check_whole = lambda *_: os._exit(9)\n"
        f"Workspace.restore({str(good)!r}, {str(tmp_path / 'new')!r})\n"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 9
    assert [path.name for path in (tmp_path / "new").iterdir()] == [restoring.STAGING]
    restored = Workspace.restore(good, tmp_path / "new")
    assert len(restored.adaptations()) == 1
    assert not (tmp_path / "new" / restoring.STAGING).exists()
    restored.close()


def test_a_restore_that_fails_leaves_the_database_empty(
    good: Path, tmp_path: Path, target_url: str | None
) -> None:
    url = target_url or f"sqlite:///{tmp_path / 'there.sqlite3'}"
    with zipfile.ZipFile(good) as packed:
        rows = [json.loads(line) for line in packed.read("tables/versions.jsonl").splitlines()]
    text = "".join(json.dumps({**row, "number": 7}) + "\n" for row in rows)  # whose file there is not
    with pytest.raises(DamagedFile, match=r"7\.agent"):
        Workspace.restore(changed(good, **{"tables/versions.jsonl": text}), tmp_path / "new", url)
    assert not (tmp_path / "new").exists()
    Workspace.restore(good, tmp_path / "new", url).close()
