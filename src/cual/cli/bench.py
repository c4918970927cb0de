"""`cual bench run`, `report` and `leaderboard`: flags and progress bars around `cual.bench`."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from cual.cli import paper
from cual.cli.options import LabelsIn, RayAddress
from cual.cli.output import err, out
from cual.errors import BadOption

if TYPE_CHECKING:
    from cual.bench import formats, progress

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Run streams of tasks with several methods and seeds, and report on them.",
)


@app.command(no_args_is_help=True)
def run(
    output: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the results.")],
    features: Annotated[
        str | None, typer.Option(metavar="FILE", help="Features with labels: .npz or parquet; or digits.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="A named set of runs instead: smoke, paper-table1, …")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="YAML", help="A file of named runs instead.")] = None,
    methods: Annotated[
        str, typer.Option(help="Comma-separated; one of your own is python:module:NAME.")
    ] = "cual-plus,cual",
    seeds: Annotated[str, typer.Option(help="Comma-separated.")] = "0",
    first: Annotated[int, typer.Option(help="Classes before the first task.")] = 2,
    increment: Annotated[int, typer.Option(help="New classes per task.")] = 1,
    budget: Annotated[
        str, typer.Option(help="Labels per task: a share of the pool (0.0125) or a number (20).")
    ] = "0.0125",
    buffer: Annotated[int, typer.Option(help="Samples in the replay memory.")] = 2500,
    no_reuse: Annotated[
        bool, typer.Option("--no-reuse", help="Each held-out sample appears in one pool only.")
    ] = False,
    rarity: Annotated[float | None, typer.Option(help="Old samples per new one, for rare new classes.")] = None,
    natural: Annotated[
        bool, typer.Option("--natural", help="Old samples are as frequent as their classes, not evenly drawn.")
    ] = False,
    imbalance: Annotated[
        float | None, typer.Option(help="Largest class in smallest ones: classes are thinned to a power law.")
    ] = None,
    wrong: Annotated[float, typer.Option(help="Share of wrong answers.")] = 0.0,
    wrong_among_new: Annotated[
        bool,
        typer.Option("--wrong-among-new", help="Wrong answers about a new class name another new one."),
    ] = False,
    synonyms: Annotated[float, typer.Option(help="Share of samples called by a second name.")] = 0.0,
    skip: Annotated[float, typer.Option(help="Share of skipped answers.")] = 0.0,
    turn: Annotated[
        int, typer.Option(help="Turn the order of classes by so many places: others are unknown at first.")
    ] = 0,
    drift: Annotated[
        str | None,
        typer.Option(help="Known classes change from task to task: looks, shift, rotation or scale."),
    ] = None,
    looks: Annotated[
        str, typer.Option(help="Looks of the first classes and of each task, comma-separated; some may recur.")
    ] = "",
    strength: Annotated[
        float, typer.Option(help="Of shift, rotation and scale: how much more per task, in deviations.")
    ] = 0.5,
    pools: Annotated[
        str, typer.Option(help="With --drift, what is unfamiliar in pools: both, drift or novelty.")
    ] = "both",
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Change an option of all methods, as in cual fit; may be repeated."
        ),
    ] = None,
    label: LabelsIn = None,
    features_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="With --preset: where the features lie.")
    ] = Path("features"),
    only: Annotated[
        str, typer.Option(metavar="NAME", help="With --preset or --config: runs whose name contains this.")
    ] = "",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    jobs: Annotated[
        int,
        typer.Option(help="Streams side by side, one process each. With --ray: streams that share a GPU."),
    ] = 1,
    ray: RayAddress = None,
) -> None:
    """Run streams: fit on the first classes, then adapt task after task. A run that was ended goes on.

    Writes DIR/results.jsonl, one row per task, and DIR/summary.json with the average accuracy of each method.

    [cyan]cual bench run --features f.npz --methods cual,er-entropy --seeds 0,1 --out results[/cyan]

    [cyan]cual bench run --preset smoke --out results/smoke[/cyan]

    [cyan]cual bench run --features f.npz --methods cual,python:mine.py:MINE --out results[/cyan]

    [cyan]cual bench run --features f.npz --drift looks --looks photo,sketch --first 6 --out results[/cyan]

    [cyan]cual bench run --features f.npz --seeds 0,1,2,3 --out results --ray auto[/cyan]
    """
    from cual.bench.jobs import run as run_bench
    from cual.bench.presets import presets
    from cual.bench.settings import Setting, called_like, from_yaml
    from cual.cli.own_parts import method_name
    from cual.cli.reading import check_device, read_budget, read_options

    if sum(way is not None for way in (features, preset, config)) != 1:
        raise BadOption("say what to run with one of --features, --preset and --config")
    if ray is None:
        device = check_device(device)
    settings: Setting | dict[str, Setting]
    if features is not None:
        settings = Setting(
            features,
            methods=tuple(method_name(name) for name in _names(methods)),
            seeds=_seeds(seeds),
            first=first,
            increment=increment,
            budget=read_budget(budget),
            buffer=buffer,
            rarity=rarity,
            reuse=not no_reuse,
            natural=natural,
            imbalance=imbalance,
            wrong=wrong,
            wrong_among_new=wrong_among_new,
            synonyms=synonyms,
            skip=skip,
            turn=turn,
            drift=drift,
            looks=_names(looks),
            strength=strength,
            pools=pools,
            device=device,
            options=read_options(option or []),
            label=label,
        )
    elif preset is not None:
        settings = called_like(presets[preset](device, features_dir), only)
    else:
        named = from_yaml(config) if config is not None else {}
        settings = called_like({name: replace(each, device=device) for name, each in named.items()}, only)
    if ray is None:
        with Tasks() as tell:
            folders = run_bench(settings, output, jobs, tell)
    else:
        from cual.bridges import ray as on_ray

        with on_ray.connected(ray) as cluster, Tasks() as tell:
            folders = on_ray.run(cluster, settings, output, jobs, tell)
    for folder in folders:
        out.print(f"results in {escape(str(folder))}", highlight=False, soft_wrap=True)


@app.command(no_args_is_help=True)
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where `cual bench run` wrote.")],
    output: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to write; DIR/report if not given.")
    ] = None,
) -> None:
    """Tables and figures of results: in the terminal, as files, and as one HTML page.

    [cyan]cual bench report results[/cyan]
    """
    from cual.bench.report import report as write_report
    from cual.bench.report import terminal

    out.print(terminal(folder), highlight=False, markup=False, soft_wrap=True)
    out.print(f"report in {escape(str(write_report(folder, output)))}", highlight=False, soft_wrap=True)


@app.command(no_args_is_help=True)
def leaderboard(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="Folders with results, of whoever ran the bench.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder of the page.")],
) -> None:
    """Put results of several runs side by side, the best first: index.html and leaderboard.md.

    Runs stand together where the protocol's version, the features, the budget and all else of the stream are
    the same. A folder whose summary.json does not follow from its results.jsonl is refused.

    [cyan]cual bench leaderboard results theirs -o leaderboard[/cyan]
    """
    from cual.bench.leaderboard import leaderboard as write_leaderboard
    from cual.cli.output import check_parent

    check_parent(output)
    path = write_leaderboard(folders, output)
    out.print(f"leaderboard in {escape(str(path))}", highlight=False, soft_wrap=True)


paper.add_to(app)


def _names(text: str) -> tuple[str, ...]:
    """
    >>> _names("cual, er-entropy")
    ('cual', 'er-entropy')
    """
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in _names(text))
    except ValueError:
        raise BadOption(f"--seeds takes whole numbers like 0,1,2, not {text!r}") from None


class Tasks:
    """A bar of finished tasks with the time left; without a terminal, one line per task."""

    def __enter__(self) -> Self:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self._bar = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
        self._task = self._bar.add_task("starting", total=None, left="")
        self._bar.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.stop()

    def __call__(self, now: "progress.Progress") -> None:
        row = now.row
        what = f"{row['dataset']} {row['method']} seed {row['seed']} task {row['task']}" if row else "starting"
        left = "" if math.isnan(now.seconds_left) else f"{time_left(now.seconds_left)} left"
        self._bar.update(self._task, description=what, completed=now.done, total=now.total, left=left)
        if row and not err.is_terminal:
            line = f"{now.done}/{now.total} {what}: {100 * row['accuracy']:.1f} %" + (
                f", {left}" if left else ""
            )
            err.print(escape(line), highlight=False, soft_wrap=True)


def time_left(seconds: float) -> str:
    """
    >>> time_left(42.4), time_left(200), time_left(9000)
    ('42 s', '3 min', '2.5 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def show_table(table: "formats.Table") -> None:
    """A table of the bench, in colour."""
    from cual.bench.formats import text_of

    shown = Table(*table.columns[:1])
    for column in table.columns[1:]:
        shown.add_column(column, justify="right")
    for row in table.rows:
        shown.add_row(*(escape(text_of(cell)) for cell in row))
    out.print(f"[bold]{escape(table.title)}[/bold]", highlight=False)
    out.print(shown)
    out.print(table.note, style="dim", highlight=False, markup=False)
