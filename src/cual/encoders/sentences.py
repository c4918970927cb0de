"""What a sentence-transformers model says of itself: pooling, layers after it, prompt. Its code never runs.

Names of classes in its settings are compared with those that are known here, and never imported; the package is
not needed.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from cual.errors import BadFile, BadOption
from cual.types import Row

LEGACY = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""Modes as flags, which several may be set of; newer releases write their names as ``pooling_mode``."""
ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    "Identity": nn.Identity,
    "Tanh": nn.Tanh,
    "ReLU": nn.ReLU,
    "GELU": nn.GELU,
    "SiLU": nn.SiLU,
    "Sigmoid": nn.Sigmoid,
}
_FOLDER = re.compile(r"[\w-]{1,100}", re.ASCII)
_MODULE = re.compile(r"sentence_transformers(?:\.\w+)*\.(\w+)", re.ASCII)


@dataclass(frozen=True)
class Sentences:
    """How tokens of a text become its vector."""

    modes: tuple[str, ...] = ("mean",)
    """Ways of pooling; vectors of several are put one behind the other."""
    layers: tuple[nn.Module, ...] = ()
    """What happens to the vector before it is scaled."""
    unit: bool = False
    """Whether it is scaled to length 1 at the end."""
    prompt: str = ""
    """What is put before every text."""
    pools_prompt: bool = True
    """Whether tokens of the prompt are pooled as well."""
    lower: bool = False
    """Whether texts are put into lower case, whatever the tokenizer does."""
    most_tokens: int | None = None

    def facts(self) -> Row:
        """What is beside the usual, for the encoder's fingerprint."""
        facts: Row = {}
        if self.layers:
            facts["layers"] = [str(layer) for layer in self.layers]
        if self.prompt:
            facts |= {"prompt": self.prompt, "pools_prompt": self.pools_prompt}
        if self.lower:
            facts["lower_case"] = True
        return facts

    def state(self) -> dict[str, Tensor]:
        """Weights of the layers."""
        return {
            f"sentence.{i}.{name}": weights
            for i, layer in enumerate(self.layers)
            for name, weights in layer.state_dict().items()
        }


@dataclass
class _Reading:
    """Settings of one model, read one after the other."""

    where: str
    settings: Callable[[str], Any]
    """The content of a JSON file that comes with the model; None where there is none."""
    weights: Callable[[str], Mapping[str, Tensor]]
    """The tensors in a folder of the model."""
    layers: list[nn.Module] = field(default_factory=list[nn.Module])
    pooling: Row | None = None
    unit: bool = False

    def module(self, row: Any) -> None:
        """Take over one entry of modules.json."""
        found = _MODULE.fullmatch(str(row.get("type", ""))) if isinstance(row, dict) else None
        kind = found[1] if found else ""
        folder = str(cast(Row, row).get("path", "")) if found else ""
        if folder and not _FOLDER.fullmatch(folder):
            raise BadFile(
                f"modules.json of {self.where} names the folder {folder!r:.100}, which is not inside it"
            )
        if self.unit:
            raise BadFile(f"{self.where} goes on after its vectors were scaled; that is not supported")
        if kind == "Transformer" and not folder:
            return
        if kind == "Pooling" and self.pooling is None and not self.layers:
            self.pooling = cast(Row, self.settings(f"{folder}/config.json") or {})
        elif kind == "Dense" and self.pooling is not None:
            self.layers.append(self._dense(folder))
        elif kind == "LayerNorm" and self.pooling is not None:
            self.layers.append(self._norm(folder))
        elif kind == "Normalize":
            self.unit = True
        elif kind != "Dropout":  # which does nothing once a model is trained
            raise BadFile(
                f"{self.where} has a part that is not supported: {str(row)[:200]}; give a function of your own "
                "(python:MODULE:FUNCTION)"
            )

    def _dense(self, folder: str) -> nn.Module:
        told = self.settings(f"{folder}/config.json") or {}
        if (
            told.get("use_residual")
            or told.get("module_input_name", "sentence_embedding") != "sentence_embedding"
        ):
            raise BadFile(f"{folder} of {self.where} is no plain layer; that is not supported")
        given = str(told.get("activation_function", "torch.nn.modules.activation.Tanh"))
        name = given.rpartition(".")[2]
        if not given.startswith("torch.nn.") or name not in ACTIVATIONS:
            raise BadFile(f"{folder} of {self.where} has the activation {given!r:.100}, which is not known")
        state = self.weights(folder)
        weight, bias = state["linear.weight"], state.get("linear.bias")
        linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
        linear.load_state_dict({"weight": weight} | ({} if bias is None else {"bias": bias}))
        return nn.Sequential(linear, ACTIVATIONS[name]())

    def _norm(self, folder: str) -> nn.Module:
        state = self.weights(folder)
        norm = nn.LayerNorm(len(state["norm.weight"]))
        norm.load_state_dict({"weight": state["norm.weight"], "bias": state["norm.bias"]})
        return norm


