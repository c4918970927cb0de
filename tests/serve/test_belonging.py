"""A folder and a database belong together: one with the database of another is refused and left as it is."""

import json
import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

import postgres_server
from commands import refused
from cual.errors import Conflict
from cual.serve.rules.records import OPERATOR
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import migrations
from cual.serve.storage import tables as db
from cual.serve.storage.database import Database
from serving import Service, make_service
from worlds import make_world


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that lies in no workspace."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shared.sqlite3'}"
    return postgres_server.new_database(request.getfixturevalue("postgres"))


@pytest.fixture
def first(tmp_path: Path, shared: str) -> Service:
    return make_service(Workspace.open(tmp_path / "first", shared), make_world())


def test_a_second_folder_on_one_database_is_refused(first: Service, tmp_path: Path, shared: str) -> None:
    with pytest.raises(Conflict, match=r"belongs to another workspace.*first"):
        Workspace.open(tmp_path / "second", shared)
    assert not (tmp_path / "second").exists(), "nothing is left behind"
    Workspace.open(tmp_path / "third").close()
    before = (tmp_path / "third" / "workspace.json").read_bytes()
    with pytest.raises(Conflict, match="belongs to another workspace"):
        Workspace.open(tmp_path / "third", shared)
    assert (tmp_path / "third" / "workspace.json").read_bytes() == before
    assert "another workspace" in refused("serve", tmp_path / "third", "--database", shared)
    assert "another workspace" in refused("invite", tmp_path / "third", "Ada", "--database", shared)
    assert "another workspace" in refused(
        "serve", tmp_path / "third", "--database", shared, "--backup", tmp_path / "b"
    )
    adaptation = first.start()
    assert first.workspace.adaptation(adaptation).state == "asking", "the first goes on as before"
    Workspace.open(tmp_path / "first", shared).close()


def test_a_folder_on_another_database_is_refused(first: Service, tmp_path: Path, shared: str) -> None:
    """As when CUAL_DATABASE was forgotten: an empty workspace would be served."""
    first.workspace.close()
    with pytest.raises(Conflict, match=r"is empty, but .*first holds"):
        Workspace.open(tmp_path / "first")
    assert not list((tmp_path / "first").glob("cual.sqlite3*"))
    Workspace.open(tmp_path / "first", shared).close()


def test_a_folder_that_was_moved_still_belongs(first: Service, tmp_path: Path, shared: str) -> None:
    first.workspace.close()
    (tmp_path / "first").rename(tmp_path / "moved")
    moved = Workspace.open(tmp_path / "moved", shared)
    assert moved.load_agent(first.agent).version == 0
    moved.close()


def test_what_is_restored_is_another_workspace(first: Service, tmp_path: Path, shared: str) -> None:
    file = first.workspace.backup(tmp_path / "b", OPERATOR)
    copy = Workspace.restore(file, tmp_path / "copy")
    assert copy.home.id != first.workspace.home.id
    copy.close()
    with pytest.raises(Conflict, match="belongs to another workspace"):
        Workspace.open(tmp_path / "copy", shared)
    Workspace.open(tmp_path / "copy").close()


def test_a_workspace_of_before_is_claimed_by_its_own_folder(
    first: Service, tmp_path: Path, shared: str
) -> None:
    """Its database has no id yet; a folder that has just been made cannot be the one that it belongs to."""
    w = first.workspace
    with w.database.writing() as connection:
        connection.execute(sa.delete(db.workspace))
    with pytest.raises(Conflict, match="is not empty"):
        Workspace.open(tmp_path / "second", shared)
    assert not (tmp_path / "second").exists()
    Workspace.open(tmp_path / "first", shared).close()
    with w.database.reading() as connection:
        assert connection.execute(sa.select(db.workspace.c.id)).scalars().all() == [w.home.id]


def test_a_workspace_whose_making_was_killed_is_made(tmp_path: Path, shared: str) -> None:
    Workspace.open(tmp_path / "w").close()
    for file in (tmp_path / "w").glob("cual.sqlite3*"):
        file.unlink()
    Workspace.open(tmp_path / "w").close()
    migrations.migrate(Database(shared))
    Workspace.open(tmp_path / "other", shared).close()


def test_a_copied_id_is_no_way_around_a_damaged_one(first: Service, tmp_path: Path, shared: str) -> None:
    """An id with a flipped bit is noticed: the folder is refused, with a word on what to do."""
    file = tmp_path / "first" / "workspace.json"
    settings = json.loads(file.read_text())
    settings["id"] = ("1" if settings["id"][0] == "0" else "0") + settings["id"][1:]
    file.write_text(json.dumps(settings))
    with pytest.raises(Conflict, match="belongs to another workspace"):
        Workspace.open(tmp_path / "first", shared)
    shutil.rmtree(tmp_path / "first")
