"""`cual embed`: images and text to features on disk; `encoded` does it in passing for the other commands."""

import importlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from cual.cli.options import IdsIn, LabelsIn, Named, RayAddress, TextsIn
from cual.cli.output import Bars, check_parent, counted, err, out, pairs
from cual.errors import BadOption, Unavailable

if TYPE_CHECKING:
    from cual.data.table import Table
    from cual.encoders.base import Described, Precision, Setup
    from cual.encoders.embedding import Outcome
    from cual.encoders.sources import Source

EncoderName = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        metavar="NAME",
        help="efficientnet-lite0 (images), all-minilm-l6-v2 (text), swav-resnet50, dino-vits16, hf:NAME, "
        "st:NAME, onnx:FILE, python:module:function; options as in dino-vits16?block=11.",
    ),
]
AgentsEncoder = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        metavar="NAME",
        help="The agent's encoder, where it is not built in (hf:NAME, st:NAME, onnx:FILE, "
        "python:module:function) or its weights are yet to be fetched: an agent's file never decides what "
        "runs.",
    ),
]
Weights = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Local weights of the encoder, in place of a download.")
]


def add_to(app: typer.Typer) -> None:
    app.command(no_args_is_help=True)(embed)


def embed(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="A folder of images (DIR/class/image.jpg), a table of text (.csv, .tsv, .jsonl, also .gz, "
            ".parquet), or a Hugging Face dataset on disk.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FEATURES", help="A features folder, or a file that ends in .npz."
        ),
    ],
    encoder: EncoderName = None,
    weights: Weights = None,
    sha256: Annotated[str | None, typer.Option(metavar="HEX", help="What the weights must hash to.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto: cuda where it is there.")] = "auto",
    precision: Annotated[
        str, typer.Option(help="Arithmetic of the network: float32, bfloat16 or float16.")
    ] = "float32",
    dtype: Annotated[str | None, typer.Option(help="Type on disk: float16 (the default) or float32.")] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Items per call of the network; 32 images or 256 texts.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Threads that decode; one per core. With --ray: cores of each worker; 1."),
    ] = None,
    text: TextsIn = None,
    label: LabelsIn = None,
    id_column: IdsIn = None,
    ray: RayAddress = None,
) -> None:
    """Encode images or text once, into features on disk.

    Stopped or killed, the same command goes on where it was; called again later, it encodes what is new or has
    changed. Images that cannot be read are skipped, and listed in [bold]skipped.csv[/bold] in the folder.

    [cyan]cual embed photos -o photos.features[/cyan]

    [cyan]cual embed photos -o photos.dino --encoder dino-vits16 --device cuda --precision bfloat16[/cyan]

    [cyan]cual embed intents.csv.gz -o intents.features --encoder all-minilm-l6-v2[/cyan]

    [cyan]cual embed /shared/photos -o /shared/photos.features --ray auto[/cyan]

    Exit code 0: done, even if some images were skipped; 1: not one could be read.
    """
    check_packages()
    from cual.encoders.embedding import SKIPPED
    from cual.encoders.sources import Columns, open_source

    check_parent(output)
    to_file = output.suffix == ".npz"
    if to_file and output.exists():
        raise BadOption(f"{output} exists; delete it, or give another name")
    folder = output.with_name(f".{output.name}.parts") if to_file else output
    items = open_source(source, Columns(text, label, id_column))
    how = How(device, precision, weights, sha256, dtype, batch, workers)
    if ray is None:
        chosen, outcome = _embed_here(items, encoder, folder, how)
    else:
        chosen, outcome = _embed_on_ray(ray, items, encoder, folder, how)
    listed = folder / SKIPPED
    if to_file:
        listed = _as_file(items, folder, output)
    _summarise(items, chosen, outcome, output, listed)
    if not outcome.encoded + outcome.reused:
        raise typer.Exit(1)


@dataclass(frozen=True)
class How:
    """Options of `cual embed` that say how to encode, as the user gave them."""

    device: str
    precision: str
    weights: Path | None
    sha256: str | None
    dtype: str | None
    batch: int | None
    workers: int | None


def _embed_here(items: "Source", encoder: str | None, folder: Path, how: How) -> tuple["Described", "Outcome"]:
    from cual.encoders.base import default, make
    from cual.encoders.embedding import embed

    bars = Bars()
    try:
        setup = _setup(how.device, how.precision, how.weights, how.sha256, bars)
        chosen = make(encoder or default(items.kind), setup)
    finally:
        bars.clear()
    with _progress(items) as progress:
        return chosen, embed(items, chosen, folder, how.dtype, how.batch, how.workers, progress)


def _embed_on_ray(
    address: str, items: "Source", encoder: str | None, folder: Path, how: How
) -> tuple["Described", "Outcome"]:
    from cual.bridges.ray import connected, embed, encoder_on
    from cual.encoders.base import Setup, default

    with connected(address) as cluster:
        device = ("cuda" if cluster.has_gpus() else "cpu") if how.device == "auto" else how.device
        setup = Setup(device, _precision(how.precision), how.weights, how.sha256)
        chosen = encoder_on(cluster, encoder or default(items.kind), setup, how.workers or 1)
        with _progress(items) as progress:
            return chosen, embed(cluster, items, chosen, folder, how.dtype, how.batch, progress)


