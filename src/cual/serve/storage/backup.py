"""One file that holds a workspace: its tables as JSON lines and its files, in a zip. Written here, not read."""

import contextlib
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.errors import Conflict
from cual.serve.storage import migrations
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, link
from cual.storage import replacing
from cual.types import Row

FORMAT = 1
MANIFEST = "manifest.json"
TRIES = 100
"""How often a snapshot is begun again because a worker removed a file in the middle of it."""
LEFT_OUT = ("sessions", "cual_schema")
"""Tables that are not kept: who is signed in, and what the database itself knows."""
_NAMES = (
    r"workspace\.json",
    r"agents/\d{1,9}/(\d{1,9}\.agent|skipped\.json|inbox/[0-9a-f]{32}\.safetensors)",
    r"pools/\d{1,9}/(features\.safetensors|map\.safetensors|(texts|columns)\.(jsonl|npy)|skipped\.json)",
    r"pools/\d{1,9}/features/(manifest\.json|skipped\.csv|\d{6,9}\.(npy|json))",
    r"pools/\d{1,9}/pictures/\d{1,9}(-large)?\.webp",
    r"(agents|pools)/\d{1,9}/source(/(?!\.{1,2}(/|$))[^/\\\x00-\x1f]{1,255}){1,20}",
    r"adaptations/\d{1,9}/\d{1,9}-\d{1,9}/(agent|pool|state|view|cache)\.safetensors",
)
ALLOWED = re.compile(rf"files/({'|'.join(_NAMES)})")
"""All files that a backup may hold."""
_LINES = ("texts.jsonl", "texts.npy", "columns.jsonl", "columns.npy")
_STORED = (".webp", ".npy", ".safetensors", ".agent")  # packing these again saves next to nothing


def write(home: Home, path: Path) -> Path:
    """Write a backup of everything, as it is at one moment. Others go on working meanwhile."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, private=True) as file:
        for _ in range(TRIES):
            with tempfile.TemporaryDirectory(dir=home.uploads, prefix="backup-") as snapshot:
                if _snapshot(home, Path(snapshot)):
                    _pack(Path(snapshot), file)
                    return path
        raise Conflict("the workspace changes too quickly for a backup; try again later")


def _snapshot(home: Home, snapshot: Path) -> bool:
    """All tables at one moment, and links to the files of that moment; False if some went in between."""
    with home.database.reading() as connection:
        version = migrations.current(connection)
        for table in db.metadata.sorted_tables:
            if table.name not in LEFT_OUT:
                with (snapshot / f"{table.name}.jsonl").open("w", encoding="utf-8") as file:
                    for row in connection.execute(
                        sa.select(table).order_by(*table.primary_key.columns)
                    ).mappings():
                        file.write(json.dumps(_plain(table, row)) + "\n")
        passing, lasting = list(_passing(connection)), list(_lasting(connection))
    manifest = {"cual": "backup", "format": FORMAT, "schema": version}
    (snapshot / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    for part in passing:
        _link(home.folder / part, snapshot / "files" / part)
    with home.database.reading() as connection:  # a worker removes files only after a commit that shows here
        if list(_passing(connection)) != passing:
            return False
    for part in lasting:
        _link(home.folder / part, snapshot / "files" / part)
    with home.database.reading() as connection:  # files are removed only after their row, or once it says so
        return set(lasting) <= set(_lasting(connection))


def _passing(connection: Connection) -> Iterator[str]:
    """Files and folders that a worker will remove some time. What is half made is made anew of what came."""
    g, p, a = db.agents.c, db.pools.c, db.adaptations.c
    for agent in connection.execute(sa.select(g.id).where(g.state == "preparing").order_by(g.id)).scalars():
        yield f"agents/{agent}/source"
    for pool in connection.execute(sa.select(p.id).where(p.state == "preparing").order_by(p.id)).scalars():
        yield from (f"pools/{pool}/{name}" for name in ("features.safetensors", *_LINES, "source"))
    for row in connection.execute(sa.select(a.id, a.folder).where(a.folder.is_not(None)).order_by(a.id)):
        yield f"adaptations/{row.id}/{row.folder}"


def _lasting(connection: Connection) -> Iterator[str]:
    """Files and folders that never change as long as a row names them."""
    yield "workspace.json"
    g, v, p = db.agents.c, db.versions.c, db.pools.c
    there = sa.select(v.agent, v.number).join_from(db.versions, db.agents, g.id == v.agent)
    for row in connection.execute(there.where(g.state == "ready")):
        yield f"agents/{row.agent}/{row.number}.agent"
        yield f"agents/{row.agent}/skipped.json"
    i, b = db.inboxes.c, db.inbox_batches.c
    waiting = sa.select(i.agent, b.file).join_from(db.inbox_batches, db.inboxes, i.id == b.inbox)
    for row in connection.execute(waiting):
        yield f"agents/{row.agent}/inbox/{row.file}.safetensors"
    for pool in connection.execute(sa.select(p.id).where(p.state == "ready")).scalars():
        whole = ("features.safetensors", *_LINES, "features", "pictures", "map.safetensors", "skipped.json")
        yield from (f"pools/{pool}/{name}" for name in whole)


def _plain(table: sa.Table, row: Any) -> Row:
    moments = {column.name for column in table.columns if isinstance(column.type, db.Moment)}
    return {k: v.timestamp() if k in moments and v is not None else v for k, v in row.items()}


def _link(source: Path, target: Path) -> None:
    """Link a file, or all that lies in a folder; nothing of a name that a backup does not take."""
    if source.is_dir():
        with contextlib.suppress(FileNotFoundError):
            for inside in sorted(source.iterdir()):
                _link(inside, target / inside.name)
    elif source.is_file() and not source.is_symlink() and not source.name.startswith("."):
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # it has just gone: whoever asks for it begins again
            link(source, target)


def _pack(snapshot: Path, file: IO[bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as packed:
        packed.write(snapshot / MANIFEST, MANIFEST)
        for table in sorted(snapshot.glob("*.jsonl")):
            packed.write(table, f"tables/{table.name}")
        for path in sorted((snapshot / "files").rglob("*")):
            member = path.relative_to(snapshot).as_posix()
            if path.is_file() and ALLOWED.fullmatch(member):
                packed.write(path, member, zipfile.ZIP_STORED if path.suffix in _STORED else None)
