"""`cual teach`, `rename`, `merge`, `remove` and `forget`: change what an agent knows, without questions.

`cual split`, which asks, is beside this file.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from cual.cli.embed import AgentsEncoder, Weights, encoded
from cual.cli.learning import AgentFile, Device, Force
from cual.cli.options import IdsIn, LabelsIn, Named, TextsIn
from cual.cli.output import Bars, check_free, listed, out
from cual.errors import BadLabels, BadOption, UnknownSample

if TYPE_CHECKING:
    from cual.agent import Agent
    from cual.data.labels import ClassNames
    from cual.data.table import Table

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="NEW_AGENT", help="Where to write the next version.")
]
By = Annotated[str | None, typer.Option(metavar="NAME", help="Who does it, for the agent's history.")]
Why = Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the agent's history.")]
Name = Annotated[str, typer.Argument(metavar="CLASS", help="The class, by its name.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (teach, rename, merge, remove, forget):
        app.command(no_args_is_help=True, rich_help_panel="Teach and repair")(command)


def teach(
    agent: AgentFile,
    labelled: Annotated[
        Path,
        typer.Argument(
            metavar="LABELLED",
            help="Labelled features: .npz with X and y, parquet, a features folder; or a folder of images, or "
            "a table of text with labels.",
        ),
    ],
    output: Output,
    by: By = None,
    why: Why = None,
    text: TextsIn = None,
    label: LabelsIn = None,
    id_column: IdsIn = None,
    encoder: AgentsEncoder = None,
    weights: Weights = None,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Teach an agent labelled samples that are there already, of known classes or new ones. Nobody is asked.

    [cyan]cual teach v1.agent labelled.npz -o v2.agent[/cyan]

    [cyan]cual teach v1.agent photos -o v2.agent --by ada --why "labels of May"[/cyan]

    [cyan]cual teach v1.agent intents.csv -o v2.agent --text utterance --label intent[/cyan]

    The closed-form head of cual-plus takes them in at once; other heads are trained, once. Samples that were
    learned before are not learned twice; under another label, the new one replaces the old.

    The old agent is left as it is.
    """
    loaded = loaded_agent(agent, output, force, device)
    columns = Named(text, label, id_column)
    table = table_of(loaded, labelled, encoder, weights, device, columns)
    bars = Bars()
    try:
        after = loaded.teach(table.X, table.labels(), table.ids, by, why, bars)
    finally:
        bars.clear()
    write_agent(after, output)


def rename(
    agent: AgentFile,
    name: Name,
    new: Annotated[str, typer.Argument(metavar="NEW_NAME", help="What it is called from now on.")],
    output: Output,
    by: By = None,
    why: Why = None,
    force: Force = False,
) -> None:
    """Give a class another name. Nothing else changes.

    [cyan]cual rename v1.agent owl "barn owl" -o v2.agent[/cyan]
    """
    from cual.data.labels import read_label

    loaded = loaded_agent(agent, output, force)
    label = read_label(new, loaded.names)
    write_agent(loaded.rename_class(label_of(loaded.names, name), label, by, why), output)


