"""Files that people send: written to disk as they arrive, and refused as soon as they are too large or too odd.

What a file is, its first bytes say, never its name. Pictures are decoded and written anew by the worker; here
nobody looks further than their first bytes. Names of files are kept as names, and never become paths.
"""

import shutil
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header
from starlette.concurrency import run_in_threadpool

from cual.errors import BadFile, ForeignFile, TooLarge
from cual.serve.rules.sources import wanted_members
from cual.serve.web import arrays
from cual.serve.web.settings import Limits

FileKind = Literal["picture", "zip", "npy", "parquet", "text"]
"""A zip may be one of pictures, or arrays: an .npz."""
_ENOUGH = 16  # bytes that tell all kinds apart
_PICTURES = {
    b"\xff\xd8\xff": ".jpg",
    b"\x89PNG\r\n\x1a\n": ".png",
    b"GIF87a": ".gif",
    b"GIF89a": ".gif",
    b"BM": ".bmp",
    b"II*\0": ".tif",
    b"MM\0*": ".tif",
    b"RIFF": ".webp",
}
_TABLES = (".tsv", ".jsonl")
_MOST_FIELDS, _LONGEST_FIELD = 16, 10_000


def kind_of(start: bytes) -> FileKind | None:
    """What a file is, by its first bytes; None for nothing that is taken here.

    >>> kind_of(b"GIF89a..."), kind_of(b"PK\\x03\\x04"), kind_of(b"id,text\\n"), kind_of(b"\\x7fELF\\0")
    ('picture', 'zip', 'text', None)
    """
    if start.startswith(b"RIFF"):
        return "picture" if start[8:12] == b"WEBP" else None
    if start.startswith(tuple(_PICTURES)):
        return "picture"
    if start.startswith(b"PK\x03\x04"):
        return "zip"
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith(b"PAR1"):
        return "parquet"
    if not start or any(byte < 32 and byte not in b"\t\r\n" for byte in start) or start.startswith(b"%PDF"):
        return None
    return "text"


@dataclass
class File:
    """A file that has arrived."""

    name: str
    """As it was called where it came from, without folders: a name, not a path."""
    path: Path
    kind: FileKind
    size: int = 0


@dataclass
class Upload:
    """What a form held."""

    fields: dict[str, str] = field(default_factory=dict[str, str])
    files: list[File] = field(default_factory=list[File])


@asynccontextmanager
async def arriving(uploads: Path) -> AsyncGenerator[Path]:
    """A folder for what one request sends, gone when it is dealt with."""
    folder = uploads / uuid.uuid4().hex
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        await run_in_threadpool(shutil.rmtree, folder, ignore_errors=True)


async def receive(chunks: AsyncIterator[bytes], content_type: str, folder: Path, limits: Limits) -> Upload:
    """Take a multipart form apart as it arrives, its files into `folder`, which is new and empty."""
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise BadFile("files are sent as multipart/form-data")
    form = _Form(folder, limits)
    try:
        parser = MultipartParser(boundary, form.callbacks())  # pyright: ignore[reportArgumentType]
        async for chunk in chunks:
            parser.write(chunk)
        parser.finalize()
    except FormParserError:
        raise BadFile("the form is cut off or not multipart/form-data") from None
    finally:
        form.close()
    if not form.ended:
        raise BadFile("the form is cut off")
    return form.upload


async def receive_one(chunks: AsyncIterator[bytes], path: Path, limit: int) -> None:
    """Write a body that is one file."""
    size = 0
    with path.open("xb") as file:
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:
                raise TooLarge(f"this takes at most {limit} bytes at once")
            file.write(chunk)


def one_source(upload: Upload, folder: Path, limits: Limits) -> Path:
    """What a form brought: a folder of pictures, or one zip, table or file of features, looked at before."""
    if not upload.files:
        raise BadFile("the form has no files")
    if {file.kind for file in upload.files} == {"picture"}:
        return folder
    if len(upload.files) > 1:
        raise ForeignFile(
            "send pictures, or one zip of them, or one .npz, .npy or parquet of features, or one table of "
            "text; "
            "not several kinds"
        )
    file = upload.files[0]
    if file.kind == "npy":
        arrays.check_npy(file.path)
    if file.kind != "zip":
        return file.path
    if arrays.is_npz(file.path):
        arrays.check_npz(file.path, limits.unpacked)
        return file.path.rename(file.path.with_suffix(".npz"))
    _check_zip(file.path, limits)
    return file.path


