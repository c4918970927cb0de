"""How agents follow known classes that change while new ones appear, against the agent that stays as it is.

    python benchmarks/drift.py [pacs,pictures,smooth] [--data ../shared/data] [--seeds 10,11]
        [--methods cual-plus,er-random,oracle-ridge] [--budgets 0.02,0.1] [--jobs 2] [--out out/drift.jsonl]
        [--choices 4] [--per-class 150] [--figure out/drift/pictures.svg]

pacs        ../shared/data/pacs-lite0.npz: six classes known from photos, one unknown; four choices of that one
            for each seed, which draws them. Pools of art, cartoons and sketches, (a) each met by the first
            agent, (b) one after the other.
pictures    ../shared/data/eurosat-images with haze, blur, a colour cast and noise in growing strength, embedded
            with efficientnet-lite0: six classes known from clean pictures, then four pools of the same classes
            (drift alone) or with one new class each (both). Features are kept in the folder of --out;
            --per-class takes fewer pictures. Draws accuracy over strength.
smooth      eurosat-r50.npz with a growing shift, rotation or scale of features; drift alone, novelty alone,
            both.

Seeds 0 to 4 are for reported figures, 10, 11, … for trying.

A table per budget has a line per method and look: accuracy on the present look of the first agent (frozen) and
after adapting; on the first look (of the first classes) before and after; AUROC of novel against old samples of
the pool by the first and by the last scores; which share was called novel at first and at the end, and which
is; the worst gain of one stream over the frozen agent, and over the agent before this task; questions about old
samples, of all. In percent: mean ± deviation over seeds, of means over choices. Methods that are told every
label are in every table.

Finished streams and features of pictures are kept and not made again, unless the method or the protocol has
changed since; code that changed is not noticed.
"""

import argparse
import json
import math
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cual_plus import Results, checked, markdown, mean, spread
from PIL import Image, ImageFilter

from cual.bench import figures
from cual.bench.results import Value
from cual.bench.rows import Truth
from cual.bench.runner import Data, fit_first, walk
from cual.bench.runner import load as load_file
from cual.bench.settings import Setting
from cual.data.table import Table
from cual.methods import methods
from cual.seeds import generator

PHOTO = "photo"
LOOKS = ("art_painting", "cartoon", "sketch")
LEVELS = 4
"""Strengths of a corruption; one task each."""
ENCODER = "efficientnet-lite0"
KEPT = (
    "task", "look", "accuracy", "frozen_accuracy", "accuracy_before", "first_look_accuracy",
    "first_look_frozen_accuracy", "novelty_auroc_first", "novelty_auroc_last", "novel_share",
    "novel_share_first", "novel_share_last", "drifted_queried", "labels_used", "pool_size", "classes_missed",
    "pseudo_labels", "pseudo_label_accuracy",
)  # fmt: skip
"""Columns of a result row that tables are made of."""

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Job:
    """One stream: a setting with one method and one seed, and the part of the tables that it belongs to."""

    part: str
    setting: Setting
    cache: str = ""
    """Where features of pictures are kept."""

    @property
    def method(self) -> str:
        return self.setting.methods[0]

    @property
    def seed(self) -> int:
        return self.setting.seeds[0]

    @property
    def identity(self) -> dict[str, Any]:
        """All that decides on its numbers, as plain JSON, but for the code and the device."""
        row = self.setting.to_json()
        del row["device"]
        composition = methods[self.method].but(**self.setting.method_options).to_json()
        return row | {"composition": json.loads(json.dumps(composition))}


def run(job: Job) -> dict[str, Any]:
    """One stream, as one row."""
    torch.set_num_threads(1)
    setting = job.setting
    data = pictures(job.cache, setting.dataset) if setting.drift == "given" else load_file(setting.features)
    agent = fit_first(setting, job.method, job.seed, data, data.stream(setting, job.seed))
    steps = walk(setting, job.method, job.seed, data, agent)
    return {"run": job.identity, "tasks": [{name: step.row[name] for name in KEPT} for step in steps]}


# -- which streams there are -----------------------------------------------------------------------------------


def told_all(method: str) -> bool:
    """Whether a method is told every label, whatever the budget."""
    return math.isinf(methods[method].budget_factor)


def streams(args: argparse.Namespace, part: str, setting: Setting) -> Iterator[Job]:
    """A setting with every method, budget and seed."""
    for method in args.methods:
        for budget in (1.0,) if told_all(method) else args.budgets:
            for seed in args.seeds:
                chosen = replace(setting, methods=(method,), seeds=(seed,), budget=budget)
                yield Job(part, chosen, str(cache_of(args)))


