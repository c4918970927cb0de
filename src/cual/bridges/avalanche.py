"""Streams of the bench as a benchmark of Avalanche, so that its strategies run on them. Translation only.

Which rows a task holds is decided in `cual.bench.streams`; training and measuring are Avalanche's business.
"""

from typing import Any

import numpy as np
import torch

from cual.bench.runner import Data, load
from cual.bench.settings import Setting
from cual.bench.streams import Stream
from cual.bridges.pools import needed
from cual.errors import BadOption, Unavailable
from cual.loop.budget import count_labels
from cual.seeds import generator
from cual.types import IntArray


def benchmark(
    setting: Setting,
    seed: int = 0,
    *,
    data: Data | None = None,
    every_label: bool = False,
    task_labels: bool = False,
) -> Any:
    """The stream of a setting and a seed as an ``avalanche.benchmarks.CLScenario``.

    Experience 0 of ``train_stream`` holds the first classes; each further one is the pool of a task, with the
    labels of as many samples as the budget pays for, drawn by lot: nobody tells Avalanche's strategies which
    samples are novel. Experience t of ``test_stream`` holds the test samples of the classes that are new in it.
    Inputs are features (d,), targets are class numbers (`class_names` has their names).

    Parameters
    ----------
    setting
        What `cual bench run` takes: features, protocol, budget. Methods are left out of account.
    data
        The features, where they are in memory already.
    every_label
        Every sample of a pool with its label: what a fully supervised strategy sees.
    task_labels
        Number each experience's samples by it, for strategies that are told the task; else all have 0.
    """
    if setting.drift is not None:
        raise BadOption("streams with drift are not translated: their test samples change with the task")
    rows = labelled_rows(setting, seed, data := data or load(setting.features, setting.label), every_label)
    stream = data.stream(setting, seed)
    experiences = [
        (rows[t], _test_rows(stream, t), t if task_labels else 0) for t in range(len(stream.tasks) + 1)
    ]
    _ = _imported("avalanche")
    scenarios = _imported("avalanche.benchmarks")
    made = scenarios.benchmark_from_datasets(
        train=[_dataset(data, train, number) for train, _, number in experiences],
        test=[_dataset(data, test, number) for _, test, number in experiences],
    )
    return scenarios.with_classes_timeline(scenarios.with_task_labels(made))


def class_names(data: Data) -> list[Any]:
    """The name of each class number of a benchmark."""
    return data.truth.names.tolist()


def labelled_rows(setting: Setting, seed: int, data: Data, every_label: bool = False) -> list[IntArray]:
    """Rows of the features that come with a label: of the first classes, then of each task.

    >>> from cual.bench.runner import load
    >>> setting = Setting("digits", budget=5)
    >>> [len(rows) for rows in labelled_rows(setting, 0, load("digits"))][1:]
    [5, 5, 5, 5, 5, 5, 5, 5]
    """
    stream = data.stream(setting, seed)
    rows = [stream.first]
    for task in stream.tasks:
        n = len(task.rows) if every_label else count_labels(setting.budget, len(task.rows), 1.0)
        drawn = generator(seed, task.number, 0, "avalanche labels").permutation(task.rows)[:n]
        rows.append(np.sort(drawn))
    return rows


def _test_rows(stream: Stream, task: int) -> IntArray:
    """Test rows of classes that are new in a task; of the first ones before all tasks (0)."""
    new = stream.tasks[task - 1].new if task else stream.tasks[0].old
    return np.concatenate([stream.test[c] for c in new])


def _dataset(data: Data, rows: IntArray, task_label: int) -> Any:
    utils = _imported("avalanche.benchmarks.utils")
    X = torch.from_numpy(np.asarray(data.features.X[rows], dtype=np.float32))
    y = torch.from_numpy(data.truth.codes[rows].astype(np.int64))
    attributes = [
        utils.DataAttribute(y.tolist(), "targets"),
        utils.DataAttribute([task_label] * len(y), "targets_task_labels", use_in_getitem=True),
    ]
    samples = torch.utils.data.TensorDataset(X, y)
    plain = utils.AvalancheDataset([samples], data_attributes=attributes)
    return utils.as_taskaware_classification_dataset(plain)


def _imported(module: str) -> Any:
    try:
        return needed(module, "avalanche-lib", "avalanche")
    except RuntimeError as error:
        if isinstance(error, Unavailable):
            raise
        raise Unavailable(
            f"avalanche-lib cannot be imported ({error}): torchvision and torch must be built for each other, "
            "both for CPUs or both for the same CUDA"
        ) from error
