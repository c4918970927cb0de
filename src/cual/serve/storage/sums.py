"""Lists of checksums, one per folder, as `sha256sum` has them: of files that carry none themselves.

A list is written when the files are; from then on whoever reads one of them compares it. What is not listed, or
was written by an earlier release, is read as it is.
"""

import hashlib
import mmap
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from cual.errors import DamagedFile
from cual.storage import seen, unchanged, write_pieces

NAME = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (\S[^\x00-\x1f]*)")
_HEX = 64


def write(folder: Path, leave: Iterable[str] = ()) -> str:
    """List all that lies in a folder, but for folders in it of the names `leave`; the checksum of the list."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != NAME)
    names = [path.relative_to(folder) for path in files]
    kept = [name for name in names if name.parts[0] not in set(leave) and not name.name.startswith(".")]
    return put(folder, {name.as_posix(): sha256(folder / name) for name in kept})


def put(folder: Path, sums: Mapping[str, str]) -> str:
    """Write a list; its checksum.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_bytes(b"hello")
    >>> _ = put(folder, {"a.txt": sha256(folder / "a.txt")})
    >>> check(folder, "a.txt")
    >>> _ = (folder / "a.txt").write_bytes(b"other")
    >>> check(folder, "a.txt")
    Traceback (most recent call last):
    cual.errors.DamagedFile: .../a.txt is not what was written; restore it from a backup
    """
    digest = hashlib.sha256()

    def lines() -> Iterable[bytes]:
        for name in sorted(sums, key=str.encode):
            line = f"{sums[name]}  {name}\n".encode()
            digest.update(line)
            yield line

    write_pieces(folder / NAME, lines())
    return digest.hexdigest()


def read(folder: Path) -> dict[str, str]:
    """The list of a folder; `FileNotFoundError` where there is none."""
    return parsed((folder / NAME).read_bytes(), folder / NAME)


def parsed(data: bytes, where: object) -> dict[str, str]:
    """The names and checksums of a list.

    >>> list(parsed(b"0" * 64 + b"  a.txt\\n", "SHA256SUMS"))
    ['a.txt']
    """
    try:
        lines = [_LINE.fullmatch(line) for line in data.decode().split("\n")[:-1]]
    except UnicodeDecodeError as error:
        raise DamagedFile(f"{where} is damaged: {error}") from error
    if data and (not data.endswith(b"\n") or None in lines):
        raise DamagedFile(f"{where} is damaged: it is no list of checksums")
    return {line[2]: line[1] for line in lines if line is not None}


def check(folder: Path, name: str, least: int | None = None) -> None:
    """Compare a file with the list of its folder; `DamagedFile` if it is not what was written.

    Parameters
    ----------
    least
        Bytes from which on a file is hashed once, and again when it has changed, instead of each time;
        `cual.storage.LARGE` by default.
    """
    file = folder / name
    expected = listed(folder / NAME, name)
    if expected is None or unchanged(file, least=least):
        return
    if sha256(file) != expected:
        raise DamagedFile(f"{file} is not what was written; restore it from a backup")
    seen(file, least=least)


def sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def listed(file: Path, name: str) -> str | None:
    """What a list says of a name. It may have millions of lines: they are in order, so few are read."""
    try:
        opened = file.open("rb")
    except FileNotFoundError:
        return None
    with opened:
        high = opened.seek(0, 2)
        if not high:
            return None
        low, wanted = 0, name.encode()
        with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as lines:
            while low < high:
                start = max(low, lines.rfind(b"\n", low, (low + high) // 2) + 1)
                end = lines.find(b"\n", start, high)
                end = high if end < 0 else end
                line = lines[start:end]
                if line[_HEX + 2 :] == wanted:
                    return line[:_HEX].decode("ascii", "replace")
                if line[_HEX + 2 :] < wanted:
                    low = end + 1
                else:
                    high = start
    return None
