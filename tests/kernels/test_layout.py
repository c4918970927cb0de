"""Where the kernels may be used, and where they put their sums: without running one."""

from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("triton")

from cual import kernels
from cual.kernels.subspaces import Layout
from cual.kernels.tiles import COLUMNS
from cual.uncertainty import stacked
from cual.uncertainty.stacked import StackedSubspaces


@pytest.mark.parametrize(
    ("is_cuda", "shape", "usable"),
    [
        (True, (5, 16), True),
        (True, (5, 72), True),
        (True, (16, 12), False),
        (True, (16, 7), False),
        (True, (16, 9), False),
        (True, (16, 2), False),
        (False, (5, 16), False),
        (False, (8, 7), False),
    ],
)
def test_kernels_need_a_gpu_and_rows_of_eights(is_cuda: bool, shape: tuple[int, int], usable: bool) -> None:
    assert kernels.usable(SimpleNamespace(is_cuda=is_cuda, shape=shape)) is usable


def test_kernels_need_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "find_spec", lambda name: None)
    assert not kernels.usable(SimpleNamespace(is_cuda=True, shape=(5, 16)))


@pytest.mark.parametrize(
    "counts",
    [
        [3],
        [3, 0, 5],
        [0, COLUMNS, 1],
        [COLUMNS - 1, 2, COLUMNS],
        [COLUMNS + 1, COLUMNS - 1],
        [2 * COLUMNS + 3, 1, 0, 4, COLUMNS],
        [1] * (COLUMNS + 2),
        [5, 7, COLUMNS - 12, 9, 0, 2],
    ],
)
def test_each_class_finds_its_sums_where_its_tiles_put_them(counts: list[int]) -> None:
    """A tile of columns writes the sums of its classes one after the other, from its first class on."""
    layout = Layout.of(counts, torch.device("cpu"))
    owners = [c for c, count in enumerate(counts) for _ in range(count)]
    tiles = [owners[start : start + COLUMNS] for start in range(0, len(owners), COLUMNS)]
    slots = max(tile[-1] - tile[0] + 1 for tile in tiles)
    assert layout.owners.tolist() == owners
    assert layout.first.tolist() == [sum(counts[:c]) for c in range(len(counts) + 1)]
    assert (layout.slots, layout.parts) == (slots, len(tiles) * slots)
    for c in range(len(counts)):
        column = layout.places[:, c].tolist()
        mine = [t * slots + c - tile[0] for t, tile in enumerate(tiles) if tile[0] <= c <= tile[-1]]
        assert column == mine + [-1] * (len(column) - len(mine))


def test_kernels_pay_where_there_are_products_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacked, "WORTH_IT", 60)
    X, models = torch.zeros(10, 16), [SimpleNamespace(k=2), SimpleNamespace(k=4)]
    assert not StackedSubspaces.pays(X, models)  # of a CPU
    monkeypatch.setattr(kernels, "usable", lambda X: True)
    assert StackedSubspaces.pays(X, models)
    assert not StackedSubspaces.pays(X[1:], models)
    assert not StackedSubspaces.pays(X, models[1:])


@pytest.mark.parametrize(
    ("parts", "rows"), [(1, [10, 2]), (2, [5, 5, 2]), (3, [3, 3, 3, 3]), (7, [1] * 12), (400, [1] * 12)]
)
def test_samples_go_in_chunks_whose_sums_fit(
    parts: int, rows: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sample has a sum of four bytes in each part."""
    monkeypatch.setattr(stacked, "PARTS", 40)
    seen = StackedSubspaces.__new__(StackedSubspaces)
    seen._classes = SimpleNamespace(layout=SimpleNamespace(parts=parts))
    monkeypatch.setattr(StackedSubspaces, "_distances", lambda self, X: X.T)
    X = torch.arange(24.0).reshape(12, 2)
    assert [part.shape[1] for part in seen._in_parts(X)] == rows
    assert torch.equal(seen.distances(X), X)
    assert torch.equal(seen.distances(X[:1]), X[:1])
    assert torch.equal(seen.nearest(X)[0], X[:, 0])
