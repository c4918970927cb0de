"""One file that holds a workspace: its tables as JSON lines and its files, in a zip. Restoring is beside it."""

import contextlib
import hashlib
import itertools
import json
import os
import re
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.errors import Conflict, DamagedFile, FileLost
from cual.serve.storage import checking, holdings, migrations, sums
from cual.serve.storage import tables as db
from cual.serve.storage.holdings import Holdings
from cual.serve.storage.home import Home, link
from cual.storage import replacing
from cual.types import Row

FORMAT = 1
MANIFEST = "manifest.json"
TRIES = 100
"""How often a snapshot is begun again because a worker removed a file in the middle of it."""
MOST_NAMED = 10
"""How many lost files an error names."""
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,  # a way of packing that nobody asked for
    RuntimeError,  # a password
    ValueError,  # no JSON, no UTF-8
)
"""What reading a damaged zip may end in."""
LEFT_OUT = ("sessions", "cual_schema", "workspace")
"""Tables that are not kept: who is signed in, what the database itself knows, and whose it is."""
_NAMES = (
    r"workspace\.json",
    r"agents/\d{1,9}/(\d{1,9}\.agent|skipped\.json|SHA256SUMS|inbox/[0-9a-f]{32}\.safetensors)",
    r"pools/\d{1,9}/(features\.safetensors|map\.safetensors|(texts|columns)\.(jsonl|npy)|skipped\.json|SHA256SUMS)",
    r"pools/\d{1,9}/features/(manifest\.json|skipped\.csv|\d{6,9}\.(npy|json))",
    r"pools/\d{1,9}/pictures/\d{1,9}(-large)?\.webp",
    r"(agents|pools)/\d{1,9}/source(/(?!\.{1,2}(/|$))[^/\\\x00-\x1f]{1,255}){1,20}",
    r"adaptations/\d{1,9}/\d{1,9}-\d{1,9}/(agent|pool|state|view|cache)\.safetensors",
)
ALLOWED = re.compile(rf"files/({'|'.join(_NAMES)})")
"""All files that a backup may hold."""
_LONGEST_NAME = 1000
_STORED = (".webp", ".npy", ".safetensors", ".agent")  # packing these again saves next to nothing


