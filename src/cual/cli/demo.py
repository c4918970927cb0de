"""`cual demo`: the whole idea in a minute, on data that scikit-learn brings along."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from cual.cli.bench import Tasks, show_table
from cual.cli.output import out


def add_to(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    output: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where to write demo.html.")] = Path(
        "out/demo"
    ),
) -> None:
    """See it work: handwritten digits, two at first, then a new one at a time, with 2 % of the labels.

    Compares cual-plus and the paper's cual with entropy queries, random queries and the fully supervised
    Oracle, prints a table and writes one page that shows what was asked and why. About a minute.

    [cyan]cual demo[/cyan]
    """
    from cual.bench.demo import run_demo

    with Tasks() as progress:
        done = run_demo(output, progress)
    show_table(done.table)
    out.print(f"\nThe page: {escape(str(done.page))}", highlight=False, soft_wrap=True)
