"""`python -m mutation`: takes a sample of the mutants of each room, runs it, and says what survived."""

import argparse
import hashlib
import json
import os
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mutation.making import Change, Mutant, change, mutants, sample
from mutation.rooms import ROOMS, ROOT, Room
from mutation.running import Scratch, forked, pytest_here, warm_up
from mutation.watching import Choice, Trace, tests_of

KEPT = ROOT / "out" / "mutants"
EXPLAINED = Path(__file__).parent / "survivors.toml"
SHARE = 0.9
LONGEST_BASELINE = 1800.0  # seconds for the tests of a room without a bug


@dataclass(frozen=True)
class Result:
    """What became of a mutant: killed, survived or timed out; or nobody can tell it from the original."""

    mutant: Mutant
    change: Change
    outcome: str
    by: str = ""


class Runs:
    """Mutants of one room, run one after the other; results are kept, and what is known is not run again."""

    def __init__(self, room: Room, scratch: Scratch) -> None:
        self.room = room
        self.scratch = scratch
        self.folder = KEPT / room.name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tests = digest(*(ROOT / path for path in room.tests))
        self.trace = self._trace()

    def result(self, mutant: Mutant) -> Result:
        """What became of a mutant."""
        source = (self.scratch.cual / mutant.file).read_text()
        changed = change(source, mutant)
        kept = self.folder / f"{mutant.key}.json"
        known = json.loads(kept.read_text()) if kept.exists() else {}
        # what one test noticed, more tests notice too; what survived has to face new tests
        if known.get("text") == changed.text and (
            known["outcome"] != "survived" or known["tests"] == self.tests
        ):
            return Result(mutant, changed, known["outcome"], known["by"])
        outcome, by = self._run(mutant, source, changed)
        row = {"file": f"{mutant.file}:{mutant.line}", "before": changed.before, "after": changed.after,
               "outcome": outcome, "by": by, "tests": self.tests, "text": changed.text}  # fmt: skip
        kept.write_text(json.dumps(row, indent=1))
        return Result(mutant, changed, outcome, by)

    def _run(self, mutant: Mutant, source: str, changed: Change) -> tuple[str, str]:
        names = tests_of(self.trace, mutant.file, source, mutant.line if self.room.traced else 0)
        if not names:
            return "survived", "no test runs the line"
        expected = sum(self.trace["seconds"][name] for name in names)
        log = self.folder / "log"
        with self.scratch.holding(mutant.file, changed):
            status = forked(lambda: pytest_here(self.scratch, self.room, Choice(names)), 30 + 4 * expected, log)
        text = log.read_text(errors="replace")
        if status is None:
            return "timed out", ""
        if status == 0:
            return "survived", ""
        failed = [line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if status < 0 or status in (1, 2, 3, 4):  # tests fail, or cannot even be collected
            return "killed", failed[0][:200] if failed else f"exit {status}"
        sys.exit(f"{mutant.file}:{mutant.line}: the tests did not run\n{text[-3000:]}")

    def _trace(self) -> dict[str, Any]:
        """What each test of the room runs, measured once for these sources and tests."""
        path = self.folder / "trace.json"
        now = digest(ROOT / "src" / "cual", *(ROOT / test for test in self.room.tests))
        if path.exists() and (trace := json.loads(path.read_text())).get("of") == now:
            return trace
        print(f"{self.room.name}: the tests without a bug", flush=True)
        log = self.folder / "log"
        status = forked(lambda: self._traced(path), LONGEST_BASELINE, log)
        if status != 0:
            sys.exit(f"{self.room.name}: tests fail without a bug\n{log.read_text()[-3000:]}")
        trace = {**json.loads(path.read_text()), "of": now}
        path.write_text(json.dumps(trace))
        return trace

    def _traced(self, path: Path) -> int:
        import coverage

        files = [str(file) for file in self.room.files(self.scratch.cual)]
        tracer = coverage.Coverage(data_file=None, include=files, config_file=False)
        tracer.start()
        trace = Trace(tracer)
        status = pytest_here(self.scratch, self.room, trace)
        trace.write(path, self.scratch.cual)
        return status


def digest(*paths: Path) -> str:
    """Of all Python below the paths."""
    files = sorted(file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path]))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


def explained() -> dict[tuple[str, str, str], str]:
    """Reasons why a mutant need not be killed: by file, and lines before and after; no line after means any."""
    rows = tomllib.loads(EXPLAINED.read_text()).get("survivor", []) if EXPLAINED.exists() else []
    return {(row["file"], row["before"].strip(), row.get("after", "").strip()): row["reason"] for row in rows}


def reason(result: Result, reasons: dict[tuple[str, str, str], str]) -> str:
    """Why this one need not be killed; nothing if it should be."""
    file, before, after = result.mutant.file, result.change.before, result.change.after
    return reasons.get((file, before, after), "") or reasons.get((file, before, ""), "")


def report(results: dict[str, list[Result]], seed: int) -> bool:
    """Prints the table and the survivors; whether enough were killed in every room."""
    reasons = explained()
    console = Console()
    table = Table(title=f"mutants (seed {seed})")
    for column in ("room", "mutants", "killed", "timed out", "survived", "equivalent", "share"):
        table.add_column(column, justify="left" if column == "room" else "right")
    enough = True
    for room, rows in results.items():
        alive = [row for row in rows if row.outcome == "survived"]
        left = [row for row in alive if not reason(row, reasons)]
        outcomes = [row.outcome for row in rows]
        counted = len(rows) - len(alive) + len(left)
        share = (counted - len(left)) / max(counted, 1)
        enough &= share >= SHARE
        figures = (
            len(rows),
            outcomes.count("killed"),
            outcomes.count("timed out"),
            len(left),
            len(alive) - len(left),
        )
        table.add_row(room, *map(str, figures), f"{share:.1%}")
        for row in alive:
            why = reason(row, reasons)
            lines = f"    - {row.change.before}\n    + {row.change.after}"
            print(
                f"{'equivalent' if why else 'SURVIVED'}  {row.mutant.file}:{row.mutant.line}  {row.by}\n{lines}"
            )
            if why:
                print(f"    {why}")
    console.print(table)
    return enough


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--room", action="append", choices=list(ROOMS), help="this one only; may be given again"
    )
    parser.add_argument("--sample", type=int, default=40, help="mutants of each room")
    parser.add_argument("--all", action="store_true", help="all mutants (hours)")
    parser.add_argument("--seed", type=int, default=17, help="of the sample")
    args = parser.parse_args()
    os.nice(10)
    warm_up()
    scratch = Scratch(KEPT / "scratch")
    results: dict[str, list[Result]] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, disable=not sys.stdout.isatty()) as bars:
        for name in args.room or ROOMS:
            room = ROOMS[name]
            runs = Runs(room, scratch)
            all_of_them = mutants(room, scratch.cual)
            chosen = all_of_them if args.all else sample(all_of_them, args.sample, args.seed)
            results[name] = [runs.result(mutant) for mutant in bars.track(chosen, description=f"{name:12}")]
    if not report(results, args.seed):
        sys.exit(f"a room has less than {SHARE:.0%} killed")


if __name__ == "__main__":
    main()