def pacs_jobs(args: argparse.Namespace) -> Iterator[Job]:
    parts = {"each met by the first agent": [(PHOTO, look) for look in LOOKS]}
    parts["one after the other"] = [(PHOTO, *LOOKS)]
    for part, orders in parts.items():
        for looks in orders:
            for turn in range(args.choices):
                file = str(args.data / "pacs-lite0.npz")
                setting = Setting(file, first=6, turn=turn, drift="looks", looks=looks)
                yield from streams(args, f"PACS, {part}", setting)


def picture_jobs(args: argparse.Namespace) -> Iterator[Job]:
    for corruption in CORRUPTIONS:
        for pools, words in (("drift", "drift alone"), ("both", "drift and novelty")):
            name = f"eurosat-{corruption}-{args.per_class}"
            setting = Setting(
                name, name=name, first=10 - LEVELS, drift="given", strength=1 / LEVELS, pools=pools
            )
            yield from streams(args, f"EuroSAT with {corruption}, {words}", setting)


def smooth_jobs(args: argparse.Namespace) -> Iterator[Job]:
    for kind in ("shift", "rotation", "scale"):
        alone = ("novelty",) if kind == "shift" else ()  # without drift they are all the same
        for pools in (*alone, "drift", "both"):
            setting = Setting(str(args.data / "eurosat-r50.npz"), first=6, drift=kind, pools=pools)
            yield from streams(args, f"EuroSAT features, {kind}, pools with {pools}", setting)


JOBS: dict[str, Callable[[argparse.Namespace], Iterator[Job]]] = {
    "pacs": pacs_jobs,
    "pictures": picture_jobs,
    "smooth": smooth_jobs,
}


# -- pictures --------------------------------------------------------------------------------------------------


def haze(pixels: np.ndarray, strength: float, rng: np.random.Generator) -> np.ndarray:
    """Bright grey laid over the picture, thicker in some places than in others; at 1 it hides four fifths."""
    coarse = Image.fromarray(rng.random((4, 4)).astype(np.float32))
    field = np.asarray(coarse.resize(pixels.shape[1::-1], Image.Resampling.BICUBIC))[..., None]
    thickness = np.clip(strength * (0.6 + 0.4 * field), 0, 0.95)
    return (1 - thickness) * pixels + thickness * 225


def blur(pixels: np.ndarray, strength: float, rng: np.random.Generator) -> np.ndarray:
    """Out of focus by up to 3 pixels (of 64)."""
    del rng
    image = Image.fromarray(pixels.astype(np.uint8))
    return np.asarray(image.filter(ImageFilter.GaussianBlur(3 * strength)), dtype=np.float32)


def cast(pixels: np.ndarray, strength: float, rng: np.random.Generator) -> np.ndarray:
    """Redder and less blue, as late light or an ageing sensor."""
    del rng
    return pixels * np.array([1 + 0.6 * strength, 1, 1 - 0.6 * strength], dtype=np.float32)


def noise(pixels: np.ndarray, strength: float, rng: np.random.Generator) -> np.ndarray:
    """Every value disturbed, with a deviation of up to 30 of 255."""
    return pixels + 30 * strength * rng.standard_normal(pixels.shape, dtype=np.float32)


CORRUPTIONS = {"haze": haze, "blur": blur, "cast": cast, "noise": noise}


def corrupted(image: Image.Image, corruption: str, strength: float, place: int) -> Image.Image:
    """A picture with a corruption of strength 0 … 1; what is random about it is the picture's own."""
    rng = generator(place, 0, 0, f"drift {corruption}")
    pixels = CORRUPTIONS[corruption](np.asarray(image.convert("RGB"), dtype=np.float32), strength, rng)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def cache_of(args: argparse.Namespace) -> Path:
    return args.out.parent / "drift"


