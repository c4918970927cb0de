"""Whether a workspace's files are all there and what was written, and what lies there that nothing names.

Nothing is changed or repaired here. Which files there should be, `holdings` says.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import sqlalchemy as sa

from cual import storage
from cual.data.folder import FeaturesFolder
from cual.errors import CualError, DamagedFile
from cual.serve.storage import holdings, sums
from cual.serve.storage import tables as db
from cual.serve.storage.holdings import Holdings
from cual.serve.storage.home import DATABASE_FILE, PARTS, Home

_OWN = (".agent", ".safetensors")
"""Files that carry their checksums themselves."""
_LISTED = re.compile(r"(?!.*(^|/)\.{1,2}(/|$))[^/\\]+(/[^/\\]+)*")


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be."""

    kind: Literal["missing", "damaged", "superfluous"]
    path: str
    """Below the workspace's folder."""
    why: str = ""

    def __str__(self) -> str:
        return f"{self.kind:<11}  {self.path}{f': {self.why}' if self.why else ''}"


def findings(home: Home) -> list[Finding]:
    """Everything that is missing, damaged or superfluous, each kind in order.

    The service may run meanwhile: what a worker has removed or finished since is none.
    """
    found = [*_of_database(home), *inspect(home.folder, _named(home)), *_superfluous(home)]
    if not found:
        return []
    names = {finding.path for finding in found}
    after = {finding.path for finding in (*inspect(home.folder, _named(home), names), *_superfluous(home))}
    after |= {finding.path for finding in _of_database(home)}
    order = ("missing", "damaged", "superfluous")
    return sorted(
        (one for one in found if one.path in after), key=lambda one: (order.index(one.kind), one.path)
    )


def _named(home: Home) -> Holdings:
    with home.database.reading() as connection:
        return holdings.named(connection)


def _of_database(home: Home) -> Iterator[Finding]:
    """SQLite can be asked whether its file is whole; PostgreSQL looks after its own."""
    if not home.database.is_sqlite:
        return
    with home.database.reading() as connection:
        said = connection.execute(sa.text("PRAGMA integrity_check(10)")).scalars().all()
        loose = connection.execute(sa.text("PRAGMA foreign_key_check")).first()
    if said != ["ok"]:
        yield Finding("damaged", DATABASE_FILE, "; ".join(said))
    if loose is not None:
        yield Finding("damaged", DATABASE_FILE, f"rows of {loose[0]} refer to rows that are not there")


def inspect(folder: Path, named: Holdings, only: Iterable[str] | None = None) -> Iterator[Finding]:
    """What is missing or damaged in a folder with the files of a workspace.

    Parameters
    ----------
    only
        Look again at these alone.
    """
    wanted = None if only is None else set(only)
    for names in named.needed:
        if not any((folder / name).is_file() for name in names):
            yield Finding("missing", names[0])
    done: set[str] = set()
    lists = {f"pools/{pool}": digest for pool, digest in named.sums}
    lists |= {f"agents/{path.parent.name}": None for path in folder.glob(f"agents/*/{sums.NAME}")}
    for place, digest in lists.items():
        yield from _of_list(folder, place, digest, done, wanted)
    for name in sorted({*named.passing, *named.lasting}):
        for path in _files(folder / name):
            inside = path.relative_to(folder).as_posix()
            if inside in done or (wanted is not None and inside not in wanted):
                continue
            try:
                _verify(path)
            except (CualError, OSError) as error:
                if path.exists():  # a worker may have gone on
                    yield Finding("damaged", inside, _short(error, path))


def _of_list(
    folder: Path, place: str, digest: str | None, done: set[str], wanted: set[str] | None
) -> Iterator[Finding]:
    """What a list of checksums tells of the folder that it lies in."""
    file = folder / place / sums.NAME
    if not file.is_file():
        yield Finding("missing", f"{place}/{sums.NAME}")
        return
    try:
        listed = sums.read(file.parent)
        if digest is not None and sums.sha256(file) != digest:
            raise DamagedFile("the list of checksums is not what was written")
        if not all(_LISTED.fullmatch(name) for name in listed):
            raise DamagedFile("the list of checksums names what no workspace has")
    except DamagedFile as error:
        yield Finding("damaged", f"{place}/{sums.NAME}", _short(error, file))
        return
    for name, expected in listed.items():
        inside = f"{place}/{name}"
        done.add(inside)
        if wanted is not None and inside not in wanted:
            continue
        path = folder / place / name
        if not path.is_file() or path.is_symlink():
            yield Finding("missing", inside)
        elif sums.sha256(path) != expected:
            yield Finding("damaged", inside, "it is not what was written")


def _verify(path: Path) -> None:
    """Compare a file with the checksums that it, or the folder that it lies in, carries."""
    if path.suffix in _OWN:
        storage.verify(path)
    elif path.name == "manifest.json" and path.parent.name == "features":
        FeaturesFolder.open(path.parent).verify()


def _superfluous(home: Home) -> Iterator[Finding]:
    """Files that nothing names; what is received, or hidden because it is not whole, is let alone."""
    named = _named(home)
    names = {*named.passing, *named.lasting, *_unfinished(home)}
    listed = {pool for pool, _ in named.sums}
    for part in PARTS:
        for path in _files(home.folder / part) if part != "uploads" else ():
            inside = path.relative_to(home.folder).as_posix()
            parents = {"/".join(path.relative_to(home.folder).parts[:n]) for n in range(1, 6)}
            hidden = any(piece.startswith(".") for piece in path.relative_to(home.folder).parts)
            if not hidden and (not names & {inside, *parents} or _unlisted(home.folder, inside, listed)):
                yield Finding("superfluous", inside)


def _unfinished(home: Home) -> Iterator[str]:
    """Folders of what is being made, or was given up and can be tried again."""
    with home.database.reading() as connection:
        for table in (db.agents, db.pools):
            there = holdings.as_it_is(connection, table)
            if "state" in there.c:  # before schema 9 agents came as files
                wanted = sa.select(there.c.id).where(there.c.state.in_(("preparing", "failed")))
                yield from (f"{table.name}/{thing}" for thing in connection.execute(wanted).scalars())
        if sa.inspect(connection).has_table(db.repairs.name):
            r = db.repairs.c
            for row in connection.execute(sa.select(r.id, r.agent).where(r.state != "done")):
                yield f"agents/{row.agent}/repair-{row.id}"


def _unlisted(folder: Path, inside: str, pools: set[int]) -> bool:
    """Whether a file of a pool that has a list is not in it."""
    parts = inside.split("/", 2)
    if len(parts) < 3 or parts[0] != "pools" or int(parts[1]) not in pools or parts[2] == sums.NAME:
        return False
    try:
        return sums.listed(folder / parts[0] / parts[1] / sums.NAME, parts[2]) is None
    except OSError:
        return False


def _files(path: Path) -> Iterator[Path]:
    """A file, or all that lie in a folder."""
    if path.is_file():
        yield path
    for where, folders, files in os.walk(path):
        folders.sort()
        yield from (Path(where, name) for name in sorted(files))


def _short(error: Exception, path: Path) -> str:
    """An error without where the file lies: that is said already."""
    return str(error).replace(f"{path} ", "it ").replace(str(path.parent) + os.sep, "").partition("\n")[0]
