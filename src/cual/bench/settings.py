"""What a run is: one features file, one protocol, some methods and seeds. Running it is `runner`'s business."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from cual.bench.drift import BOTH, Drift
from cual.bench.streams import Protocol
from cual.data.files import read
from cual.data.table import Table
from cual.errors import BadFile, BadOption
from cual.methods import methods as known_methods
from cual.types import Row

DIGITS = "digits"
"""In place of a features file: scikit-learn's digits."""
VARIED = (
    "first",
    "increment",
    "budget",
    "buffer",
    "rarity",
    "reuse",
    "natural",
    "imbalance",
    "wrong",
    "wrong_among_new",
    "synonyms",
    "skip",
    "turn",
    "drift",
    "looks",
    "strength",
    "pools",
)
"""Fields of a setting that are written into every row, so that rows of several runs can be told apart."""
OF_DRIFT = ("drift", "looks", "strength", "pools")
"""Fields that are written only where there is drift: without it a run is what it was before they were there."""


@dataclass(frozen=True)
class Setting:
    """One folder of results: every method with every seed on the same streams.

    Attributes
    ----------
    features
        Path of a features file, or "digits".
    name
        The dataset's name in results; the file's stem when not given.
    budget
        Labels per task: a share of the pool (float) or a number (int).
    buffer
        Samples in the replay memory.
    rarity, reuse, natural, imbalance
        How frequent classes are in pools; see `cual.bench.streams.Protocol`.
    wrong, skip
        Share of wrong and of skipped answers (an upper bound, such as the Oracle, is told the truth).
    wrong_among_new
        Whether a wrong answer about a class new in the task names another new one, where there is one.
    synonyms
        Share of samples whose class an answer calls by a second name.
    turn
        By how many places the order of classes is turned, so that others are unknown at first.
    drift, looks, strength, pools
        How known classes change from task to task; see `cual.bench.drift.Drift`.
    options
        Further options of `cual.methods.Method`, for all methods alike.
    label
        Of a parquet file, the column of labels, where it is not called as usual.
    made_by
        The commands that make the features, for the message when they are missing.

    >>> setting = Setting("features/eurosat.npz", methods=("cual", "cual-plus"), budget=0.005)
    >>> setting.dataset, setting.protocol.first, setting.varied()["budget"]
    ('eurosat', 2, 0.005)
    """

    features: str
    methods: tuple[str, ...] = ("cual",)
    seeds: tuple[int, ...] = (0,)
    first: int = 2
    increment: int = 1
    budget: float | int = 0.0125
    buffer: int = 2500
    name: str = ""
    rarity: float | None = None
    reuse: bool = True
    natural: bool = False
    imbalance: float | None = None
    wrong: float = 0.0
    wrong_among_new: bool = False
    synonyms: float = 0.0
    skip: float = 0.0
    turn: int = 0
    drift: str | None = None
    looks: tuple[str, ...] = ()
    strength: float = 0.5
    pools: str = BOTH
    device: str = "cpu"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    label: str | None = None
    made_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.methods or not self.seeds:
            raise BadOption("a run needs at least one method and one seed")
        for method in self.methods:
            _ = known_methods[method].but(**self.method_options)
        if len(set(self.methods)) < len(self.methods) or len(set(self.seeds)) < len(self.seeds):
            raise BadOption(f"a method or seed is named twice: {', '.join(self.methods)}; {self.seeds}")
        if self.drift is None and (self.looks or self.pools != BOTH):
            raise BadOption("looks and pools are options of a drift: say which one, for instance drift looks")
        _ = self.protocol

    @property
    def dataset(self) -> str:
        return self.name or Path(self.features).stem

    @property
    def method_options(self) -> Row:
        """What is changed in every method."""
        return {"buffer": self.buffer, **self.options}

    @property
    def protocol(self) -> Protocol:
        return Protocol(
            first=self.first,
            increment=self.increment,
            rarity=self.rarity,
            reuse=self.reuse,
            natural=self.natural,
            imbalance=self.imbalance,
            turn=self.turn,
            drift=None
            if self.drift is None
            else Drift(self.drift, self.looks, strength=self.strength, pools=self.pools),
        )

    def to_json(self) -> Row:
        """All that decides on the numbers of a run, as plain JSON."""
        row = asdict(self)
        del row["made_by"]
        row["features"] = Path(self.features).name
        row["name"] = self.dataset
        return json.loads(json.dumps(self._said(row)))

    def varied(self) -> Row:
        """What every row says of the setting."""
        return self._said({name: getattr(self, name) for name in VARIED})

    def _said(self, row: Row) -> Row:
        """A row without the fields that say nothing here, and that earlier runs do not have."""
        unsaid = (*(OF_DRIFT if self.drift is None else ()), *(() if self.turn else ("turn",)))
        unsaid += () if self.label else ("label",)
        return {name: value for name, value in row.items() if name not in unsaid}


