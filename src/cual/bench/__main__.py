"""`python -m cual.bench run|report …`: the bench without typer and rich, for bare GPU machines."""

import argparse
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from cual.bench.jobs import Progress, run
from cual.bench.presets import presets
from cual.bench.settings import Setting, from_yaml
from cual.errors import BadOption, CualError


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0, or 1 after an error that is told in one line."""
    options = parser().parse_args(arguments)
    try:
        if options.command == "run":
            for folder in run(chosen(options), options.out, options.jobs, show):
                sys.stderr.write(f"\nresults in {folder}")
            sys.stderr.write("\n")
        else:
            from cual.bench.report import report, terminal

            sys.stdout.write(terminal(options.folder))
            sys.stderr.write(f"report in {report(options.folder, options.out)}\n")
    except CualError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m cual.bench", description="Rerun the paper's experiments.")
    commands = top.add_subparsers(dest="command", required=True)
    go = commands.add_parser("run", help="run streams; a killed run continues where it stopped")
    what = go.add_mutually_exclusive_group(required=True)
    what.add_argument("--features", help="features file with labels, or digits")
    what.add_argument("--preset", choices=presets.names(), help="a named set of runs")
    what.add_argument("--config", help="YAML file of named runs")
    default = Setting("digits")
    go.add_argument("--methods", type=names, default=("cual",), help="comma-separated; default cual")
    go.add_argument("--seeds", type=numbers, default=(0,), help="comma-separated; default 0")
    go.add_argument("--first", type=int, default=default.first, help="classes before the first task")
    go.add_argument("--increment", type=int, default=default.increment, help="new classes per task")
    go.add_argument(
        "--budget", type=amount, default=default.budget, help="share of a pool, or a number of labels"
    )
    go.add_argument("--buffer", type=int, default=default.buffer, help="samples in the replay memory")
    go.add_argument("--no-reuse", dest="reuse", action="store_false", help="each held-out sample appears once")
    go.add_argument("--rarity", type=float, help="old samples per new one, for rare new classes")
    go.add_argument("--wrong", type=float, default=0.0, help="share of wrong answers")
    go.add_argument("--skip", type=float, default=0.0, help="share of skipped answers")
    go.add_argument(
        "--option", type=option, action="append", default=[], metavar="NAME=VALUE", help="method option"
    )
    go.add_argument(
        "--features-dir", type=Path, default=Path("features"), help="with --preset: the features' folder"
    )
    go.add_argument("--only", help="with --preset or --config: runs whose name contains this")
    go.add_argument("--device", default="cpu")
    go.add_argument("--jobs", type=int, default=1, help="streams side by side, one process each")
    go.add_argument("--out", required=True, help="folder of the results")
    tell = commands.add_parser("report", help="tables, figures and one HTML page from results")
    tell.add_argument("folder")
    tell.add_argument("--out", help="where to write; default FOLDER/report")
    return top


def chosen(options: argparse.Namespace) -> Setting | dict[str, Setting]:
    """The settings that the flags ask for."""
    if options.features:
        fields = ("features", "methods", "seeds", "first", "increment", "budget", "buffer", "reuse", "rarity")
        fields += ("wrong", "skip", "device")
        return Setting(**{f: getattr(options, f) for f in fields}, options=dict(options.option))
    if options.preset:
        named = presets[options.preset](options.device, options.features_dir)
    else:
        named = {n: replace(s, device=options.device) for n, s in from_yaml(options.config).items()}
    kept = {n: s for n, s in named.items() if not options.only or options.only in n}
    if not kept:
        raise BadOption(f"no run is called like {options.only!r}; there are {', '.join(named)}")
    return kept


def names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in names(text))


def amount(text: str) -> float | int:
    """
    >>> amount("0.005"), amount("8")
    (0.005, 8)
    """
    return int(text) if text.isdigit() else float(text)


def option(text: str) -> tuple[str, Any]:
    """
    >>> option("alpha=0.1"), option("score=entropy")
    (('alpha', 0.1), ('score', 'entropy'))
    """
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def show(progress: Progress) -> None:
    """One line per finished task."""
    row = progress.row
    if row is None:
        return
    left = "" if math.isnan(progress.seconds_left) else f", {progress.seconds_left / 60:.1f} min left"
    sys.stderr.write(
        f"{progress.done}/{progress.total} {row['dataset']} {row['method']} seed {row['seed']} "
        f"task {row['task']}: {100 * row['accuracy']:.1f} %{left}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
