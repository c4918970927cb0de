"""The command line, `cual …`: which commands there are, and how errors look. What they do is beside this file.

Whatever takes long to import (torch above all) is imported by the commands, so that `--help` comes at once.
"""

import errno
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from cual.cli import (
    bench,
    check,
    clean,
    data,
    demo,
    embed,
    evaluate,
    export,
    export_model,
    hub,
    info,
    invite,
    label_studio,
    learning,
    predict,
    repair,
    rounds,
    serve,
    split,
    watch,
)
from cual.cli.missing import advice
from cual.cli.output import err
from cual.errors import CualError
from cual.extensions import load_installed
from cual.extensions import use as use_module

NO_USE = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


class Commands(TyperGroup):
    """Commands whose expected errors are one red line and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        for message in load_installed():
            err.print(escape(message), style="yellow", highlight=False, soft_wrap=True)
        try:
            return super().invoke(ctx)
        except CualError as error:
            message = str(error)
        except ModuleNotFoundError as error:
            message = advice(ctx.invoked_subcommand, error)
            if message is None:
                raise
        except OSError as error:
            if not isinstance(error, NO_USE) and error.errno != errno.EROFS:
                raise
            message = f"{error.filename}: {error.strerror}"
        err.print(f"[red]{escape(message)}[/red]", highlight=False, soft_wrap=True)
        raise typer.Exit(2)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    help="""
    Find what is novel in unlabelled data, ask about very little of it, and learn it without forgetting.

    Start with [bold]cual demo[/bold]. With features of your own (.npz with X, y and ids, or parquet):

    [cyan]cual fit first.npz -o v0.agent[/cyan]                            learn the first classes

    [cyan]cual adapt v0.agent new.npz -o v1.agent --budget 20[/cyan]       be asked about 20 of the new samples

    [cyan]cual ask v0.agent new.npz --task t --budget 20 -o q.csv[/cyan]   the same as a file, for cual tell

    [cyan]cual predict v1.agent more.npz -o out.csv[/cyan]                 label the rest

    [cyan]cual evaluate v1.agent test.npz[/cyan]                           how good it is, by labels

    [cyan]cual export v1.agent.task -o labels.csv[/cyan]                   take the labels elsewhere

    [cyan]cual export-model v1.agent -o v1.onnx[/cyan]                     run the agent elsewhere

    [cyan]cual teach v1.agent labelled.npz -o v2.agent[/cyan]              learn labels that are there already

    A folder of images or a table of text does as well; [bold]cual embed[/bold] makes features of it once.
    """,
)


@app.callback()
def before(
    use: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="Import parts of your own first, from a module or a file.py, so that agents that have them "
            "can be read; may be repeated. The module is run: name only your own.",
        ),
    ] = None,
) -> None:
    for module in use or []:
        use_module(module)


learning.add_to(app)
rounds.add_to(app)
predict.add_to(app)
evaluate.add_to(app)
info.add_to(app)
repair.add_to(app)
split.add_to(app)
export.add_to(app)
export_model.add_to(app)
hub.add_to(app)
embed.add_to(app)
demo.add_to(app)
serve.add_to(app)
invite.add_to(app)
clean.add_to(app)
check.add_to(app)
watch.add_to(app)
label_studio.add_to(app)
app.add_typer(bench.app, name="bench")
app.add_typer(data.app, name="data")
