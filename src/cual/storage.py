"""Files of tensors and JSON (safetensors), written atomically, never pickle. What is in them is others'.

They carry the SHA-256 of each tensor and of the JSON, and what was read is compared with it: a flipped bit is
an error. Files of earlier releases have none and are read as they are.
"""

import hashlib
import json
import math
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from cual.errors import BadOption, CualError, DamagedFile, ForeignFile, NewerFormat, TooLarge, UnknownName

FORMAT = 2
"""2: methods are compositions of parts. Files of format 1 are still read."""
FORMAT_APART = 3
"""Of files whose body is too long for a header and lies among the tensors; earlier releases refuse them."""
LONGEST_BODY = 2**24
"""Characters of a body in a header: in bytes, and escaped, these are four times as many at most."""
LONGEST_HEADER = 100_000_000
"""Bytes; safetensors reads no longer one."""
_MARK = b'{"__metadata__":{"cual":'
_NAMES = ("BOOL", "U8", "I8", "I16", "F16", "BF16", "I32", "F32", "F64", "I64")
"""Types by name, as safetensors orders them."""
_TYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.float32,
    torch.float64,
    torch.int64,
)
_umask = os.umask(0o022)
os.umask(_umask)
_BODY = "cual.body"
_SUMS = "sha256"
LARGE = 64 * 2**20
"""Bytes from which on a file is hashed only when it is read first, and again once it has changed."""
_REMEMBERED = 10_000


def keep_private() -> None:
    """Whatever this process, and those that it starts, write from now on is for its user's eyes only."""
    global _umask
    _umask = 0o077
    os.umask(_umask)


