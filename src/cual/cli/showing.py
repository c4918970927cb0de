"""Shows samples in the terminal, and opens them in another program. What they are is said by `contents`."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from cual.cli import terminal_images
from cual.cli.contents import Content, Contents, printable
from cual.cli.output import out
from cual.cli.terminal_images import Way
from cual.errors import BadImage
from cual.types import Label

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_LINES = 12
_SHORTER = 320
"""Pixels of the shorter side that are decoded: more than a terminal shows."""


class Showing:
    """What people see of a sample.

    Parameters
    ----------
    contents
        Of the pool.
    way
        How images are shown.
    """

    def __init__(self, contents: Contents, way: Way = "none") -> None:
        self._contents, self._way = contents, way

    def show(self, sample: Label) -> None:
        """Print a text, or an image and where it lies; nothing where only the id is known."""
        content = self._contents.of(sample)
        if content is None:
            return
        try:
            if content.text is not None:
                self._show_text(content.text())
            elif content.image is not None:
                self._show_image(content)
        except BadImage as error:
            out.print(f"  it cannot be shown: {escape(printable(str(error)))}", style="yellow", highlight=False)

    def open(self, sample: Label) -> None:
        """Show all of a text; open an image in the program that the system has for it."""
        content = self._contents.of(sample)
        if content is None:
            out.print("only its id is known; --show says where the samples lie", style="yellow")
            return
        try:
            if content.text is not None:
                out.print(Padding(Text(printable(content.text())), (0, 2)))
            elif content.raw is not None:
                self._open(content.raw())
        except BadImage as error:
            out.print(
                f"  it cannot be opened: {escape(printable(str(error)))}", style="yellow", highlight=False
            )

    def _show_text(self, text: str) -> None:
        shown = Text(printable(text).strip())
        lines = shown.wrap(out, max(20, out.width - 4))
        cut = len(lines) > MOST_LINES
        out.print(Padding(Text("\n").join(lines[:MOST_LINES]), (0, 2)), highlight=False)
        if cut:
            out.print(f"  … {len(lines) - MOST_LINES} more lines; o shows all", style="dim", highlight=False)

    def _show_image(self, content: Content) -> None:
        if self._way != "none" and content.image is not None:
            self._draw(content.image)
        if content.source is not None:
            out.print(f"  [dim]{escape(printable(content.source))}[/dim]", highlight=False, soft_wrap=True)

    def _draw(self, load: "Callable[[int], Image]") -> None:
        image = load(_SHORTER)
        ways = {"kitty": terminal_images.kitty, "iterm": terminal_images.iterm, "sixel": terminal_images.sixel}
        if self._way in ways:
            out.file.write(ways[self._way](image))
            out.file.flush()
        else:
            columns = min(terminal_images.MOST_COLUMNS, out.width - 2)
            out.print(terminal_images.blocks(image, columns), end="")

    def _open(self, raw: Path | bytes) -> None:
        file = raw if isinstance(raw, Path) else self._copied(raw)
        program = "open" if sys.platform == "darwin" else "xdg-open"
        try:
            if sys.platform == "win32":
                os.startfile(file.resolve())
            else:
                quiet = subprocess.DEVNULL
                subprocess.Popen(
                    [program, str(file.resolve())],
                    stdin=quiet,
                    stdout=quiet,
                    stderr=quiet,
                    start_new_session=True,
                )
        except OSError:
            text = f"  there is no {program} here; it lies at {printable(str(file.resolve()))}"
            out.print(escape(text), style="yellow", highlight=False, soft_wrap=True)

    def _copied(self, data: bytes) -> Path:
        """An image that lies inside a table, as a file for other programs; gone when the command ends."""
        file = Path(self._folder.name) / f"{len(list(Path(self._folder.name).iterdir()))}.image"
        file.write_bytes(data)
        return file

    @cached_property
    def _folder(self) -> "tempfile.TemporaryDirectory[str]":
        return tempfile.TemporaryDirectory(prefix="cual-")
