"""`cual ask` and `cual tell`: questions go out as a file, and come back filled in, round by round."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from cual.cli.embed import AgentsEncoder, Weights, encoded
from cual.cli.learning import AgentFile, Device, Force, summarise
from cual.cli.options import ExportTo, IdsIn, LabelsIn, Named, ShowFrom, TextsIn
from cual.cli.output import Bars, check_free, counted, err, out
from cual.errors import BadOption

if TYPE_CHECKING:
    from cual.cli.answers import Recorded
    from cual.data.labels import Answer
    from cual.loop.adaptation import Adaptation
    from cual.types import Label

Task = Annotated[Path, typer.Argument(metavar="TASK", help="The folder that cual ask keeps progress in.")]


def add_to(app: typer.Typer) -> None:
    app.command(no_args_is_help=True)(ask)
    app.command(no_args_is_help=True)(tell)


def ask(
    agent: AgentFile,
    pool: Annotated[
        Path,
        typer.Argument(
            metavar="POOL",
            help="Without labels, as for cual adapt: features, a folder of images, or a table of text.",
        ),
    ],
    task: Annotated[Path, typer.Option(metavar="DIR", help="Where progress is kept, from round to round.")],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="PATH", help="Questions: .csv, .jsonl, or a folder of links to images."
        ),
    ],
    budget: Annotated[
        str, typer.Option(help="Labels to ask for: a number (20) or a share of the pool (0.0125).")
    ],
    show: ShowFrom = None,
    text: TextsIn = None,
    label: LabelsIn = None,
    id_column: IdsIn = None,
    encoder: AgentsEncoder = None,
    weights: Weights = None,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Write the questions of a round to a file, for people who label elsewhere; cual tell takes it back.

    [cyan]cual ask v0.agent new.csv --task v1.task --budget 20 -o questions.csv[/cyan]

    Fill in the column [bold]label[/bold]: a class, known or new, or ? where nobody can tell. What stays empty
    is asked again. In a folder of links, move each link into the folder of its class. Then:

    [cyan]cual tell v1.task questions.csv[/cyan]

    The same command with another output gives the next round. With a larger [bold]--budget[/bold] it goes on
    where questions have ended.

    [cyan]cual ask v0.agent photos --task v1.task --budget 20 -o round-2[/cyan]
    """
    from cual.agent import Agent
    from cual.cli.contents import Contents
    from cual.cli.question_files import check_output, write_questions
    from cual.cli.reading import check_device, read_budget
    from cual.cli.tasks import open_task
    from cual.data.pool import Pool

    check_output(output, force)
    wanted = read_budget(budget)
    before = Agent.load(agent, check_device(device))
    columns = Named(text, label, id_column)
    table = encoded(pool, encoder, weights, device, before.encoder, columns)
    before.check_encoder(table.encoder, str(pool))
    bars = Bars()
    try:
        adaptation = open_task(task, agent, before, Pool.of(table), wanted, bars)
        query = adaptation.ask()
        adaptation.save(task)
    finally:
        bars.clear()
    if query is None:
        out.print(_over(adaptation, task), highlight=False, soft_wrap=True)
        return
    write_questions(output, query, adaptation.state.numbered, Contents(show or pool, columns))
    out.print(
        f"{escape(str(output))}: {counted(len(query), 'question')} of round {query.round + 1}. "
        f"Fill it in, then: cual tell {escape(str(task))} {escape(str(output))}",
        highlight=False,
        soft_wrap=True,
    )


