"""The examples of docs/neighbours.md, by what they are about."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "neighbours.md"


def example(about: str) -> str:
    """The one Python example that names a module of ours."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (found,) = (block for block in blocks if about in block)
    return found


def run(about: str) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example(about), str(PAGE), "exec"), names)
