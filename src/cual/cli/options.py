"""Options that several commands have in common."""

from typing import Annotated

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
