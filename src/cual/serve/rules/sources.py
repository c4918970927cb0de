"""What somebody sends or points to, to make an agent or a pool of: where it may lie, and where it is moved to.

Nothing is read here but the first row of a table, so that a column that is not there is told of at once.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from cual.data.plain import check_names
from cual.errors import BadFile, CualError, NotAllowed
from cual.serve.rules.messages import without_paths
from cual.serve.storage.home import Home

if TYPE_CHECKING:
    from cual.datasets.archives import Member

SOURCE = "source"
"""Where it lies in the folder of what is made of it, until that is ready."""
ZIP = ".zip"
_SUFFIXES = re.compile(r"(\.[a-z0-9]{1,10}){1,2}")


@dataclass(frozen=True)
class TableColumns:
    """Columns of a table that somebody named; the usual names are looked for where they are None."""

    text: str | None = None
    label: str | None = None
    id: str | None = None


def checked(
    home: Home,
    source: Path,
    columns: TableColumns | None = None,
    labelled: bool = False,
    shown: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Where to read from, links resolved, and which columns; refused where that cannot be.

    Parameters
    ----------
    columns
        What somebody named.
    labelled
        Whether a table must have labels.
    shown
        Columns that somebody named for people to read.
    """
    where = _allowed(home, source)
    check_names(shown or ())
    columns = columns or TableColumns()
    path = Path(where["path"])
    if path.is_file() and path.name.lower().endswith((".csv", ".tsv")):
        _check_columns(home, path, columns, labelled, shown)
    return {**where, "columns": asdict(columns), "shown": None if shown is None else list(shown)}


def take_over(upload: Path, target: Path) -> str:
    """Move what was uploaded to the folder `target`, which is made; what it is called there.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "My data.TAR.gz").write_bytes(b"")
    >>> take_over(folder / "My data.TAR.gz", folder / "taken")
    'file.tar.gz'
    """
    suffixes = "".join(upload.suffixes[-2:]).lower()
    name = "items" if upload.is_dir() else "file" + (suffixes if _SUFFIXES.fullmatch(suffixes) else "")
    target.mkdir()
    upload.rename(target / name)
    return name


def wanted_members(path: Path) -> "list[Member]":
    """What of a zip is of use: its pictures, or the parts of a features folder. Not to be opened any more."""
    from cual.datasets.archives import members
    from cual.encoders.images import SUFFIXES

    try:
        files = [member for member in members(path) if not _is_hidden(member.name)]
    except CualError as error:
        raise type(error)(str(error).replace(str(path), "the zip")) from None
    if any(PurePosixPath(file.name).name == "manifest.json" for file in files):
        return [file for file in files if file.name.endswith((".json", ".npy"))]
    pictures = [file for file in files if PurePosixPath(file.name).suffix.lower() in SUFFIXES]
    if not pictures:
        raise BadFile("the zip holds no pictures; it should have one folder per class, or pictures alone")
    return pictures


def _is_hidden(name: str) -> bool:
    """Whether it is what a system left in a zip beside the files."""
    return any(part.startswith(".") or part == "__MACOSX" for part in PurePosixPath(name).parts)


def _allowed(home: Home, source: Path) -> dict[str, Any]:
    """Where to read from; refused unless it lies under a root or was uploaded."""
    try:
        path = Path(source).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        path = None
    uploads = home.uploads.resolve()
    for root in (uploads, *home.roots):
        # Whether a path outside exists is nobody's business: both get the same answer.
        if path is not None and path.is_relative_to(root) and path != uploads:
            return {"given": False, "path": str(path), "root": str(root), "upload": root == uploads}
    allowed = ", ".join(str(root) for root in home.roots) or "none"
    raise NotAllowed(f"{source} does not lie under a folder that may be read from ({allowed})")


def _check_columns(
    home: Home, path: Path, columns: TableColumns, labelled: bool, shown: Sequence[str] | None
) -> None:
    from cual.encoders.sources import Columns, plain_text_columns, table_columns

    try:
        found = table_columns(path, Columns(**asdict(columns)))
        if labelled and found.label is None:
            raise BadFile(f"{path} has no column of labels; say which it is of {', '.join(found.names)}")
        if shown is not None:
            plain_text_columns(path, Columns(**asdict(columns)), shown)
    except CualError as error:
        raise type(error)(without_paths(str(error), (home.folder, *home.roots))) from None
