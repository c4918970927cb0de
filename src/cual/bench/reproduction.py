"""The paper's tables and figures at its own size: which runs, data and weights each needs, and what that takes.

Plans only. Fetching, encoding and running is done by `cual bench paper`. What it takes is an estimate, computed
here from the sizes below; none of it was measured at that size.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from cual.bench.presets import ENCODERS, PAPER, presets
from cual.bench.settings import Setting, called_like
from cual.errors import UnknownName


class Exhibit(NamedTuple):
    """A table or figure of the paper: where it stands there, and which runs of which preset make it."""

    place: str
    preset: str
    only: str = ""
    printed: str | None = None
    """The table of paper.json that has its figures; None where the paper prints none as numbers."""


EXHIBITS: Mapping[str, Exhibit] = {
    "figure1-left": Exhibit("figure 1, left: accuracy over tasks", "paper-table1", "swav-resnet50"),
    "figure1-right": Exhibit("figure 1, right: accuracy over budgets", "paper-budgets"),
    "figure2-left": Exhibit("figure 2, left table: methods", "paper-table1", printed="table1"),
    "figure2-right": Exhibit("figure 2, right table: ablations", "paper-ablations", printed="ablations"),
    "figure3-left": Exhibit(
        "figure 3, left: Cifar100 over tasks at 1.25 %", "paper-budgets", "cifar100-super-0.0125"
    ),
    "figure3-right": Exhibit("figure 3, right: Cifar100 over budgets", "paper-budgets", "cifar100-super"),
    "table1": Exhibit("appendix 4.3, table 1: class increments", "paper-increments", printed="increments"),
    "plants": Exhibit("section 3.1: Plants, which no table has", "paper-plants"),
}


class Facts(NamedTuple):
    """How large a dataset is; bytes are rounded up, guesses are said in docs/reproduce.md."""

    images: int
    classes: int
    fetched: int
    """Bytes that are downloaded by themselves; 0 where people must do it."""
    image: int
    """Bytes of a prepared image on disk."""


SIZES: Mapping[str, Facts] = {
    "eurosat": Facts(27_000, 10, 95 * 10**6, 4_096),
    "cifar100-super": Facts(50_000, 20, 169 * 10**6, 4_096),
    "places365-ood": Facts(9_822, 50, 2 * 10**9, 200_000),
    "im21k-ood": Facts(25_000, 50, 0, 85_000),
    "inat-plants-20": Facts(20_000, 20, 0, 275_000),
}
WIDTHS: Mapping[str, int] = {"swav-resnet50": 2048, "dino-vits16": 18_816}
HIDDEN = 4096
COMPONENTS = 200
"""Of a class's subspace, for the size of a saved agent."""
IMAGES_PER_SECOND = 500.0
"""Assumed of an encoder on one GPU with 16 cores that decode; not measured."""
SECONDS: Mapping[str, float] = {
    "oracle": 3.6,
    "cual": 4.8,
    "al-top": 5.2,
    "al-random": 5.8,
    "al-oneshot": 5.9,
    "only-al": 2.4,
    "only-al-random": 1.2,
    "only-al-8x": 4.9,
    "er-entropy": 2.6,
    "er-random": 1.3,
    "er-entropy-oneshot": 1.1,
    "pseudo-er-entropy": 7.0,
    "ccic": 2.8,
}
"""Per task, measured on EuroSAT's shared file with `STREAMS` streams on one H200 (docs/results.md, Cost)."""
STREAMS = 12
MEASURED_POOL = 1475.0
MEASURED_WIDTH = 2048.0


@dataclass(frozen=True)
class Features:
    """One features file that runs need: of a dataset, by an encoder."""

    dataset: str
    encoder: str
    file: Path

    @property
    def bytes(self) -> int:
        """Of the finished file, in half precision."""
        return 2 * SIZES[self.dataset].images * WIDTHS[self.encoder]


@dataclass(frozen=True)
class Needed:
    """Bytes on disk that are still needed, and hours, encoding and runs apart. Estimates."""

    disk: int
    encoding_hours: float
    running_hours: float


@dataclass(frozen=True)
class Layout:
    """Where everything lies below one folder.

    ``sources/DATASET`` is a local copy, an archive or a folder or a link to one; ``weights/FILE`` that of an
    encoder. What is fetched and made lies in ``data``, ``features`` and ``results``.
    """

    root: Path

    def data(self, dataset: str) -> Path:
        return self.root / "data" / dataset

    def source(self, dataset: str) -> Path | None:
        """The local copy of a dataset, if there is one; an archive may have its suffix."""
        found = sorted((self.root / "sources").glob(f"{dataset}*"))
        return found[0] if found else None

    def weights(self, file: str) -> Path | None:
        path = self.root / "weights" / file
        return path if path.is_file() else None

    @property
    def features(self) -> Path:
        return self.root / "features"

    def results(self, preset: str, quick: bool) -> Path:
        return self.root / "results" / (f"quick-{preset}" if quick else preset)


