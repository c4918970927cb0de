"""`cual split`: part a class, with labels from a file or with questions in the terminal."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from cual.cli.learning import AgentFile, Device, Force
from cual.cli.options import IdsIn, LabelsIn, Named, TextsIn
from cual.cli.output import Bars, counted, listed, out
from cual.cli.repair import By, Name, Output, Why, label_of, loaded_agent, plain, table_of, write_agent
from cual.errors import BadLabels, BadOption

if TYPE_CHECKING:
    from cual.data.labels import ClassNames
    from cual.repair import Split
    from cual.types import Label

EXAMPLES = 4
HELP = """First say what each group is, then what the doubtful samples are. Enter takes what stands in brackets.
u says that you cannot tell, d asks no more, q leaves everything as it is.
A class that is called like a key is typed with = before it: =u"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(no_args_is_help=True, rich_help_panel="Teach and repair")(split)


def split(
    agent: AgentFile,
    name: Name,
    into: Annotated[
        list[str],
        typer.Option(
            metavar="A,B…",
            help="What the class becomes, two names or more, known or new; the old one may be among them.",
        ),
    ],
    output: Output,
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CSV of ids and labels, of some samples or all: nobody is asked. The others follow.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FEATURES",
            help="Features of samples of the class, as they were learned, with their ids; others are left "
            "alone. Without it, what the agent's memory keeps is parted, and nobody knows ids.",
        ),
    ] = None,
    questions: Annotated[
        int, typer.Option(metavar="N", min=0, help="Doubtful samples to ask about, at most.")
    ] = 10,
    leave_rest: Annotated[
        bool,
        typer.Option(
            "--leave-rest", help="Where features of some samples are missing, leave those in the class."
        ),
    ] = False,
    by: By = None,
    why: Why = None,
    text: TextsIn = None,
    label: LabelsIn = None,
    id_column: IdsIn = None,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Split a class: say what its samples are. They are grouped first, and the doubtful ones are asked about.

    [cyan]cual split v1.agent bird --into owl,hen -o v2.agent --data everything.npz[/cyan]

    [cyan]cual split v1.agent bird --into owl,hen -o v2.agent --data everything.npz --labels birds.csv[/cyan]

    With the closed-form head of cual-plus the agent is the one that was taught with these labels from the
    start. Other heads are trained again from the samples that are kept.
    """
    loaded = loaded_agent(agent, output, force, device)
    of, wanted = label_of(loaded.names, name), _names(loaded.names, into)
    columns = Named(text, label, id_column)
    table = None if data is None else table_of(loaded, data, None, None, device, columns)
    X = None if table is None else table.X
    ids = None
    if table is not None:
        ids = [plain(sample) for sample in (range(len(table)) if table.ids is None else table.ids)]
    proposal = loaded.propose_split(of, len(wanted), X, ids)
    names_of = [f"kept-{row}" if sample is None else sample for row, sample in enumerate(proposal.ids)]
    known = loaded.names
    for part in wanted:
        known = known.plus(part)
    if labels is not None:
        answers = _recorded(labels, known, names_of, columns)
        groups = _named_by(proposal, answers, names_of)
    else:
        groups, answers = _Asking(proposal, names_of, known).run(wanted, questions)
    y = proposal.labels(groups, answers)
    bars = Bars()
    try:
        after = loaded.split_class(
            of, proposal.X, y, list(answers), not leave_rest, person=by, why=why, progress=bars
        )
    finally:
        bars.clear()
    write_agent(after, output)


def _names(names: "ClassNames", given: list[str]) -> "list[Label]":
    from cual.data.labels import read_label

    texts = [part.strip() for text in given for part in text.split(",")]
    wanted = [read_label(text, names) for text in texts if text]
    if len(wanted) < 2 or len(set(wanted)) < len(wanted):
        raise BadOption("--into takes two names or more, each once, as in --into owl,hen")
    return wanted


def _recorded(file: Path, names: "ClassNames", samples: "list[Label]", columns: Named) -> "dict[int, Label]":
    from cual.cli.answers import read_answers
    from cual.data.labels import SKIP

    recorded = read_answers(file, names, samples, columns)
    if recorded.invalid:
        line, reason = next(iter(recorded.invalid.items()))
        raise BadLabels(f"{file}, line {line}: {reason}")
    row_of = {sample: row for row, sample in enumerate(samples)}
    return {row_of[sample]: answer for sample, answer in recorded.answers.items() if answer is not SKIP}


def _named_by(proposal: "Split", answers: "dict[int, Label]", samples: "list[Label]") -> "list[Label]":
    """What groups are called by the labels of a file: as most of their samples; one without any is refused."""
    groups = list[Any]()
    for group in range(proposal.parts):
        said = Counter(label for row, label in answers.items() if proposal.groups[row] == group)
        if not said:
            like = listed([str(samples[row]) for row in proposal.examples(group, EXAMPLES)])
            n = int((proposal.groups == group).sum())
            raise BadLabels(
                f"the file labels no sample of a group of {counted(n, 'sample')} that are alike: label one of "
                f"them, for example of {like}"
            )
        groups.append(said.most_common(1)[0][0])
    return groups


class _Asking:
    """Asks in the terminal what groups and doubtful samples are."""

    def __init__(self, proposal: "Split", samples: "list[Label]", names: "ClassNames") -> None:
        self._proposal, self._samples, self._names = proposal, samples, names

    def run(self, wanted: "list[Label]", most: int) -> "tuple[list[Label], dict[int, Label]]":
        out.print(HELP, style="dim", highlight=False)
        groups = [self._group(number, wanted[number]) for number in range(self._proposal.parts)]
        answers = dict[int, Any]()
        for row in self._proposal.doubtful(most):
            guess = self._proposal.labels(groups, answers)[row]
            answer = self._answer(f"[bold]{escape(str(self._samples[row]))}[/bold]", guess)
            if answer == "d":
                break
            if answer != "u":
                answers[row] = answer[1]
        return groups, answers

    def _group(self, number: int, default: "Label") -> "Label":
        n = int((self._proposal.groups == number).sum())
        like = listed([str(self._samples[row]) for row in self._proposal.examples(number, EXAMPLES)])
        while True:
            answer = self._answer(f"Group {number + 1}: {counted(n, 'sample')}, {escape(like)}", default)
            if isinstance(answer, tuple):
                return answer[1]
            out.print("a group needs a name; its doubtful samples are asked about later", style="yellow")

    def _answer(self, what: str, default: "Label") -> Any:
        """A key, or a label in a pair with what it is."""
        from cual.data.labels import read_label

        out.print(what, highlight=False)
        while True:
            text = out.input(rf"  class \[{escape(str(default))}]: ").strip()
            if text == "q":
                raise typer.Exit(1)
            if text in ("u", "d"):
                return text
            try:
                return "label", read_label(text.removeprefix("="), self._names) if text else default
            except BadLabels as error:
                out.print(escape(str(error)), style="red", highlight=False)
