"""What the commands share on the way out: consoles, progress bars, and files that are not overwritten."""

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from cual.errors import BadOption

out = Console()
err = Console(stderr=True)
"""Progress, warnings and errors: what is printed to `out` can go into a file."""


class Bars:
    """Progress bars, one per stage: call it as the library's progress callback.

    >>> bars = Bars()
    >>> bars("learning", 1, 10)
    >>> bars.clear()
    """

    def __init__(self) -> None:
        self._shown: Progress | None = None
        self._stages: dict[str, TaskID] = {}

    def __call__(self, stage: str, done: int, total: int) -> None:
        if self._shown is None:
            self._shown = progress_display()
            self._shown.start()
        if stage not in self._stages:
            self._stages[stage] = self._shown.add_task(stage, total=total)
        self._shown.update(self._stages[stage], completed=done, total=total)

    def clear(self) -> None:
        """Take the bars away, so that something else can be printed."""
        if self._shown is not None:
            self._shown.stop()
        self._shown, self._stages = None, {}


def progress_display() -> Progress:
    """Bars that vanish when they stop; nothing at all where there is no terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def check_free(path: Path, force: bool) -> None:
    """Refuse to replace a file that nobody said may be replaced; before the work, not after it.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "v1.agent"
    >>> check_free(file, force=False)
    >>> file.touch()
    >>> check_free(file, force=False)
    Traceback (most recent call last):
    cual.errors.BadOption: .../v1.agent exists; --force replaces it, or give another name
    """
    check_parent(path)
    if path.is_dir():
        raise BadOption(f"{path} is a folder; give a file name")
    if path.exists() and not force:
        raise BadOption(f"{path} exists; --force replaces it, or give another name")


def check_parent(path: Path) -> None:
    """Refuse a folder that is not there: it is mistyped more often than it is wanted.

    >>> check_parent(Path("mistyped/v1.agent"))
    Traceback (most recent call last):
    cual.errors.BadOption: the folder mistyped is not there; correct mistyped/v1.agent, or make the ...
    """
    if not path.parent.is_dir():
        raise BadOption(f"the folder {path.parent} is not there; correct {path}, or make the folder first")


def pairs(rows: dict[str, str], title: str | None = None) -> Table:
    """A table of names and values."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def counted(n: int, thing: str) -> str:
    """
    >>> counted(1, "answer"), counted(2, "answer")
    ('1 answer', '2 answers')
    """
    return f"{n} {thing}{'' if n == 1 else 's'}"


def listed(names: list[str], most: int = 12) -> str:
    """Names in a row, cut where there are many.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
