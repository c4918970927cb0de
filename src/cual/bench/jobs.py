"""Many streams side by side: claims the folders, runs their units in this or in several processes, sums up."""

import contextlib
import multiprocessing
import os
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import torch

from cual import extensions
from cual.bench.folder import RunFolder
from cual.bench.progress import Meter, Progress
from cual.bench.runner import Unit, count_tasks, load, run_unit
from cual.bench.settings import Setting, check_features
from cual.errors import BadOption, StreamsFailed

Failures = list[tuple[Unit, str]]
RunUnits = Callable[[list[Unit], Meter, Callable[[Unit], None]], Failures]
"""Runs streams, wherever that is: counts their tasks, is to say which are finished, gives those that failed."""


def run(
    settings: Setting | Mapping[str, Setting],
    out: str | Path,
    jobs: int = 1,
    progress: Callable[[Progress], None] | None = None,
    run_units: RunUnits | None = None,
) -> list[Path]:
    """Run one setting into `out`, or several named ones into `out/NAME`; the folders with their results.

    Finished tasks of an earlier run into the same folder are kept and not repeated; a folder that holds another
    run is refused. With several `jobs`, streams run in as many processes that share the processors or the GPU;
    `run_units` runs them elsewhere, as `cual.bridges.ray` does.
    """
    if jobs < 1:
        raise BadOption(f"jobs must be at least 1, not {jobs}")
    out = Path(out)
    named = {out: settings} if isinstance(settings, Setting) else {out / n: s for n, s in settings.items()}
    check_features(named.values())
    with contextlib.ExitStack() as claims:
        tasks: dict[Path, int] = {}
        for path, setting in named.items():
            data = load(setting.features, setting.label)
            tasks[path] = count_tasks(setting, data)
            claims.enter_context(RunFolder(path).claimed(setting, data.features.sha256()))
        _run_all(named, tasks, run_units or _here(jobs), progress)
    return list(named)


def _run_all(
    named: Mapping[Path, Setting],
    tasks: Mapping[Path, int],
    run_units: RunUnits,
    progress: Callable[[Progress], None] | None,
) -> None:
    units = [Unit(s, path, m, seed) for path, s in named.items() for seed in s.seeds for m in s.methods]
    meter = Meter(sum(tasks[unit.folder] for unit in units), progress)
    for path in named:
        meter.skip(len(RunFolder(path).rows()))

    def finished(unit: Unit) -> None:
        RunFolder(unit.folder).write_summary(tasks[unit.folder])

    try:
        failed = run_units(units, meter, finished)
    finally:
        for path in named:
            RunFolder(path).write_summary(tasks[path])
    if failed:
        names = "\n".join(f"{u.folder}: {u.method}, seed {u.seed}\n{why}" for u, why in failed)
        raise StreamsFailed(f"{len(failed)} of {len(units)} streams failed; the others are finished.\n{names}")


def _here(jobs: int) -> RunUnits:
    return _one_by_one if jobs == 1 else partial(_in_processes, jobs)


def _one_by_one(units: Iterable[Unit], meter: Meter, finished: Callable[[Unit], None]) -> Failures:
    for unit in units:
        run_unit(unit, lambda _, row: meter.step(row))
        finished(unit)
    return []


def _in_processes(jobs: int, units: list[Unit], meter: Meter, finished: Callable[[Unit], None]) -> Failures:
    context = multiprocessing.get_context("spawn")
    events = context.SimpleQueue()
    threads = max(1, (os.cpu_count() or 1) // jobs)
    failed: Failures = []
    given = (events, threads, extensions.used())
    with ProcessPoolExecutor(jobs, context, _start_worker, given) as pool:
        waiting: dict[Future[None], Unit] = {pool.submit(_work, unit): unit for unit in units}
        while waiting:
            ready, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            while not events.empty():
                meter.step(events.get())
            for future in ready:
                unit = waiting.pop(future)
                error = future.exception()
                if error is None:
                    finished(unit)
                else:
                    failed.append((unit, "".join(traceback.format_exception(error)).strip()))
    return failed


_events: Any = None


def _start_worker(events: Any, threads: int, modules: tuple[str, ...]) -> None:
    global _events
    _events = events
    extensions.load_all(modules)
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed must not go on writing beside the run that resumes."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(unit: Unit) -> None:
    run_unit(unit, lambda _, row: _events.put(row))
