"""A Python function as an encoder: ``python:my_module:my_function``, or `FunctionEncoder` around a callable."""

import hashlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from cual.encoders.base import Kind, Setup, encoders, fingerprint, refuse_hash
from cual.errors import BadFeatures, BadOption, Unavailable
from cual.extensions import load
from cual.types import FloatArray, Row

Function = Callable[[list[Any]], Any]
"""Takes a list of PIL images (upright RGB) or of texts, gives (n, dim)."""


class FunctionEncoder:
    """An encoder around a function.

    >>> encoder = FunctionEncoder(lambda texts: [[len(t), t.count("a")] for t in texts], "lengths", "text")
    >>> encoder.dim, encoder.encode(["banana", "kiwi"]).tolist()
    (2, [[6.0, 3.0], [4.0, 0.0]])
    """

    def __init__(self, function: Function, name: str, kind: Kind = "image", version: str = "") -> None:
        if kind not in ("image", "text"):
            raise BadOption(f"kind is {kind!r}; it can be image or text")
        self.name, self.kind, self._function = name, kind, function
        self.preprocessing: Row = {"by": "the function itself"}
        self.dim = int(self.encode([_probe(kind)]).shape[1])
        self.fingerprint = fingerprint(name, self.dim, self.preprocessing, version or _source_sha256(function))

    def prepare(self, item: Any) -> Any:
        return item

    def encode(self, batch: Sequence[Any]) -> FloatArray:
        out = self._function(list(batch))
        out = out.detach().cpu().numpy() if hasattr(out, "detach") else np.asarray(out)
        if out.ndim != 2 or len(out) != len(batch):
            raise BadFeatures(f"{self.name} gave {out.shape} for {len(batch)} items; expected one row for each")
        return out.astype(np.float32)


@encoders.add("python")
def python(target: str, setup: Setup, *, kind: str = "image") -> FunctionEncoder:
    """A function of a module that can be imported, or of a file.

    Parameters
    ----------
    target
        ``package.module:function`` or ``path/to/file.py:function``. The module is run: name only your own.
    kind
        What it takes: "image" or "text".
    """
    refuse_hash(f"python:{target}", setup)
    module, _, attribute = target.rpartition(":")
    if not module:
        raise BadOption(f"write python:module:function, not python:{target}")
    try:
        function = getattr(load(module), attribute)
    except (Unavailable, AttributeError) as error:
        raise Unavailable(f"python:{target} cannot be loaded: {error}") from error
    if not callable(function):
        raise BadOption(f"python:{target} is no function but a {type(function).__name__}")
    name = f"python:{target}" + ("" if kind == "image" else f"?kind={kind}")
    return FunctionEncoder(function, name, cast(Kind, kind))


def _probe(kind: Kind) -> Any:
    if kind == "text":
        return "a"
    from PIL import Image

    return Image.new("RGB", (64, 64))


def _source_sha256(function: Function) -> str:
    """Hash of the file that the function is written in: whatever changes there may change the features."""
    written = function if inspect.isroutine(function) else type(function)
    try:
        source = Path(inspect.getsourcefile(written) or "").read_bytes()
    except (OSError, TypeError):
        source = getattr(written, "__qualname__", repr(written)).encode()
    return hashlib.sha256(source).hexdigest()
