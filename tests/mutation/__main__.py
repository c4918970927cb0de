"""`python -m mutation`: takes a sample of the mutants of each room, runs it, and says what survived."""

import argparse
import os
import sys
import tomllib
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mutation.making import mutants, sample
from mutation.rooms import ROOMS
from mutation.running import Scratch, warm_up
from mutation.runs import KEPT, Result, Runs

EXPLAINED = Path(__file__).parent / "survivors.toml"
SHARE = 0.9


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
    parser.add_argument("--sample", type=int, default=20, help="mutants of each room")
    parser.add_argument("--all", action="store_true", help="all mutants (hours)")
    parser.add_argument("--seed", type=int, default=17, help="of the sample")
    parser.add_argument("--limit", type=float, default=12, help="seconds of tests that a mutant faces at most")
    args = parser.parse_args()
    os.nice(10)
    warm_up()
    scratch = Scratch(KEPT / "scratch")
    results: dict[str, list[Result]] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, disable=not sys.stdout.isatty()) as bars:
        for name in args.room or ROOMS:
            room = ROOMS[name]
            runs = Runs(room, scratch, args.limit)
            all_of_them = mutants(room, scratch.cual)
            chosen = all_of_them if args.all else sample(all_of_them, args.sample, args.seed)
            results[name] = [runs.result(mutant) for mutant in bars.track(chosen, description=f"{name:12}")]
    if not report(results, args.seed):
        sys.exit(f"a room has less than {SHARE:.0%} killed")


if __name__ == "__main__":
    main()
