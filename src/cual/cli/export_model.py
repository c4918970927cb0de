"""`cual export-model`: a version of an agent as others run it. Labels are taken elsewhere by `cual export`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from cual.cli.embed import AgentsEncoder, Weights
from cual.cli.output import check_free, out, pairs
from cual.errors import BadOption

if TYPE_CHECKING:
    from cual.agent import Agent
    from cual.encoders import Encoder

FORMATS = ("onnx", "mlflow")


def add_to(app: typer.Typer) -> None:
    app.command("export-model", no_args_is_help=True)(export_model)


def export_model(
    agent: Annotated[Path, typer.Argument(metavar="AGENT", help="The agent's file.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PATH", help="The file to write, or the folder to make.")
    ],
    format: Annotated[
        str | None,
        typer.Option("--format", metavar="onnx|mlflow", help="onnx if the output's name ends in .onnx."),
    ] = None,
    with_encoder: Annotated[
        bool | None,
        typer.Option(
            "--with-encoder/--without-encoder",
            help="Whether the ONNX file takes pictures or tokens, or features; without either, the encoder "
            "goes in where that can be.",
        ),
    ] = None,
    encoder: AgentsEncoder = None,
    weights: Weights = None,
    false_alarms: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="The share of known samples that may be called unlike anything known; the method's own "
            "threshold if not given.",
        ),
    ] = None,
    classes_only: Annotated[
        bool, typer.Option("--classes-only", help="Of ONNX: without novelty, threshold and unlike.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")] = False,
) -> None:
    """Write an agent in a format that runs elsewhere: one ONNX file, or a folder for MLflow.

    [cyan]cual export-model v1.agent -o v1.onnx[/cyan]

    [cyan]cual export-model v1.agent -o v1.onnx --without-encoder --false-alarms 0.01[/cyan]

    [cyan]cual export-model v1.agent -o v1.mlflow --format mlflow[/cyan]

    An ONNX file is compared with the agent before it is written; what cannot be exported is refused.
    """
    from cual.agent import Agent

    name = format or ("onnx" if output.suffix == ".onnx" else None)
    if name not in FORMATS:
        raise BadOption(
            f"--format is one of {', '.join(FORMATS)}" + ("" if name is None else f", not {name!r}")
        )
    if name == "mlflow":
        if with_encoder or encoder or weights or classes_only:
            raise BadOption("an MLflow model takes features, and says all; these options are for --format onnx")
        _write_mlflow(Agent.load(agent), output, false_alarms)
        return
    if with_encoder is False and (encoder or weights):
        raise BadOption("--encoder and --weights name what goes into the file; --without-encoder leaves it out")
    check_free(output, force)
    loaded = Agent.load(agent)
    chosen = _chosen(loaded, with_encoder, encoder, weights)
    _write_onnx(loaded, output, chosen, false_alarms, not classes_only)


def _chosen(
    agent: "Agent", with_encoder: bool | None, encoder: str | None, weights: Path | None
) -> "bool | str | Encoder":
    """What `to_onnx` is told of the encoder."""
    if encoder is None and weights is None:
        return "auto" if with_encoder is None else with_encoder
    from cual.encoders import Setup, trusted

    if agent.encoder is None:
        raise BadOption(
            "the agent does not know the encoder of its features: leave --encoder and --weights out"
        )
    return trusted(agent.encoder, encoder, Setup(weights=weights))


def _write_onnx(
    agent: "Agent", output: Path, encoder: "bool | str | Encoder", false_alarms: float | None, novelty: bool
) -> None:
    from cual.deploy import to_onnx

    written = to_onnx(agent, output, encoder, false_alarms, novelty)
    largest = max(difference.value for difference in written.differences)
    out.print(
        pairs(
            {
                "file": f"{escape(str(output))} ({written.size / 1e6:.1f} MB, version {agent.version})",
                "takes": ", ".join(written.inputs)
                + (f" of {escape(written.encoder)}" if written.encoder else ""),
                "says": ", ".join(written.outputs),
                "differs": f"from the agent by {largest:.0e} at most, where both were asked",
            }
        ),
        highlight=False,
    )


def _write_mlflow(agent: "Agent", output: Path, false_alarms: float | None) -> None:
    from cual.bridges.mlflow import save_model
    from cual.export.base import new_folder

    with new_folder(output) as folder:
        save_model(agent, folder, false_alarms)
    out.print(f"{escape(str(output))}: MLflow model, version {agent.version}", highlight=False, soft_wrap=True)
