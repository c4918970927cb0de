"""Files of tensors and JSON (safetensors), written atomically, never pickle. What is in them is others'."""

import json
import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from cual.errors import BadOption, CualError, DamagedFile, ForeignFile, NewerFormat, UnknownName

FORMAT = 2
"""2: methods are compositions of parts. Files of format 1 are still read."""
_MARK = b'{"__metadata__":{"cual":'
_UMASK = os.umask(0o022)
os.umask(_UMASK)
_LONGEST_HEADER = 100 * 2**20  # safetensors' own limit


def write(
    path: str | os.PathLike[str], kind: str, body: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> None:
    """Write a file in one step: whoever reads it sees the old one or the new one, never half of it."""
    meta = {"kind": kind, "format": FORMAT, "body": body}
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    write_bytes(Path(path), save(plain, {"cual": json.dumps(meta, ensure_ascii=False, sort_keys=True)}))


def write_bytes(path: Path, data: bytes) -> None:
    """Put `data` at `path` atomically and durably."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = open_beside(path)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def open_beside(path: Path) -> tuple[int, str]:
    """A new file in the folder of `path`, to be put in its place when whole; others may read it."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.fchmod(handle, 0o666 & ~_UMASK)  # mkstemp's own are for the owner's eyes only
    return handle, temporary


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The body and the tensors of a file that `write` made, or an error that says why it cannot be used."""
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
            return meta["body"], {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
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
