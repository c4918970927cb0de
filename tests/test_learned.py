"""The record of what was learned: marks and coins against plain arithmetic, and what the record keeps."""

import struct

import numpy as np
import pytest
import torch

from cual import learned
from cual.learned import Learned, coins, marks_of
from cual.seeds import generator

WORD = 2**64


def splitmix(x: int) -> int:
    """The last steps of splitmix64, in whole numbers without end."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def test_a_coin_is_a_number_in_0_to_1_that_depends_on_every_bit_of_mark_and_seed():
    marks = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 50)
    for seed in (0, 1):
        key = int(generator(seed, 0, 0, "taught").integers(-(2**63), 2**63 - 1, endpoint=True))
        expected = [(splitmix((int(mark) ^ key) % WORD) >> 40) / 2**24 for mark in marks]
        assert coins(marks, seed).tolist() == np.array(expected, np.float32).tolist()
    near = marks[0] ^ (np.int64(1) << np.arange(63))  # one bit differs
    assert len(set(coins(near, 0).tolist())) == 63


def test_coins_fall_evenly():
    values = coins(marks_of(torch.arange(4000.0)[:, None]), seed=0)
    counts, _ = np.histogram(values, bins=10, range=(0, 1))
    assert (np.abs(counts - 400) < 6 * np.sqrt(400)).all()


@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_marks_tell_samples_apart_by_any_of_their_numbers(width: int):
    X = torch.randn(40, width, generator=torch.Generator().manual_seed(0))
    marks = marks_of(X)
    assert len(set(marks.tolist())) == 40
    assert marks_of(X[7:8]).tolist() == marks[7:8].tolist()  # others have no say in it
    for column in range(width):
        changed = X.clone()
        changed[:, column] = torch.nextafter(X[:, column], torch.tensor(9.0))
        assert (marks_of(changed) != marks).all()


@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_mark_is_the_mixed_sum_of_the_sample_s_words_times_factors_that_are_drawn_once(width: int):
    X = torch.randn(9, width, generator=torch.Generator().manual_seed(1))
    words = (width + 1) // 2
    factors = np.random.default_rng(0x63756C).integers(-(2**63), 2**63 - 1, words, endpoint=True).tolist()
    for row, mark in zip(X.tolist(), marks_of(X).tolist(), strict=True):
        packed = struct.pack(f"<{2 * words}f", *row, *[0.0] * (width % 2))
        total = 0
        for word, factor in zip(struct.unpack(f"<{words}q", packed), factors, strict=True):
            total += (word ^ (word >> 32)) * factor
        assert mark % WORD == splitmix(total % WORD)


def test_marks_are_those_that_agents_on_disk_hold():
    """With other marks, what a saved agent learned would not be recognised any more."""
    assert marks_of(torch.tensor([[0.5, -1.25, 3.0], [0.0, 1e-3, 7.0]])).tolist() == [
        -6869883827018893069,
        7456111801234542556,
    ]


def test_zero_has_no_sign_in_a_mark():
    assert marks_of(torch.tensor([[0.0, 1.0, -0.0]])) == marks_of(torch.tensor([[-0.0, 1.0, 0.0]]))


def record() -> Learned:
    weights = np.array([1, 0.5, 2], np.float32)
    return Learned.nothing().plus(
        np.array([7, 8, 9]), np.array([0, 2, 1]), weights, np.array([True, False, True])
    )


def rows_of(kept: Learned) -> list[tuple[int, int, float, bool]]:
    columns = (kept.marks, kept.classes, kept.weights, kept.human)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_record_keeps_mark_class_weight_and_who_said_so():
    assert rows_of(record()) == [(7, 0, 1.0, True), (8, 2, 0.5, False), (9, 1, 2.0, True)]
    more = record().plus(np.array([3]), np.array([5]), None, np.array([False]))
    assert rows_of(more)[3:] == [(3, 5, 1.0, False)]  # who is not weighed counts one
    again = Learned.from_state(more.state(), complete=True)
    assert rows_of(again) == rows_of(more)
    assert again.complete
    older = Learned.from_state({}, complete=True)  # a file of a release that kept none
    assert len(older) == 0
    assert not older.complete


def test_classes_without_a_new_number_are_left_out():
    assert rows_of(record().renumbered(np.array([4, -1, 0]))) == [(7, 4, 1.0, True), (8, 0, 0.5, False)]
    assert len(record().renumbered(np.array([-1, -1, -1]))) == 0
    assert [row[1] for row in rows_of(record().renumbered(np.array([2, 1, 0])))] == [2, 0, 1]


def test_a_record_that_is_full_says_that_it_is_not_complete(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(learned, "MOST", 4)
    full = record().plus(np.array([1]), np.array([0]), None, np.array([True]))
    assert len(full) == 4
    assert full.complete
    over = record().plus(np.array([1, 2]), np.array([0, 0]), None, np.array([True, True]))
    assert rows_of(over) == rows_of(full)
    assert not over.complete
    assert not over.plus(np.array([5]), np.array([0]), None, np.array([True])).complete
