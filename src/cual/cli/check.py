"""`cual check`: whether the files of a workspace are all there, and what was written."""

import typer

from cual.cli.output import counted, err, out
from cual.cli.workspaces import Database, ExistingWorkspace, named_errors


def add_to(app: typer.Typer) -> None:
    app.command(no_args_is_help=True)(check)


def check(workspace: ExistingWorkspace, database: Database = None) -> None:
    """Compare all files of a workspace with their checksums and with what the database names.

    Lists what is missing, damaged or superfluous, a line each. Ends with 1 if anything is missing or damaged,
    else with 0: what is superfluous only takes room. Nothing is changed, nor migrated where an older cual has
    left it; the service may run meanwhile.

    [cyan]cual check labels[/cyan]
    """
    from cual.serve.rules import keeping

    with named_errors(workspace), keeping.opened(workspace, database) as home:
        found = keeping.check(home)
    for finding in found:
        out.print(str(finding), highlight=False, markup=False, soft_wrap=True)
    lost = sum(finding.kind != "superfluous" for finding in found)
    if lost:
        err.print(
            f"{counted(lost, 'file')} missing or damaged: restore a backup, or take them from one", style="red"
        )
        raise typer.Exit(1)
    err.print("nothing is missing or damaged", style="dim")