def embed_pictures(folder: Path, cache: Path, per_class: int) -> None:
    """Features of clean and corrupted pictures; what is there already stays."""
    from cual.encoders import make

    wanted = {cache / f"eurosat-clean-{per_class}.npz": ("", 0.0)}
    for corruption in CORRUPTIONS:
        for level in range(1, LEVELS + 1):
            wanted[cache / f"eurosat-{corruption}-{per_class}-{level}.npz"] = (corruption, level / LEVELS)
    missing = {path: how for path, how in wanted.items() if not path.exists()}
    if not missing:
        return
    cache.mkdir(parents=True, exist_ok=True)
    files = [file for kind in sorted(folder.iterdir()) for file in sorted(kind.iterdir())[:per_class]]
    images = [Image.open(file).copy() for file in files]
    y = np.array([file.parent.name for file in files])
    encoder = make(ENCODER)
    for n, (path, (corruption, strength)) in enumerate(missing.items(), 1):
        prepared = (
            encoder.prepare(corrupted(image, corruption, strength, i) if corruption else image.convert("RGB"))
            for i, image in enumerate(images)
        )
        X = np.concatenate([encoder.encode(batch) for batch in batches(prepared)]).astype(np.float16)
        unfinished = path.with_suffix(".unfinished.npz")
        np.savez(unfinished, X=X, y=y, encoder=encoder.fingerprint)
        unfinished.replace(path)
        print(f"\r{n} of {len(missing)} sets of pictures embedded", end="", flush=True)
    print()


def batches(items: Iterable[Any], size: int = 64) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


@lru_cache(maxsize=1)
def pictures(cache: str, name: str) -> Data:
    """Clean pictures, and the same ones with the corruption of each task."""
    *_, corruption, per_class = name.split("-")

    def features(what: str) -> np.ndarray:
        with np.load(Path(cache) / f"{what}.npz") as arrays:
            return arrays["X"].astype(np.float32)

    with np.load(Path(cache) / f"eurosat-clean-{per_class}.npz") as arrays:
        table = Table(arrays["X"].astype(np.float32), arrays["y"])
    changed = [features(f"eurosat-{corruption}-{per_class}-{level}") for level in range(1, LEVELS + 1)]
    return Data(table, Truth.of(table), changed)


def drawn(parts: Mapping[str, Mapping[tuple[str, float], list[Rows]]], path: Path) -> None:
    """Accuracy of agents that follow (lines) and of the first one (dashed) over the strength of corruptions."""
    alone = {name: lines for name, lines in parts.items() if name.endswith("drift alone")}
    labels = [f"{name.split(',')[0].removeprefix('EuroSAT ')}, accuracy (%)" for name in alone]
    figure, panels = figures.side_by_side("strength", labels, width=3.4 * len(labels) + 1.6)
    for axes, lines in zip(panels, alone.values(), strict=True):
        for (method, budget), some in lines.items():
            words = method if told_all(method) else f"{method}, {100 * budget:g} %"
            shade = figures.colour(method)
            style = "-" if told_all(method) or budget == max(b for m, b in lines if m == method) else ":"
            figures.band(axes, over_strength(some, "accuracy"), words, shade, style)
        first = next(iter(lines.values()))
        figures.band(axes, over_strength(first, "frozen_accuracy"), "frozen", figures.INK, "--")
        axes.set_ylim(0, 100)
    figures.save(figures.done(figure, *panels), path)
    print(f"\nfigure in {path}")


def over_strength(some: Sequence[Rows], name: str) -> dict[float, Value]:
    """A column over the strength of the tasks, from the clean pictures on, with its deviation over streams."""
    clean = [tasks[0]["first_look_frozen_accuracy"] for tasks in some]
    columns = zip(*([row[name] for row in tasks] for tasks in some), strict=True)
    return {0.0: Value.of(clean)} | {
        level / LEVELS: Value.of(list(values)) for level, values in enumerate(columns, 1)
    }


# -- tables ----------------------------------------------------------------------------------------------------

HEADER = (
    "method", "look", "frozen", "after", "first look before", "first look after", "AUROC first", "last",
    "called novel at first", "at the end", "truly", "worst gain over frozen", "over before", "questions on old",
)  # fmt: skip


