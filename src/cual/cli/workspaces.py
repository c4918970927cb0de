"""What the commands share that work on a workspace: how it is named, and how it is opened."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cual.errors import BadOption

if TYPE_CHECKING:
    from cual.serve.rules.workspace import Workspace

WorkspaceFolder = Annotated[
    Path, typer.Argument(metavar="WORKSPACE", help="The workspace's folder; made if it is not there.")
]
Database = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="CUAL_DATABASE",
        show_envvar=True,
        help="postgresql://USER:PASSWORD@HOST/NAME; an SQLite file in the workspace if not given.",
    ),
]


def opened_workspace(
    folder: Path, database: str | None, roots: Sequence[Path] = (), restore: Path | None = None
) -> "Workspace":
    """The workspace in a folder, or of a backup; an error that people can act on where the database fails."""
    from sqlalchemy.exc import OperationalError

    from cual.serve.operations.logs import without_secrets
    from cual.serve.rules.workspace import Workspace

    try:
        if restore is not None:
            return Workspace.restore(restore, folder, database)
        return Workspace.open(folder, database, roots)
    except OperationalError as error:
        why = without_secrets(str(error.orig)).strip().splitlines()[0]
        raise BadOption(f"the database cannot be used: {why}") from None
