"""Fixtures of the upgrade tests: what a release says of its files, and copies that may be written to.

Which release is said by a module's `RELEASE`; the first one where it says nothing.
"""

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


@pytest.fixture(scope="module")
def kept(request: pytest.FixtureRequest) -> Path:
    """The folder of the release that a module is about."""
    return getattr(request.module, "RELEASE", FIRST)


@pytest.fixture(scope="module")
def expected(kept: Path) -> Row:
    return release.read_expected(kept)


@pytest.fixture(scope="module")
def arrays(kept: Path) -> dict[str, np.ndarray]:
    return release.read_arrays(kept)


@pytest.fixture(scope="module")
def same_bits(expected: Row) -> bool:
    """Whether this machine rounds as the one did on which the files were made."""
    return release.arithmetic() == expected["machine"]["arithmetic"]


@pytest.fixture
def bits(same_bits: bool, expected: Row) -> None:
    """For tests in which something is learned: elsewhere, other samples may be asked about."""
    if not same_bits:
        pytest.skip(f"this machine or torch rounds otherwise than where it was made: {expected['machine']}")


@pytest.fixture
def copied(kept: Path, tmp_path: Path) -> Callable[[str], Path]:
    """A file or folder of the release, where it may be changed."""

    def copy(name: str) -> Path:
        source, target = kept / name, tmp_path / Path(name).name
        shutil.copytree(source, target) if source.is_dir() else shutil.copyfile(source, target)
        return target

    return copy


@pytest.fixture
def folder(kept: Path, tmp_path: Path) -> Path:
    """The release's workspace, with its SQLite database."""
    with tarfile.open(kept / "workspace.tar.gz") as packed:
        packed.extractall(tmp_path / "workspace", filter="data")
    return tmp_path / "workspace"


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A PostgreSQL server, without the name of a database."""
    with postgres_server.server() as address:
        yield address


@pytest.fixture
def dumped(kept: Path, postgres: str) -> str:
    """The address of the release's database on PostgreSQL."""
    url = postgres_server.new_database(postgres)
    text = gzip.decompress((kept / "workspace.sql.gz").read_bytes()).decode()
    script = "\n".join(line for line in text.split("\n") if not line.startswith("\\"))  # those are psql's
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(script)  # pyright: ignore
    return url
