"""The mutants of one room, run one after the other. Results are kept, and what is known is not run again."""

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutation.making import Change, Mutant, change
from mutation.rooms import ROOT, Room
from mutation.running import Scratch, forked, pytest_here
from mutation.watching import Choice, Trace, tests_of

KEPT = ROOT / "out" / "mutants"
LONGEST = 1800.0
"""Seconds that the tests of a room may take without a bug."""
DOCTESTS = "examples"
"""What the examples in a room's docstrings are called among its files of tests."""


@dataclass(frozen=True)
class Result:
    """What became of a mutant: killed, survived or timed out."""

    mutant: Mutant
    change: Change
    outcome: str
    by: str = ""


class Runs:
    """Runs mutants of a room.

    Parameters
    ----------
    limit
        Seconds of tests that a mutant faces at most, the quickest tests first: a bug that only a long test
        notices counts as a survivor.
    """

    def __init__(self, room: Room, scratch: Scratch, limit: float) -> None:
        self.room = room
        self.scratch = scratch
        self.limit = limit
        self.folder = KEPT / room.name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.files = room.test_files()
        self.digests = {name: digest(ROOT / name) for name in self.files}
        self.digests[DOCTESTS] = digest(*room.files(ROOT / "src" / "cual"))
        self.trace = self._trace()

    def result(self, mutant: Mutant) -> Result:
        """What became of a mutant."""
        source = (self.scratch.cual / mutant.file).read_text()
        changed = change(source, mutant)
        kept = self.folder / f"{mutant.key}.json"
        known = json.loads(kept.read_text()) if kept.exists() else {}
        if known.get("text") != changed.text:
            known = {}
        # what one test noticed, more tests notice too; what survived has to face the tests that are new
        faced = known.get("faced", {})
        new = {name for name, now in self.digests.items() if faced.get(name) != now}
        if known and (known["outcome"] != "survived" or not new):
            return Result(mutant, changed, known["outcome"], known["by"])
        outcome, by = self._run(mutant, source, changed, new)
        row = {"file": f"{mutant.file}:{mutant.line}", "before": changed.before, "after": changed.after,
               "outcome": outcome, "by": by, "faced": self.digests, "text": changed.text}  # fmt: skip
        kept.write_text(json.dumps(row, indent=1))
        return Result(mutant, changed, outcome, by)

    def _run(self, mutant: Mutant, source: str, changed: Change, new: set[str]) -> tuple[str, str]:
        seconds: dict[str, float] = self.trace["seconds"]
        names = tests_of(self.trace, mutant.file, source, mutant.line if self.room.traced else 0)
        if not names:
            return "survived", "no test runs the line"
        faced, expected = list[str](), 0.0
        for name in names:
            expected += seconds[name] * (file_of(name) in new)
            if expected <= self.limit and file_of(name) in new:
                faced.append(name)
        if not faced:
            return "survived", ""
        log = self.folder / "log"
        files = sorted({name.split("::")[0] for name in faced})
        with self.scratch.holding(mutant.file, changed):
            work = lambda: pytest_here(self.scratch, files, Choice(faced))  # noqa: E731
            status = forked(work, 10 + 2 * min(expected, self.limit), log)
        text = log.read_text(errors="replace")
        if status is None:
            return "timed out", ""
        if status == 0:
            return "survived", ""
        if status == 5:
            sys.exit(f"{mutant.file}:{mutant.line}: no test was found\n{text[-3000:]}")
        failed = [line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return "killed", failed[0][:200] if failed else f"exit {status}"

    def _trace(self) -> dict[str, Any]:
        """What each test of the room runs: measured for files of tests that are new, and if sources changed."""
        path = self.folder / "trace.json"
        sources = digest(ROOT / "src" / "cual")
        trace = json.loads(path.read_text()) if path.exists() else {}
        if trace.get("sources") != sources:
            trace = {"sources": sources, "files": {}, "seconds": {}, "lines": {}}
        new = {name for name, now in self.digests.items() if trace["files"].get(name) != now}
        if new:
            print(f"{self.room.name}: {len(new)} files of tests without a bug", flush=True)
            self._add(trace, new)
            path.write_text(json.dumps(trace))
        return trace

    def _add(self, trace: dict[str, Any], new: set[str]) -> None:
        """Run some files of tests, and put what they run in the place of what was known of them."""
        log, found = self.folder / "log", self.folder / "traced.json"
        status = forked(lambda: self._traced(found, new), LONGEST, log)
        if status != 0:
            sys.exit(f"{self.room.name}: tests fail without a bug\n{log.read_text()[-3000:]}")
        traced = json.loads(found.read_text())
        gone = {name for name in trace["seconds"] if file_of(name) in new}
        trace["seconds"] = {k: v for k, v in trace["seconds"].items() if k not in gone} | traced["seconds"]
        for file, lines in traced["lines"].items():
            known = trace["lines"].setdefault(file, {})
            for line in {*known, *lines}:
                known[line] = sorted({*known.get(line, ())} - gone | {*lines.get(line, ())})
        trace["files"] = self.digests

    def _traced(self, path: Path, new: set[str]) -> int:
        import coverage

        own = [str(file) for file in self.room.files(self.scratch.cual)]
        tracer = coverage.Coverage(data_file=None, include=own, config_file=False)
        tracer.start()
        trace = Trace(tracer)
        given = [argument for name in sorted(new - {DOCTESTS}) for argument in self.files[name]]
        status = pytest_here(self.scratch, [*given, *(own if DOCTESTS in new else [])], trace)
        trace.write(path, self.scratch.cual)
        return status


def file_of(test: str) -> str:
    """The file of a test, by its name."""
    file = test.split("::")[0]
    return file if file.startswith("tests/") else DOCTESTS


def digest(*paths: Path) -> str:
    """Of all Python below the paths."""
    files = sorted(file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
