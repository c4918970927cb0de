"""`cual info`: what an agent knows, how good it is, and how it came to that."""

import typer
from rich.markup import escape
from rich.table import Table

from cual.cli.evaluate import held_out
from cual.cli.learning import AgentFile
from cual.cli.output import listed, out, pairs


def add_to(app: typer.Typer) -> None:
    app.command(no_args_is_help=True)(info)


def info(agent: AgentFile) -> None:
    """Show what an agent knows, how good it is by labels that were held out, and how it came to know it.

    [cyan]cual info v1.agent[/cyan]
    """
    from cual.agent import Agent
    from cual.cli.changes import told_of

    loaded = Agent.load(agent)
    classes = escape(listed([str(name) for name in loaded.names.names], most=50))
    out.print(
        pairs(
            {
                "version": str(loaded.version),
                "method": f"{loaded.method.name}: {escape(loaded.method.summary)}",
                "classes": f"{len(loaded.names)}: {classes}",
                "features": f"{loaded.width} wide"
                + (f", of {escape(loaded.encoder)}" if loaded.encoder else ""),
                "seed": str(loaded.seed),
                "memory": f"{len(loaded.replay)} of {loaded.replay.capacity} samples",
                "validation": f"{len(loaded.validation)} samples",
                "accuracy": held_out(loaded),
            }
        ),
        highlight=False,
    )
    if not loaded.history:
        return
    table = Table("version", "new classes", "labels", "pseudo-labels", "pool", "ended because")
    for row in loaded.history:
        if "change" in row:
            told = told_of(row)
            table.add_row(str(row["version"]), escape(told.new), told.labels, "", "", escape(told.what))
            continue
        new = escape(listed([str(name) for name in row["new_classes"]])) or "none"
        labels = f"{row['labels_used']} of {row['budget']}"
        if row.get("volunteered"):  # earlier releases knew none
            labels += f" and {row['volunteered']} unasked"
        table.add_row(
            str(row["version"]), new, labels, str(row["pseudo_labels"]), str(row["pool_size"]), row["ended"]
        )
    out.print(table)