def read(
    where: str,
    settings: Callable[[str], Any],
    weights: Callable[[str], Mapping[str, Tensor]],
    prompt: str = "",
) -> Sentences:
    """How a model wants its tokens made into a vector; the mean of them, where it says nothing.

    Parameters
    ----------
    where
        The model, for errors.
    settings, weights
        Read a JSON file, and the tensors of a folder, of the model.
    prompt
        The name of one of its prompts; its own default if not given.
    """
    reading = _Reading(where, settings, weights)
    modules = settings("modules.json")
    try:
        for row in cast("list[Any]", modules or []):
            reading.module(row)
        if reading.pooling is None:
            reading.pooling = cast(Row, settings("1_Pooling/config.json") or {})
        text = cast(Row, settings("sentence_bert_config.json") or {})
        return Sentences(
            _modes(where, reading.pooling),
            tuple(reading.layers),
            reading.unit,
            _prompt(where, settings("config_sentence_transformers.json"), prompt),
            bool(reading.pooling.get("include_prompt", True)),
            bool(text.get("do_lower_case", False)),
            text.get("max_seq_length") or None,
        )
    except (KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise BadFile(f"the settings of {where} for sentences are damaged: {error!r}") from error


def _modes(where: str, pooling: Row) -> tuple[str, ...]:
    """
    >>> _modes("", {"pooling_mode": "cls"}), _modes("", {"pooling_mode_mean_tokens": True}), _modes("", {})
    (('cls',), ('mean',), ('mean',))
    """
    given = pooling.get("pooling_mode") or [mode for flag, mode in LEGACY.items() if pooling.get(flag)]
    modes = (given,) if isinstance(given, str) else tuple(cast("Sequence[str]", given)) or ("mean",)
    unknown = [mode for mode in modes if mode not in LEGACY.values()]
    if unknown:
        raise BadFile(f"{where} pools tokens by {unknown[0]!r:.100}, which is not known")
    return modes


def _prompt(where: str, told: Any, name: str) -> str:
    row = cast(Row, told or {})
    prompts = cast(Row, row.get("prompts") or {})
    chosen = name or row.get("default_prompt_name")
    if not chosen:
        return ""
    if chosen not in prompts:
        raise BadOption(
            f"{where} has no prompt {chosen!r:.100}; it has {', '.join(map(str, prompts)) or 'none'}"
        )
    return str(prompts[chosen] or "")


def read_weights(folder: Path) -> Mapping[str, Tensor]:
    """The tensors in a folder of a module, from safetensors, or from a file of torch that has nothing else."""
    from safetensors.torch import load_file

    if (folder / "model.safetensors").is_file():
        return load_file(folder / "model.safetensors")
    return torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)


def pooled(modes: Sequence[str], hidden: Tensor, mask: Tensor, left_out: int = 0) -> Tensor:
    """One vector for each text, of its tokens.

    Parameters
    ----------
    modes
        Ways of pooling.
    hidden, mask
        Tokens (n, length, width), and which of them are of the text (n, length); padding is on one side.
    left_out
        Tokens at the beginning of each text that are not pooled.

    >>> hidden, mask = torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[1, 1, 0]])
    >>> pooled(("cls", "max", "mean", "lasttoken"), hidden, mask).tolist()
    [[1.0, 3.0, 2.0, 3.0]]
    """
    places = mask.cumsum(dim=1) * mask  # 1, 2, … of the text's own tokens, 0 of padding
    used = (places > left_out).unsqueeze(-1)
    weights = used.to(torch.float32)
    tokens = hidden.float()
    parts: list[Tensor] = []
    for mode in modes:
        if mode in ("cls", "lasttoken"):
            place = places.clamp(max=left_out + 1) if mode == "cls" else places
            chosen = place.argmax(dim=1)
            parts.append(tokens.gather(1, chosen.reshape(-1, 1, 1).expand(-1, 1, tokens.shape[2])).squeeze(1))
        elif mode == "max":
            parts.append(tokens.masked_fill(~used, -torch.inf).amax(dim=1))
        else:
            share = weights * places.unsqueeze(-1) if mode == "weightedmean" else weights
            total = share.sum(dim=1).clamp(min=1e-9)
            root = total.sqrt() if mode == "mean_sqrt_len_tokens" else total
            parts.append((tokens * share).sum(dim=1) / root)
    return torch.cat(parts, dim=1)
