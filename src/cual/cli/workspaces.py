"""What the commands share that work on a workspace: how it is named, and how it is opened."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
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


ExistingWorkspace = Annotated[
    Path, typer.Argument(metavar="WORKSPACE", help="The workspace's folder, which must be there.")
]


def opened_workspace(
    folder: Path,
    database: str | None,
    roots: Sequence[Path] = (),
    restore: Path | None = None,
    keep_tokens: bool = False,
) -> "Workspace":
    """The workspace in a folder, or of a backup; an error that people can act on where the database fails."""
    from cual.serve.rules.workspace import Workspace

    with named_errors(folder):
        if restore is not None:
            return Workspace.restore(restore, folder, database, keep_tokens)
        return Workspace.open(folder, database, roots)


def check_writable(folder: Path) -> None:
    """Refuse a folder that is there and cannot be written to, before anything else fails for that."""
    if folder.is_dir() and not os.access(folder, os.W_OK):
        raise BadOption(f"{folder} cannot be written to: it is read-only, or belongs to somebody else")


@contextmanager
def named_errors(folder: Path) -> Generator[None]:
    """While a workspace is opened or looked at: what the database says becomes something to act on."""
    from sqlalchemy.exc import OperationalError

    from cual.serve.operations.logs import without_secrets

    check_writable(folder)
    try:
        yield
    except OperationalError as error:
        why = without_secrets(str(error.orig)).strip().splitlines()[0]
        raise BadOption(f"the database cannot be used: {why}") from None