def tell(
    task: Task,
    filled: Annotated[
        Path | None,
        typer.Argument(metavar="FILLED", help="What cual ask wrote, filled in; or any file of ids and labels."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="NEW_AGENT", help="Write the next agent, if no question is open."
        ),
    ] = None,
    done: Annotated[
        bool, typer.Option("--done", help="Ask no more: learn from what was answered so far.")
    ] = False,
    rest_unknown: Annotated[
        bool,
        typer.Option("--rest-unknown", help="Of open questions without a label, nobody can tell the class."),
    ] = False,
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who answered.")] = None,
    labels_out: ExportTo = None,
    label: LabelsIn = None,
    id_column: IdsIn = None,
    learn_anyway: Annotated[
        bool,
        typer.Option("--learn-anyway", help="After drift: learn all guesses, as in cual adapt."),
    ] = False,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Give the answers to questions that cual ask wrote; when none is left, write the next agent.

    A file may be given in parts and again: what was told is not charged twice, and another label corrects.

    [cyan]cual tell v1.task questions.csv[/cyan]

    [cyan]cual tell v1.task questions-4.csv -o v1.agent --export labels.csv[/cyan]

    [cyan]cual tell v1.task --done -o v1.agent[/cyan]

    Exit code 1: an agent was wanted, but questions are open.
    """
    from cual.cli.labels_out import check_export, write_labels
    from cual.cli.reading import check_device
    from cual.loop.adaptation import Adaptation
    from cual.loop.files import is_saved

    if output is not None:
        check_free(output, force)
    check_export(labels_out, force)
    if not is_saved(task):
        raise BadOption(f"{task} holds no adaptation; cual ask begins one")
    bars = Bars()
    adaptation = Adaptation.load(task, check_device(device), bars)
    try:
        if filled is not None:
            _answer(adaptation, filled, Named(None, label, id_column), by)
        if rest_unknown:
            _leave_rest(adaptation, by)
        if done:
            adaptation.stop(by)
        query = adaptation.ask()
        adaptation.save(task)
        if query is None and output is not None:
            after = adaptation.finish(by, safe=not learn_anyway)
            bars.clear()
            after.save(output)
            summarise(adaptation, after, output)
    finally:
        bars.clear()
    write_labels(adaptation, labels_out)
    if query is not None:
        open_ = f"{counted(len(query), 'question')} of round {query.round + 1} open"
        told = f"{adaptation.labels_used} of {adaptation.budget} labels used; {open_}: cual ask writes them"
        out.print(told, highlight=False)
        if output is not None:
            err.print(escape(f"{output} is not written; --done asks no more"), style="yellow", highlight=False)
            raise typer.Exit(1)
    elif output is None:
        out.print(_over(adaptation, task), highlight=False, soft_wrap=True)


def _over(task: "Adaptation", folder: Path) -> str:
    used = f"{task.labels_used} of {task.budget} labels used"
    return f"No more questions: {used}. To learn: cual tell {escape(str(folder))} -o NEW_AGENT"


def _answer(task: "Adaptation", path: Path, columns: Named, person: str | None) -> None:
    """Tell what a file says of samples that were asked about; of others, say that it is not used."""
    from cual.cli.tasks import tell_of_unused

    recorded = _read(task, path, columns)
    tell_of_unused(path, recorded)
    questions = task.state.questions
    unasked = [str(sample) for sample in recorded.answers if sample not in questions]
    if unasked:
        message = f"{path}: {counted(len(unasked), 'sample')} nobody asked about, as {unasked[0]}; not used"
        err.print(escape(message), style="yellow", highlight=False, soft_wrap=True)
    by_query: dict[str, dict[Label, Answer]] = {}
    for sample, answer in recorded.answers.items():
        if sample in questions:
            by_query.setdefault(questions[sample].query, {})[sample] = answer
    before = len(task.answers)
    for query, answers in by_query.items():
        task.tell(query, answers, person)
    out.print(
        f"{counted(len(task.answers) - before, 'answer')} taken from {escape(str(path))}", highlight=False
    )


def _read(task: "Adaptation", path: Path, columns: Named) -> "Recorded":
    from cual.cli.answers import filled_in, lines_of, recorded_of
    from cual.cli.question_files import read_folder

    names = task.state.numbered
    lines = read_folder(path, names) if path.is_dir() else lines_of(path, columns)
    return recorded_of(path, lines, names, task.pool.ids, filled_in)


def _leave_rest(task: "Adaptation", person: str | None) -> None:
    from cual.data.labels import SKIP

    query = task.ask()
    if query is not None:
        task.tell(query.id, dict.fromkeys(query.ids, SKIP), person)
