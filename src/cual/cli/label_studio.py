"""`cual label-studio`: the questions of an adaptation are asked in Label Studio instead of in the terminal."""

import os
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from cual.cli.embed import AgentsEncoder, Weights, encoded
from cual.cli.learning import AgentFile, Device, Force
from cual.cli.options import IdsIn, LabelsIn, Named, TextsIn
from cual.cli.output import Bars, check_free, err, listed, out, pairs
from cual.errors import BadOption, CualError

if TYPE_CHECKING:
    from cual.bridges.label_studio import Bridge, LabelStudio, Source
    from cual.loop.adaptation import Adaptation

STUDIO_TOKEN, SERVICE_TOKEN = "LABEL_STUDIO_API_KEY", "CUAL_TOKEN"
app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""
    Ask the questions of an adaptation in Label Studio, and learn from the annotations.

    The access token of a Label Studio account is read from the variable [bold]LABEL_STUDIO_API_KEY[/bold].
    """,
)

Studio = Annotated[
    str, typer.Option("--studio", metavar="URL", envvar="LABEL_STUDIO_URL", help="Where Label Studio is.")
]
Project = Annotated[
    int | None,
    typer.Option(metavar="ID", help="The project to ask in; made, or found again, if not given."),
]
Title = Annotated[str, typer.Option(help="Title of a project that is made.")]
Every = Annotated[
    float | None,
    typer.Option(
        min=0.1, metavar="SECONDS", help="How often to look for annotations: 5, or 60 with --webhook."
    ),
]
Webhook = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, metavar="PORT", help="Be told of annotations, on this port of 127.0.0.1 (0: any)."
    ),
]
WebhookUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="How Label Studio reaches that port, where a proxy stands before it."),
]


def add_to(parent: typer.Typer) -> None:
    parent.add_typer(app, name="label-studio")


@app.command(no_args_is_help=True)
def adapt(
    agent: AgentFile,
    pool: Annotated[
        Path, typer.Argument(metavar="POOL", help="As for cual adapt: features, a folder of images, or text.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="NEW_AGENT", help="Where to write the next agent.")
    ],
    budget: Annotated[
        str, typer.Option(help="Labels to ask for: a number (20) or a share of the pool (0.0125).")
    ],
    show: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Images or a table of text with the pool's samples under the same ids; POOL if not given.",
        ),
    ] = None,
    task: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where progress is kept; NEW_AGENT.task if not given.")
    ] = None,
    studio: Studio = "http://127.0.0.1:8080",
    project: Project = None,
    title: Title = "cual",
    every: Every = None,
    webhook: Webhook = None,
    webhook_url: WebhookUrl = None,
    text: TextsIn = None,
    label: LabelsIn = None,
    id_column: IdsIn = None,
    encoder: AgentsEncoder = None,
    weights: Weights = None,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Adapt an agent as cual adapt does, with questions in Label Studio.

    Every answer is saved at once. Stopped with Ctrl-C or killed, the same command goes on where it was; nothing
    is asked or counted twice.

    [cyan]cual label-studio adapt v0.agent photos -o v1.agent --budget 20[/cyan]

    [cyan]cual label-studio adapt v0.agent new.npz --show photos -o v1.agent --budget 0.0125 --project 7[/cyan]
    """
    from cual.agent import Agent
    from cual.bridges.label_studio import FolderSource
    from cual.bridges.label_studio.showing import showing
    from cual.cli.reading import check_device, read_budget
    from cual.cli.tasks import open_task
    from cual.data.pool import Pool
    from cual.encoders.sources import Columns

    check_free(output, force)
    wanted = read_budget(budget)
    bars = Bars()
    folder = task or output.with_name(output.name + ".task")
    with _connected(studio) as there:
        before = Agent.load(agent, check_device(device))
        columns = Named(text, label, id_column)
        table = encoded(pool, encoder, weights, device, before.encoder, columns)
        before.check_encoder(table.encoder, str(pool))
        adaptation = open_task(folder, agent, before, Pool.of(table), wanted, bars)
        source = FolderSource(adaptation, folder, *showing(show or pool, Columns(*columns)))
        try:
            bridge = _run(source, there, project, title, every, webhook, webhook_url, bars)
            if sys.stdin.isatty():
                out.input("No more questions. Annotations can be corrected until you press Enter: ")
                bridge.pull()
            after = adaptation.finish()
        finally:
            bars.clear()
            source.close()
    after.save(output)
    _summarise(adaptation, output)


