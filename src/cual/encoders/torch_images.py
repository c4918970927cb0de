"""Image networks in torch: normalising, devices and precision, once for all architectures."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cual.encoders.base import Kind, Network, Setup, fingerprint
from cual.encoders.images import ImageInput, Pixels
from cual.errors import BadFile, BadOption
from cual.types import AnyArray, FloatArray, Row


class Normalised(nn.Module):
    """A network that takes bytes (n, h, w, 3): scaling them is part of it, on whatever device it runs."""

    def __init__(self, network: nn.Module, given: ImageInput) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", 255 * torch.tensor(given.mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", 255 * torch.tensor(given.std).view(1, 3, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        x = pixels.permute(0, 3, 1, 2).to(torch.float32)
        return self.network((x - self.mean) / self.std)  # pyright: ignore[reportOperatorIssue]


class TorchImages:
    """An image encoder around a torch module that gives (n, dim)."""

    kind: Kind = "image"

    def __init__(
        self, name: str, network: nn.Module, dim: int, given: ImageInput, more: Row, weights: str, setup: Setup
    ) -> None:
        self.name, self.dim, self._input = name, dim, given
        self.preprocessing: Row = {**given.to_json(), **more}
        self.fingerprint = fingerprint(name, dim, self.preprocessing, weights)
        self._device = torch.device(setup.device)
        self._precision: torch.dtype = getattr(torch, setup.precision)
        self._network = Normalised(network, given).eval().to(self._device)
        self._network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]

    def prepare(self, item: Any) -> Pixels:
        return self._input.pixels(item)

    def encode(self, batch: Sequence[Pixels]) -> FloatArray:
        pixels = torch.from_numpy(np.stack(batch)).to(self._device, non_blocking=True)
        half = self._precision is not torch.float32
        with torch.inference_mode(), torch.autocast(self._device.type, self._precision, enabled=half):
            return self._network(pixels).float().cpu().numpy()

    def in_onnx(self) -> Network:
        from cual.encoders.exporting import as_model

        side = self._input.crop
        example = torch.zeros(2, side, side, 3, dtype=torch.uint8, device=self._device)
        return Network(as_model(self.name, self._network, {"pixels": example}))

    def feeds(self, batch: Sequence[Pixels]) -> dict[str, AnyArray]:
        return {"pixels": np.stack(batch)}


def load_into(network: nn.Module, state: Mapping[str, Any], where: str) -> None:
    """Load weights by name; all that the network needs must be there and fit, and nothing may be left over."""
    needed = network.state_dict()
    missing = [k for k in needed if k not in state and not k.endswith("num_batches_tracked")]
    wrong = [k for k in needed if k in state and tuple(state[k].shape) != tuple(needed[k].shape)]
    left = [k for k in state if k not in needed]
    for fault, keys in (("lacks", missing), ("has another shape of", wrong), ("also holds", left)):
        if keys:
            raise BadFile(f"{where} is not of this architecture: it {fault} {keys[0]} and {len(keys) - 1} more")
    network.load_state_dict(dict(state), strict=False)


def state_sha256(state: Mapping[str, Any]) -> str:
    """Hash of weights by name, whatever file they came in.

    >>> import torch
    >>> state = {"a": torch.zeros(2), "b": torch.ones(1)}
    >>> state_sha256(state) == state_sha256(dict(reversed(state.items())))
    True
    """
    digest = hashlib.sha256()
    for key in sorted(state):
        array = state[key].detach().to(torch.float32).contiguous().cpu().numpy()
        digest.update(f"{key} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def check_choice(option: str, value: object, choices: Sequence[object]) -> None:
    """Refuse an option that is none of its choices.

    >>> check_choice("pooling", "middle", ["cls", "mean"])
    Traceback (most recent call last):
    cual.errors.BadOption: pooling is 'middle'; it can be cls, mean
    """
    if value not in choices:
        raise BadOption(f"{option} is {value!r}; it can be {', '.join(str(c) for c in choices)}")
