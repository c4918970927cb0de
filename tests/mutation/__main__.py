"""`python -m mutation`: takes a sample of the mutants of each room, runs it, and says what survived."""

import argparse
import os
import sys
import time
from functools import partial
from itertools import zip_longest
from pathlib import Path

from mutation import crew, kept
from mutation.making import Mutant, mutants, sample
from mutation.report import SHARE, Reasons, explained, reason, report
from mutation.rooms import ROOMS, ROOT
from mutation.running import warm_up
from mutation.runs import Runs, source_digest


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--room", action="append", choices=list(ROOMS), help="this one only; may be given again")
    add("--file", action="append", help="only of this file, such as loop/outlook.py; may be given again")
    add("--sample", type=int, default=20, help="mutants of each room")
    add("--all", action="store_true", help="all mutants (hours), in random order")
    add("--again", action="store_true", help="only those that survived without a reason")
    add("--seed", type=int, default=17, help="of the sample, and of the order")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time, each in its own process")
    add(
        "--minutes",
        type=float,
        default=float("inf"),
        help="when to end with what there is; what is known is kept",
    )
    add("--limit", type=float, default=12, help="seconds of tests that a mutant faces at most")
    add(
        "--longest",
        type=float,
        default=600,
        help="seconds of one file's tests that are run at most without a bug",
    )
    add("--patience", type=float, default=20, help="times as long by the clock as by the processor")
    add(
        "--from",
        dest="take",
        type=Path,
        action="append",
        default=[],
        help="results of another machine (JSON lines)",
    )
    add("--into", type=Path, help="where results are written for another machine (JSON lines)")
    return parser.parse_args()


def in_turns(chosen: dict[str, list[Mutant]]) -> list[Mutant]:
    """Mutants of all rooms in turn: whenever it ends, as many of each were run, as far as there are."""
    turns = zip_longest(*chosen.values())
    return [mutant for turn in turns for mutant in turn if mutant is not None]


def main() -> None:
    args = arguments()
    until = time.monotonic() + 60 * args.minutes
    os.nice(10)
    for file in args.take:
        print(f"{kept.take(file)} results of {file}", flush=True)
    names = args.room or list(ROOMS)
    limits = {"limit": args.limit, "longest": args.longest, "patience": args.patience, "until": until}
    rooms = {name: Runs(ROOMS[name], **limits) for name in names}
    all_of_them = {
        name: [m for m in mutants(ROOMS[name], ROOT / "src" / "cual") if not args.file or m.file in args.file]
        for name in names
    }
    chosen = {name: sample(all_of_them[name], None if args.all else args.sample, args.seed) for name in names}
    if args.again:
        reasons = explained()
        chosen = {name: [mutant for mutant in chosen[name] if _survived(mutant, reasons)] for name in names}
    if any(rooms[mutant.room].settled(mutant) is None for name in names for mutant in chosen[name]):
        warm_up()
        with crew.scratches(args.jobs) as places:
            traces = [
                partial(rooms[name].trace, test)
                for name in names if chosen[name]
                for test in rooms[name].untraced()
            ]  # fmt: skip
            crew.divide(traces, places, until, "files of tests without a bug")
            for room in rooms.values():
                room.read_traces()
            ready = {name: chosen[name] for name in names if not rooms[name].untraced()}
            todo = [mutant for mutant in in_turns(ready) if rooms[mutant.room].settled(mutant) is None]
            crew.divide([partial(rooms[m.room].run, m) for m in todo], places, until, "mutants")
    rows = {
        name: [row for m in chosen[name] if (row := kept.known(m, source_digest(m.file)))] for name in names
    }
    if args.into:
        kept.give((row for several in rows.values() for row in several), args.into)
    title = "all mutants" if args.all else f"mutants (seed {args.seed})"
    if not report(rows, {name: len(all_of_them[name]) for name in names}, title):
        sys.exit(f"a room has less than {SHARE:.0%} killed")


def _survived(mutant: Mutant, reasons: Reasons) -> bool:
    row = kept.known(mutant, source_digest(mutant.file))
    return row is not None and row["outcome"] == "survived" and not reason(row, reasons)


if __name__ == "__main__":
    main()
