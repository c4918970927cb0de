"""Start in five minutes, typed as it stands; and every command of the guides is understood."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from cual.cli import app

ROOT = Path(__file__).parents[2]
START = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
BIN = Path(os.environ.get("CUAL_BIN", Path(sys.executable).parent))
"""Where `cual` and `python` are: those of these tests, or of an environment that a wheel was installed into."""


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and content of each block of code."""
    found = re.findall(r"^( *)```(\w+)\n(.*?)^ *```$", text, flags=re.DOTALL | re.MULTILINE)
    return [(kind, re.sub(rf"^{indent}", "", code, flags=re.MULTILINE)) for indent, kind, code in found]


def commands() -> Iterator[Any]:
    for page in (ROOT / "docs" / "start.md", *GUIDES):
        for kind, code in blocks(page.read_text(encoding="utf-8")):
            for line in code.splitlines() if kind == "sh" else ():
                if command := re.search(r"\bcual [a-z-]+ [^)]*", line):
                    yield pytest.param(command[0], id=command[0][:60])


@pytest.mark.parametrize("command", list(commands()))
def test_commands_are_understood(command: str) -> None:
    step: Any = typer.main.get_command(app)
    rest, context = shlex.split(command, comments=True)[1:], None
    while True:
        context = step.make_context(step.name, rest, parent=context)
        if not hasattr(step, "resolve_command"):
            return
        _, step, rest = step.resolve_command(context, [*context._protected_args, *context.args])


@pytest.mark.more
def test_the_page_typed_as_it_stands_says_what_it_says(tmp_path: Path) -> None:
    typed = blocks(START)
    assert typed[0] == ("sh", "pip install 'cual[sklearn]'\n"), "the first thing to type is the installation"
    python_blocks = [code for kind, code in typed if kind == "python"]
    assert len(python_blocks) == 2
    (tmp_path / "digits.py").write_text(python_blocks[0], encoding="utf-8")
    printed, shown = [], []
    for kind, code in typed[1:]:
        if kind == "sh":
            printed += [type_(line, tmp_path) for line in code.splitlines()]
        elif kind == "python" and code != python_blocks[0]:
            (tmp_path / "same.py").write_text(code, encoding="utf-8")
            printed.append(type_("python same.py", tmp_path))
        elif kind == "text":
            shown += code.splitlines()
            said = "\n".join(printed)
            missing = [line for line in code.splitlines() if not is_said(line, said)]
            assert missing == [], said
            printed = []
    assert len(shown) > 10


def type_(line: str, folder: Path) -> str:
    words = shlex.split(line)
    command = [str(BIN / words[0]), *words[1:]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def is_said(line: str, printed: str) -> bool:
    """Whether the line was printed; figures may differ by 3 %, as machines round differently."""
    return any(alike(line, other) for other in printed.splitlines())


def alike(line: str, other: str) -> bool:
    number = r"\d+\.\d+"
    if [*re.sub(number, "#", line).split()] != [*re.sub(number, "#", other).split()]:
        return False
    pairs = zip(re.findall(number, line), re.findall(number, other), strict=True)
    return all(abs(float(a) - float(b)) <= 0.03 * max(float(a), 1e-9) for a, b in pairs)
