"""Fixtures of the upgrade tests: what the release says of its files, and copies that may be written to."""

import gzip
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest

import postgres_server
from upgrades import release
from upgrades.release import FIRST, Row


@pytest.fixture(scope="session")
def expected() -> Row:
    return release.read_expected(FIRST)


@pytest.fixture(scope="session")
def arrays() -> dict[str, np.ndarray]:
    return release.read_arrays(FIRST)


@pytest.fixture(scope="session")
def same_bits(expected: Row) -> bool:
    """Whether this machine rounds as the one did on which the files were made."""
    return release.arithmetic() == expected["machine"]["arithmetic"]


@pytest.fixture
def bits(same_bits: bool, expected: Row) -> None:
    """For tests in which something is learned: elsewhere, other samples may be asked about."""
    if not same_bits:
        pytest.skip(f"this machine or torch rounds otherwise than where it was made: {expected['machine']}")


@pytest.fixture
def copied(tmp_path: Path) -> Callable[[str], Path]:
    """A file or folder of the release, where it may be changed."""

    def copy(name: str) -> Path:
        source, target = FIRST / name, tmp_path / Path(name).name
        shutil.copytree(source, target) if source.is_dir() else shutil.copyfile(source, target)
        return target

    return copy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The release's workspace, with its SQLite database."""
    with tarfile.open(FIRST / "workspace.tar.gz") as packed:
        packed.extractall(tmp_path / "workspace", filter="data")
    return tmp_path / "workspace"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server, without the name of a database."""
    with postgres_server.server() as address:
        yield address


@pytest.fixture
def dumped(postgres: str) -> str:
    """The address of the release's database on PostgreSQL."""
    url = postgres_server.new_database(postgres)
    text = gzip.decompress((FIRST / "workspace.sql.gz").read_bytes()).decode()
    script = "\n".join(line for line in text.split("\n") if not line.startswith("\\"))  # those are psql's
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(script)  # pyright: ignore
    return url
