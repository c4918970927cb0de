"""Options that several commands have in common."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Work on a Ray cluster: local (one for this command), auto (the one this machine is in), "
        "HOST:PORT of its head, or ray://HOST:PORT. Only on networks you trust: docs/ray.md.",
    ),
]
TextsIn = Annotated[
    str | None, typer.Option("--text", metavar="COLUMN", help="Of a table: the column of text.")
]
LabelsIn = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help="Of a table: the column of labels.")
]
IdsIn = Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Of a table: the column of ids.")]
ShowFrom = Annotated[
    Path | None,
    typer.Option(
        "--show",
        metavar="PATH",
        help="Images or a table of text with the pool's samples under the same ids; POOL if not given.",
    ),
]
ExportTo = Annotated[
    Path | None,
    typer.Option(
        "--export",
        metavar="FILE",
        help="Write answers and pseudo-labels: .csv, .jsonl or .parquet, as cual export does.",
    ),
]


class Named(NamedTuple):
    """Columns of a table as the user names them; the usual names where they are not given."""

    text: str | None = None
    label: str | None = None
    id: str | None = None
