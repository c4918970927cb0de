"""Text models of transformers: texts cut to what a model takes, and one vector of its tokens for each."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cual.encoders.base import Kind, Network, Setup, fingerprint
from cual.encoders.hf_images import joint_vectors
from cual.encoders.sentences import Sentences, pooled
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
        self,
        name: str,
        target: str,
        model: Any,
        pooling: str,
        max_tokens: int,
        sentences: Sentences,
        setup: Setup,
    ) -> None:
        self._tokens = _tokenizer(target)
        joint = hasattr(model, "get_text_features") and pooling == "auto"
        if pooling != "auto":  # what comes after the model's own pooling does not fit another one
            sentences = replace(sentences, modes=(pooling,), layers=())
        self._sentences = sentences
        self._pooling = "joint" if joint else "+".join(sentences.modes)
        self._most = _most_tokens(self._tokens, model, max_tokens, sentences.most_tokens)
        self._left_out = 0 if sentences.pools_prompt else _length(self._tokens, sentences.prompt)
        self._device = torch.device(setup.device)
        self._precision: torch.dtype = getattr(torch, setup.precision)
        self._model = (model if joint else _text_part(model)).eval().to(self._device)
        self._layers = torch.nn.Sequential(*sentences.layers).eval().to(self._device)
        self.name = name
        self.preprocessing: Row = {
            "max_tokens": self._most,
            "pooling": self._pooling,
            "unit_length": sentences.unit,
            "vocabulary": len(self._tokens),
            **sentences.facts(),
        }
        self.dim = int(self.encode(["a"]).shape[1])
        weights = state_sha256(self._model.state_dict() | sentences.state())
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
        before = self._sentences.prompt
        told = [f"{before}{text}" for text in texts]
        return self._tokens(
            [text.lower() for text in told] if self._sentences.lower else told,
            padding=True,
            truncation=True,
            max_length=self._most,
            return_tensors="pt",
        )

    def in_onnx(self) -> Network:
        """The network from tokens on; how texts become tokens is a fact beside it."""
        from cual.encoders.exporting import as_model

        tokenizer = getattr(self._tokens, "backend_tokenizer", None)
        if tokenizer is None:
            raise NotExportable(f"the tokenizer of {self.name} is Python code that cannot go along")
        given = self._tokenized(["a text", "and another one"]).to(self._device)
        examples = {name: given[name] for name in TOKENS}
        network = _FromTokens(self, self._model, self._layers)
        model = as_model(self.name, network, examples, also_free="tokens")
        return Network(model, {"tokenizer": tokenizer.to_str()})

    def feeds(self, batch: Sequence[str]) -> dict[str, AnyArray]:
        given = self._tokenized(batch)
        return {name: given[name].numpy() for name in TOKENS}

    def vectors(self, given: Any) -> Tensor:
        """One vector for each text, from its tokens."""
        vectors = self._layers(self._vectors(given).float())
        return torch.nn.functional.normalize(vectors, dim=1) if self._sentences.unit else vectors

    def _vectors(self, given: Any) -> Tensor:
        if self._pooling == "joint":
            return joint_vectors(self._model.get_text_features(**given))
        out = self._model(**given)
        if self._pooling == "pooler":
            if getattr(out, "pooler_output", None) is None:
                raise BadOption("this model has no pooler; use pooling=cls or pooling=mean")
            return out.pooler_output
        return pooled(self._sentences.modes, out.last_hidden_state, given["attention_mask"], self._left_out)


class _FromTokens(torch.nn.Module):
    """A text encoder as a network of its own."""

    def __init__(self, texts: Texts, model: Any, layers: torch.nn.Module) -> None:
        super().__init__()
        self.model, self.layers = model, layers  # named, so that their weights belong to the network
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


def _length(tokens: Any, prompt: str) -> int:
    """Tokens of a prompt, with the one that every text begins with, without the one that it ends with."""
    ids: list[int] = tokens(prompt)["input_ids"] if prompt else []
    return len(ids) - (bool(ids) and ids[-1] in (tokens.sep_token_id, tokens.eos_token_id))


def _most_tokens(tokens: Any, model: Any, wanted: int, said: int | None) -> int:
    """Tokens that a text is cut to: what the user wants, as far as the model goes."""
    config = getattr(model.config, "text_config", None) or model.config
    limit = min(
        tokens.model_max_length,
        said or LONGEST,
        getattr(config, "max_position_embeddings", None) or LONGEST,
        LONGEST,
    )
    return min(wanted or limit, limit)
