"""`cual predict`: labels, probabilities and novelty of samples. Their rows are made in `predictions`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from cual.cli.embed import AgentsEncoder, Weights, encoded
from cual.cli.learning import AgentFile, Device, Force
from cual.cli.options import IdsIn, LabelsIn, Named, TextsIn
from cual.cli.output import Bars, check_free, out


def add_to(app: typer.Typer) -> None:
    app.command(no_args_is_help=True)(predict)


def predict(
    agent: AgentFile,
    features: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES",
            help="Features: .npz with X (and ids), parquet, or a features folder; or one image, a folder of "
            "images, or a table of text.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="CSV", help="Where to write; to the terminal if not given."),
    ] = None,
    text: TextsIn = None,
    label: LabelsIn = None,
    id_column: IdsIn = None,
    encoder: AgentsEncoder = None,
    weights: Weights = None,
    device: Device = "cpu",
    force: Force = False,
) -> None:
    """Label features, and say which samples look like none of the known classes.

    Writes a CSV: [bold]id, label, probability[/bold] of that label, [bold]novelty[/bold] (distance to the
    nearest known class), [bold]novel[/bold] (1 where that is above the agent's threshold).

    [cyan]cual predict v1.agent more.npz -o predictions.csv[/cyan]

    [cyan]cual predict v1.agent photo.jpg[/cyan]

    [cyan]cual predict v1.agent intents.csv --text utterance --id key -o predictions.csv[/cyan]

    [cyan]cual predict v1.agent more.npz | sort -t, -k4 -rg | head[/cyan]
    """
    from cual.agent import Agent
    from cual.cli.predictions import predicted, write_csv
    from cual.cli.reading import check_device

    if output is not None:
        check_free(output, force)
    loaded = Agent.load(agent, check_device(device))
    table = encoded(features, encoder, weights, device, loaded.encoder, Named(text, label, id_column))
    loaded.check_encoder(table.encoder, str(features))
    bars = Bars()
    try:
        rows = predicted(loaded, table, bars)
    finally:
        bars.clear()
    write_csv(rows, output)
    if output is not None:
        novel = sum(row["novel"] == 1 for row in rows)
        out.print(f"{escape(str(output))}: {len(rows)} samples, {novel} look novel", highlight=False)
