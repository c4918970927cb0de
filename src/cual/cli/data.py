"""`cual data list` and `cual data get`: the paper's datasets as folders of images."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from cual.cli.embed import check_packages
from cual.cli.output import Bars, out, pairs

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help="Prepare the paper's datasets.")


@app.command("list")
def list_() -> None:
    """Show the datasets, their terms, and whether they are downloaded by themselves."""
    check_packages()
    from cual.datasets import datasets

    table = Table("name", "what", "holds", "licence", "from")
    for name in datasets:
        dataset = datasets[name]
        licence = escape(dataset.licence)
        table.add_row(name, escape(dataset.summary), dataset.expected, licence, dataset.homepage)
    out.print(table)


@app.command(no_args_is_help=True)
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As in [bold]cual data list[/bold].")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The folder to make; data/NAME by default."),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A local copy: the archive, its folder, or what it unpacks to."),
    ] = None,
) -> None:
    """Download a dataset, check it, and sort its images into a folder per class.

    [cyan]cual data get eurosat[/cyan]

    [cyan]cual data get im21k-ood --root /data/winter21_whole[/cyan]

    Then: [cyan]cual embed data/eurosat -o eurosat.features[/cyan]
    """
    check_packages()
    from cual.datasets import get as prepare

    target, bars = output or Path("data") / name, Bars()
    try:
        summary = prepare(name, target, root, bars)
    finally:
        bars.clear()
    out.print(
        pairs(
            {
                "dataset": escape(summary["summary"]),
                "holds": f"{len(summary['classes'])} classes, {summary['images']} images",
                "licence": escape(summary["licence"]),
                "folder": escape(str(target)),
            }
        ),
        highlight=False,
    )