DEFAULTS: Mapping[str, Any] = {f.name: f.default for f in fields(Setting) if f.default is not MISSING}
"""What a file means that was written before there was such a field."""


def check_features(settings: Iterable[Setting]) -> None:
    """Before a long run: all features files that are missing, and the commands that make them.

    >>> check_features([Setting("gone.npz", made_by=("cual embed photos -o gone.npz",))])
    Traceback (most recent call last):
    cual.errors.BadFile: gone.npz is missing. Make it with
      cual embed photos -o gone.npz
    """
    missing = {s.features: s for s in settings if s.features != DIGITS and not Path(s.features).exists()}
    if missing:
        messages = [
            "\n  ".join([f"{name} is missing" + (". Make it with" if s.made_by else ""), *s.made_by])
            for name, s in missing.items()
        ]
        raise BadFile("\n".join(messages))


def load_features(features: str, label: str | None = None) -> Table:
    """A features file, or the digits; `label` is the column of labels of a parquet file."""
    return digits() if features == DIGITS else read(features, labels=label)


def digits() -> Table:
    """scikit-learn's 1,797 digits of 8 × 8 pixels, scaled to 0 … 1; the class names are the digits."""
    import numpy as np
    from sklearn.datasets import load_digits

    bunch = cast(Any, load_digits())
    return Table(
        (bunch.data / 16).astype(np.float32), bunch.target, class_names=tuple(str(name) for name in range(10))
    )


def from_yaml(path: str | Path) -> dict[str, Setting]:
    """Named settings of a YAML file: names, each with fields of `Setting`; `defaults` holds for all others.

    ::

        defaults: {methods: [cual, er-entropy], seeds: [0, 1, 2], budget: 0.0125}
        eurosat: {features: features/eurosat.npz, first: 2, increment: 1, budget: 0.005}
        places: {features: features/places.npz, first: 10, increment: 5, buffer: 5000}

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "runs.yaml"
    >>> _ = file.write_text("defaults: {seeds: [0, 1]}\\nsmall: {features: digits, first: 5}")
    >>> from_yaml(file)["small"].seeds
    (0, 1)
    """
    import yaml

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise BadFile(f"{path} is not YAML: {error}") from error
    if not isinstance(content, dict) or not all(
        isinstance(row, dict) for row in cast(dict[Any, Any], content).values()
    ):
        raise BadFile(f"{path} must map names of runs to their fields")
    runs = cast(dict[str, Row], content)
    defaults = runs.pop("defaults", {})
    return {str(name): from_fields({**defaults, **row}, f"{path}, {name}") for name, row in runs.items()}


def called_like(named: Mapping[str, Setting], part: str) -> dict[str, Setting]:
    """Those of named settings whose name contains `part`.

    >>> list(called_like({"eurosat": Setting(DIGITS), "places": Setting(DIGITS)}, "euro"))
    ['eurosat']
    """
    chosen = {name: setting for name, setting in named.items() if part in name}
    if not chosen:
        raise BadOption(f"no run is called like {part!r}; there are {', '.join(named)}")
    return chosen


def from_fields(row: Mapping[str, Any], where: str) -> Setting:
    """A `Setting` from plain values; lists become tuples, unknown names an error that says where.

    >>> from_fields({"features": "digits", "seeds": [0, 1]}, "runs.yaml").seeds
    (0, 1)
    >>> from_fields({"first": 2}, "runs.yaml, eurosat")
    Traceback (most recent call last):
    cual.errors.BadOption: runs.yaml, eurosat: which features file? (field `features`)
    """
    known = {f.name for f in fields(Setting)}
    unknown = sorted(set(row) - known)
    if unknown:
        raise BadOption(f"{where}: no field {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    if "features" not in row:
        raise BadOption(f"{where}: which features file? (field `features`)")
    values: Row = {k: tuple(cast(list[Any], v)) if isinstance(v, list) else v for k, v in row.items()}
    return Setting(**values)