def write(home: Home, path: Path) -> Path:
    """Write a backup of everything, as it is at one moment. Others go on working meanwhile.

    Nothing is migrated. A workspace that lacks a file, or has a damaged one, is not backed up: `FileLost`. What
    was written is read again and compared before it gets its name.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, private=True) as file:
        for _ in range(TRIES):
            with tempfile.TemporaryDirectory(dir=home.uploads, prefix="backup-") as snapshot:
                named = _snapshot(home, Path(snapshot))
                if named is None:
                    continue
                _check_whole(Path(snapshot) / "files", named)
                _pack(Path(snapshot), file)
                _check_written(file, path)
                return path
        raise Conflict("the workspace changes too quickly for a backup; try again later")


def _snapshot(home: Home, snapshot: Path) -> Holdings | None:
    """All tables at one moment, and links to the files of that moment; None if some went in between."""
    (snapshot / "files").mkdir()
    with home.database.reading() as connection:
        version = migrations.readable(connection)
        there = sa.inspect(connection).get_table_names()
        for table in db.metadata.sorted_tables:
            if table.name not in LEFT_OUT and table.name in there:
                _write_rows(connection, table, snapshot / f"{table.name}.jsonl")
        named = holdings.named(connection)
    manifest = {"cual": "backup", "format": FORMAT, "schema": version}
    (snapshot / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    for part in named.passing:
        _link(home.folder / part, snapshot / "files" / part)
    with home.database.reading() as connection:  # a worker removes files only after a commit that shows here
        if holdings.named(connection).passing != named.passing:
            return None
    for part in named.lasting:
        _link(home.folder / part, snapshot / "files" / part)
    with home.database.reading() as connection:  # files are removed only after their row, or once it says so
        after = holdings.named(connection)
    return named if set(named.lasting) <= set(after.lasting) and set(named.sums) <= set(after.sums) else None


def _write_rows(connection: Connection, table: sa.Table, target: Path) -> None:
    columns = holdings.as_it_is(connection, table)
    order = [columns.c[column.name] for column in table.primary_key.columns]
    wanted = sa.select(*columns.c).order_by(*order).execution_options(yield_per=1000)
    with target.open("w", encoding="utf-8") as file:
        for row in connection.execute(wanted).mappings():
            file.write(json.dumps(_plain(table, row)) + "\n")


def _check_whole(files: Path, named: Holdings) -> None:
    """Refuse to keep what could not be worked with."""
    lost = [str(finding) for finding in itertools.islice(checking.inspect(files, named), MOST_NAMED + 1)]
    if lost:
        more = "; and more" if len(lost) > MOST_NAMED else ""
        raise FileLost(
            f"the workspace is not whole, so it was not backed up: {'; '.join(lost[:MOST_NAMED])}{more}. "
            "cual check lists everything"
        )


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
    """Write the zip, with a list of the checksums of all that is in it; the manifest has that of the list."""
    digests: dict[str, str] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as packed:
        for table in sorted(snapshot.glob("*.jsonl")):
            digests[f"tables/{table.name}"] = _add(packed, table, f"tables/{table.name}")
        for path in sorted((snapshot / "files").rglob("*")):
            member = path.relative_to(snapshot).as_posix()
            if path.is_file() and ALLOWED.fullmatch(member):
                digests[member] = _add(packed, path, member)
        digest = sums.put(snapshot, digests)
        packed.write(snapshot / sums.NAME, sums.NAME)
        manifest = json.loads((snapshot / MANIFEST).read_text(encoding="utf-8"))
        packed.writestr(MANIFEST, json.dumps({**manifest, "sums": digest}))


def _add(packed: zipfile.ZipFile, path: Path, name: str) -> str:
    """Put a file into the zip; its checksum, of the bytes that were put in."""
    member = zipfile.ZipInfo.from_file(path, name, strict_timestamps=False)
    member.compress_type = zipfile.ZIP_STORED if path.suffix in _STORED else zipfile.ZIP_DEFLATED
    digest = hashlib.sha256()
    with path.open("rb") as source, packed.open(member, "w") as target:
        while part := source.read(2**20):
            digest.update(part)
            target.write(part)
    return digest.hexdigest()


def _check_written(file: IO[bytes], path: Path) -> None:
    """Read the zip that was written, and compare."""
    file.flush()
    os.fsync(file.fileno())
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as packed:
            check_sums(packed, json.loads(packed.read(MANIFEST))["sums"], path)
    except (*UNREADABLE, KeyError) as error:
        raise DamagedFile(
            f"the backup {path} is not what was written ({error}): is the disk damaged?"
        ) from error
    file.seek(0, os.SEEK_END)


def check_sums(packed: zipfile.ZipFile, digest: str, path: Path) -> None:
    """Compare every member of a backup with the list in it, and the list with its own checksum."""
    members = {member.filename: member for member in packed.infolist()}
    names = set(members) - {MANIFEST, sums.NAME}
    there = sums.NAME in members and members[sums.NAME].file_size <= _LONGEST_NAME * (len(names) + 1)
    data = packed.read(sums.NAME) if there else b""
    if hashlib.sha256(data).hexdigest() != digest:
        raise DamagedFile(f"{path} is not what was written: its list of checksums is damaged")
    listed = sums.parsed(data, sums.NAME)
    if set(listed) != names:
        odd = min(set(listed) ^ names)
        raise DamagedFile(
            f"{path} is not what was written: {odd!r} is {'missing' if odd in listed else 'foreign'}"
        )
    for name, expected in listed.items():
        with packed.open(name) as member:
            found = hashlib.sha256()
            while part := member.read(2**20):
                found.update(part)
        if found.hexdigest() != expected:
            raise DamagedFile(f"{path} is not what was written: {name!r} is damaged")
