"""What is known of mutants: a file each, in a folder that processes share; or a line each, to take along."""

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mutation.making import Mutant
from mutation.rooms import ROOT

KEPT = ROOT / "out" / "mutants"

Row = dict[str, Any]
"""What became of a mutant (`outcome`), which test noticed (`by`), which files of tests it faced (`faced`)."""


def known(mutant: Mutant, source: str) -> Row | None:
    """What is known of a mutant of a file with this digest."""
    path = _path(mutant.room, mutant.key)
    row = json.loads(path.read_text()) if path.exists() else None
    return row if row and row["source"] == source else None


def keep(row: Row) -> None:
    """Keeps a row for good: a run that is stopped in the middle leaves whole files only."""
    path = _path(row["room"], row["key"])
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(row, indent=1))
    part.replace(path)


def take(file: Path) -> int:
    """Takes over another machine's rows: a mutant that was noticed on one of the two is noticed."""
    taken = 0
    for line in file.read_text().splitlines():
        row = json.loads(line)
        path = _path(row["room"], row["key"])
        mine = json.loads(path.read_text()) if path.exists() else None
        if mine and mine["source"] == row["source"] and mine["outcome"] != "survived":
            continue
        keep(row)
        taken += 1
    return taken


def give(rows: Iterable[Row], file: Path) -> None:
    """Writes rows for another machine."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def digest(*paths: Path) -> str:
    """Of all Python below the paths."""
    files = sorted(file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def code_digest(source: str) -> str:
    """Of a module's code: what its docstrings say changes no mutant.

    >>> code_digest("def f():\\n    'Gives 1.'\\n    return 1") == code_digest("def f():\\n    return 1")
    True
    """
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                last = node.end_lineno or node.lineno
                lines[node.lineno - 1 : last] = [""] * (last - node.lineno + 1)
            case _:
                pass
    return hashlib.sha256("\n".join(line for line in lines if line.strip()).encode()).hexdigest()


def without(digest: str, tests: list[str]) -> str:
    """A digest of a file of which some tests were left out."""
    left_out = " ".join(tests)
    return f"{digest} without {hashlib.sha256(left_out.encode()).hexdigest()[:16]}" if tests else digest


def traces(room: str) -> Iterator[Row]:
    """What is known of the files of tests of a room."""
    for path in sorted((KEPT / room / "traces").glob("*.json")):
        yield json.loads(path.read_text())


def keep_trace(room: str, trace: Row) -> None:
    """Keeps what one file of tests runs."""
    folder = KEPT / room / "traces"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{trace['name'].replace('/', '-')}.json").write_text(json.dumps(trace))


def _path(room: str, key: str) -> Path:
    return KEPT / room / f"{key}.json"
