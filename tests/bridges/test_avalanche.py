"""Streams of the bench as a benchmark of Avalanche, and its strategies on them, with the real package."""

import importlib
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from cual.bench.drift import DRIFT
from cual.bench.rows import Truth
from cual.bench.runner import Data
from cual.bench.settings import Setting
from cual.bridges.avalanche import benchmark, class_names, labelled_rows
from cual.data.table import Table
from cual.errors import BadOption
from neighbours_page import run

SETTING = Setting("blobs.npz", first=2, increment=1, budget=0.1)


@pytest.fixture
def data() -> Data:
    """Four classes around centres of their own."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 80)
    X = rng.normal(5 * rng.normal(0, 1, (4, 6))[y], 1).astype(np.float32)
    table = Table(X, y, class_names=("ant", "bee", "cat", "dog"))
    return Data(table, Truth.of(table))


@pytest.fixture(scope="session")
def avalanche() -> Iterator[None]:
    """The package. PyPI's torchvision is built for CUDA: beside a torch for CPUs it misses two operators.

    They are for object detection and never run here, so names without a body are enough for the import.
    """
    if find_spec("avalanche") is None:
        pytest.skip("avalanche-lib is not installed")
    library = None
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    yield
    del library  # it must live as long as what it defines is used


# -- without the package ---------------------------------------------------------------------------------------


def test_the_budget_says_how_many_of_a_pool_have_labels(data: Data) -> None:
    stream = data.stream(SETTING, 0)
    first, *pools = labelled_rows(SETTING, 0, data)
    assert first.tolist() == stream.first.tolist()
    for rows, task in zip(pools, stream.tasks, strict=True):
        assert len(rows) == round(0.1 * len(task.rows))
        assert set(rows.tolist()) <= set(task.rows.tolist())


def test_every_label_is_the_whole_pool(data: Data) -> None:
    stream = data.stream(SETTING, 0)
    _, *pools = labelled_rows(SETTING, 0, data, every_label=True)
    assert [sorted(task.rows.tolist()) for task in stream.tasks] == [rows.tolist() for rows in pools]


def test_labels_are_drawn_by_the_seed(data: Data) -> None:
    first, again, other = (labelled_rows(SETTING, seed, data)[1].tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_streams_with_drift_are_refused(data: Data) -> None:
    with pytest.raises(BadOption, match="drift"):
        benchmark(Setting("blobs.npz", drift="shift", pools=DRIFT), data=data)


# -- with it ---------------------------------------------------------------------------------------------------


@pytest.mark.neighbours
def test_experiences_hold_the_rows_of_the_stream(avalanche: None, data: Data) -> None:
    stream, rows = data.stream(SETTING, 3), labelled_rows(SETTING, 3, data)
    made = benchmark(SETTING, 3, data=data)
    assert len(made.train_stream) == len(made.test_stream) == len(stream.tasks) + 1
    for experience, expected in zip(made.train_stream, rows, strict=True):
        X, y, tasks = (torch.stack([torch.as_tensor(s[i]) for s in experience.dataset]) for i in range(3))
        assert torch.equal(X, torch.from_numpy(data.features.X[expected]))
        assert y.tolist() == data.truth.codes[expected].tolist()
        assert set(tasks.tolist()) == {0}
    new = [stream.tasks[0].old, *(task.new for task in stream.tasks)]
    assert [e.classes_in_this_experience for e in made.test_stream] == [set(classes) for classes in new]


@pytest.mark.neighbours
def test_experiences_may_have_task_labels_of_their_own(avalanche: None, data: Data) -> None:
    made = benchmark(SETTING, data=data, task_labels=True)
    assert [e.task_label for e in made.train_stream] == [0, 1, 2]
    assert [e.task_label for e in made.test_stream] == [0, 1, 2]
    assert class_names(data) == ["ant", "bee", "cat", "dog"]


@pytest.mark.neighbours
@pytest.mark.parametrize("name", ["Naive", "Replay", "GDumb"])
def test_strategies_of_avalanche_run_on_it(avalanche: None, data: Data, name: str) -> None:
    from avalanche.models import SimpleMLP
    from avalanche.training import supervised
    from avalanche.training.plugins import EvaluationPlugin

    made = benchmark(SETTING, data=data, every_label=True)
    torch.manual_seed(0)
    model = SimpleMLP(num_classes=4, input_size=6, hidden_size=32, drop_rate=0)
    more = {} if name == "Naive" else {"mem_size": 60}
    strategy = getattr(supervised, name)(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.05),
        criterion=torch.nn.CrossEntropyLoss(),
        train_mb_size=16,
        train_epochs=10,
        evaluator=EvaluationPlugin(loggers=[]),
        **more,
    )
    for experience in made.train_stream:
        strategy.train(experience)
    trained = strategy.model.eval()  # GDumb starts from a new one each time
    right = [
        (trained(torch.stack([s[0] for s in e.dataset])).argmax(dim=1) == torch.tensor(list(e.dataset.targets)))
        for e in made.test_stream
    ]
    assert torch.cat(right).double().mean() > (0.4 if name == "Naive" else 0.8)
    assert right[-1].double().mean() > 0.8


@pytest.mark.neighbours
def test_the_example_of_the_page_runs(avalanche: None, capsys: pytest.CaptureFixture[str]) -> None:
    run("cual.bridges.avalanche")
    assert len(capsys.readouterr().out.splitlines()) == 9