def write(
    path: str | os.PathLike[str], kind: str, body: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Write a file in one step: whoever reads it sees the old one or the new one, never half of it.

    >>> file = Path(tempfile.mkdtemp()) / "x.cual"
    >>> write(file, "example", {"seed": 3}, {"mean": torch.zeros(2)})
    >>> read(file, "example")
    ({'seed': 3}, {'mean': tensor([0., 0.])})
    >>> read(file, "agent")
    Traceback (most recent call last):
    cual.errors.ForeignFile: .../x.cual holds a cual example, not a cual agent
    """
    meta: dict[str, Any] = {"kind": kind, "format": FORMAT, "body": body}
    if len(_dumped(body)) > LONGEST_BODY:  # names of millions of samples
        tensors = _with_body(tensors, body)
        meta = {"kind": kind, "format": FORMAT_APART, "body": {}}
    write_pieces(Path(path), _pieces(tensors, meta))


def _dumped(value: Mapping[str, Any]) -> str:
    """JSON that UTF-8 can hold: halves of characters, as ids may have them, are escaped."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True)
    return text


class Late(Mapping[str, Tensor]):
    """Tensors that are made when they are looked at, each time anew: never are all of them in memory.

    >>> tensors = Late({"large": lambda: torch.zeros(3)})
    >>> list(tensors), tensors["large"] is tensors["large"]
    (['large'], False)
    """

    def __init__(self, made: Mapping[str, Callable[[], Tensor]]) -> None:
        self._made = made

    def __getitem__(self, name: str) -> Tensor:
        return self._made[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def _with_body(tensors: Mapping[str, Tensor], body: Mapping[str, Any]) -> Late:
    """Tensors, and the body as one more of them."""
    text = _dumped(body).encode()
    apart = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    return Late({**{name: partial(tensors.__getitem__, name) for name in tensors}, _BODY: lambda: apart})


def _pieces(tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> Iterator[bytes | memoryview]:
    """A safetensors file, piece by piece: the bytes that its own writer makes, which holds them all twice."""
    shapes: dict[str, tuple[int, tuple[int, ...]]] = {}
    sums: dict[str, str] = {}
    for name, tensor in tensors.items():
        shapes[name] = _TYPES.index(tensor.dtype), tuple(tensor.shape)
        sums[name] = digest_of(tensor)
    order = sorted(shapes, key=lambda name: (-shapes[name][0], name))
    said = _dumped({**meta, _SUMS: sums})
    header: dict[str, Any] = {"__metadata__": {"cual": said, _SUMS: _sha256(said.encode())}}
    end = 0
    for name in order:
        kind, shape = shapes[name]
        start, end = end, end + math.prod(shape) * _TYPES[kind].itemsize
        header[name] = {"dtype": _NAMES[kind], "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LONGEST_HEADER:
        raise TooLarge(
            f"{len(order)} tensors are more than a file can name: its header would have {len(text)} bytes, and "
            f"{LONGEST_HEADER} can be read"
        )
    yield len(text).to_bytes(8, "little")
    yield text
    for name in order:
        yield _bytes_of(tensors[name])


def _bytes_of(tensor: Tensor) -> memoryview:
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:  # numpy has no such type
        tensor = tensor.view(torch.int16)
    return np.ascontiguousarray(tensor.numpy()).data


def digest_of(tensor: Tensor) -> str:
    """SHA-256 of a tensor's type, shape and bytes.

    >>> digest_of(torch.zeros(2, 3)) == digest_of(torch.zeros(3, 2))
    False
    """
    digest = hashlib.sha256(f"{_NAMES[_TYPES.index(tensor.dtype)]} {list(tensor.shape)}\n".encode())
    digest.update(_bytes_of(tensor))
    return digest.hexdigest()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write_bytes(path: Path, data: bytes) -> None:
    """Put `data` at `path` atomically and durably."""
    write_pieces(path, [data])


def write_pieces(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """The same for data that is never in memory as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        for piece in pieces:
            file.write(piece)


@contextmanager
def replacing(path: Path, private: bool = False) -> Generator[IO[bytes]]:
    """A file to write to, which is put at `path` when all of it is on the disk; not at all after an error.

    >>> file = Path(tempfile.mkdtemp()) / "said.txt"
    >>> with replacing(file) as new:
    ...     _ = new.write(b"whole")
    ...     print(file.exists())
    False
    >>> file.read_bytes()
    b'whole'
    """
    with beside(path, private) as file:
        yield file
    try:
        os.replace(file.name, path)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise


@contextmanager
def beside(path: Path, private: bool = False) -> Generator[IO[bytes]]:
    """A new file in the folder of `path`, durable after the block, gone after an error.

    Others may read it as they may read any file, unless it is private: for the owner's eyes only.
    """
    with tempfile.NamedTemporaryFile("w+b", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        if not private and hasattr(os, "fchmod"):  # where there are no such rights, the folder's hold
            os.fchmod(file.fileno(), 0o666 & ~_umask)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def read(
    path: str | os.PathLike[str], kind: str, wanted: Callable[[str], bool] | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The body and the tensors of a file that `write` made, or an error that says why it cannot be used.

    `wanted` says by their names which tensors are read; all by default.
    """
    path = Path(path)
    with _opened(path) as file:
        meta, sums = _head(path, file.metadata())
        if meta["kind"] != kind:
            raise ForeignFile(f"{path} holds a cual {meta['kind']}, not a cual {kind}")
        tensors: dict[str, Tensor] = {}
        for name in _names(path, file, sums):
            if wanted is None or name == _BODY or wanted(name):
                tensors[name] = file.get_tensor(name)
                if sums is not None and not unchanged(path, name):
                    _check(path, name, tensors[name], sums[name])
                # Windows replaces no file that is mapped, and who reads one may write it next
                if os.name == "nt":
                    tensors[name] = tensors[name].clone()
        if meta["format"] == FORMAT_APART:
            return json.loads(tensors.pop(_BODY).numpy().tobytes()), tensors
        return meta["body"], tensors


def verify(path: str | os.PathLike[str]) -> bool:
    """Read everything and compare it with its checksums, whatever it is; False where there are none.

    A damaged file is a `DamagedFile`. Never is more than one tensor in memory.

    >>> file = Path(tempfile.mkdtemp()) / "x.cual"
    >>> write(file, "example", {}, {"mean": torch.zeros(2)})
    >>> verify(file)
    True
    """
    path = Path(path)
    with _opened(path) as file:
        _, sums = _head(path, file.metadata())
        for name in _names(path, file, sums):
            tensor = file.get_tensor(name)
            if sums is not None:
                _check(path, name, tensor, sums[name])
        return sums is not None


@contextmanager
def _opened(path: Path) -> Generator[Any]:
    _check_head(path)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise DamagedFile(f"{path} is cut off or damaged ({error}); take a backup or make it again") from error


def _head(path: Path, metadata: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str] | None]:
    """What a file says of itself, and the checksums of its tensors, if it has any."""
    summed = _SUMS in metadata
    meta: dict[str, Any] = json.loads(metadata["cual"])
    if meta["format"] > FORMAT_APART:
        raise NewerFormat(
            f"{path} has format {meta['format']}, this cual reads up to {FORMAT_APART}: update cual"
        )
    # A flip in the name of a checksum must not turn it into something that nobody looks at.
    whole = set(metadata) | set(meta) == {"cual", "kind", "format", "body"} | ({_SUMS} if summed else set())
    if not whole or (summed and _sha256(metadata["cual"].encode()) != metadata[_SUMS]):
        raise DamagedFile(f"{path} is not what was written: its header is damaged; take a backup")
    return meta, meta[_SUMS] if summed else None


def _names(path: Path, file: Any, sums: Mapping[str, str] | None) -> list[str]:
    names: list[str] = list(file.keys())
    if sums is not None and set(names) != set(sums):
        raise DamagedFile(f"{path} holds other tensors than were written; take a backup")
    return names


def _check(path: Path, name: str, tensor: Tensor, expected: str) -> None:
    if digest_of(tensor) != expected:
        raise DamagedFile(f"{path} is not what was written: {name} is damaged; take a backup or make it again")
    seen(path, name)


# -- what was hashed already -----------------------------------------------------------------------------------

_hashed: OrderedDict[tuple[int, int, int, int, int, str], None] = OrderedDict()
_hashed_lock = threading.Lock()


def unchanged(path: Path, part: str = "", least: int | None = None) -> bool:
    """Whether a large file, or a part of it, was hashed in this process and has not been written since.

    Large is what has `least` bytes, `LARGE` by default.
    """
    key = _identity(path, part, least)
    with _hashed_lock:
        return key in _hashed


def seen(path: Path, part: str = "", least: int | None = None) -> None:
    """Remember that a large file, or a part of it, is what was written."""
    key = _identity(path, part, least)
    if key is None:
        return
    with _hashed_lock:
        _hashed[key] = None
        while len(_hashed) > _REMEMBERED:
            _hashed.popitem(last=False)


def _identity(path: Path, part: str, least: int | None) -> tuple[int, int, int, int, int, str] | None:
    """What tells a large file from another, and from itself before it was written to; None for small ones."""
    stat = path.stat()
    if stat.st_size < (LARGE if least is None else least):
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, part


@contextmanager
def rebuilding(path: str | os.PathLike[str]) -> Generator[None]:
    """While what a file holds is put together: parts that are missing or do not fit mean that it is damaged.

    >>> with rebuilding("v1.agent"):
    ...     {"seed": 0}["version"]
    Traceback (most recent call last):
    cual.errors.DamagedFile: v1.agent is damaged: KeyError('version'); take a backup or make it again
    """
    try:
        yield
    except (BadOption, UnknownName) as error:
        raise DamagedFile(
            f"{path} asks for what there is not: {error}. It is damaged, or made with a strategy of your own "
            "that is not imported here (on the command line: cual --use MODULE …)"
        ) from error
    except CualError:
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise DamagedFile(f"{path} is damaged: {error!r}; take a backup or make it again") from error


def section(
    tensors: Mapping[str, Tensor], prefix: str, device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, without it, on `device`.

    >>> section({"head.W": torch.ones(1), "replay.X": torch.zeros(1)}, "head.")
    {'W': tensor([1.])}
    """
    return {k.removeprefix(prefix): v.to(device) for k, v in tensors.items() if k.startswith(prefix)}


def sections(
    tensors: Mapping[str, Tensor], prefix: str, device: torch.device | str = "cpu"
) -> dict[str, dict[str, Tensor]]:
    """The sections ``prefix + key + "."`` by their keys, each as `section` gives it; all are looked at once.

    >>> sections({"model.0.mean": torch.ones(1), "model.1.mean": torch.zeros(1)}, "model.")
    {'0': {'mean': tensor([1.])}, '1': {'mean': tensor([0.])}}
    """
    grouped: dict[str, dict[str, Tensor]] = {}
    for name, tensor in section(tensors, prefix, device).items():
        key, dot, rest = name.partition(".")
        if dot:
            grouped.setdefault(key, {})[rest] = tensor
    return grouped


def _check_head(path: Path) -> None:
    """Tell a damaged file of ours from one that we did not write."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        head = file.read(len(_MARK))
    size = path.stat().st_size
    if _MARK.startswith(head) and length <= LONGEST_HEADER and size < 8 + length:
        raise DamagedFile(f"{path} is cut off after {size} bytes; take a backup or make it again")
    if head != _MARK:
        raise ForeignFile(f"{path} was not written by cual")
