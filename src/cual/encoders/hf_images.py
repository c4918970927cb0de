"""Image models of transformers: images as their settings say, and one vector of what they give for each."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from cual.encoders.base import Setup
from cual.encoders.images import ImageInput, Resample
from cual.encoders.torch_images import TorchImages, state_sha256
from cual.errors import BadFile, BadOption
from cual.types import Row

CLASS_TOKENS = ("cls_token", "class_token", "class_embedding")
RESAMPLES: dict[Any, Resample] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}


def image_encoder(
    name: str, target: str, model: Any, processor: Row, pooling: str, setup: Setup
) -> TorchImages:
    """The encoder around an image model, or around the image half of one that takes text as well."""
    given = image_input(processor, target)
    joint = pooling == "auto" and hasattr(model, "get_image_features")
    network = _Joint(model) if joint else Pooled(getattr(model, "vision_model", model), pooling)
    network.eval()
    with torch.inference_mode():
        probe = network(torch.zeros(1, 3, given.crop, given.crop))
    weights = state_sha256(network.model.state_dict())
    return TorchImages(name, network, probe.shape[1], given, {"pooling": network.pooling}, weights, setup)


class _Joint(torch.nn.Module):
    """Images in the space that they share with text."""

    pooling = "joint"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        return joint_vectors(self.model.get_image_features(pixel_values=pixels))


def joint_vectors(out: Any) -> Tensor:
    """What `get_image_features` and `get_text_features` give: a tensor; transformers 5 puts more around it."""
    return out if isinstance(out, Tensor) else out.pooler_output


class Pooled(torch.nn.Module):
    """What a model gives for each image, as one vector."""

    def __init__(self, model: Any, pooling: str) -> None:
        super().__init__()
        self.model, self.pooling = model, pooling
        self._before = tokens_before_patches(model.state_dict())

    def forward(self, pixels: Tensor) -> Tensor:
        out = self.model(pixel_values=pixels)
        pooled, hidden = getattr(out, "pooler_output", None), out.last_hidden_state
        if self.pooling == "auto":
            tokens = hidden.ndim == 3
            self.pooling = (
                "cls" if tokens and self._before else "mean" if pooled is None or not tokens else "pooler"
            )
        if self.pooling == "pooler":
            if pooled is None:
                raise BadOption("this model has no pooler; use pooling=cls or pooling=mean")
            return pooled.flatten(1)
        if self.pooling == "mean":
            return hidden.mean(dim=(2, 3)) if hidden.ndim == 4 else hidden[:, self._before :].mean(dim=1)
        if hidden.ndim == 4 or not self._before:
            raise BadOption("this model has no class token; use pooling=mean or pooling=pooler")
        return hidden[:, 0]


def tokens_before_patches(state: Mapping[str, Any]) -> int:
    """How many tokens that stand for no patch come first: the class token, distillation's, registers.

    >>> import torch
    >>> one, four = torch.zeros(1, 1, 8), torch.zeros(1, 4, 8)
    >>> tokens_before_patches({"embeddings.cls_token": one, "embeddings.register_tokens": four})
    5
    """
    last = {key.rpartition(".")[2]: value for key, value in state.items()}
    count = sum(name in last for name in CLASS_TOKENS) + ("distillation_token" in last)
    return count + (last["register_tokens"].shape[1] if "register_tokens" in last else 0)


def image_input(processor: Row, where: str) -> ImageInput:
    """What a `preprocessor_config.json` says of how images are resized, cropped and scaled."""
    size = processor.get("size", 224)
    sides: Row = {"shortest_edge": size} if isinstance(size, int) else size
    crop: Any = processor.get("crop_size", 224) if processor.get("do_center_crop") else None
    crop_sides = {crop} if isinstance(crop, int) else set((crop or {}).values())
    squash = "shortest_edge" not in sides
    resize = sides.get("shortest_edge") or sides.get("height")
    if (squash and sides.get("width") != resize) or len(crop_sides) > 1 or not isinstance(resize, int):
        raise BadFile(
            f"{where} takes images that are not square ({processor.get('size')}); that is not supported"
        )
    kept = crop_sides.pop() if crop_sides else resize
    if not crop and not squash:
        share = processor.get("crop_pct")
        resize, squash = (int(resize / share), False) if share and resize < 384 else (resize, True)
    if processor.get("do_rescale", True) and abs(processor.get("rescale_factor", 1 / 255) - 1 / 255) > 1e-6:
        raise BadFile(f"{where} scales pixels by {processor['rescale_factor']}; only 1/255 is supported")
    normal = processor.get("do_normalize", True)
    mean = _three(processor.get("image_mean") if normal else None, 0.0)
    std = _three(processor.get("image_std") if normal else None, 1.0)
    return ImageInput(resize, kept, RESAMPLES.get(processor.get("resample", 2), "bilinear"), mean, std, squash)


def _three(setting: Any, otherwise: float) -> tuple[float, float, float]:
    """Red, green and blue, of a list or of one number for all."""
    if not isinstance(setting, list):
        one = otherwise if setting is None else float(setting)
        return one, one, one
    red, green, blue = cast(list[float], setting)
    return red, green, blue
