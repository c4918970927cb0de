"""The demo: scikit-learn's digits, two classes first, then one new class per task at 2 % of the labels.

Runs it and gathers what happened; the page is made in `demo_page`.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from cual.bench import demo_page
from cual.bench.formats import Table
from cual.bench.progress import Meter, Progress
from cual.bench.results import grouped
from cual.bench.runner import Data, Step, count_tasks, fit_first, load, walk
from cual.bench.settings import DIGITS, Setting
from cual.bench.tables import accuracy_table
from cual.types import Row

SETTING = Setting(
    DIGITS,
    methods=("oracle", "cual-plus", "cual", "er-entropy", "er-random"),
    seeds=(0, 1, 2),
    first=2,
    increment=1,
    budget=0.02,
    buffer=500,
)
SHOWN = ("cual", 0)
"""The method and seed whose questions the page shows one by one."""


@dataclass(frozen=True)
class Demo:
    """What the demo found: a table for the terminal, the page, and all rows."""

    table: Table
    page: Path
    rows: list[Row]


def run_demo(
    out: str | Path, progress: Callable[[Progress], None] | None = None, setting: Setting = SETTING
) -> Demo:
    """Run the demo and write one self-contained page `out/demo.html`. About a minute on two cores."""
    with _one_thread():
        return _run(Path(out), progress, setting)


@contextmanager
def _one_thread() -> Generator[None]:
    """Digits are too small for several threads: they would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run(out: Path, progress: Callable[[Progress], None] | None, setting: Setting) -> Demo:
    data = load(setting.features)
    meter = Meter(count_tasks(setting, data) * len(setting.methods) * len(setting.seeds), progress)
    rows: list[Row] = []
    shown: list[Step] = []
    for seed in setting.seeds:
        for method in setting.methods:
            for step in _stream(setting, method, seed, data):
                rows.append(step.row)
                meter.step(step.row)
                if (method, seed) == SHOWN:
                    shown.append(step)
    group = grouped(rows)[0]
    path = out / "demo.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(demo_page.as_page(group, shown, data), encoding="utf-8")
    return Demo(accuracy_table([group]), path, rows)


def _stream(setting: Setting, method: str, seed: int, data: Data) -> Iterator[Step]:
    agent = fit_first(setting, method, seed, data, data.stream(setting, seed))
    return walk(setting, method, seed, data, agent)
