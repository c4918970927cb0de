"""Text models of transformers: texts cut to what a model takes, and one vector of its tokens for each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cual.encoders.base import Kind, Network, Setup, fingerprint
from cual.encoders.hf_images import joint_vectors
from cual.encoders.torch_images import state_sha256
from cual.errors import BadFile, BadOption, NotExportable
from cual.types import AnyArray, FloatArray, Row

AT_ONCE = 32
"""Texts of one forward pass: of like length, so that little of it is padding."""
LONGEST = 8192
TOKENS = ("input_ids", "attention_mask")
"""What the network is given of a tokenizer; all else is the same for every single text."""


class Texts:
    """A text encoder: tokens of the last layer as one vector."""

    kind: Kind = "text"

    def __init__(
        self, name: str, target: str, model: Any, pooling: str, max_tokens: int, settings: Row, setup: Setup
    ) -> None:
        self._tokens = _tokenizer(target)
        joint = hasattr(model, "get_text_features") and pooling == "auto"
        self._pooling = "joint" if joint else _pooling(settings) if pooling == "auto" else pooling
        self._most = _most_tokens(self._tokens, model, max_tokens, settings)
        self._unit = any(m["type"].endswith("Normalize") for m in settings.get("modules") or ())
        self._device = torch.device(setup.device)
        self._precision: torch.dtype = getattr(torch, setup.precision)
        self._model = (model if joint else _text_part(model)).eval().to(self._device)
        self.name = name
        self.preprocessing: Row = {
            "max_tokens": self._most,
            "pooling": self._pooling,
            "unit_length": self._unit,
            "vocabulary": len(self._tokens),
        }
        self.dim = int(self.encode(["a"]).shape[1])
        weights = state_sha256(self._model.state_dict())
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
        given = self._tokenized(texts).to(self._device)
        half = self._precision is not torch.float32
        with torch.inference_mode(), torch.autocast(self._device.type, self._precision, enabled=half):
            return self.vectors(given).cpu().numpy()

    def _tokenized(self, texts: Sequence[str]) -> Any:
        return self._tokens(
            list(texts), padding=True, truncation=True, max_length=self._most, return_tensors="pt"
        )

    def in_onnx(self) -> Network:
        """The network from tokens on; how texts become tokens is a fact beside it."""
        from cual.encoders.exporting import as_model

        tokenizer = getattr(self._tokens, "backend_tokenizer", None)
        if tokenizer is None:
            raise NotExportable(f"the tokenizer of {self.name} is Python code that cannot go along")
        given = self._tokenized(["a text", "and another one"]).to(self._device)
        examples = {name: given[name] for name in TOKENS}
        model = as_model(self.name, _FromTokens(self, self._model), examples, also_free="tokens")
        return Network(model, {"tokenizer": tokenizer.to_str()})

    def feeds(self, batch: Sequence[str]) -> dict[str, AnyArray]:
        given = self._tokenized(batch)
        return {name: given[name].numpy() for name in TOKENS}

    def vectors(self, given: Any) -> Tensor:
        """One vector for each text, from its tokens."""
        vectors = self._vectors(given).float()
        return torch.nn.functional.normalize(vectors, dim=1) if self._unit else vectors

    def _vectors(self, given: Any) -> Tensor:
        if self._pooling == "joint":
            return joint_vectors(self._model.get_text_features(**given))
        out = self._model(**given)
        if self._pooling == "pooler":
            if getattr(out, "pooler_output", None) is None:
                raise BadOption("this model has no pooler; use pooling=cls or pooling=mean")
            return out.pooler_output
        hidden = out.last_hidden_state
        if self._pooling == "cls":
            return hidden[:, 0]
        mask = given["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        return (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


class _FromTokens(torch.nn.Module):
    """A text encoder as a network of its own."""

    def __init__(self, texts: Texts, model: Any) -> None:
        super().__init__()
        self.model = model  # named, so that its weights belong to the network
        self._texts = texts

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self._texts.vectors({"input_ids": input_ids, "attention_mask": attention_mask})


def _tokenizer(target: str) -> Any:
    from transformers import AutoTokenizer

    try:
        tokens: Any = AutoTokenizer.from_pretrained(
            target, trust_remote_code=False, local_files_only=Path(target).is_dir()
        )
    except (OSError, ValueError, ImportError, KeyError, TypeError) as error:
        raise BadFile(f"{target} has no tokenizer, so it is no text model: {str(error)[:200]}") from error
    if tokens.pad_token is None:  # models that write text never pad; what is padded is not looked at
        tokens.pad_token = tokens.eos_token or tokens.unk_token
    return tokens


def _text_part(model: Any) -> Any:
    """The part of a model that reads text: half of one that takes images as well, or an encoder alone."""
    if hasattr(model, "get_text_features"):
        return model.text_model
    return model.get_encoder() if getattr(model.config, "is_encoder_decoder", False) else model


def _most_tokens(tokens: Any, model: Any, wanted: int, settings: Row) -> int:
    """Tokens that a text is cut to: what the user wants, as far as the model goes."""
    config = getattr(model.config, "text_config", None) or model.config
    limit = min(
        tokens.model_max_length,
        (settings.get("sentence_bert_config") or {}).get("max_seq_length") or LONGEST,
        getattr(config, "max_position_embeddings", None) or LONGEST,
        LONGEST,
    )
    return min(wanted or limit, limit)


def _pooling(settings: Row) -> str:
    return "cls" if (settings.get("1_Pooling/config") or {}).get("pooling_mode_cls_token") else "mean"
