"""Files of tensors and JSON (safetensors), written atomically, never pickle. What is in them is others'."""

import json
import math
import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from cual.errors import BadOption, CualError, DamagedFile, ForeignFile, NewerFormat, UnknownName

FORMAT = 2
"""2: methods are compositions of parts. Files of format 1 are still read."""
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
_LONGEST_HEADER = 100 * 2**20  # safetensors' own limit


def keep_private() -> None:
    """Whatever this process, and those that it starts, write from now on is for its user's eyes only."""
    global _umask
    _umask = 0o077
    os.umask(_umask)


def write(
    path: str | os.PathLike[str], kind: str, body: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Write a file in one step: whoever reads it sees the old one or the new one, never half of it."""
    meta = {"kind": kind, "format": FORMAT, "body": body}
    write_pieces(Path(path), _pieces(tensors, json.dumps(meta, ensure_ascii=False, sort_keys=True)))


class Late(Mapping[str, Tensor]):
    """Tensors that are made when they are looked at, each time anew: never are all of them in memory."""

    def __init__(self, made: Mapping[str, Callable[[], Tensor]]) -> None:
        self._made = made

    def __getitem__(self, name: str) -> Tensor:
        return self._made[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def _pieces(tensors: Mapping[str, Tensor], meta: str) -> Iterator[bytes | memoryview]:
    """A safetensors file, piece by piece: the bytes that its own writer makes, which holds them all twice."""
    shapes = {name: (_TYPES.index(tensor.dtype), tuple(tensor.shape)) for name, tensor in tensors.items()}
    order = sorted(shapes, key=lambda name: (-shapes[name][0], name))
    header: dict[str, Any] = {"__metadata__": {"cual": meta}}
    end = 0
    for name in order:
        kind, shape = shapes[name]
        start, end = end, end + math.prod(shape) * _TYPES[kind].itemsize
        header[name] = {"dtype": _NAMES[kind], "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for name in order:
        tensor = tensors[name].detach().cpu()
        if tensor.dtype == torch.bfloat16:  # numpy has no such type
            tensor = tensor.view(torch.int16)
        yield np.ascontiguousarray(tensor.numpy()).data


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
    """A file to write to, which is put at `path` when all of it is on the disk; not at all after an error."""
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
        if not private:
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
    _check_head(path)
    try:
        with safe_open(path, framework="pt") as file:
            meta = json.loads(file.metadata()["cual"])
            if meta["format"] > FORMAT:
                raise NewerFormat(
                    f"{path} has format {meta['format']}, this cual reads up to {FORMAT}: update cual"
                )
            if meta["kind"] != kind:
                raise ForeignFile(f"{path} holds a cual {meta['kind']}, not a cual {kind}")
            names = [name for name in file.keys() if wanted is None or wanted(name)]  # noqa: SIM118
            return meta["body"], {name: file.get_tensor(name) for name in names}
    except (SafetensorError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise DamagedFile(f"{path} is cut off or damaged ({error}); take a backup or make it again") from error


@contextmanager
def rebuilding(path: str | os.PathLike[str]) -> Generator[None]:
    """While what a file holds is put together: parts that are missing or do not fit mean that it is damaged."""
    try:
        yield
    except (BadOption, UnknownName) as error:
        raise DamagedFile(
            f"{path} asks for what there is not: {error}. It is damaged, or made with a strategy of your own "
            "that is not imported here"
        ) from error
    except CualError:
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise DamagedFile(f"{path} is damaged: {error!r}; take a backup or make it again") from error


def section(
    tensors: Mapping[str, Tensor], prefix: str, device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix`, without it, on `device`."""
    return {k.removeprefix(prefix): v.to(device) for k, v in tensors.items() if k.startswith(prefix)}


def _check_head(path: Path) -> None:
    """Tell a damaged file of ours from one that we did not write."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        head = file.read(len(_MARK))
    size = path.stat().st_size
    if _MARK.startswith(head) and length <= _LONGEST_HEADER and size < 8 + length:
        raise DamagedFile(f"{path} is cut off after {size} bytes; take a backup or make it again")
    if head != _MARK:
        raise ForeignFile(f"{path} was not written by cual")
