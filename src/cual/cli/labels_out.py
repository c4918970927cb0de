"""The labels of an adaptation that has just ended, as a file: `--export` of the commands that end one."""

from pathlib import Path

from rich.markup import escape

from cual.cli.output import check_free, counted, out
from cual.loop.adaptation import Adaptation


def check_export(path: Path | None, force: bool) -> None:
    """Refuse what cannot be written; before the work, not after it."""
    from cual.export import format_of, formats

    if path is not None:
        formats[format_of(path)].check()
        check_free(path, force)


def write_labels(task: Adaptation, path: Path | None) -> None:
    """Write what was answered and what is believed, if somebody wants it."""
    from cual.export import format_of, formats
    from cual.export.saved import task_labels

    if path is None:
        return
    written = formats[format_of(path)].write(task_labels(task), path)
    out.print(f"{escape(str(path))}: {counted(written, 'label')}", highlight=False, soft_wrap=True)
