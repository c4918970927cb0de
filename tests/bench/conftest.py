"""Small data that every bench test can afford: well separated classes, and a head that trains in a moment."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cual.bench.jobs import run
from cual.bench.settings import Setting
from cual.data.files import write
from cual.data.table import Table
from cual.types import Row

SMALL = {"head": {"hidden": 32, "epochs": 3}}


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """Small matrices: several threads would only wait for each other, most of all beside other work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def blobs() -> Table:
    """Seven classes of 40 samples that overlap a little, wider than there are samples to fit a class on."""
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 0.5, (7, 48))
    y = np.repeat(np.arange(7), 40)
    names = tuple(f"kind {c}" for c in "abcdefg")
    return Table((centres[y] + rng.normal(0, 1, (280, 48))).astype(np.float16), y, class_names=names)


@pytest.fixture(scope="session")
def blobs_file(blobs, tmp_path_factory):
    path = tmp_path_factory.mktemp("features") / "blobs.npz"
    write(path, blobs)
    return path


@pytest.fixture(scope="session")
def setting(blobs_file) -> Setting:
    return Setting(str(blobs_file), ("cual", "er-random"), seeds=(0, 1), first=2, budget=0.1, options=SMALL)


@pytest.fixture(scope="session")
def whole(setting, tmp_path_factory) -> Path:
    """The folder of a finished, never interrupted run of `setting`."""
    out = tmp_path_factory.mktemp("whole")
    run(setting, out)
    return out


def result_row(method: str, seed: int, task: int, accuracy: float, **changes: Any) -> Row:
    """A result row as the runner writes it, with made-up numbers."""
    return {
        "dataset": "eurosat-r50",
        "method": method,
        "seed": seed,
        "task": task,
        "accuracy": accuracy,
        "pool_size": 100,
        "labels_used": 4,
        "novel_queried": 1,
        "pseudo_labels": 10,
        "pseudo_label_accuracy": 0.9,
        "classes_known": 3,
        "classes_missed": 0,
        "missed": [],
        "per_class": {"sea": accuracy, "wood": accuracy},
        "confusion": [[3, 1], [0, 4]],
        "labels_by_zone": {"novel": 2, "ambiguous": 1, "old": 1},
        "iterations": [
            {"auroc": 0.8, "aupr": 0.7, "precision": None, "recall": 0.0, "pseudo_labels": 0},
            {"auroc": 0.9, "aupr": 0.8, "precision": 0.9, "recall": 0.5, "pseudo_labels": 10},
        ],
        "timings": {"scoring": 0.5, "long head": 1.0},
        "seconds": 2.0,
        "first": 2,
        "increment": 1,
        "budget": 0.005,
        "buffer": 2500,
        "rarity": None,
        "reuse": True,
        "wrong": 0.0,
        "skip": 0.0,
    } | changes


@pytest.fixture
def make_row() -> Callable[..., Row]:
    return result_row
