"""`cual fit` and `cual adapt`: the first classes, and questions about what is new."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from cual.cli.embed import AgentsEncoder, EncoderName, Weights, encoded
from cual.cli.options import ExportTo, IdsIn, LabelsIn, Named, RayAddress, ShowFrom, TextsIn
from cual.cli.output import Bars, check_free, listed, out, pairs
from cual.errors import BadOption

if TYPE_CHECKING:
    from cual.agent import Agent
    from cual.data.pool import Elsewhere
    from cual.loop.adaptation import Adaptation

Features_ = Annotated[
    Path,
    typer.Argument(
        metavar="FEATURES",
        help="Features: .npz with X (and y, ids, class_names), parquet, or a features folder; or a folder of "
        "images or a table of text.",
    ),
]
AgentFile = Annotated[Path, typer.Argument(metavar="AGENT", help="The agent's file.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu or cuda.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands, in the order in which one needs them."""
    app.command(no_args_is_help=True)(fit)
    app.command(no_args_is_help=True)(adapt)


def fit(
    features: Features_,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="AGENT", help="Where to write the agent.")],
    method: Annotated[
        str,
        typer.Option(
            help="How it will adapt: cual-plus, cual (the paper), er-entropy, …; or python:module:NAME."
        ),
    ] = "cual-plus",
    seed: Annotated[int, typer.Option(help="Everything random derives from it.")] = 0,
    buffer: Annotated[
        int | None, typer.Option(help="Samples to remember of the past; 2500 if not given.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Change an option of the method, or of one of its parts (PART.NAME=VALUE); may be repeated.",
        ),
    ] = None,
    text: TextsIn = None,
    label: LabelsIn = None,
    id_column: IdsIn = None,
    encoder: EncoderName = None,
    weights: Weights = None,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Learn the first classes from labelled features, images or text.

    Labels are [bold]y[/bold] in an .npz, a column [bold]label[/bold] in a table, the folder of an image.

    [cyan]cual fit first.npz -o v0.agent[/cyan]

    [cyan]cual fit first.parquet -o v0.agent --method er-entropy --seed 1 --buffer 5000[/cyan]

    [cyan]cual fit first.npz -o v0.agent --option learner.strange_weight=1 --option head.shrink=1[/cyan]

    [cyan]cual fit photos -o v0.agent --encoder efficientnet-lite0[/cyan]

    [cyan]cual fit intents.csv -o v0.agent --text utterance --label intent[/cyan]

    [cyan]cual fit first.npz -o v0.agent --option then=python:mine.py:Bottom[/cyan]
    """
    from cual.agent import Agent
    from cual.cli.evaluate import held_out
    from cual.cli.own_parts import method_name
    from cual.cli.reading import check_device, read_options
    from cual.methods import methods

    check_free(output, force)
    options = read_options(option or [])
    chosen = methods[method_name(method)].but(**(options if buffer is None else {**options, "buffer": buffer}))
    check_device(device)
    table = encoded(features, encoder, weights, device, None, Named(text, label, id_column))
    bars = Bars()
    try:
        agent = Agent.fit(table.X, table.labels(), chosen, seed, device, progress=bars, encoder=table.encoder)
    finally:
        bars.clear()
    agent.save(output)
    out.print(
        f"{escape(str(output))}: {len(agent.names)} classes learned from {len(table)} samples", highlight=False
    )
    out.print(f"accuracy {held_out(agent)}", highlight=False, soft_wrap=True)


def adapt(
    agent: AgentFile,
    pool: Annotated[
        Path,
        typer.Argument(
            metavar="POOL",
            help="Without labels: .npz with X and ids, parquet, a features folder; or a folder of images, "
            "or a table of text.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="NEW_AGENT", help="Where to write the next agent.")
    ],
    budget: Annotated[
        str, typer.Option(help="Labels to ask for: a number (20) or a share of the pool (0.0125).")
    ],
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Recorded answers in place of questions: CSV with the columns id,label, JSON lines, a ledger.",
        ),
    ] = None,
    only_asked: Annotated[
        bool,
        typer.Option("--only-asked", help="With --labels: use only labels of samples that are asked about."),
    ] = False,
    task: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where progress is kept; NEW_AGENT.task if questions are asked and it is not given.",
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="JSONL", help="Write what was asked, why, and what was answered, line by line."),
    ] = None,
    labels_out: ExportTo = None,
    show: ShowFrom = None,
    images: Annotated[
        str,
        typer.Option(
            metavar="auto|kitty|iterm|sixel|blocks|none", help="How images are shown in the terminal."
        ),
    ] = "auto",
    text: TextsIn = None,
    label: LabelsIn = None,
    id_column: IdsIn = None,
    encoder: AgentsEncoder = None,
    weights: Weights = None,
    learn_anyway: Annotated[
        bool,
        typer.Option(
            "--learn-anyway",
            help="After drift: learn all guesses, though the new agent does worse than the old one.",
        ),
    ] = False,
    device: Device = "cpu",
    ray: RayAddress = None,
    force: Force = False,
) -> None:
    """Adapt an agent to unlabelled features: answer a few questions, and it learns the new classes.

    Without [bold]--labels[/bold] it asks here, in the terminal, and shows the text or the image. Every answer
    is saved at once; quit with q or Ctrl-C, give the same command again, and it goes on where it was.

    [cyan]cual adapt v0.agent new.npz -o v1.agent --budget 20[/cyan]

    [cyan]cual adapt v0.agent new.npz -o v1.agent --budget 20 --show photos[/cyan]

    With [bold]--labels[/bold] the answers come from a file, and every label of it is learned: those that are
    asked for count against the budget, the others are free. [bold]--only-asked[/bold] leaves the others out, as
    if a person answered. An empty label means "cannot tell". Lines that cannot be used are named.

    [cyan]cual adapt v0.agent new.npz -o v1.agent --budget 0.0125 --labels answers.csv[/cyan]

    With [bold]--ray[/bold] a large pool is scored on a cluster, with the same results; best a features folder
    on storage that all its nodes share.

    [cyan]cual adapt v0.agent /shared/new.features -o v1.agent --budget 200 --ray auto[/cyan]

    With a larger [bold]--budget[/bold] and the same [bold]--task[/bold], an adaptation goes on that has ended.

    The old agent is left as it is. Exit code 0: done, or left open with q; 1: the input ended too early.
    """
    from cual.agent import Agent
    from cual.cli.answers import read_answers
    from cual.cli.contents import Contents
    from cual.cli.labels_out import check_export, write_labels
    from cual.cli.reading import check_device, read_budget
    from cual.cli.showing import Showing
    from cual.cli.tasks import ask_person, from_file, open_task, tell_of_unused, write_ledger
    from cual.cli.terminal_images import way_of
    from cual.data.pool import Pool

    check_free(output, force)
    check_export(labels_out, force)
    way = way_of(images, os.environ, out.is_terminal and out.color_system is not None)
    wanted = read_budget(budget)
    if ray is not None and device != "cpu":
        raise BadOption(f"--ray scores on CPUs; it does not go with --device {device}")
    bars = Bars()
    before = Agent.load(agent, check_device(device))
    columns = Named(text, label, id_column)
    table = encoded(pool, encoder, weights, device, before.encoder, columns)
    before.check_encoder(table.encoder, str(pool))
    unlabelled = Pool.of(table)
    if only_asked and labels is None:
        raise BadOption("--only-asked goes with --labels")
    recorded = None if labels is None else read_answers(labels, before.names, unlabelled.ids, columns)
    if labels is not None and recorded is not None:
        tell_of_unused(labels, recorded)
    answers = None if recorded is None else recorded.answers
    kept = task or output.with_name(output.name + ".task")
    folder = kept if answers is None else task
    adaptation = open_task(folder, agent, before, unlabelled, wanted, bars)
    with _scored_on(ray, bars) as adaptation.pool.elsewhere:
        try:
            if answers is None:
                ask_person(adaptation, kept, bars, Showing(Contents(show or pool, columns), way))
            else:
                from_file(adaptation, folder, answers, only_asked)
            after = adaptation.finish(safe=not learn_anyway)
        finally:
            bars.clear()
            if ledger is not None:
                write_ledger(ledger, adaptation)
        after.save(output)
        summarise(adaptation, after, output)
        write_labels(adaptation, labels_out)


@contextmanager
def _scored_on(address: str | None, bars: Bars) -> Generator["Elsewhere | None"]:
    """Where a pool is scored: on a Ray cluster, or, without an address, here."""
    if address is None:
        yield None
        return
    from cual.bridges import ray as on_ray

    with on_ray.connected(address) as cluster:
        yield on_ray.Scoring(cluster, bars)


def summarise(task: "Adaptation", agent: "Agent", output: Path) -> None:
    from cual.loop.safety import told_of as told_of_safety

    outcome = task.outcome
    new = [str(name) for name in outcome["new_classes"]]
    skipped = f", {outcome['skipped']} skipped" if outcome["skipped"] else ""
    skipped += f"; {outcome['volunteered']} more were given unasked" if outcome["volunteered"] else ""
    out.print(
        pairs(
            {
                "new classes": escape(listed(new)) or "none",
                "labels used": f"{outcome['labels_used']} of {outcome['budget']}{skipped}",
                "pseudo-labels": str(outcome["pseudo_labels"]),
                "ended because": outcome["ended"],
                "outlook": str(task.outlook),
                "agent": f"{escape(str(output))} (version {agent.version}, {len(agent.names)} classes)",
            }
        ),
        highlight=False,
    )
    unlearned = told_of_safety(agent.history[-1])
    if unlearned is not None:
        out.print(f"{unlearned} To learn them, --learn-anyway.", style="yellow", highlight=False)
    merges = task.merges()
    for merge in merges:
        out.print(escape(str(merge)), style="yellow", highlight=False)
    if merges:
        out.print(
            "To give a class one name, correct the answers and adapt the old agent again, or cual merge.",
            highlight=False,
        )
    if not new:
        answered = (
            "no question was answered"
            if not outcome["labels_used"] + outcome["volunteered"]
            else "every answer named a known class"
        )
        why = answered if task.ledger else "no sample of the pool lies far enough from the known classes"
        out.print(f"Nothing novel was found: {why}.", style="yellow", highlight=False)
