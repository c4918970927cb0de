"""The tests of one room: which lines each of them runs, and what becomes of a mutant that faces them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from mutation import kept
from mutation.making import Mutant, change
from mutation.rooms import ROOT, Room
from mutation.running import Scratch, forked, pytest_here
from mutation.watching import Choice, Trace, tests_of

DOCTESTS = "examples"
"""What the examples in a room's docstrings are called among its files of tests."""


class Runs:
    """Runs mutants of a room.

    Parameters
    ----------
    limit
        Seconds of tests that a mutant faces at most, the quickest tests first: a bug that only a long test
        notices counts as a survivor.
    longest
        Seconds of one file's tests that are run without a bug; tests that would come later are left out.
    patience
        How many times as long a test may take by the clock as by the processor: the machine is others' too.
    until
        When all ends, by the monotonic clock.
    """

    def __init__(self, room: Room, *, limit: float, longest: float, patience: float, until: float) -> None:
        self.room = room
        self.limit = limit
        self.longest = longest
        self.patience = patience
        self.until = until
        self.files = room.test_files()
        self.own = room.files(ROOT / "src" / "cual")
        self.sources = kept.digest(*self.own)
        self.digests = {name: kept.digest(ROOT / name) for name in self.files}
        self.digests[DOCTESTS] = self.sources
        self.read_traces()

    def read_traces(self) -> None:
        """Puts together what is known of the room's files of tests."""
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, dict[str, set[str]]] = {}
        self.failed: list[str] = []
        self.faced: dict[str, str] = {}
        for trace in kept.traces(self.room.name):
            name, now = trace["name"], self.digests.get(trace["name"])
            if trace["digest"] != now or trace["sources"] != self.sources:
                continue
            # where tests are left out, a machine that can run them faces its survivors with them
            self.faced[name] = kept.without(now, trace["failed"])
            self.failed += trace["failed"]
            self.seconds |= trace["seconds"]
            for file, lines in trace["lines"].items():
                known = self.lines.setdefault(file, {})
                for line, tests in lines.items():
                    known.setdefault(line, set()).update(tests)

    def untraced(self) -> list[str]:
        """Files of tests of which it is not known what they run."""
        return sorted({*self.digests} - {*self.faced})

    def trace(self, name: str, scratch: Scratch) -> None:
        """Sees which lines of the room each test of a file runs."""
        found = scratch.log.with_name("traced.json")
        found.unlink(missing_ok=True)
        status = self._forked(lambda: self._traced(found, name, scratch), 4 * self.longest + 60, scratch)
        if not found.exists():
            text = scratch.log.read_text(errors="replace")
            print(f"{self.room.name}: {name} could not be run (exit {status})\n{text[-2000:]}", flush=True)
        rest = json.loads(found.read_text()) if found.exists() else NOTHING | {"failed": [name]}
        for test in rest["failed"]:
            print(f"{self.room.name}: left out, fails without a bug: {test}", flush=True)
        row = {"name": name, "digest": self.digests[name], "sources": self.sources}
        kept.keep_trace(self.room.name, row | rest)

    def _traced(self, path: Path, name: str, scratch: Scratch) -> int:
        import coverage

        own = [str(file) for file in self.room.files(scratch.cual)]
        tracer = coverage.Coverage(data_file=None, include=own, config_file=False)
        tracer.start()
        trace = Trace(tracer, self.longest)
        given = own if name == DOCTESTS else self.files[name]
        status = pytest_here(scratch, self.room, given, trace, "--continue-on-collection-errors")
        path.write_text(json.dumps(trace.found(scratch.cual)))
        return status

    def settled(self, mutant: Mutant) -> kept.Row | None:
        """What is known of a mutant, if it need not be run again.

        What one test noticed, more tests notice too; what survived has to face the tests that are new.
        """
        row = kept.known(mutant, source_digest(mutant.file))
        return row if row and (row["outcome"] != "survived" or not self._new(row)) else None

    def run(self, mutant: Mutant, scratch: Scratch) -> None:
        """Lets a mutant face the tests, and keeps what became of it."""
        row = kept.known(mutant, source_digest(mutant.file))
        source = (scratch.cual / mutant.file).read_text()
        changed = change(source, mutant)
        new = self._new(row) if row else {*self.faced}
        tests = self._tests(mutant, source, new)
        row = {"room": mutant.room, "key": mutant.key, "file": mutant.file, "line": mutant.line,
               "before": changed.before, "after": changed.after, "source": source_digest(mutant.file),
               "outcome": "survived", "by": "", "faced": self.faced}  # fmt: skip
        if tests:
            with scratch.holding(mutant.file, changed):
                row["outcome"], row["by"] = self._outcome(tests, scratch)
        elif not self._tests(mutant, source, {*self.faced}):
            row["by"] = "no test runs the line"
        kept.keep(row)

    def _new(self, row: kept.Row) -> set[str]:
        """Files of tests that a mutant has not faced as they are now."""
        now = self.digests | self.faced
        return {name for name in now if row["faced"].get(name) != now[name]}

    def _tests(self, mutant: Mutant, source: str, new: set[str]) -> list[str]:
        """The tests that a mutant faces, of some files."""
        lines, traced = self.lines.get(mutant.file, {}), self.room.traced
        names = tests_of(self.seconds, lines, mutant.file, source, mutant.line, traced)
        faced, expected = list[str](), 0.0
        for name in names:
            if file_of(name) in new:
                expected += self.seconds[name]
                if expected <= self.limit:
                    faced.append(name)
        return faced

    def _outcome(self, tests: list[str], scratch: Scratch) -> tuple[str, str]:
        files = sorted({name.split("::")[0] for name in tests})
        expected = sum(self.seconds[name] for name in tests)
        work = lambda: pytest_here(scratch, self.room, files, Choice(tests), "-x")  # noqa: E731
        status = self._forked(work, 10 + 2 * expected, scratch)
        if status is None:
            return "timed out", ""
        if status == 0:
            return "survived", ""
        text = scratch.log.read_text(errors="replace")
        if status == 5:
            raise RuntimeError(f"no test was found of {tests}\n{text[-3000:]}")
        failed = [line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return "killed", failed[0][:200] if failed else f"exit {status}"

    def _forked(self, work: Any, seconds: float, scratch: Scratch) -> int | None:
        return forked(work, seconds, scratch.log, patience=self.patience, until=self.until, free=self.room.gpu)


NOTHING: dict[str, Any] = {"seconds": {}, "lines": {}}


@cache
def source_digest(file: str) -> str:
    """Of the code of a module below `src/cual`, as it was when the run began."""
    return kept.code_digest((ROOT / "src" / "cual" / file).read_text())


def file_of(test: str) -> str:
    """The file of a test, by its name."""
    file = test.split("::")[0]
    return file if file.startswith("tests/") else DOCTESTS
