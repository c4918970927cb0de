"""docs/terminal.md cannot rot: its commands are understood, its keys and ways are those there are."""

import re
import shlex
from pathlib import Path
from typing import Any, get_args

import pytest
import typer.main

from cual.cli import app
from cual.cli.question_files import LIST, UNKNOWN
from cual.cli.questions import KEYS
from cual.cli.terminal_images import MOST_COLUMNS, MOST_ROWS, Way

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "terminal.md").read_text(encoding="utf-8")
OUTSIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("### Outside this repository")[2]
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE + OUTSIDE, flags=re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if line.startswith("cual ")]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_understood(command: str) -> None:
    words = shlex.split(command, comments=True)
    step: Any = typer.main.get_command(app)
    rest, context = words[1:], None
    while True:
        context = step.make_context(step.name, rest, parent=context)
        if not hasattr(step, "resolve_command"):
            return
        _, step, rest = step.resolve_command(context, [*context._protected_args, *context.args])


def test_links_lead_somewhere() -> None:
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", PAGE)
    assert [name for name in linked if not (ROOT / "docs" / name).exists()] == []


def test_the_page_knows_the_keys_and_the_ways() -> None:
    (keys,) = re.findall(r"\| key \| does \|.*?\n\n", PAGE, flags=re.DOTALL)
    assert {*re.findall(r"`([a-z?])`", keys)} == {
        *re.findall(r"(?:^|, |; )([a-z?]) \w+", KEYS, flags=re.MULTILINE)
    }
    (ways,) = re.findall(r"\| `--images` \|.*?\n\n", PAGE, flags=re.DOTALL)
    assert re.findall(r"^\| `(\w+)` \|", ways, flags=re.MULTILINE) == list(get_args(Way))
    assert f"{MOST_COLUMNS} × {MOST_ROWS} characters" in PAGE
    assert f"`{LIST}`" in PAGE
    assert f"`{UNKNOWN}`" in PAGE


def test_the_page_names_every_command_of_its_own() -> None:
    for command in ("ask", "tell", "evaluate", "fit", "adapt", "predict", "info", "export"):
        assert f"cual {command}" in PAGE