def exhibit(name: str) -> Exhibit:
    if name not in EXHIBITS:
        raise UnknownName(f"the paper has no {name!r} here; known: {', '.join(EXHIBITS)}")
    return EXHIBITS[name]


def settings_of(
    name: str, device: str, layout: Layout, only: str = "", quick: bool = False
) -> dict[str, Setting]:
    """The runs of an exhibit whose names contain `only`.

    `quick` ones have a seed, a small head and a few labels: they tell whether every step works, nothing else.
    """
    shown = exhibit(name)
    named = called_like(presets[shown.preset](device, layout.features), shown.only)
    named = called_like(named, only)
    return {n: _quick(s) for n, s in named.items()} if quick else named


def _quick(setting: Setting) -> Setting:
    labels = max(2, round(2000 * setting.budget))
    small = {"head": {"hidden": 64, "epochs": 2}, "rounds": 3}
    return replace(setting, seeds=(0,), budget=labels, buffer=200, options=small)


def features_of(settings: Mapping[str, Setting]) -> list[Features]:
    """Every features file that runs need, once."""
    by_stem = {f"{d}-{e}": (d, e) for d in PAPER for e in ENCODERS.values()}
    files = dict.fromkeys(Path(setting.features) for setting in settings.values())
    return [Features(*by_stem[file.stem], file) for file in files]


def needed(settings: Mapping[str, Setting], layout: Layout, jobs: int) -> Needed:
    """What is still to be done takes, as an estimate."""
    missing = [f for f in features_of(settings) if not f.file.exists()]
    unprepared = {f.dataset for f in missing if not layout.data(f.dataset).exists()}
    disk = sum(2 * f.bytes for f in missing)  # parts, and the file that is made of them
    for dataset in unprepared:
        facts = SIZES[dataset]
        disk += (0 if layout.source(dataset) else facts.fetched) + facts.images * facts.image
    disk += 2 * jobs * max((_agent_bytes(s) for s in settings.values()), default=0)
    encoding = sum(SIZES[f.dataset].images for f in missing) / IMAGES_PER_SECOND / 3600
    return Needed(disk, encoding, sum(_run_seconds(s) for s in settings.values()) / 3600)


def _of(setting: Setting) -> Features:
    return features_of({"": setting})[0]


def _agent_bytes(setting: Setting) -> int:
    """A saved agent: the head and the classes' subspaces in single precision, the memory in half."""
    of = _of(setting)
    width, classes = WIDTHS[of.encoder], SIZES[of.dataset].classes
    return width * (4 * HIDDEN + 2 * setting.buffer + 4 * classes * COMPONENTS)


def pool_size(setting: Setting) -> float:
    """Samples of a full pool: 65 % of 80 % of the new classes' images, and twice as many old ones."""
    facts = SIZES[_of(setting).dataset]
    return 3 * 0.65 * 0.8 * setting.increment * facts.images / facts.classes


def _run_seconds(setting: Setting) -> float:
    """Measured seconds per task, scaled up by the size of pools and the width of features."""
    of = _of(setting)
    tasks = math.ceil((SIZES[of.dataset].classes - setting.first) / setting.increment)
    scale = max(1.0, pool_size(setting) / MEASURED_POOL) * WIDTHS[of.encoder] / MEASURED_WIDTH
    per_task = sum(SECONDS.get(method, max(SECONDS.values())) for method in setting.methods)
    return len(setting.seeds) * tasks * per_task * scale / STREAMS


def size_of(n: float) -> str:
    """
    >>> size_of(3_400_000), size_of(4.2e10)
    ('3 MB', '42.0 GB')
    """
    return f"{n / 1e6:.0f} MB" if n < 1e9 else f"{n / 1e9:.1f} GB"


def unreachable(settings: Mapping[str, Setting], layout: Layout) -> dict[str, str]:
    """Datasets that people must fetch and that are not there, and what to do about each."""
    from cual.datasets import datasets
    from cual.datasets.base import AUTOMATIC_BYTES

    hints: dict[str, str] = {}
    for features in features_of(settings):
        dataset = datasets[features.dataset]
        large = dataset.download is None or dataset.download.most_bytes > AUTOMATIC_BYTES
        there = features.file.exists() or layout.data(dataset.name).exists() or layout.source(dataset.name)
        if large and not there:
            place = layout.root / "sources" / dataset.name
            hints[dataset.name] = f"{dataset.by_hand} Here, put it, or a link to it, at {place} instead."
    return hints


def without(settings: Mapping[str, Setting], datasets: Sequence[str]) -> dict[str, Setting]:
    """The runs that need none of some datasets."""
    return {name: s for name, s in settings.items() if _of(s).dataset not in datasets}