def encoded(
    path: Path,
    encoder: str | None,
    weights: Path | None,
    device: str,
    known: str | None = None,
    columns: Named | None = None,
) -> "Table":
    """Features of what a command was given; images and text are encoded as needed, with the cache reused.

    Parameters
    ----------
    path
        Features, a folder of images, or a table of text.
    encoder, weights, device
        As the user gave them.
    known
        Fingerprint of the agent's encoder. It decides where none is named, as far as a file may.
    columns
        Of a table, where they are not called as usual.
    """
    from cual.data.dataset_folder import is_dataset_folder
    from cual.data.files import read
    from cual.data.folder import is_features_folder

    named = columns or Named()
    if path.suffix in (".npz", ".npy") or not path.exists() or is_features_folder(path):
        if any(named) and path.exists():
            raise BadOption(f"--text, --label and --id name columns of a table, and {path} is none")
        return read(path)
    try:
        check_packages()
    except Unavailable:
        if path.suffix in (".parquet", ".pq") or is_dataset_folder(path):
            return read(path, ids=named.id, labels=named.label)
        raise
    from cual.encoders import features_of
    from cual.encoders.sources import Columns

    bars = Bars()
    setup = _setup(device, "float32", weights, None, bars)
    try:
        return features_of(path, encoder, None, setup, Columns(*named), _tell_of, known)
    finally:
        bars.clear()


def check_packages() -> None:
    """Say how to install what images and text need, where it is not there."""
    try:
        for name in ("PIL", "cual.encoders"):
            importlib.import_module(name)
    except ImportError as error:
        raise Unavailable(
            f"images and text need more packages ({error}): pip install 'cual[encoders]'"
        ) from error


def _setup(device: str, precision: str, weights: Path | None, sha256: str | None, progress: Bars) -> "Setup":
    import torch

    from cual.cli.reading import check_device
    from cual.encoders.base import Setup

    chosen = _precision(precision)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return Setup(check_device(device), chosen, weights, sha256, progress=progress)


def _precision(name: str) -> "Precision":
    if name not in ("float32", "bfloat16", "float16"):
        raise BadOption(f"--precision is float32, bfloat16 or float16, not {name!r}")
    return name


def _as_file(source: "Source", folder: Path, file: Path) -> Path:
    """Turn a features folder into an .npz. Gives the file beside it that lists what was skipped."""
    import shutil
    from dataclasses import replace

    import numpy as np

    from cual.data.files import write
    from cual.data.folder import FeaturesFolder
    from cual.encoders.embedding import SKIPPED, current
    from cual.errors import BadFile

    listed = file.with_suffix(f".{SKIPPED}")
    listed.unlink(missing_ok=True)
    if (folder / SKIPPED).exists():
        shutil.copyfile(folder / SKIPPED, listed)
    # Only what the source has now: the folder may be left from a run on another one that was ended.
    try:
        table = current(source, FeaturesFolder.open(folder)).table()
    except BadFile:  # not one could be read, which the list and the exit code say
        pass
    else:
        write(file, replace(table, X=np.asarray(table.X)))
    shutil.rmtree(folder)
    return listed


def _summarise(source: "Source", encoder: "Described", outcome: "Outcome", output: Path, listed: Path) -> None:
    rows = {
        "encoded": f"{counted(outcome.encoded, source.kind)} in {outcome.seconds:.1f} s "
        f"({outcome.rate:.1f} per second)",
        "encoder": f"{escape(encoder.fingerprint)}, {encoder.dim} wide",
        "features": escape(str(output)),
    }
    if outcome.reused:
        rows["were there"] = str(outcome.reused)
    if outcome.others and output.is_dir():
        rows["also there"] = f"{outcome.others} that {escape(str(source.path))} does not have (any more)"
    out.print(pairs(rows), highlight=False)
    _warn(outcome, f"; all are listed in {listed}" if listed.exists() else "")


def _tell_of(source: "Source", outcome: "Outcome") -> None:
    if outcome.encoded:
        message = (
            f"encoded {counted(outcome.encoded, source.kind)} of {source.path}, {outcome.reused} from the cache"
        )
        err.print(escape(message), highlight=False, soft_wrap=True)
    _warn(outcome, "")


def _warn(outcome: "Outcome", more: str) -> None:
    if outcome.skipped:
        first = outcome.skipped[0]
        message = f"{len(outcome.skipped)} could not be read and were skipped: {first.source} ({first.reason})"
        message += ", …" + more if len(outcome.skipped) > 1 else more
        err.print(escape(message), style="yellow", highlight=False, soft_wrap=True)


class _Rate(ProgressColumn):
    """Items per second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.1f}/s")


@contextmanager
def _progress(items: "Source") -> Generator[Callable[[str, int, int], None]]:
    """A bar of what is encoded, as the callback that moves it."""
    shown = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )
    with shown:
        bar = shown.add_task(f"encoding {items.kind}s", total=None)

        def move(stage: str, done: int, total: int) -> None:
            shown.update(bar, completed=done, total=total)

        yield move
