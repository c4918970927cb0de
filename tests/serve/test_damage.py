"""Files of a workspace that are gone, damaged or too many: noticed by readers, `cual check` and backups."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from PIL import Image

from commands import cual, refused
from cual import Pool
from cual.data.folder import FeaturesWriter
from cual.errors import DamagedFile, FileLost
from cual.serve.rules.records import OPERATOR
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import checking, migrations
from cual.serve.storage import tables as db
from cual.serve.storage.database import Database
from serving import Service, make_service
from worlds import World, make_world


def flip(file: Path, place: float = 0.7) -> None:
    """One bit of a file, in place, at a share of its length."""
    data = bytearray(file.read_bytes())
    data[int(place * (len(data) - 1))] ^= 1
    file.write_bytes(data)


def url_of(workspace: Workspace) -> list[str]:
    if workspace.database.is_sqlite:
        return []
    return ["--database", workspace.database.url.render_as_string(hide_password=False)]


@pytest.fixture
def full(workspace: Workspace, world: World, tmp_path: Path) -> Service:
    """A workspace with files of every kind: pictures, texts, columns, a features folder, a view and a cache."""
    service = make_service(workspace, world)
    texts = [f"text {i}" for i in range(70)]
    said = Pool(world.pool)
    workspace.add_pool("said", said, service.agent, OPERATOR, texts=texts, shown={"place": texts})
    photos = [Image.new("L", (900, 100), i) for i in (1, 2)]
    workspace.add_pool("seen", Pool(world.pool[:2]), service.agent, OPERATOR, pictures=photos)
    with FeaturesWriter(tmp_path / "data" / "folder", 16, "float32") as writer:
        writer.append(world.pool, world.ids)
    workspace.add_pool("folder", tmp_path / "data" / "folder", service.agent, OPERATOR)
    service.work()
    assert {pool.state for pool in workspace.pools()} == {"ready"}
    service.start()
    return service


GONE = [
    "agents/1/0.agent",
    "pools/1/features.safetensors",
    "pools/1/pictures/3.webp",
    "pools/1/map.safetensors",
    "pools/1/SHA256SUMS",
    "pools/2/texts.jsonl",
    "pools/2/texts.npy",
    "pools/2/columns.jsonl",
    "pools/3/pictures/0-large.webp",
    "pools/4/features/manifest.json",
    "pools/4/features/000000.npy",
    "pools/4/features/000000.json",
    "adaptations/1/*/view.safetensors",
]


def one(service: Service, pattern: str) -> Path:
    (file,) = service.workspace.folder.glob(pattern)
    return file


def test_a_backup_without_a_file_or_with_a_damaged_one_is_refused(full: Service, tmp_path: Path) -> None:
    for pattern in GONE:
        file = one(full, pattern)
        whole = file.read_bytes()
        for damage in (Path.unlink, flip):
            damage(file)
            with pytest.raises(FileLost, match=file.name):
                full.workspace.backup(tmp_path / "b", OPERATOR)
            assert not (tmp_path / "b").exists()
            assert not list(full.workspace.uploads.iterdir())
            file.write_bytes(whole)
    full.workspace.backup(tmp_path / "b", OPERATOR)


def test_the_command_says_what_is_lost(full: Service, tmp_path: Path) -> None:
    folder, url = full.workspace.folder, url_of(full.workspace)
    assert cual("check", folder, *url).exit_code == 0
    for pool in (1, 2):
        shutil.rmtree(full.workspace.home.pool_folder(pool))
    flip(one(full, "agents/1/0.agent"))
    (folder / "pools" / "77").mkdir()
    (folder / "pools" / "77" / "features.safetensors").touch()
    found = cual("check", folder, *url)
    assert found.exit_code == 1
    lines = found.stdout.splitlines()
    for line in (
        "missing      pools/1/features.safetensors",
        "missing      pools/2/texts.jsonl",
        "damaged      agents/1/0.agent",
        "superfluous  pools/77/features.safetensors",
    ):
        assert any(said.startswith(line) for said in lines), (line, lines)
    assert "agents/1/0.agent" in refused("serve", folder, *url, "--backup", tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_every_flipped_bit_is_found(full: Service) -> None:
    """At several places of each file."""
    for pattern in [*GONE, "adaptations/1/*/cache.safetensors"]:
        file = one(full, pattern)
        whole = file.read_bytes()
        for place in (0.0, 0.5, 1.0):
            flip(file, place)
            named = [found.path for found in checking.findings(full.workspace.home) if found.kind == "damaged"]
            assert any(name.endswith((file.name, "SHA256SUMS")) for name in named), (pattern, place, named)
            file.write_bytes(whole)
    assert not list(checking.findings(full.workspace.home))


READS: dict[str, Callable[[Workspace], object]] = {
    "agents/1/0.agent": lambda w: w.load_agent(1),
    "pools/1/pictures/3.webp": lambda w: w.picture(1, 3),
    "pools/3/pictures/0-large.webp": lambda w: w.picture(3, 0, large=True),
    "pools/1/skipped.json": lambda w: w.skipped(1),
    "pools/1/map.safetensors": lambda w: w.map(1),
    "pools/2/texts.jsonl": lambda w: w.text(2, 0),
    "pools/2/texts.npy": lambda w: w.text(2, 0),
    "pools/2/columns.jsonl": lambda w: w.columns_of(2, 0),
    "adaptations/1/*/view.safetensors": lambda w: w.scores(1),
}


def test_whoever_reads_a_damaged_file_is_told(full: Service) -> None:
    for pattern, read in READS.items():
        file = one(full, pattern)
        whole = file.read_bytes()
        if file.name == "skipped.json":
            file.write_bytes(b'[{"source": "x", "reason": "y"}]')
        else:
            flip(file)
        w = Workspace.open(full.workspace.folder, *url_of(full.workspace)[1:])
        with pytest.raises(FileLost, match=file.name) as error:
            read(w)
        assert str(w.folder) not in str(error.value), "where it lies is nobody's business"
        file.write_bytes(whole)
        read(w)
        w.close()


def test_no_adaptation_begins_on_damaged_features(full: Service) -> None:
    for pattern in ("pools/1/features.safetensors", "pools/4/features/000000.npy"):
        flip(one(full, pattern))
        started = full.workspace.start(full.agent, int(pattern.split("/")[1]), 8, full.ann)
        full.work()
        record = full.workspace.adaptation(started.id)
        assert record.state == "failed"
        assert "not what was written" in (record.error or "")


def test_what_failed_and_can_be_tried_again_is_not_superfluous(full: Service, tmp_path: Path) -> None:
    w = full.workspace
    (tmp_path / "data" / "empty").mkdir()
    pool = w.add_pool("empty", tmp_path / "data" / "empty", full.agent, OPERATOR).id
    full.work()
    assert w.pool(pool).state == "failed"
    (w.home.pool_folder(pool) / "half.npy").touch()
    assert not checking.findings(w.home)


def test_samples_that_were_taken_back_are_not_missing(full: Service, tmp_path: Path) -> None:
    w = full.workspace
    full.answer_all(1)
    full.finish(1)
    sample = next(iter(full.world.ids))
    answered = [q.sample for q in w.questions(1) if q.answered]
    w.forget(full.agent, full.ann, full.pool, answered[:1] or [sample], originals=True, why="privacy")
    full.work()
    assert not list(checking.findings(w.home))
    w.backup(tmp_path / "b", OPERATOR)


# -- backups ---------------------------------------------------------------------------------------------------


def test_a_backup_is_compared_with_what_it_was_made_of(
    full: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that does not keep what was written: the bit flips after the zip was closed."""
    close = zipfile.ZipFile.close

    def careless(self: zipfile.ZipFile) -> None:
        writing, file = self.mode == "w", self.fp
        close(self)
        if writing and file is not None:
            place = 3 * file.seek(0, os.SEEK_END) // 4
            file.seek(place)
            byte = file.read(1)
            file.seek(place)
            file.write(bytes([byte[0] ^ 1]))

    monkeypatch.setattr(zipfile.ZipFile, "close", careless)
    with pytest.raises(DamagedFile, match="backup"):
        full.workspace.backup(tmp_path / "b", OPERATOR)
    assert not (tmp_path / "b").exists()


