"""Images in a terminal: which way it has, and the characters that each way takes. Nothing is printed here."""

import base64
import io
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, get_args

from rich.color import Color
from rich.style import Style
from rich.text import Text

from cual.errors import BadOption

if TYPE_CHECKING:
    from PIL.Image import Image

Way = Literal["kitty", "iterm", "sixel", "blocks", "none"]
MOST_COLUMNS, MOST_ROWS = 48, 16
"""Cells that an image takes: it must leave room for the question."""
_CELL = (10, 20)
"""Pixels of a cell, about: programs cannot know, and sixels have no other measure."""
_PIECE = 4096  # the most that kitty takes at once


def way_of(name: str, environment: Mapping[str, str], colours: bool) -> Way:
    """How images are shown: as the user says, or ("auto") as the terminal's variables do.

    Parameters
    ----------
    name
        One of the ways, or "auto".
    environment
        Of the process.
    colours
        Whether the output is a terminal with colours; without, nothing is shown.

    Examples
    --------
    >>> way_of("auto", {"TERM": "xterm-kitty"}, True), way_of("auto", {"TERM": "xterm-256color"}, True)
    ('kitty', 'blocks')
    """
    for way in get_args(Way):
        if name == way:
            return way
    if name != "auto":
        raise BadOption(f"--images is one of auto, {', '.join(get_args(Way))}, not {name!r}")
    return _told_by(environment) if colours else "none"


def _told_by(environment: Mapping[str, str]) -> Way:
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if "TMUX" in environment or term.startswith(("screen", "tmux")):
        return "blocks"  # what is between us and the terminal drops everything else
    if "KITTY_WINDOW_ID" in environment or term in ("xterm-kitty", "xterm-ghostty") or program == "ghostty":
        return "kitty"
    if program in ("iTerm.app", "WezTerm") or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm"
    if term.startswith(("foot", "mlterm")) or "sixel" in term:
        return "sixel"
    return "blocks"


def cells(size: tuple[int, int], columns: int = MOST_COLUMNS, rows: int = MOST_ROWS) -> tuple[int, int]:
    """Columns and rows that an image of so many pixels takes; a cell is twice as high as it is wide.

    >>> cells((64, 64)), cells((400, 100)), cells((10, 1000))
    ((32, 16), (48, 6), (1, 16))
    """
    width, height = size
    wide = min(columns, 2 * rows * width / height)
    return max(1, round(wide)), max(1, min(rows, round(wide * height / width / 2)))


def kitty(image: "Image") -> str:
    """The graphics protocol of kitty, which Ghostty, Konsole and WezTerm know, too."""
    columns, rows = cells(image.size)
    data = base64.b64encode(_png(image)).decode()
    pieces = [data[start : start + _PIECE] for start in range(0, len(data), _PIECE)]
    head = f"a=T,f=100,q=2,c={columns},r={rows},"
    said: list[str] = []
    for number, piece in enumerate(pieces, 1):
        said.append(f"\x1b_G{head}m={int(number < len(pieces))};{piece}\x1b\\")
        head = ""
    return "".join(said) + "\n"


def iterm(image: "Image") -> str:
    """Inline images of iTerm2, which WezTerm knows, too."""
    columns, rows = cells(image.size)
    data = _png(image)
    head = f"File=inline=1;size={len(data)};width={columns};height={rows};preserveAspectRatio=1"
    return f"\x1b]1337;{head}:{base64.b64encode(data).decode()}\x07\n"


def sixel(image: "Image", colours: int = 64) -> str:
    """Sixels: bands of six rows of pixels, each colour of a band on its own."""
    columns, rows = cells(image.size)
    small = image.resize((columns * _CELL[0], rows * _CELL[1])).quantize(colours)
    palette = small.getpalette() or []
    named = [palette[at : at + 3] for at in range(0, len(palette), 3)]
    head = "".join(
        f"#{i};2;" + ";".join(str(round(part / 2.55)) for part in rgb) for i, rgb in enumerate(named)
    )
    width, height = small.size
    pixels = list(small.tobytes())
    lines = [pixels[y * width : (y + 1) * width] for y in range(height)]
    bands = "-".join("$".join(_band(lines[y : y + 6])) for y in range(0, height, 6))
    return f'\x1bPq"1;1;{width};{height}{head}{bands}\x1b\\\n'


def _band(lines: list[list[int]]) -> Iterator[str]:
    """A band of at most six rows, once for each of its colours; runs of the same are counted."""
    for colour in sorted({c for line in lines for c in line}):
        bits = [sum((line[x] == colour) << y for y, line in enumerate(lines)) for x in range(len(lines[0]))]
        runs: list[tuple[int, int]] = []
        for value in bits:
            if runs and runs[-1][0] == value:
                runs[-1] = (value, runs[-1][1] + 1)
            else:
                runs.append((value, 1))
        text = (f"!{n}{chr(63 + value)}" if n > 3 else chr(63 + value) * n for value, n in runs)
        yield f"#{colour}" + "".join(text)


def blocks(image: "Image", columns: int = MOST_COLUMNS) -> Text:
    """Half blocks: each character is two pixels, its own colour above and its ground below.

    >>> from PIL import Image
    >>> str(blocks(Image.new("RGB", (4, 4)), columns=4)).split()
    ['▀▀▀▀', '▀▀▀▀']
    """
    wide, high = cells(image.size, columns)
    small = image.convert("RGB").resize((wide, 2 * high))
    data = small.tobytes()

    def colour(x: int, y: int) -> Color:
        at = 3 * (y * wide + x)
        return Color.from_rgb(*data[at : at + 3])

    text = Text(no_wrap=True)
    for row in range(high):
        for x in range(wide):
            text.append("▀", Style(color=colour(x, 2 * row), bgcolor=colour(x, 2 * row + 1)))
        text.append("\n")
    return text


def _png(image: "Image") -> bytes:
    """Small enough for a slow line, in a format that every way takes."""
    small = image.convert("RGB")
    small.thumbnail((MOST_COLUMNS * _CELL[0] * 2, MOST_ROWS * _CELL[1] * 2))
    out = io.BytesIO()
    small.save(out, "PNG")
    return out.getvalue()