def _check_zip(path: Path, limits: Limits) -> None:
    """Refuse a zip of too many files, too large ones, or none that is of use. Only its directory is read."""
    members = wanted_members(path)
    if len(members) > limits.files:
        raise TooLarge(f"the zip holds more than {limits.files} files")
    for member in members:
        if member.size > limits.picture:
            raise TooLarge(f"{member.name[:200]!r} in the zip has more than {limits.picture} bytes")
    if sum(member.size for member in members) > limits.unpacked:
        raise TooLarge(f"the zip unpacks to more than {limits.unpacked} bytes")


class _Form:
    """What the parser calls while a form comes in."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder, self._limits = folder, limits
        self.upload, self.ended = Upload(), False
        self._header, self._value = bytearray(), bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._field: str | None = None
        self._name: str | None = None
        self._start = bytearray()
        self._file: IO[bytes] | None = None
        self._total = 0
        self._names: set[str] = set()

    def callbacks(self) -> dict[str, Any]:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_end,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_end": self._all,
        }

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin(self) -> None:
        self._headers, self._field, self._name = {}, None, None
        self._start = bytearray()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[bytes(self._header).lower()] = bytes(self._value)
        self._header, self._value = bytearray(), bytearray()

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._field = options.get(b"name", b"").decode("utf-8", "replace")[:100]
        if b"filename" in options:
            self._name = _bare(options[b"filename"].decode("utf-8", "replace"))
            if len(self.upload.files) >= self._limits.files:
                raise TooLarge(f"at most {self._limits.files} files can be sent at once")
        elif len(self.upload.fields) >= _MOST_FIELDS:
            raise TooLarge(f"a form has at most {_MOST_FIELDS} fields")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._write(data[start:end])
            return
        self._start += data[start:end]
        if self._name is None and len(self._start) > _LONGEST_FIELD:
            raise TooLarge(f"a field of a form takes at most {_LONGEST_FIELD} bytes")
        if self._name is not None and len(self._start) >= _ENOUGH:
            self._open()

    def _open(self) -> None:
        """Begin to write a file, now that its first bytes say what it is."""
        kind = kind_of(bytes(self._start[:_ENOUGH]))
        if kind is None:
            raise ForeignFile(
                f"{self._name!r} is no picture, zip, .npz, parquet or CSV file; nothing else is taken here"
            )
        path = self._folder / self._free(_safe(self._name or "", kind, bytes(self._start[:_ENOUGH])))
        self.upload.files.append(File(self._name or "", path, kind))
        self._file = path.open("xb")
        self._write(bytes(self._start))

    def _free(self, name: str) -> str:
        """A name that no file of this form has yet, also where upper and lower case are the same."""
        stem, dot, suffix = name.rpartition(".")
        n, free = 1, name
        while free.lower() in self._names:
            n += 1
            free = f"{stem} ({n}){dot}{suffix}"
        self._names.add(free.lower())
        return free

    def _write(self, data: bytes) -> None:
        file = self.upload.files[-1]
        file.size += len(data)
        self._total += len(data)
        most = {"picture": self._limits.picture, "text": self._limits.table}.get(file.kind, self._limits.upload)
        if file.size > most:
            raise TooLarge(f"{file.name!r} has more than {most} bytes")
        if self._total > self._limits.upload:
            raise TooLarge(f"at most {self._limits.upload} bytes can be sent at once")
        assert self._file is not None
        self._file.write(data)

    def _end(self) -> None:
        if self._name is not None and self._file is None:
            self._open()
        if self._name is None and self._field is not None:
            self.upload.fields[self._field] = self._start.decode("utf-8", "replace")
        self.close()

    def _all(self) -> None:
        self.ended = True


def _bare(name: str) -> str:
    """A file's name without folders and without what cannot be printed.

    >>> _bare("../../etc/passwd"), _bare("C:\\\\photos\\\\a.jpg"), _bare("")
    ('passwd', 'a.jpg', 'file')
    """
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(c for c in last if c.isprintable())[:200] or "file"


def _safe(name: str, kind: FileKind, start: bytes) -> str:
    """The name under which a file is written: letters, digits and little else, and the suffix of what it is.

    >>> _safe("..", "zip", b""), _safe("île 1.JPEG", "picture", b"GIF89a"), _safe("a;b.php", "text", b"a,b")
    ('file.zip', 'île 1.gif', 'a_b.csv')
    """
    if kind == "picture":
        suffix = next(suffix for mark, suffix in _PICTURES.items() if start.startswith(mark))
    elif kind == "text":
        suffix = next((known for known in _TABLES if name.lower().endswith(known)), ".csv")
    else:
        suffix = f".{kind}"
    stem = name.rpartition(".")[0] or name
    plain = "".join(c if c.isalnum() or c in " -_.()+=@" else "_" for c in stem).strip(" .")
    while len(plain.encode()) > 180:  # bytes of a name that every file system takes, with room for a number
        plain = plain[:-1]
    return (plain or "file") + suffix
