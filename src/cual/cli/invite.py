"""`cual invite`: let people and programs into a workspace."""

from typing import TYPE_CHECKING, Annotated

import typer

from cual.cli.output import err, out
from cual.cli.workspaces import Database, WorkspaceFolder, opened_workspace
from cual.errors import BadOption

if TYPE_CHECKING:
    from cual.serve.rules.accounts import Accounts


def add_to(app: typer.Typer) -> None:
    app.command(no_args_is_help=True)(invite)


def invite(
    workspace: WorkspaceFolder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who it is for; added if not known yet.")],
    role: Annotated[
        str | None,
        typer.Option(
            metavar="admin|annotator|reader|sender",
            help="Of somebody new; annotator if not given. A sender is a program that sends samples.",
        ),
    ] = None,
    days: Annotated[
        float | None, typer.Option(min=0, max=366, help="How long it is good for: 1, or 90 with --api.")
    ] = None,
    api: Annotated[
        bool, typer.Option("--api", help="A token for programs (cual.Client) instead of a sign-in address.")
    ] = False,
    database: Database = None,
) -> None:
    """Make a sign-in address for somebody, or a token for a program. The service may be running.

    An address works once. A token for programs works until it expires or is revoked.

    [cyan]cual invite labels ada[/cyan]

    [cyan]cual invite labels camera --role sender --api[/cyan]
    """
    from datetime import timedelta

    from cual.serve.operations import supervisor
    from cual.serve.rules.accounts import Accounts
    from cual.serve.rules.records import OPERATOR
    from cual.storage import keep_private

    if role == "sender" and not api:
        raise BadOption("a sender is a program and cannot sign in: add --api")
    keep_private()
    if not (workspace / "workspace.json").is_file():
        raise BadOption(f"{workspace} is no workspace; cual serve makes one")
    opened = opened_workspace(workspace, database)
    try:
        accounts = Accounts(opened.database)
        person = _person(accounts, name, role)
        lifetime = None if days is None else timedelta(days=days)
        _, secret = accounts.new_token(person, "api" if api else "sign-in", lifetime, by=OPERATOR)
    finally:
        opened.close()
    if api:
        out.print(secret, highlight=False, markup=False, soft_wrap=True)
        return
    known = supervisor.where(workspace)
    if known is None or not known.running:
        err.print("The service is not running; the address is good when it does.", style="yellow")
    address = known.url if known is not None else "http://127.0.0.1:8765"
    out.print(f"{address}/sign-in?token={secret}", highlight=False, markup=False, soft_wrap=True)


def _person(accounts: "Accounts", name: str, role: str | None) -> int:
    from cual.serve.rules.records import OPERATOR, Role

    try:
        wanted = None if role is None else Role(role)
    except ValueError:
        raise BadOption(f"--role is admin, annotator, reader or sender, not {role!r}") from None
    known = accounts.called(name)
    if known is None:
        return accounts.add_person(name, wanted or Role.annotator, by=OPERATOR).id
    if wanted is not None and wanted != known.role:
        raise BadOption(f"{known.name} has the role {known.role}; an administrator changes it on the page")
    return known.id
