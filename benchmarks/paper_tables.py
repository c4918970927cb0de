"""The paper's tables on the shared files, as far as they stand in for the paper's data.

    python benchmarks/paper_tables.py [vit,increments,readings] [--data ../shared/data] [--out out/paper-tables]
        [--seeds 0,1,2] [--jobs 2] [--device cpu] [--only NAME] [--tables] [--project FOLDER]

vit         figure 2, left table: its methods on features projected at random to 384 dimensions, the width of a
            ViT-S (the paper's ViT features cannot be had here: these are no ViT's, only as narrow as one's)
increments  appendix 4.3, table 1: 1, 3, 5 and 7 new classes per task at 2.5 %, on Places in place of Im21K-OOD
            (both have 50 classes)
readings    AL-oneshot and PseudoER read in two ways each, and CCIC: 2048 dimensions
rest        all other methods on the same files; not run unless it is named

A killed run goes on with the same command; each part is a folder of the bench under --out, with its summary.
--tables only prints what is there, as Markdown. --project only writes the projected files into a folder, for a
machine that the large ones do not reach. Needs numpy, torch and safetensors only.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from cual.bench.folder import read_rows
from cual.bench.jobs import run
from cual.bench.presets import CURVES, PAPER, SHARED, TABLE1
from cual.bench.progress import Progress
from cual.bench.results import Group, Value, grouped
from cual.bench.settings import Setting
from cual.methods import methods

WIDTH = 384
OURS = ("oracle-ridge", "cual-plus")
INCREMENTS = (1, 3, 5, 7)
READINGS = (
    "al-oneshot",
    "al-oneshot-both",
    "pseudo-er-entropy",
    "pseudo-er-entropy-all",
    "pseudo-er-margin",
    "pseudo-er-margin-all",
    "ccic",
)
PARTS = ("vit", "increments", "readings", "rest")


# -- features --------------------------------------------------------------------------------------------------


def projected(source: Path, target: Path) -> None:
    """Write features projected to `WIDTH` dimensions by one Gaussian matrix, in half precision as they were."""
    with np.load(source) as arrays:
        X = arrays["X"].astype(np.float32)
        rest = {name: arrays[name] for name in arrays if name != "X"}
    matrix = np.random.default_rng(0).standard_normal((X.shape[1], WIDTH)).astype(np.float32) / WIDTH**0.5
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".part.npz")
    np.savez(unfinished, X=(X @ matrix).astype(np.float16), **rest)
    unfinished.rename(target)


def narrow(name: str, data: Path, made: Path) -> Path:
    """The projected file of a shared one: that of the folder of data, else made from the wide one."""
    ready = data / f"{name}-{WIDTH}.npz"
    if ready.exists():
        return ready
    target = made / ready.name
    if not target.exists() and (data / f"{name}.npz").exists():
        projected(data / f"{name}.npz", target)
    return target


# -- what is run -----------------------------------------------------------------------------------------------


def vit(data: Path, made: Path) -> dict[str, Setting]:
    chosen = (*TABLE1, "pseudo-er-entropy-all", *OURS)
    return {
        f"vit-{name}": replace(protocol, features=str(narrow(name, data, made)), methods=chosen)
        for name, protocol in SHARED.items()
    }


def increments(data: Path, made: Path) -> dict[str, Setting]:
    del made
    base = replace(PAPER["im21k-ood"], features=str(data / "places50-r50.npz"), budget=0.025)
    chosen = (*CURVES, "pseudo-er-entropy-all", *OURS)
    return {f"increments-{n}": replace(base, increment=n, methods=chosen) for n in INCREMENTS}


def readings(data: Path, made: Path) -> dict[str, Setting]:
    del made
    return {
        f"readings-{name}": replace(protocol, features=str(data / f"{name}.npz"), methods=READINGS)
        for name, protocol in SHARED.items()
    }


def rest(data: Path, made: Path) -> dict[str, Setting]:
    others = tuple(name for name in methods.names() if name not in READINGS)
    return {
        name.replace("readings", "rest"): replace(setting, methods=others)
        for name, setting in readings(data, made).items()
    }


SETTINGS: dict[str, Callable[[Path, Path], dict[str, Setting]]] = {
    "vit": vit,
    "increments": increments,
    "readings": readings,
    "rest": rest,
}


# -- tables ----------------------------------------------------------------------------------------------------


def shown(value: Value | None) -> str:
    return "–" if value is None else f"{100 * value.mean:.1f} ± {100 * value.std:.1f}"


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [header, ["---", *["---:"] * (len(header) - 1)], *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def column_name(name: str, setting: Setting) -> str:
    return f"+{setting.increment}" if name.startswith("increments") else setting.dataset


def print_tables(named: dict[str, Setting], out: Path) -> None:
    """A table for each part: accuracy over tasks t ≥ 1 and over t ≥ 0, mean ± deviation over finished seeds."""
    for part in PARTS:
        groups: dict[str, Group] = {}
        for name, setting in named.items():
            rows = read_rows(out / name / "results.jsonl") if name.startswith(f"{part}-") else []
            if rows:
                (groups[column_name(name, setting)],) = grouped(rows)
        if not groups:
            continue
        every = dict.fromkeys(m for s in named.values() for m in s.methods)
        present = [m for m in every if any(m in g.methods for g in groups.values())]
        for title, read in (("t ≥ 1", Group.accuracy), ("t ≥ 0", Group.accuracy_from_0)):
            print(f"\n{part}, average accuracy over tasks {title} (%)\n")
            print(
                markdown(
                    ["method", *groups], [[m, *(shown(read(g, m)) for g in groups.values())] for m in present]
                )
            )
        seeds = sorted({len(g.streams(m)) for g in groups.values() for m in g.methods})
        seconds = sum(row["seconds"] for g in groups.values() for row in g.rows)
        print(f"\nFinished seeds per cell: {seeds}. Seconds of all tasks, streams side by side: {seconds:.0f}.")


# -- all of it -------------------------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="?", default=",".join(PARTS[:3]))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("out/paper-tables"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="runs whose name contains this")
    parser.add_argument("--tables", action="store_true", help="run nothing, print what is there")
    parser.add_argument("--project", type=Path, help="write the projected files into this folder, run nothing")
    args = parser.parse_args()
    args.parts = args.parts.split(",")
    unknown = [part for part in args.parts if part not in SETTINGS]
    if unknown:
        parser.error(f"no part is called {', '.join(unknown)}; there are {', '.join(SETTINGS)}")
    return args


def main() -> None:
    args = arguments()
    if args.project:
        for name in SHARED:
            print(narrow(name, args.data, args.project))
        return
    made = args.out / "features"
    seeds = tuple(int(seed) for seed in args.seeds.split(","))
    named = {
        name: replace(setting, seeds=seeds, device=args.device)
        for part in args.parts
        for name, setting in SETTINGS[part](args.data, made).items()
        if args.only in name
    }
    if not args.tables:
        missing = {setting.features for setting in named.values() if not Path(setting.features).exists()}
        for features in sorted(missing):
            print(f"skipped: no {features}", file=sys.stderr)
        there = {name: setting for name, setting in named.items() if setting.features not in missing}
        began = time.monotonic()

        def told(now: Progress) -> None:
            print(f"{now.done} of {now.total} tasks, {time.monotonic() - began:.0f} s", flush=True)

        if there:
            run(there, args.out, args.jobs, told)
    print_tables(named, args.out)


if __name__ == "__main__":  # each of the jobs imports this file
    main()