def merge(
    agent: AgentFile,
    into: Annotated[str, typer.Argument(metavar="CLASS", help="The class that stays.")],
    others: Annotated[list[str], typer.Argument(metavar="OTHER…", help="Classes that become part of it.")],
    output: Output,
    by: By = None,
    why: Why = None,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Make one class of several.

    [cyan]cual merge v1.agent owl Eule "barn owl" -o v2.agent[/cyan]

    With the closed-form head of cual-plus the agent is the one that had learned them under one name from the
    start. Other heads are trained again from the samples that are kept.
    """
    loaded = loaded_agent(agent, output, force, device)
    labels = [label_of(loaded.names, other) for other in others]
    bars = Bars()
    try:
        after = loaded.merge_classes(label_of(loaded.names, into), *labels, person=by, why=why, progress=bars)
    finally:
        bars.clear()
    write_agent(after, output)


def remove(
    agent: AgentFile,
    name: Name,
    output: Output,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FEATURES",
            help="Features of the samples that the class was learned from, as far as the agent's memory does "
            "not keep them; others among them are left alone.",
        ),
    ] = None,
    leave_spread: Annotated[
        bool,
        typer.Option(
            "--leave-spread",
            help="Where such features are missing, leave in the head what they said of how classes spread.",
        ),
    ] = False,
    by: By = None,
    why: Why = None,
    text: TextsIn = None,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Remove a class, as if it had never been learned.

    [cyan]cual remove v1.agent owl -o v2.agent[/cyan]

    [cyan]cual remove v1.agent owl -o v2.agent --data everything.npz[/cyan]

    With the closed-form head of cual-plus that is exact, and takes the features of all samples of the class.
    Other heads are trained again from the samples that are kept of the other classes.
    """
    loaded = loaded_agent(agent, output, force, device)
    label = label_of(loaded.names, name)
    X = None if data is None else table_of(loaded, data, None, None, device, Named(text)).X
    bars = Bars()
    try:
        after = loaded.remove_class(label, X, not leave_spread, by, why, bars)
    finally:
        bars.clear()
    write_agent(after, output)


def forget(
    agent: AgentFile,
    output: Output,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FEATURES", help="Features of the samples, as they were learned, with their ids."),
    ] = None,
    task: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A saved adaptation (cual adapt --task) that led to the agent."),
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="Take back only this sample; may be repeated."),
    ] = None,
    ids_file: Annotated[
        Path | None, typer.Option("--ids", metavar="FILE", help="The same from a file, one id on each line.")
    ] = None,
    answers_of: Annotated[
        str | None,
        typer.Option(metavar="PERSON", help="With --task: take back what this person answered."),
    ] = None,
    by: By = None,
    why: Why = None,
    text: TextsIn = None,
    label: LabelsIn = None,
    id_column: Annotated[
        str | None, typer.Option("--id-column", metavar="COLUMN", help="Of a table: the column of ids.")
    ] = None,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Take samples back, as if the agent had never seen them: nothing of them is left in its file.

    Samples are found by their features:

    [cyan]cual forget v1.agent -o v2.agent --data pool.npz --id img_0931.jpg[/cyan]

    [cyan]cual forget v1.agent -o v2.agent --data withdrawn.npz[/cyan]

    or in the adaptation that learned them, or one person's answers there:

    [cyan]cual forget v1.agent -o v2.agent --task v1.agent.task --answers-of ada[/cyan]
    """
    loaded = loaded_agent(agent, output, force, device)
    chosen = _chosen(ids or [], ids_file)
    if (data is None) == (task is None):
        raise BadOption(
            "give either --data, features of the samples, or --task, the adaptation that learned them"
        )
    bars = Bars()
    try:
        if data is not None:
            if answers_of is not None:
                raise BadOption("--answers-of goes with --task: only an adaptation knows who answered what")
            table = table_of(loaded, data, None, None, device, Named(text, label, id_column))
            after = _forget_rows(loaded, table, chosen, by, why, bars)
        else:
            assert task is not None
            after = _forget_answers(loaded, task, answers_of, chosen, by, why, bars)
    finally:
        bars.clear()
    write_agent(after, output)


def _forget_rows(
    agent: "Agent", table: "Table", chosen: list[str] | None, by: str | None, why: str | None, bars: Bars
) -> "Agent":
    import numpy as np

    rows = list(range(len(table)))
    names = rows if table.ids is None else [plain(sample) for sample in table.ids]
    if chosen is not None:
        row_of = {str(name): row for row, name in zip(rows, names, strict=True)}
        _check_known(chosen, row_of, table.source or "the table")
        rows = [row_of[sample] for sample in chosen]
    X = table.X[np.array(rows, np.int64)]
    y = None if agent.learned.complete or table.y is None else table.labels()[np.array(rows, np.int64)]
    return agent.forget(X, y, [names[row] for row in rows], by, why, bars)


def _forget_answers(
    agent: "Agent",
    folder: Path,
    person: str | None,
    chosen: list[str] | None,
    by: str | None,
    why: str | None,
    bars: Bars,
) -> "Agent":
    from cual.loop.adaptation import Adaptation
    from cual.loop.files import is_saved

    if not is_saved(folder):
        raise BadOption(f"{folder} holds no adaptation")
    if person is None and chosen is None:
        raise BadOption("say whose answers (--answers-of), or of which samples (--id, --ids)")
    task = Adaptation.load(folder, agent.device, bars)
    samples: list[Any] | None = None
    if chosen is not None:
        of_pool = {str(sample): sample for sample in task.pool.ids}
        _check_known(chosen, of_pool, "the pool of the adaptation")
        samples = [of_pool[sample] for sample in chosen]
    people = {str(row["person"]): row["person"] for row in task.journal if row.get("person") is not None}
    if person is not None and person not in people:
        known = listed(sorted(people)) or "nobody by name"
        raise BadOption(f"{person} answered nothing in {folder}; {known} did")
    return agent.forget_answers(task, None if person is None else people[person], samples, by, why, bars)


def _chosen(ids: list[str], file: Path | None) -> list[str] | None:
    if file is not None:
        ids = [
            *ids,
            *(line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()),
        ]
    return list(dict.fromkeys(ids)) if ids or file is not None else None


def _check_known(chosen: list[str], known: Any, where: str) -> None:
    missing = [sample for sample in chosen if sample not in known]
    if missing:
        raise UnknownSample(f"{where} has no sample {listed([repr(sample) for sample in missing], most=5)}")


def loaded_agent(agent: Path, output: Path, force: bool, device: str = "cpu") -> "Agent":
    from cual.agent import Agent
    from cual.cli.reading import check_device

    check_free(output, force)
    return Agent.load(agent, check_device(device))


def table_of(
    agent: "Agent",
    data: Path,
    encoder: str | None,
    weights: Path | None,
    device: str,
    columns: Named | None = None,
) -> "Table":
    table = encoded(data, encoder, weights, device, agent.encoder, columns)
    agent.check_encoder(table.encoder, str(data))
    return table


def label_of(names: "ClassNames", text: str) -> Any:
    """A class as a person types it: a whole number where classes are numbers.

    >>> from cual.data.labels import ClassNames
    >>> label_of(ClassNames((0, 1)), "1"), label_of(ClassNames(("0", "1")), "1")
    (1, '1')
    """
    from cual.data.labels import read_label

    try:
        return read_label(text, names)
    except BadLabels:
        return text  # the agent says that it knows no such class


def plain(sample: Any) -> Any:
    return sample.item() if hasattr(sample, "item") else sample


def write_agent(agent: "Agent", output: Path) -> None:
    from cual.cli.changes import told_of

    agent.save(output)
    classes = f"{len(agent.names)} class{'' if len(agent.names) == 1 else 'es'}"
    done = told_of(agent.history[-1]).what
    out.print(
        f"{escape(str(output))} (version {agent.version}, {classes}): {escape(done)}",
        highlight=False,
        soft_wrap=True,
    )
