"""Images as characters: each way is read back as a terminal would, and gives the image that went in."""

import base64
import io
import re
from typing import Any

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from cual.cli.terminal_images import MOST_COLUMNS, MOST_ROWS, blocks, cells, iterm, kitty, sixel, way_of
from cual.errors import BadOption

pytestmark = pytest.mark.more


@pytest.fixture
def image() -> Image.Image:
    """Too noisy to be compressed into one piece."""
    pixels = np.random.default_rng(0).integers(0, 256, (90, 120, 3), np.uint8)
    return Image.fromarray(pixels)


def test_kitty_gets_the_image_in_pieces(image: Image.Image) -> None:
    said = kitty(image)
    pieces = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", said)
    assert len(pieces) > 1
    assert all(len(data) <= 4096 for _, data in pieces)
    keys = dict(pair.split("=") for pair in pieces[0][0].split(","))
    columns, rows = cells(image.size)
    assert (keys["a"], keys["f"], keys["c"], keys["r"]) == ("T", "100", str(columns), str(rows))
    assert [head.endswith("m=1") for head, _ in pieces] == [True] * (len(pieces) - 1) + [False]
    data = base64.b64decode("".join(data for _, data in pieces))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), np.asarray(image))


def test_iterm_gets_the_image_with_its_size(image: Image.Image) -> None:
    found = re.fullmatch(r"\x1b\]1337;File=([^:]*):([A-Za-z0-9+/=]*)\x07\n", iterm(image))
    assert found is not None
    keys = dict(pair.split("=") for pair in found[1].split(";"))
    data = base64.b64decode(found[2])
    assert (keys["inline"], int(keys["size"])) == ("1", len(data))
    assert (int(keys["width"]), int(keys["height"])) == cells(image.size)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), np.asarray(image))


def test_sixels_are_the_pixels(image: Image.Image) -> None:
    halves = Image.new("RGB", (64, 64), (255, 0, 0))
    halves.paste((0, 0, 255), (32, 0, 64, 64))
    drawn = drawn_by_sixels(sixel(halves))
    height, width, _ = drawn.shape
    assert width / height == pytest.approx(1, abs=0.1)
    assert np.abs(drawn[:, : width // 2 - 8] - (100, 0, 0)).max() <= 2
    assert np.abs(drawn[:, width // 2 + 8 :] - (0, 0, 100)).max() <= 2
    assert (drawn_by_sixels(sixel(image)) >= 0).all()


def drawn_by_sixels(text: str) -> np.ndarray[Any, Any]:
    """What a terminal draws, in percent of red, green and blue; -1 where it draws nothing."""
    found = re.fullmatch(r'\x1bPq"1;1;(\d+);(\d+)(.*)\x1b\\\n', text, flags=re.DOTALL)
    assert found is not None
    width, height = int(found[1]), int(found[2])
    drawn = np.full((height, width, 3), -1)
    palette: dict[str, tuple[int, ...]] = {}
    x = y = 0
    colour = ""
    for token in re.finditer(r"#(\d+)(?:;2;(\d+);(\d+);(\d+))?|!(\d+)(.)|\$|-|([?-~])", found[3]):
        number, *rgb, count, repeated, single = token.groups()
        if number is not None:
            colour = number
            if rgb[0] is not None:
                palette[number] = tuple(int(part) for part in rgb)
        elif token[0] == "$":
            x = 0
        elif token[0] == "-":
            x, y = 0, y + 6
        else:
            bits, n = ord(repeated or single) - 63, int(count or 1)
            for row in range(6):
                if bits >> row & 1:
                    drawn[y + row, x : x + n] = palette[colour]
            x += n
    return drawn


def test_blocks_are_two_pixels_each() -> None:
    image = Image.new("RGB", (32, 32), (10, 20, 30))
    image.paste((200, 100, 50), (0, 16, 32, 32))
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="truecolor", width=80)
    console.print(blocks(image, 8), end="")
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert all(line.count("▀") == 8 for line in lines)
    assert "38;2;10;20;30;48;2;10;20;30m" in lines[0]
    assert "38;2;200;100;50;48;2;200;100;50m" in lines[3]


@pytest.mark.parametrize("size", [(1, 1), (64, 64), (4000, 30), (30, 4000), (1920, 1080)])
def test_an_image_leaves_room_for_the_question(size: tuple[int, int]) -> None:
    columns, rows = cells(size)
    assert 1 <= columns <= MOST_COLUMNS
    assert 1 <= rows <= MOST_ROWS


@pytest.mark.parametrize(
    ("environment", "way"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"KITTY_WINDOW_ID": "1", "TERM": "xterm-256color"}, "kitty"),
        ({"TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"LC_TERMINAL": "iTerm2", "TERM": "xterm-256color"}, "iterm"),
        ({"TERM": "foot"}, "sixel"),
        ({"TERM": "xterm-256color"}, "blocks"),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/x"}, "blocks"),
        ({}, "blocks"),
    ],
)
def test_the_way_is_that_of_the_terminal(environment: dict[str, str], way: str) -> None:
    assert way_of("auto", environment, colours=True) == way
    assert way_of("auto", environment, colours=False) == "none"
    assert way_of("sixel", environment, colours=False) == "sixel"
    with pytest.raises(BadOption, match="--images is one of auto, kitty"):
        way_of("ascii", environment, colours=True)
