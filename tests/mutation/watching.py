"""What goes on inside a child: a choice of tests, or, once a room, which lines each test runs."""

import ast
import functools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

IMPORT = ""
"""Stands for a test where a line runs before all tests."""


def plain(nodeid: str) -> str:
    """A test's name: of an example, without where the copy of the sources lies.

    >>> plain("../dev/shm/a/src/cual/seeds.py::cual.seeds"), plain("tests/test_agent.py::test_it")
    ('src/cual/seeds.py::cual.seeds', 'tests/test_agent.py::test_it')
    """
    file, _, rest = nodeid.partition("::")
    return nodeid if file.startswith("tests/") else f"src/cual/{file.rpartition('src/cual/')[2]}::{rest}"


class Choice:
    """Runs the tests that are named, in that order."""

    def __init__(self, names: list[str]) -> None:
        self.place = {name: i for i, name in enumerate(names)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if plain(item.nodeid) in self.place]
        items[:] = sorted(chosen, key=lambda item: self.place[plain(item.nodeid)])


class Trace:
    """Which lines each test runs, and how long it takes.

    What a fixture of several tests runs belongs to each of them, not to the first alone; what `cual.checks`
    keeps from one test to the next is made again, so that each test is seen to run it. After so many `seconds`
    no further test is begun: those that are left are too slow for mutants to face.
    """

    def __init__(self, coverage: Any, seconds: float) -> None:
        self.coverage = coverage
        self.end = time.process_time() + seconds
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self.users: dict[str, list[str]] = {}
        self.context = IMPORT

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        test = plain(item.nodeid)
        for name in getattr(item, "fixturenames", ()):
            self.users.setdefault(f"fixture {name}", []).append(test)
        for name, module in list(sys.modules.items()):
            for value in vars(module).values() if name.startswith("cual.checks") else ():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()
        self._switch(test)
        begun = time.process_time()
        result = yield
        self.seconds[test] = time.process_time() - begun
        self._switch(IMPORT)
        if time.process_time() > self.end:
            item.session.shouldstop = "the tests of the file take too long"
            self.failed.append(f"{test.split('::')[0]}: whatever follows {test.split('::')[-1]}")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before = self.context
        if fixturedef.scope != "function":
            self._switch(f"fixture {fixturedef.argname}")
        result = yield
        self._switch(before)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(plain(report.nodeid))
        elif report.skipped:
            self.seconds.pop(plain(report.nodeid), None)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def found(self, cual: Path) -> dict[str, Any]:
        """Seconds of each test, of each line of each file the tests that run it, and the tests that failed."""
        self.coverage.stop()
        data = self.coverage.get_data()
        good = {test: seconds for test, seconds in self.seconds.items() if test not in self.failed}
        lines: dict[str, dict[int, list[str]]] = {}
        for file in data.measured_files():
            contexts = data.contexts_by_lineno(file)
            name = Path(file).relative_to(cual).as_posix()
            lines[name] = {line: self._tests(several, good) for line, several in contexts.items()}
        return {"seconds": good, "lines": lines, "failed": sorted({*self.failed})}

    def _switch(self, context: str) -> None:
        self.context = context
        self.coverage.switch_context(context)

    def _tests(self, contexts: list[str], good: dict[str, float]) -> list[str]:
        tests = {test for context in contexts for test in self.users.get(context, [context])}
        return sorted(test for test in tests if test in good or test == IMPORT)


def tests_of(
    seconds: dict[str, float], covered: dict[str, set[str]], file: str, source: str, line: int, traced: bool
) -> list[str]:
    """The tests that run the statement of a line; all of the room if it runs at import.

    All as well if no test is seen to run it where not all can be seen (`traced` is false). Those of a file that
    is named after the module come first, and of these and of the others the quickest.
    """
    lines = _statement(source, line)
    chosen = {IMPORT} if lines is None else {test for n in lines for test in covered.get(str(n), ())}
    if IMPORT in chosen or not (chosen or traced):
        chosen = set(seconds)
    stem = Path(file).stem

    def place(test: str) -> tuple[bool, float, str]:
        return stem not in Path(test.split("::")[0]).stem, seconds[test], test

    return sorted(chosen, key=place)


def _statement(source: str, line: int) -> range | None:
    """The lines of the statement that holds a line, without its body; of a default, the whole function.

    >>> text = "A = 1\\ndef f(\\n    x=1,\\n):\\n    if (x\\n        > 1):\\n        x = 2\\n    return x\\n"
    >>> [_statement(text, line) for line in (1, 3, 5, 6, 7)]
    [None, range(5, 9), range(5, 7), range(5, 7), range(7, 8)]
    """

    inside: ast.stmt | None = None
    functions = 0
    for node in ast.walk(ast.parse(source)):  # outer ones come first
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            inside = node
            functions += isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if inside is None:
        return None
    if isinstance(inside, ast.FunctionDef | ast.AsyncFunctionDef):  # the header: its defaults
        return range(inside.body[0].lineno, (inside.end_lineno or 0) + 1)
    if not functions:
        return None
    body = getattr(inside, "body", None)
    last = body[0].lineno - 1 if body else (inside.end_lineno or 0)
    return range(inside.lineno, max(last, inside.lineno) + 1)
