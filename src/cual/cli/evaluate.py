"""`cual evaluate`: how good an agent is on labelled data, in the terminal and as JSON."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from cual.cli.embed import AgentsEncoder, Weights, encoded
from cual.cli.learning import AgentFile, Device, Force
from cual.cli.options import IdsIn, LabelsIn, Named, TextsIn
from cual.cli.output import Bars, check_free, counted, out, pairs

if TYPE_CHECKING:
    from cual.agent import Agent
    from cual.bench.evaluation import Evaluation, OfClass

MOST_COLUMNS = 12
"""Classes whose confusions fit into a terminal as a matrix; of more, the most frequent are listed."""
MOST_PAIRS = 15


def add_to(app: typer.Typer) -> None:
    app.command(no_args_is_help=True)(evaluate)


def evaluate(
    agent: AgentFile,
    labelled: Annotated[
        Path,
        typer.Argument(
            metavar="LABELLED",
            help="Labelled features: .npz with X and y, parquet, a features folder; or a folder of images, or "
            "a table of text with labels. The agent must not have learned from them.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="JSON", help="Write all numbers to a file.")
    ] = None,
    text: TextsIn = None,
    label: LabelsIn = None,
    id_column: IdsIn = None,
    encoder: AgentsEncoder = None,
    weights: Weights = None,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Say how good an agent is on labelled data: accuracy, confusions, calibration, what it takes for novel.

    Labels that the agent does not know are no mistakes: they tell whether it notices what it has never seen.

    [cyan]cual evaluate v1.agent test.npz[/cyan]

    [cyan]cual evaluate v1.agent intents.csv --text utterance --label intent -o quality.json[/cyan]
    """
    from cual.agent import Agent
    from cual.bench.evaluation import evaluate as measured
    from cual.cli.reading import check_device
    from cual.storage import write_bytes

    if output is not None:
        check_free(output, force)
    loaded = Agent.load(agent, check_device(device))
    table = encoded(labelled, encoder, weights, device, loaded.encoder, Named(text, label, id_column))
    loaded.check_encoder(table.encoder, str(labelled))
    bars = Bars()
    try:
        found = measured(loaded, table.X, table.labels(), bars)
    finally:
        bars.clear()
    _show(found)
    if output is not None:
        write_bytes(output, (json.dumps(found.to_json(), ensure_ascii=False, indent=1) + "\n").encode())
        out.print(escape(f"written to {output}"), highlight=False, soft_wrap=True)


def held_out(agent: "Agent") -> str:
    """What labels say that people gave and nothing was learned from: the first answer to "how good is it?"."""
    from cual.loop.evidence import known

    estimate = known(agent.verified_samples, agent.names).before(agent)
    if estimate is None:
        return "not known: no labels were held out; cual evaluate AGENT LABELLED measures it"
    return f"{estimate} that were held out"


def _show(found: "Evaluation") -> None:
    samples = sum(each.samples for each in found.known)
    rows: dict[str, str] = {}
    if found.accuracy is not None and found.right is not None:
        rows["accuracy"] = f"{_percent(found.accuracy)}, the mean over {_classes(len(found.known))}"
        rows["right"] = f"{_percent(found.right)} of {counted(samples, 'sample')}"
    if found.calibration is not None and found.confidence is not None:
        rows["calibration"] = (
            f"off by {_percent(found.calibration)}: it is {_percent(found.confidence)} sure on average"
        )
    if found.unknown:
        new = sum(each.samples for each in found.unknown)
        rows["not known"] = f"{counted(new, 'sample')} of {_classes(len(found.unknown))}"
    if found.found is not None:
        rows["found novel"] = f"{_percent(found.found)} of them"
    if found.false_alarms is not None:
        rows["false alarms"] = f"{_percent(found.false_alarms)} of samples of known classes look novel"
    if found.novelty is not None:
        rows["novelty"] = f"AUROC {found.novelty:.3f}"
    out.print(pairs(rows), highlight=False)
    out.print(_per_class(found))
    _show_confusions(found)


def _per_class(found: "Evaluation") -> Table:
    table = Table("class")
    for name in ("samples", "right", "accuracy", "novel"):
        table.add_column(name, justify="right")
    for each in found.classes:
        novel = "" if each.novel is None else _percent(each.novel / each.samples)
        right = (str(each.right), _percent(each.accuracy)) if each.known else ("not known", "")
        table.add_row(escape(str(each.label)), str(each.samples), *right, novel)
    return table


def _show_confusions(found: "Evaluation") -> None:
    if len(found.predicted) > MOST_COLUMNS:
        return _show_pairs(found)
    table = Table("true \\ predicted")
    for name in found.predicted:
        table.add_column(escape(str(name)), justify="right", overflow="ellipsis", max_width=12)
    for each, counts in zip(found.classes, found.confusion, strict=True):
        table.add_row(escape(str(each.label)), *(str(n) if n else "·" for n in counts))
    out.print(table)
    return None


def _show_pairs(found: "Evaluation") -> None:
    """The most frequent confusions, of too many classes for a matrix."""
    confused: list[tuple[int, OfClass, str]] = [
        (n, each, str(name))
        for each, counts in zip(found.classes, found.confusion, strict=True)
        for name, n in zip(found.predicted, counts, strict=True)
        if n and name != each.label
    ]
    confused.sort(key=lambda pair: -pair[0])
    table = Table("true", "taken for", title="Most frequent confusions", title_justify="left")
    table.add_column("samples", justify="right")
    table.add_column("of the class", justify="right")
    for n, each, name in confused[:MOST_PAIRS]:
        table.add_row(escape(str(each.label)), escape(name), str(n), _percent(n / each.samples))
    if confused:
        out.print(table)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _classes(n: int) -> str:
    return f"{n} class{'' if n == 1 else 'es'}"
