"""docs/security.md cannot rot: its tests exist, what is tried is on it, its table of roles is the true one."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from serve.test_security import ROLES

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"((?:[a-z_0-9]+/)*test_\w+\.py)::(test_\w+)", PAGE)))
ABUSE = ("serve/test_security.py", "serve/test_connections.py", "encoders/test_trust.py")
"""Files of which every test is an attempt."""
COLUMNS = ("anybody", "sender", "reader", "annotator", "admin")


@cache
def names_in(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_the_page_names_exists(file: str, name: str) -> None:
    assert name in names_in(file)


@pytest.mark.parametrize("file", ABUSE)
def test_all_that_is_tried_is_on_the_page(file: str) -> None:
    assert names_in(file) <= {name for where, name in NAMED if where == file}


def test_the_page_says_who_may_call_what() -> None:
    table = PAGE[PAGE.index("| about | anybody") :].partition("\n\n")[0]
    found: dict[tuple[str, str], str] = {}
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")][1:]
        for role, cell in zip(COLUMNS, cells, strict=True):
            for method, path in re.findall(r"`([A-Z]+) (\S+)`", cell):
                assert (method, path) not in found, "named twice"
                found[method, path] = role
    assert found == {route: str(role) for route, role in ROLES.items()}
