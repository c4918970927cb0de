"""An image network in an ONNX file of the user's: ``onnx:model.onnx?size=224&pooling=mean``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cual.encoders.base import Kind, Network, Setup, encoders, fingerprint, full_name
from cual.encoders.images import ImageInput, Pixels
from cual.encoders.sessions import open_session
from cual.encoders.weights import file_sha256, local
from cual.errors import BadFile, BadOption, NotExportable
from cual.graph import NETWORK, Graph, Value, empty_model, opset_of
from cual.types import AnyArray, FloatArray, Row

LARGEST = 4096
DEFAULTS: Row = {
    "size": 0,
    "resize": 0,
    "mean": list(ImageInput.mean),
    "std": list(ImageInput.std),
    "pooling": "mean",
}


@encoders.add("onnx")
class OnnxImages:
    """A network with one input, (n, 3, h, w) or (n, h, w, 3), floats or bytes; its first output is taken.

    Parameters
    ----------
    target
        The file.
    size
        Side of the image; what the file says, or 224.
    resize
        Shorter side before cropping; 256/224 of `size` by default.
    mean, std
        Floats are scaled as (x / 255 − mean) / std, ImageNet's by default; bytes go in as they are.
    pooling
        An output of tokens (n, t, d) becomes a vector by "mean" or "cls"; a map (n, d, h, w) by its mean.
    """

    kind: Kind = "image"

    def __init__(
        self,
        target: str,
        setup: Setup,
        *,
        size: int = 0,
        resize: int = 0,
        mean: Sequence[float] = ImageInput.mean,
        std: Sequence[float] = ImageInput.std,
        pooling: str = "mean",
    ) -> None:
        file = local(Path(target), setup.sha256)
        if pooling not in ("mean", "cls"):
            raise BadOption(f"pooling is {pooling!r}; it can be mean or cls")
        if min(size, resize) < 0 or max(size, resize) > LARGEST or min(std) <= 0:
            raise BadOption(f"size and resize are at most {LARGEST}, std is above 0: {size}, {resize}, {std}")
        self._file = file
        self._session = open_session(file, setup.device, setup.threads)
        self._pooling = pooling
        self._input, self._type, self._last, side = _input_of(self._session, file)
        options = {"size": size, "resize": resize, "mean": list(mean), "std": list(std), "pooling": pooling}
        self.name = full_name(f"onnx:{target}", options, DEFAULTS)
        size = size or side or 224
        (a, b, c), (d, e, f) = mean, std
        self._given = ImageInput(
            resize or round(size * 256 / 224), size, mean=(float(a), float(b), float(c)), std=(d, e, f)
        )
        self.preprocessing: Row = {**self._given.to_json(), "pooling": pooling}
        self.dim = int(self.encode([np.zeros((size, size, 3), np.uint8)]).shape[1])
        self.fingerprint = fingerprint(self.name, self.dim, self.preprocessing, file_sha256(file))

    def prepare(self, item: Any) -> Pixels:
        return self._given.pixels(item)

    def encode(self, batch: Sequence[Pixels]) -> FloatArray:
        x: AnyArray = np.stack(batch)
        out = self._run(x)
        if out.ndim == 4:
            out = out.mean(axis=(2, 3))
        elif out.ndim == 3:
            out = out[:, 0] if self._pooling == "cls" else out.mean(axis=1)
        if out.ndim != 2 or len(out) != len(x):
            raise BadFile(f"{self.name} gives {out.shape} for {len(x)} images; expected one vector for each")
        return out.astype(np.float32)

    def _run(self, x: AnyArray) -> AnyArray:
        """What the network gives for bytes (n, h, w, 3)."""
        if self._type is not np.uint8:
            x = x.astype(np.float32) / 255 - np.array(self._given.mean, np.float32)
            x = x / np.array(self._given.std, np.float32)
            x = x.astype(self._type)
        if not self._last:
            x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        try:
            return self._session.run(None, {self._input: x})[0]
        except Exception as error:  # onnxruntime raises a class of its own for every cause
            raise BadFile(f"{self.name} cannot run on images {x.shape}: {str(error)[:300]}") from error

    def in_onnx(self) -> Network:
        """The file's network, with what `encode` does before and after it."""
        import onnx
        from onnx import compose

        network = onnx.load(self._file)
        first = Graph(empty_model(opset_of(network), network.ir_version))
        side = self._given.crop
        x = first.input("pixels", np.uint8, "n", side, side, 3)
        if self._type is not np.uint8:
            x = (x.to(np.float32) / 255.0 - np.array(self._given.mean)) / np.array(self._given.std)
            x = x.to(self._type)
        first.output("ready", x if self._last else x.transposed(0, 3, 1, 2), "n", "a", "b", "c")
        del network.graph.output[1:]
        try:
            both = compose.merge_models(first.model, network, [("ready", self._input)], prefix2=NETWORK)
        except Exception as error:  # of the checker, of protobuf, of what they find in a file
            why = str(error).strip().partition("\n")[0][:300]
            raise NotExportable(f"{self._file} cannot be gone on from: {why}") from error
        whole, out = Graph.after(both)
        return Network(self._pooled(whole, out.to(np.float32)))

    def _pooled(self, graph: Graph, out: Value) -> Any:
        """The graph, with one vector for each image as its output."""
        rank = self._run(np.zeros((1, self._given.crop, self._given.crop, 3), np.uint8)).ndim
        if rank == 4:
            out = out.mean(2, 3)
        elif rank == 3:
            out = out.take(np.array(0), axis=1) if self._pooling == "cls" else out.mean(1)
        graph.output("features", out, "n", self.dim)
        return graph.model

    def feeds(self, batch: Sequence[Pixels]) -> dict[str, AnyArray]:
        return {"pixels": np.stack(batch)}


def _input_of(session: Any, file: Path) -> tuple[str, Any, bool, int]:
    """Name and type of the one input, whether channels come last, and the image's side (0 if it is free)."""
    inputs = session.get_inputs()
    types = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type not in types:
        shapes = ", ".join(f"{i.name} {i.type} {i.shape}" for i in inputs)
        raise BadFile(f"{file} takes {shapes}; expected one input of images (n, 3, h, w) or (n, h, w, 3)")
    shape = inputs[0].shape
    last = shape[3] == 3 and shape[1] != 3
    side = shape[1] if last else shape[2]
    return inputs[0].name, types[inputs[0].type], last, side if isinstance(side, int) else 0
