"""A ready example: an agent that knows the digits 0 to 4, and a pool in which 5 to 9 turn up as well.

``python -m cual.serve.demo FOLDER`` makes it, ``cual serve FOLDER`` serves it.
"""

import argparse
import getpass
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cual.agent import Agent
from cual.data.pool import Pool
from cual.errors import CualError
from cual.serve.jobs.worker import Worker
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.records import Person
from cual.serve.rules.workspace import Workspace
from cual.types import AnyArray, IntArray

KNOWN, BUDGET = 5, 30
_PER_CLASS, _OLD, _NEW = 80, 400, 200
_SIDE = 96


@dataclass(frozen=True)
class DemoData:
    """Scikit-learn's digits, taken apart for the example."""

    X: AnyArray
    y: list[str]
    images: AnyArray
    first: IntArray
    """Rows that the agent is fitted on."""
    pool: IntArray
    """Rows of the pool, old and new digits mixed 2 : 1."""


def demo_data(seed: int = 0) -> DemoData:
    """The same rows for the same seed."""
    from sklearn.datasets import load_digits

    digits: Any = load_digits()
    numbers: IntArray = digits.target
    rng = np.random.default_rng(seed)
    old = [rng.permutation(np.flatnonzero(numbers == c)) for c in range(KNOWN)]
    rest = rng.permutation(np.concatenate([rows[_PER_CLASS:] for rows in old]))[:_OLD]
    new = rng.permutation(np.flatnonzero(numbers >= KNOWN))[:_NEW]
    pool = rng.permutation(np.concatenate([rest, new]))
    first = np.concatenate([rows[:_PER_CLASS] for rows in old])
    labels = [str(number) for number in numbers.tolist()]
    return DemoData(digits.data / 16, labels, digits.images, first, pool)


def make_demo(folder: str | Path, database: str | None = None) -> Workspace:
    """A workspace with an agent, a pool of pictures, and an adaptation that asks as soon as it is served.

    An existing one is opened as it is, so that what was answered in it stays; one that was left half made is
    completed.
    """
    workspace = Workspace.open(folder, database)
    if workspace.adaptations():
        return workspace
    data = demo_data()
    owner = Accounts(workspace.database).owner(_user())
    person = Person(owner.id, owner.name, owner.role)
    known = next(iter(workspace.agents()), None)
    if known is None:
        agent = Agent.fit(data.X[data.first], [data.y[i] for i in data.first], method="cual-plus")
        known = workspace.add_agent("Digits", agent, person)
    digits = next(iter(workspace.pools()), None)
    if digits is None:
        pool = Pool(data.X[data.pool], ids=[f"digit-{i:04d}" for i in data.pool])
        digits = workspace.add_pool("New digits", pool, known.id, person, drawn(data.images[data.pool]))
    Worker(workspace).run_until_idle()
    workspace.start(known.id, digits.id, BUDGET, person)
    return workspace


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        return "admin"


def drawn(images: AnyArray) -> AnyArray:
    """Digits of 8 × 8 as pictures that a person can look at: larger, smooth, dark on white."""
    from PIL import Image

    ink = (255 - np.pad(images, ((0, 0), (2, 2), (2, 2))) * (255 / 16)).astype(np.uint8)
    size = (_SIDE, _SIDE)
    return np.stack([np.asarray(Image.fromarray(i).resize(size, Image.Resampling.BICUBIC)) for i in ink])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m cual.serve.demo", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to make the workspace")
    try:
        make_demo(parser.parse_args(arguments).folder).close()
    except CualError as error:
        sys.exit(f"error: {error}")
