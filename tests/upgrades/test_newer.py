"""What a newer cual has written is refused by name, with the word to update, and left as it is."""

import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from typer.testing import CliRunner

from cual import Adaptation, Agent, Pool
from cual.cli import app
from cual.data.folder import FeaturesFolder
from cual.errors import NewerFormat
from cual.serve.rules.workspace import Workspace
from upgrades.release import FIRST, SECOND

RELEASE = SECOND
WORD = "update cual"


def newer_file(path: Path) -> None:
    """A file of tensors as it would say that a later release wrote it."""
    with safe_open(path, framework="np") as file:
        meta, tensors = json.loads(file.metadata()["cual"]), {n: file.get_tensor(n) for n in file.keys()}  # noqa: SIM118
    save_file(tensors, path, {"cual": json.dumps(meta | {"format": 99}, sort_keys=True)})


def newer_json(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))


def newer_journal(path: Path) -> None:
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([json.dumps(json.loads(first) | {"format": 99}) + "\n", *rest]))


def refused(path: Path, use: Callable[[], Any]) -> None:
    """It is refused with a word that helps, and not a byte of it is changed."""

    def contents() -> dict[str, bytes]:
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        return {str(file): file.read_bytes() for file in files}

    before = contents()
    with pytest.raises(NewerFormat, match=WORD):
        use()
    assert contents() == before


def test_an_agent(copied: Callable[[str], Path]) -> None:
    path = copied("agents/cual-plus-v1.agent")
    newer_file(path)
    refused(path, lambda: Agent.load(path))
    told = CliRunner().invoke(app, ["info", str(path)])
    assert told.exit_code != 0
    assert WORD in " ".join(told.stderr.split())


@pytest.mark.parametrize("part", ["agent", "pool"])
def test_an_adaptation_with_a_file_of_later(part: str, copied: Callable[[str], Path]) -> None:
    path = copied("adaptations/cual-plus-in-the-middle")
    newer_file(path / f"{part}.safetensors")
    refused(path, lambda: Adaptation.load(path))


def test_an_adaptation_with_a_journal_of_later(copied: Callable[[str], Path]) -> None:
    path = copied("adaptations/cual-plus-in-the-middle")
    newer_journal(path / "journal.jsonl")
    refused(path, lambda: Adaptation.load(path))


def test_a_features_folder(copied: Callable[[str], Path]) -> None:
    path = copied("features")
    newer_json(path / "manifest.json")
    refused(path, lambda: FeaturesFolder.open(path))


def test_a_pool(copied: Callable[[str], Path]) -> None:
    path = copied("pool.safetensors")
    newer_file(path)
    refused(path, lambda: Pool.load(path))


def test_a_workspace_of_a_later_format(folder: Path) -> None:
    newer_json(folder / "workspace.json")
    refused(folder, lambda: Workspace.open(folder))


def test_a_workspace_with_later_tables(folder: Path) -> None:
    with sqlite3.connect(folder / "cual.sqlite3") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(NewerFormat, match=f"schema version 9999.*{WORD}"):
        Workspace.open(folder)
    with sqlite3.connect(folder / "cual.sqlite3") as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (5,)


@pytest.mark.postgres
def test_a_workspace_with_later_tables_on_postgresql(folder: Path, dumped: str) -> None:
    with psycopg.connect(dumped, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(NewerFormat, match=f"schema version 9999.*{WORD}"):
        Workspace.open(folder, dumped)
    with psycopg.connect(dumped) as connection:
        assert connection.execute("SELECT count(*) FROM people").fetchone() == (5,)


@pytest.mark.parametrize("later", [{"format": 99}, {"schema": 9999}])
def test_a_backup(later: dict[str, int], tmp_path: Path) -> None:
    path, target = tmp_path / "later.backup", tmp_path / "restored"
    with zipfile.ZipFile(SECOND / "workspace.backup") as source, zipfile.ZipFile(path, "w") as packed:
        for member in source.infolist():
            data = source.read(member)
            if member.filename == "manifest.json":
                data = json.dumps(json.loads(data) | later).encode()
            packed.writestr(member, data)
    with pytest.raises(NewerFormat, match=WORD):
        Workspace.restore(path, target)
    assert not target.exists()


def test_a_file_of_today_is_refused_by_nobody(tmp_path: Path) -> None:
    """The other way round: what both releases wrote is read, and written in today's format."""
    for kept in (FIRST, SECOND):
        shutil.copy(kept / "agents" / "cual-plus-v1.agent", tmp_path / "agent")
        Agent.load(tmp_path / "agent").save(tmp_path / "agent")
        assert Agent.load(tmp_path / "agent").version == 1
