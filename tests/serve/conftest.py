"""Fixtures of the service's tests: a workspace on SQLite, and with the marker `postgres` on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import postgres_server
from cual.serve.rules.workspace import Workspace
from serving import Service, make_service
from worlds import World


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server, without the name of a database."""
    with postgres_server.server() as address:
        yield address


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest) -> str | None:
    """An empty database: None for the SQLite file in the workspace's folder."""
    if request.param == "sqlite":
        return None
    return postgres_server.new_database(request.getfixturevalue("postgres"))


@pytest.fixture
def workspace(tmp_path: Path, database_url: str | None) -> Iterator[Workspace]:
    """An empty workspace; pools may be read from ``tmp_path / "data"``."""
    (tmp_path / "data").mkdir()
    held = Workspace.open(tmp_path / "workspace", database_url, roots=[tmp_path / "data"])
    yield held
    held.close()


@pytest.fixture
def service(workspace: Workspace, world: World) -> Service:
    """A workspace with people, an agent and a pool that is ready."""
    return make_service(workspace, world)