def table(lines: Mapping[tuple[str, float], list[tuple[int, Rows]]]) -> Iterator[str]:
    """A line per method and look; streams come with their seeds."""

    def cells(method: str, rows: Mapping[int, Rows]) -> list[str]:
        def over_seeds(name: str) -> str:
            known = ([row[name] for row in some if row[name] is not None] for some in rows.values())
            return spread(float(np.mean(values)) for values in known if values)

        every = [row for some in rows.values() for row in some]
        return [
            method,
            every[0]["look"],
            over_seeds("frozen_accuracy"),
            over_seeds("accuracy"),
            over_seeds("first_look_frozen_accuracy"),
            over_seeds("first_look_accuracy"),
            over_seeds("novelty_auroc_first"),
            over_seeds("novelty_auroc_last"),
            over_seeds("novel_share_first"),
            over_seeds("novel_share_last"),
            over_seeds("novel_share"),
            *(
                f"{100 * min(row['accuracy'] - row[other] for row in every):+.1f}"
                for other in ("frozen_accuracy", "accuracy_before")
            ),
            f"{mean((row['drifted_queried'] for row in every), '.1f')} of "
            f"{mean((row['labels_used'] for row in every), '.1f')}",
        ]

    def body() -> Iterator[list[str]]:
        for (method, _), some in lines.items():
            places = dict.fromkeys((row["look"], row["task"]) for _, tasks in some for row in tasks)
            for place in places:
                rows: dict[int, list[Mapping[str, Any]]] = {}
                for seed, tasks in some:
                    rows.setdefault(seed, []).extend(r for r in tasks if (r["look"], r["task"]) == place)
                yield cells(method, rows)

    yield from markdown(HEADER, body())


def show(
    parts: Mapping[str, Mapping[tuple[str, float], list[tuple[int, Rows]]]], budgets: Sequence[float]
) -> None:
    for part, lines in parts.items():
        for budget in budgets:
            own = {key: some for key, some in lines.items() if key[1] == budget or told_all(key[0])}
            seeds = sorted({seed for some in own.values() for seed, _ in some})
            print(f"\n{part}, {100 * budget:g} %, seeds {', '.join(map(str, seeds))}\n")
            for line in table(own):
                print(line)


# -- all streams -----------------------------------------------------------------------------------------------


def run_all(jobs: Sequence[Job], results: Results, processes: int) -> int:
    """Run streams and keep their rows; says how many failed."""
    failed = 0
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run, job): job for job in jobs}
        for n, future in enumerate(as_completed(running), 1):
            try:
                results.add(future.result())
            except Exception as error:
                failed += 1
                job = running[future]
                print(f"\rfailed: {job.part}, {job.method}, seed {job.seed}: {type(error).__name__}: {error}")
            print(f"\r{n} of {len(jobs)} streams", end="", flush=True)
    print()
    return failed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="?", default="pacs", help="one of the above, or several with commas")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", default="10,11")
    parser.add_argument("--methods", default="cual-plus,er-random,oracle-ridge")
    parser.add_argument("--budgets", default="0.02,0.1")
    parser.add_argument("--choices", type=int, default=4, help="of PACS: classes that are the unknown one")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--per-class", type=int, default=150, help="pictures of each class")
    parser.add_argument("--out", type=Path, default=Path("out/drift.jsonl"))
    parser.add_argument("--figure", type=Path, help="DIR/drift/pictures.svg beside --out if not given")
    args = parser.parse_args()
    args.kinds = args.kinds.split(",")
    args.methods = args.methods.split(",")
    args.seeds = [int(seed) for seed in args.seeds.split(",")]
    args.budgets = [float(budget) for budget in args.budgets.split(",")]
    checked(parser, "kind", args.kinds, JOBS)
    checked(parser, "method", args.methods, methods.names())
    return args


NEEDED = {"pacs": "pacs-lite0.npz", "pictures": "eurosat-images", "smooth": "eurosat-r50.npz"}


def main() -> None:
    args = arguments()
    results = Results(args.out)
    failed = 0
    for kind in args.kinds:
        if not (args.data / NEEDED[kind]).exists():
            print(f"skipped: {kind}, no {NEEDED[kind]} in {args.data}")
            continue
        if kind == "pictures":
            embed_pictures(args.data / NEEDED[kind], cache_of(args), args.per_class)
        jobs = list(JOBS[kind](args))
        failed += run_all([job for job in jobs if not results.of(job)], results, args.jobs)
        parts: dict[str, dict[tuple[str, float], list[tuple[int, Rows]]]] = {}
        for job in jobs:
            if row := results.of(job):
                lines = parts.setdefault(job.part, {})
                lines.setdefault((job.method, job.setting.budget), []).append((job.seed, row["tasks"]))
        show(parts, args.budgets)
        if kind == "pictures" and parts:
            streams_only = {
                part: {key: [tasks for _, tasks in some] for key, some in lines.items()}
                for part, lines in parts.items()
            }
            drawn(streams_only, args.figure or cache_of(args) / "pictures.svg")
    if failed:
        sys.exit(f"{failed} streams failed")


if __name__ == "__main__":
    main()
