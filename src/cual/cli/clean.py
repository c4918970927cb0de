"""`cual clean`: what a workspace holds that nobody needs any more, shown first, then removed."""

from typing import TYPE_CHECKING, Annotated

import typer

from cual.cli.output import err, out
from cual.cli.workspaces import Database, WorkspaceFolder, opened_workspace
from cual.errors import BadOption

if TYPE_CHECKING:
    from cual.serve.rules.retention import Going


def add_to(app: typer.Typer) -> None:
    app.command(no_args_is_help=True)(clean)


def clean(
    workspace: WorkspaceFolder,
    pools_days: Annotated[
        int | None,
        typer.Option(min=0, help="Let go pools whose last adaptation ended so many days ago, this time."),
    ] = None,
    versions: Annotated[
        int | None,
        typer.Option(min=0, help="Keep so many retired versions of each agent, this time."),
    ] = None,
    remember: Annotated[
        bool, typer.Option("--remember", help="Make that the rule by which the worker cleans up every hour.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove what is shown.")] = False,
    database: Database = None,
) -> None:
    """Show what a workspace holds that nobody needs any more; with --yes, remove it. It may be running.

    Without options it is the rule that was set, with PUT /api/storage/retention or --remember; without a rule
    only what adaptations and repairs that are over have left behind. What people answered always stays.

    [cyan]cual clean labels --pools-days 90 --versions 5[/cyan]

    [cyan]cual clean labels --pools-days 90 --versions 5 --remember --yes[/cyan]
    """
    from cual.serve.rules.records import OPERATOR
    from cual.serve.rules.retention import Rule

    if not (workspace / "workspace.json").is_file():
        raise BadOption(f"{workspace} is no workspace")
    given = Rule(pools_days, versions)
    opened = opened_workspace(workspace, database)
    try:
        rule = given if remember or given != Rule() else None
        record = opened.storage(OPERATOR, rule)
        for one in record.would_go:
            out.print(_line(one), highlight=False, markup=False, soft_wrap=True)
        if remember:
            opened.set_retention(given, OPERATOR)
        freed = sum(one.bytes for one in opened.clean_up(OPERATOR, rule)) if yes else record.would_free
    finally:
        opened.close()
    said = "were freed" if yes else "would be freed; --yes frees them"
    err.print(f"{freed:,} bytes {said}", highlight=False, markup=False)


def _line(one: "Going") -> str:
    """What goes, as one line."""
    named = {
        "pool": f"pool {one.id} {one.name!r}: ",
        "version": f"version {one.version} of agent {one.id} {one.name!r}: ",
        "leftover": "",
    }
    return f"{one.bytes:>15,}  {named[one.kind]}{one.why}"