def test_a_backup_that_lacks_a_file_is_not_restored(full: Service, tmp_path: Path) -> None:
    """As those of earlier releases may: they have no checksums, so nothing else tells."""
    file = full.workspace.backup(tmp_path / "b", OPERATOR)
    for lost in ("files/agents/1/0.agent", "files/pools/1/features.safetensors", "files/pools/2/texts.jsonl"):
        with zipfile.ZipFile(file) as source, zipfile.ZipFile(tmp_path / "older", "w") as target:
            for name in source.namelist():
                if name == "manifest.json":
                    manifest = json.loads(source.read(name))
                    del manifest["sums"]
                    target.writestr(name, json.dumps(manifest))
                elif name not in (lost, "SHA256SUMS"):
                    target.writestr(name, source.read(name))
        with pytest.raises(DamagedFile, match=Path(lost).name):
            Workspace.restore(tmp_path / "older", tmp_path / "new")
        assert not (tmp_path / "new").exists()


def test_a_member_that_was_exchanged_is_noticed(full: Service, tmp_path: Path) -> None:
    """Rightly packed, so that the zip's own checksums agree."""
    file = full.workspace.backup(tmp_path / "b", OPERATOR)
    for member in ("tables/people.jsonl", "files/agents/1/0.agent", "SHA256SUMS"):
        with zipfile.ZipFile(file) as source, zipfile.ZipFile(tmp_path / "other", "w") as target:
            for name in source.namelist():
                data = source.read(name)
                target.writestr(name, data.replace(b"a", b"b", 1) if name == member else data)
        with pytest.raises(DamagedFile, match="not what was written"):
            Workspace.restore(tmp_path / "other", tmp_path / "new")
        assert not (tmp_path / "new").exists()


