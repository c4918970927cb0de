"""`cual bench paper`: a table or figure of the paper, from the data on. What that needs: `reproduction`."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from cual.cli.output import Bars, err, out
from cual.errors import BadOption, Unavailable

if TYPE_CHECKING:
    from cual.bench.reproduction import Features, Layout, Needed
    from cual.bench.settings import Setting

TABLES = "figure1-left, figure1-right, figure2-left, figure2-right, figure3-left, figure3-right, table1, plants"


def add_to(app: typer.Typer) -> None:
    app.command(no_args_is_help=True)(paper)


def paper(
    table: Annotated[str, typer.Argument(metavar="TABLE", help=f"One of {TABLES}.")],
    root: Annotated[Path, typer.Option(metavar="DIR", help="Where data, features and results lie, or shall.")],
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where it is there.")] = "auto",
    jobs: Annotated[int, typer.Option(min=1, help="Streams side by side, one process each.")] = 1,
    only: Annotated[str, typer.Option(metavar="NAME", help="Runs whose name contains this.")] = "",
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out datasets that people must fetch and have not.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what would be done and what it takes; do nothing.")
    ] = (False),
    quick: Annotated[
        bool, typer.Option("--quick", help="One seed, a small head: does every step work? No figure counts.")
    ] = False,
) -> None:
    """A table or figure of the paper: fetches data and weights, encodes, runs, reports. Goes on where it was.

    [cyan]cual bench paper figure2-left --root /data/paper --plan[/cyan]

    [cyan]cual bench paper figure2-left --root /data/paper --only eurosat --device cuda --jobs 8[/cyan]

    A local copy of a dataset, or a link to one, is taken from DIR/sources/NAME, weights from DIR/weights/FILE.
    """
    from cual.bench import reproduction as steps
    from cual.cli.embed import check_packages

    check_packages()
    chosen = _device(device)
    layout = steps.Layout(root)
    settings = steps.settings_of(table, chosen, layout, only, quick)
    missing = steps.unreachable(settings, layout)
    if skip_missing:
        settings = steps.without(settings, list(missing))
        for name in missing:
            err.print(
                f"left out: {name} is not there, and people must fetch it", highlight=False, soft_wrap=True
            )
        if not settings:
            raise Unavailable(f"nothing of {table} is left without {', '.join(missing)}")
        missing = {}
    needed = steps.needed(settings, layout, jobs)
    if plan:
        _show(table, settings, layout, missing, needed)
        return
    if missing:
        hints = "\n".join(f"{name}: {hint}" for name, hint in missing.items())
        raise Unavailable(
            f"{table} needs datasets that people must fetch; --skip-missing leaves them out.\n{hints}"
        )
    _check_room(root, needed, quick)
    todo = [f for f in steps.features_of(settings) if not f.file.exists()]
    for place, features in enumerate(todo, 1):
        head = f"{place} of {len(todo)}: {features.dataset}, {features.encoder}"
        err.print(escape(head), style="bold", highlight=False)
        _make(features, layout, chosen)
    _run(table, settings, layout, jobs, quick)


def _device(device: str) -> str:
    import torch

    from cual.cli.reading import check_device

    return check_device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)


def _check_room(root: Path, needed: "Needed", quick: bool) -> None:
    """Refuse before hours of work what the disk has no room for; a quick run is on whatever is there."""
    from cual.bench.reproduction import size_of

    root.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(root).free
    if free < needed.disk and not quick:
        raise BadOption(
            f"{root} has {size_of(free)} left, and about {size_of(needed.disk)} are needed. Make room, give "
            "another --root, or run it in parts with --only"
        )


def _make(features: "Features", layout: "Layout", device: str) -> None:
    """The features file of a dataset by an encoder, from whatever of it is there."""
    from cual.cli.embed import embed
    from cual.datasets import get

    folder = layout.data(features.dataset)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        bars = Bars()
        try:
            summary = get(features.dataset, folder, layout.source(features.dataset), bars)
        finally:
            bars.clear()
        line = f"{len(summary['classes'])} classes, {summary['images']} images in {folder}"
        out.print(escape(line), highlight=False, soft_wrap=True)
    features.file.parent.mkdir(parents=True, exist_ok=True)
    weights = layout.weights(_weights_file(features.encoder))
    embed(folder, features.file, encoder=features.encoder, weights=weights, device=device)


def _weights_file(encoder: str) -> str:
    from cual.encoders.resnet import SWAV
    from cual.encoders.vit import DINO

    return {"swav-resnet50": SWAV, "dino-vits16": DINO}[encoder].file


def _run(table: str, settings: "dict[str, Setting]", layout: "Layout", jobs: int, quick: bool) -> None:
    from cual.bench.jobs import run
    from cual.bench.report import report, terminal
    from cual.bench.reproduction import exhibit
    from cual.cli.bench import Tasks

    folder = layout.results(exhibit(table).preset, quick)
    with Tasks() as tell:
        run(settings, folder, jobs, tell)
    out.print(f"results in {escape(str(folder))}", highlight=False, soft_wrap=True)
    if quick:  # nobody wants to look at it, and drawing takes longer than all the rest
        err.print("a quick run: every step works; its figures mean nothing", style="yellow", highlight=False)
        return
    out.print(terminal(folder), highlight=False, markup=False, soft_wrap=True)
    out.print(f"report in {escape(str(report(folder, None)))}", highlight=False, soft_wrap=True)


def _show(
    table: str, settings: "dict[str, Setting]", layout: "Layout", missing: dict[str, str], needed: "Needed"
) -> None:
    from cual.bench import reproduction as steps

    shown = Table("features", "data", "state", "size")
    for features in steps.features_of(settings):
        name = features.dataset
        data = (
            "there" if layout.data(name).exists() else "local copy" if layout.source(name) else "to be fetched"
        )
        data = "by hand" if name in missing else data
        state = "there" if features.file.exists() else "to be encoded"
        shown.add_row(escape(features.file.name), data, state, steps.size_of(features.bytes))
    out.print(f"[bold]{escape(steps.exhibit(table).place)}[/bold]: {len(settings)} runs", highlight=False)
    out.print(shown)
    out.print(
        f"estimated, not measured: {steps.size_of(needed.disk)} of disk, {needed.encoding_hours:.1f} hours of "
        f"encoding and {needed.running_hours:.1f} of runs on one H200, {steps.STREAMS} streams side by side",
        highlight=False,
        soft_wrap=True,
    )
    for name, hint in missing.items():
        out.print(escape(f"{name}: {hint}"), highlight=False, soft_wrap=True)