@app.command(no_args_is_help=True)
def attach(
    adaptation: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS", help="The address of the adaptation's page: http://HOST:PORT/adaptations/3"
        ),
    ],
    studio: Studio = "http://127.0.0.1:8080",
    project: Project = None,
    title: Title = "cual",
    every: Every = None,
    webhook: Webhook = None,
    webhook_url: WebhookUrl = None,
) -> None:
    """Ask the questions of an adaptation that a service (cual serve) runs, until it asks no more.

    While this runs, the questions are lent to it. Its token, from the variable [bold]CUAL_TOKEN[/bold], should
    be of an account of its own: [bold]cual invite WORKSPACE label-studio --api[/bold].

    [cyan]cual label-studio attach http://127.0.0.1:8765/adaptations/3[/cyan]
    """
    from cual.bridges.label_studio import ServiceSource
    from cual.client import Client

    address = re.fullmatch(r"(https?://.+?)/adaptations/(\d{1,9})(/.*)?", adaptation)
    if address is None:
        raise BadOption(f"{adaptation!r} is not like http://HOST:PORT/adaptations/3")
    with Client(address[1], _secret(SERVICE_TOKEN)) as client, _connected(studio) as there:
        source = ServiceSource(client, int(address[2]))
        _run(source, there, project, title, every, webhook, webhook_url, Bars())
        out.print(f"{escape(adaptation)}: {escape(source.task.state.next)}", highlight=False)


def _run(
    source: "Source",
    studio: "LabelStudio",
    project: int | None,
    title: str,
    every: float | None,
    port: int | None,
    url: str | None,
    bars: Bars,
) -> "Bridge":
    """Ask until nothing is open; ends the command where it is interrupted."""
    from cual.bridges.label_studio import Bridge, Receiver

    def report(message: str) -> None:
        bars.clear()
        err.print(escape(message), highlight=False, soft_wrap=True)

    bridge = Bridge(source, studio, project, title, report)
    report(f"People answer at {bridge.url}")
    try:
        if port is None:
            bridge.run(every or 5)
            return bridge
        wake = threading.Event()
        with Receiver(wake, port) as receiver:
            added = bridge.add_webhook(url or receiver.url, receiver.secret)
            try:
                bridge.run(every or 60, wake)
            finally:
                bridge.remove_webhook(added)
    except KeyboardInterrupt:
        report("\nstopped; the same command goes on from here")
        raise typer.Exit(130) from None
    return bridge


def _connected(url: str) -> "LabelStudio":
    """Label Studio, if it lets us in."""
    from cual.bridges.label_studio import LabelStudio

    studio = LabelStudio(url, _secret(STUDIO_TOKEN))
    try:
        studio.whoami()
    except CualError:
        studio.close()
        raise
    return studio


def _secret(variable: str) -> str:
    """A token; not from the command line, which everybody on the machine can read."""
    token = os.environ.get(variable, "").strip()
    if not token:
        raise BadOption(f"put an access token into the environment variable {variable}")
    return token


def _summarise(task: "Adaptation", output: Path) -> None:
    outcome = task.outcome
    rows = {
        "new classes": escape(listed([str(name) for name in outcome["new_classes"]])) or "none",
        "labels used": f"{outcome['labels_used']} of {outcome['budget']}, {outcome['skipped']} skipped",
        "pseudo-labels": str(outcome["pseudo_labels"]),
        "ended because": str(outcome["ended"]),
        "agent": escape(str(output)),
    }
    out.print(pairs(rows), highlight=False)
