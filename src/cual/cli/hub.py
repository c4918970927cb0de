"""`cual push` and `cual pull`: agents on the Hugging Face Hub. What they do is in `cual.bridges.hub`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from cual.cli.learning import AgentFile, Force
from cual.cli.output import check_free, out, pairs

Repository = Annotated[str, typer.Argument(metavar="REPO", help="Repository on the hub, as owner/name.")]


def add_to(app: typer.Typer) -> None:
    app.command(no_args_is_help=True)(push)
    app.command(no_args_is_help=True)(pull)


def push(
    agent: AgentFile,
    repo: Repository,
    revision: Annotated[
        str | None, typer.Option(metavar="BRANCH", help="The branch; main if not given.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="If the repository is made: for everybody, not for its owner only.")
    ] = False,
    license: Annotated[
        str | None, typer.Option(metavar="NAME", help="The hub's short name of a license, for the card.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="Of the commit.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also where somebody else wrote the card, which is replaced.")
    ] = False,
) -> None:
    """Put an agent on the Hugging Face Hub, with a card of what it knows. Sign in first: hf auth login.

    [cyan]cual push v1.agent ada/birds --license apache-2.0[/cyan]
    """
    from cual.agent import Agent
    from cual.bridges import hub

    loaded = Agent.load(agent)
    done = hub.push(
        loaded, repo, revision=revision, private=not public, license=license, message=message, force=force
    )
    out.print(
        pairs({"pushed to": escape(done.url), "commit": done.commit, "SHA-256": done.sha256}),
        highlight=False,
        soft_wrap=True,
    )


def pull(
    repo: Repository,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="AGENT", help="Where to write the agent.")],
    revision: Annotated[
        str | None, typer.Option(metavar="NAME", help="A branch, a tag or a commit; main if not given.")
    ] = None,
    sha256: Annotated[str | None, typer.Option(metavar="HASH", help="What the file must hash to.")] = None,
    force: Force = False,
) -> None:
    """Fetch an agent from the Hugging Face Hub, checked by its SHA-256. Nothing that it names is run.

    [cyan]cual pull ada/birds -o birds.agent[/cyan]
    """
    from cual.agent import Agent
    from cual.bridges import hub

    check_free(output, force)
    done = hub.pull(repo, revision=revision, sha256=sha256)
    agent = Agent.load(done.file)  # what is no agent is not written
    done.copy(output)
    out.print(
        pairs({"agent": escape(repr(agent)), "commit": done.commit, "SHA-256": done.sha256}),
        highlight=False,
        soft_wrap=True,
    )
