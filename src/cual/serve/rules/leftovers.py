"""What steps, adaptations and repairs that are over have left in the folder and nobody reads again.

What was computed for an adaptation is a cache: its events imply it. Once it is over, only the view is read, by
the page and by exports. No rule is needed for these: they go by themselves, soon after the end.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection

from cual.serve.rules import views
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home

OVER = ("finished", "dropped")
a, r = db.adaptations.c, db.repairs.c


@dataclass(frozen=True)
class Leftover:
    """A file, or a folder, that may go."""

    path: Path
    what: str

    @property
    def bytes(self) -> int:
        return size_of(self.path)


def every(home: Home) -> list[Leftover]:
    """All of them, as they are now."""
    with home.database.reading() as connection:
        over = connection.execute(sa.select(a.id, a.folder).where(a.state.in_(OVER)).order_by(a.id)).all()
        repairs = connection.execute(sa.select(r.id, r.agent).where(r.state.in_(("done", "dropped")))).all()
    found = [left for row in over for left in _of_adaptation(home, row.id, row.folder)]
    folders = [(row.id, home.repair_folder(row.agent, row.id)) for row in repairs]
    return found + [Leftover(path, f"repair {id}, which is over") for id, path in folders if path.exists()]


def remove(home: Home) -> list[Leftover]:
    """Remove all of them; those that went."""
    found = every(home)
    for left in found:
        _remove(left.path)
    return found


def tidy(home: Home, adaptation: int) -> None:
    """Remove what is left of one adaptation, if it is over."""
    with home.database.reading() as connection:
        row = _row(connection, adaptation)
    if row is not None:
        for left in _of_adaptation(home, adaptation, row):
            _remove(left.path)


def _row(connection: Connection, adaptation: int) -> str | None:
    """The folder of an adaptation that is over, "" where it has none; None of others."""
    wanted = sa.select(sa.func.coalesce(a.folder, "")).where(a.id == adaptation, a.state.in_(OVER))
    return connection.execute(wanted).scalar_one_or_none()


def _of_adaptation(home: Home, adaptation: int, folder: str | None) -> Iterator[Leftover]:
    whole = home.adaptation_folder(adaptation)
    for step in sorted(whole.iterdir()) if whole.is_dir() else ():
        if step.name != folder:
            yield Leftover(step, f"a step of adaptation {adaptation} that does not count")
            continue
        for file in sorted(step.iterdir()) if step.is_dir() else ():
            if file.name != views.FILE:
                yield Leftover(file, f"what was computed for adaptation {adaptation}, which is over")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; what goes meanwhile counts for nothing.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a").write_bytes(bytes(3))
    >>> size_of(folder), size_of(folder / "gone")
    (3, 0)
    """
    total = 0
    for file in path.rglob("*") if path.is_dir() else (path,):
        try:
            status = file.lstat()
        except OSError:
            continue
        total += status.st_size if not file.is_dir() else 0
    return total
