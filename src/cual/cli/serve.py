"""`cual serve`: run the labelling service, back it up, restore it."""

import getpass
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cual.cli.options import RayAddress
from cual.cli.output import err, out
from cual.cli.workspaces import Database, WorkspaceFolder, check_writable, named_errors, opened_workspace
from cual.errors import BadOption

if TYPE_CHECKING:
    from socket import socket

    from cual.serve.rules.workspace import Workspace
    from cual.serve.web.settings import Settings


def add_to(app: typer.Typer) -> None:
    app.command(no_args_is_help=True)(serve)


def serve(
    workspace: WorkspaceFolder,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port to listen on; from 8765 the next that is free if not given."),
    ] = None,
    database: Database = None,
    root: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", help="Let administrators make pools of what lies in here; may be repeated."
        ),
    ] = None,
    open: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = False,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate (PEM), to speak TLS without a proxy.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.")] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="A further name that people reach it by; may be repeated."),
    ] = None,
    behind_proxy: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The address that people type, where a proxy adds TLS."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow other machines to connect without encryption.")
    ] = False,
    webhook_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="Let webhooks reach this host although its address is private, or by http; may be repeated.",
        ),
    ] = None,
    ray: RayAddress = None,
    log_format: Annotated[
        str | None,
        typer.Option(metavar="json|text", help="Of the log on stderr; text on a terminal if not given."),
    ] = None,
    backup: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Do not serve: write the workspace to one file (it may be running)."),
    ] = None,
    restore: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="First make the workspace, which must be empty, of a backup."),
    ] = None,
    keep_tokens: Annotated[
        bool,
        typer.Option(
            "--keep-tokens",
            help="With --restore: tokens and sign-in addresses of the backup stay good; if it is your own.",
        ),
    ] = False,
) -> None:
    """Serve a workspace: people answer questions on a page, and a worker learns beside it.

    Prints an address with a token by which you sign in, once, as the administrator; where there is no terminal,
    the name of a file that has it. Others come in with [bold]cual invite[/bold]. Ctrl-C ends it; nothing that
    was answered is ever lost.

    [cyan]cual serve labels[/cyan]

    [cyan]cual serve labels --database postgresql://cual@db/cual --behind-proxy https://label.example.org[/cyan]

    With [bold]--ray[/bold] the worker scores large pools on a cluster; the workspace must then be on storage
    that all nodes share.

    [cyan]cual serve labels --backup labels.backup[/cyan]

    [cyan]cual serve elsewhere --restore labels.backup[/cyan]
    """
    from cual.serve.web.settings import Settings, check_exposure, read_proxy

    format = _log_format(log_format)
    if keep_tokens and restore is None:
        raise BadOption("--keep-tokens goes with --restore")
    if (tls_cert is None) != (tls_key is None):
        raise BadOption("--tls-cert and --tls-key go together")
    for file in (tls_cert, tls_key):
        if file is not None and not file.is_file():
            raise BadOption(f"{file}: no such file")
    for folder in root or ():
        if not folder.is_dir():
            raise BadOption(f"--root {folder}: no such folder")
    program = ["cual.serve.worker"]
    if ray is not None:
        from cual.bridges.ray.cluster import check_address

        check_address(ray)
        program = ["cual.bridges.ray.worker", "--ray", ray]
    proxy = None if behind_proxy is None else read_proxy(behind_proxy)
    check_exposure(host, tls_cert is not None, proxy, insecure)
    if backup is not None:
        _write_backup(workspace, database, backup)
        return

    import torch

    from cual.serve.operations import supervisor
    from cual.storage import keep_private

    keep_private()
    torch.set_num_threads(1)  # the worker needs the rest
    check_writable(workspace)
    if restore is not None:
        opened_workspace(workspace, database, restore=restore, keep_tokens=keep_tokens).close()
        err.print(f"{workspace}: restored from {restore}", highlight=False, markup=False)
    with supervisor.claimed(workspace) as announce, supervisor.listen(host, port) as listener:
        settings = Settings(
            host,
            int(listener.getsockname()[1]),
            tuple(name or ()),
            tls_cert is not None,
            proxy,
            webhook_hosts=tuple(webhook_host or ()),
        )
        opened = opened_workspace(workspace, database, root or ())
        try:
            opened.empty_uploads()
            announce(settings.url)
            tls = (tls_cert, tls_key) if tls_cert is not None and tls_key is not None else None
            _run(opened, settings, listener, tls, database, format, open, program)
        finally:
            opened.close()


def _run(
    workspace: "Workspace",
    settings: "Settings",
    listener: "socket",
    tls: tuple[Path, Path] | None,
    database: str | None,
    format: Literal["json", "text"],
    open: bool,
    program: list[str],
) -> None:
    from cual.serve.operations import logs, supervisor
    from cual.serve.rules.accounts import Accounts
    from cual.serve.rules.records import OPERATOR
    from cual.serve.web.app import create_app

    logs.set_up(format)
    worker = supervisor.Worker(workspace.folder, database, format, program)
    accounts = Accounts(workspace.database)
    owner = accounts.owner(_user()).id
    _, secret = accounts.new_token(owner, "sign-in", by=OPERATOR)
    address = f"{settings.url}/sign-in?token={secret}"
    app = create_app(workspace, settings, worker.alive, worker.silent)

    def started() -> None:
        if sys.stdout.isatty():
            out.print(f"\n  {address}\n", highlight=False, markup=False, soft_wrap=True)
            err.print("Open this address to sign in; it works once. Ctrl-C ends the service.", style="dim")
        else:  # a journal would keep it, for others to read
            file = supervisor.put_down(workspace.folder, address)
            said = f"{settings.url} is served; the address to sign in, once, is in {file}"
            out.print(said, highlight=False, markup=False, soft_wrap=True)
        if open and not _opened(address):
            err.print("There is no browser to open it with here.", style="yellow")

    try:
        supervisor.run(app, settings, listener, worker, tls, started)
    finally:
        supervisor.take_up(workspace.folder)


def _opened(address: str) -> bool:
    """Whether a browser with a window could be begun; one in the terminal would take it from the service."""
    try:
        browser = webbrowser.get()
        return type(browser) is not webbrowser.GenericBrowser and browser.open(address)
    except (webbrowser.Error, OSError):
        return False


def _write_backup(folder: Path, database: str | None, file: Path) -> None:
    from cual.cli.output import check_free
    from cual.serve.rules import keeping
    from cual.serve.rules.records import OPERATOR

    if not (folder / "workspace.json").is_file():
        raise BadOption(f"{folder} is no workspace")
    check_free(file, force=False)
    with named_errors(folder), keeping.opened(folder, database) as home:
        keeping.back_up(home, file, OPERATOR)
    out.print(f"{file}: {file.stat().st_size:,} bytes", highlight=False, markup=False)


def _log_format(name: str | None) -> Literal["json", "text"]:
    if name is None:
        return "text" if sys.stderr.isatty() else "json"
    if name not in ("json", "text"):
        raise BadOption(f"--log-format is json or text, not {name!r}")
    return name


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        return "admin"
