"""`cual export`: the labels of an adaptation, or of a workspace, as a file or as a folder of links."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from cual.cli.output import check_free, check_parent, counted, err, out
from cual.cli.workspaces import Database, opened_workspace
from cual.errors import BadOption

if TYPE_CHECKING:
    from cual.export import Labels
    from cual.loop.labels import LabelRow
    from cual.serve.rules.workspace import Workspace

FOLDER = "folder"


def add_to(app: typer.Typer) -> None:
    app.command(no_args_is_help=True)(export)


def export(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="A saved adaptation (the folder of cual adapt --task), or a workspace."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="The file to write, or the folder to make.")
    ],
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="csv|jsonl|parquet|datasets|folder",
            help="What the output's name ends in, if not given.",
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--everything", help="Also what does not count: corrected, overruled, rejected, “cannot tell”."
        ),
    ] = False,
    columns: Annotated[
        bool,
        typer.Option(
            "--columns", help="Of a workspace: also the columns of the pools' tables, as columns.NAME."
        ),
    ] = False,
    files: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --format folder: where the samples lie, whose ids are their paths in here. Small "
            "pictures of the workspace if not given.",
        ),
    ] = None,
    adaptation: Annotated[
        int | None, typer.Option(min=1, help="Of a workspace: only this adaptation, by its number.")
    ] = None,
    agent: Annotated[
        int | None, typer.Option(min=1, help="Of a workspace: only adaptations of this agent, by its number.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")] = False,
    database: Database = None,
) -> None:
    """Write labels: what people answered and what is believed, by whom, when, and how doubtful it is.

    The adaptation may be finished or under way, the service may be running; nothing is computed.

    [cyan]cual export v1.agent.task -o labels.csv[/cyan]

    [cyan]cual export labels --adaptation 3 -o labels.parquet[/cyan]

    [cyan]cual export labels --agent 1 -o labels.hf --format datasets[/cyan]

    With [bold]--format folder[/bold] it makes a folder per class with links to the samples:

    [cyan]cual export v1.agent.task -o sorted --format folder --files photos[/cyan]

    In CSV, text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    from cual.export import format_of, formats
    from cual.loop.files import is_saved

    name = format or format_of(output)
    if name != FOLDER:
        formats[name].check()
        _check_output(output, bool(formats[name].suffix), force)
    if files is not None and (name != FOLDER or not files.is_dir()):
        raise BadOption(
            f"--files {files}: no such folder" if name == FOLDER else "--files goes with --format folder"
        )
    if is_saved(source):
        if adaptation is not None or agent is not None:
            raise BadOption(f"{source} is one adaptation; --adaptation and --agent choose in a workspace")
        if columns:
            raise BadOption(f"{source} has no columns of a table; --columns is for what a workspace keeps")
        from cual.export.saved import saved_labels

        _write(saved_labels(source, everything), name, output, _found(files, None))
        return
    if not (source / "workspace.json").is_file():
        raise BadOption(f"{source} holds neither an adaptation nor a workspace")
    from cual.serve.rules.records import OPERATOR

    opened = opened_workspace(source, database)
    try:
        labels = opened.export(OPERATOR, adaptation, agent, everything, name, columns)
        _write(labels, name, output, _found(files, opened))
    finally:
        opened.close()


def _check_output(output: Path, file: bool, force: bool) -> None:
    from cual.export.base import check_folder

    if file:
        check_free(output, force)
    else:
        check_parent(output)
        check_folder(output)


def _write(
    labels: "Labels", format: str, output: Path, file_of: "Callable[[LabelRow], Path | None] | None"
) -> None:
    shown = escape(str(output))
    if format != FOLDER:
        from cual.export import formats

        written = formats[format].write(labels, output)
        out.print(f"{shown}: {counted(written, 'label')}", highlight=False, soft_wrap=True)
        return
    from cual.export.links import write_links

    if file_of is None:
        raise BadOption("--format folder needs --files, the folder of the samples that the links lead to")
    links = write_links(labels, output, file_of)
    out.print(f"{shown}: {counted(links.links, 'link')}", highlight=False, soft_wrap=True)
    if links.without_file:
        missing = f"{counted(links.without_file, 'sample')} without a file; labels.csv there names them"
        err.print(missing, style="yellow", highlight=False)


def _found(files: Path | None, workspace: "Workspace | None") -> "Callable[[LabelRow], Path | None] | None":
    """Where the files of samples are: in a folder, or, in a workspace, their small pictures."""
    from cual.errors import NotFound
    from cual.export.links import under

    if files is not None:
        return under(files)
    if workspace is None:
        return None

    def picture(row: "LabelRow") -> Path | None:
        if row.pool is None or row.row is None:
            return None
        try:
            return workspace.picture(row.pool, row.row)
        except NotFound:
            return None

    return picture