# -- nothing is migrated ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("command", "schema"), [("backup", 4), ("backup", 10), ("check", 4), ("check", 18)])
def test_neither_a_backup_nor_a_check_migrates(tmp_path: Path, command: str, schema: int) -> None:
    """A workspace as an older cual left it stays as it is; what was backed up is restored by the newer one."""
    folder = older(tmp_path, schema)
    before = {file.name: file.read_bytes() for file in folder.glob("*.json")}
    done = cual("check", folder) if command == "check" else cual("serve", folder, "--backup", tmp_path / "out")
    assert done.exit_code == 0, done.output
    workspace = sa.create_engine(f"sqlite:///{folder / 'cual.sqlite3'}")
    with workspace.connect() as connection:
        assert migrations.current(connection) == schema
    workspace.dispose()
    assert {file.name: file.read_bytes() for file in folder.glob("*.json")} == before
    if command == "backup":
        with zipfile.ZipFile(tmp_path / "out") as packed:
            assert f'"schema": {schema}' in packed.read("manifest.json").decode()
        restored = Workspace.restore(tmp_path / "out", tmp_path / "restored")
        assert [agent.name for agent in restored.agents()] == ["animals"]
        assert restored.load_agent(1).version == 0
        restored.close()


def older(tmp_path: Path, schema: int) -> Path:
    """A workspace with an agent, as a cual of an older schema has it."""
    new = Workspace.open(tmp_path / "new")
    new.add_agent("animals", make_world().agent(), OPERATOR)
    new.close()
    file = tmp_path / "older.sqlite3"
    database = Database(f"sqlite:///{file}")
    migrations.migrate(database, schema)
    with database.writing() as connection:
        row = {"id": 1, "name": "animals", "current": 0, "method": "cual", "width": 16, "created_at": 1.0}
        row |= {"skipped": 0, "state": "ready"} if schema >= 9 else {}
        columns = [sa.column(name) for name in row]
        connection.execute(sa.insert(sa.table("agents", *columns)).values(**row))
        version = {"agent": 1, "number": 0, "classes": '["cat", "dog"]', "new_classes": "[]", "labels_used": 0}
        version |= {"pseudo_labels": 0, "held_out": 0, "created_at": 1.0}
        connection.execute(sa.insert(sa.table("versions", *(sa.column(n) for n in version))).values(**version))
    database.close()
    for left in (tmp_path / "new").glob("cual.sqlite3*"):
        left.unlink()
    shutil.move(file, tmp_path / "new" / "cual.sqlite3")
    return tmp_path / "new"


def test_a_backup_makes_no_database(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    Workspace.open(folder).close()
    (folder / "cual.sqlite3").unlink()
    for command in (("serve", folder, "--backup", tmp_path / "b"), ("check", folder)):
        assert "is not there" in refused(*command)
    assert not (folder / "cual.sqlite3").exists()


def test_the_lists_can_be_checked_without_us(full: Service) -> None:
    """As `sha256sum -c SHA256SUMS` does."""
    folder = full.workspace.home.pool_folder(2)
    with full.workspace.database.reading() as connection:
        digest = connection.execute(sa.select(db.pools.c.sums).where(db.pools.c.id == 2)).scalar_one()
    done = subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=folder, capture_output=True)
    assert done.returncode == 0, done.stderr
    said = subprocess.run(["sha256sum", "SHA256SUMS"], cwd=folder, capture_output=True, text=True).stdout
    assert said.split()[0] == digest


@pytest.mark.attacks
def test_a_read_only_workspace_is_refused_in_words(tmp_path: Path) -> None:
    folder = tmp_path / "w"
    Workspace.open(folder).close()
    mounted = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mounted], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    for command in (
        ["serve", folder],
        ["serve", folder, "--backup", tmp_path / "b"],
        ["invite", folder, "Ada"],
    ):
        program = [sys.executable, "-c", "from cual.cli import app; app()", *map(str, command)]
        whole = ["unshare", "-m", "sh", "-c", f"{mounted} && {shlex.join(program)}"]
        done = subprocess.run(whole, capture_output=True, text=True)
        assert done.returncode == 2, done.stderr
        assert "cannot be written to" in done.stderr
        assert "Traceback" not in done.stderr
