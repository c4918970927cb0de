"""The memory's promises, as properties."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cual.replay import Replay, shares

counts_ = st.lists(st.integers(0, 40), min_size=1, max_size=8)
capacity_ = st.integers(0, 120)
labels_ = st.lists(st.integers(0, 5), max_size=40)


def poured(counts: list[int], capacity: int) -> list[int]:
    """Max-min fair shares by handing out one sample at a time to whoever has least and wants more."""
    share = [0] * len(counts)
    for _ in range(min(capacity, sum(counts))):
        hungry = [c for c in range(len(counts)) if share[c] < counts[c]]
        share[min(hungry, key=lambda c: share[c])] += 1
    return share


@settings(deadline=None)
@given(counts_, capacity_)
def test_shares_are_max_min_fair_and_exact(counts, capacity):
    share = shares(counts, capacity).tolist()
    assert sum(share) == min(capacity, sum(counts))
    assert all(0 <= s <= c for s, c in zip(share, counts, strict=True))
    assert sorted(share) == sorted(poured(counts, capacity))


def updates(batches: list[list[int]], capacity: int, keep: bool = False) -> tuple[Replay, int]:
    """A memory after some updates; the feature of a sample is its number in order of arrival."""
    replay, seen = Replay(capacity), 0
    for i, labels in enumerate(batches):
        X = torch.arange(seen, seen + len(labels), dtype=torch.float32)[:, None]
        mask = torch.arange(len(labels)) % 2 == 0 if keep else None
        replay = replay.updated(X, torch.tensor(labels, dtype=torch.int64), np.random.default_rng(i), mask)
        seen += len(labels)
    return replay, seen


@settings(deadline=None)
@given(st.lists(labels_, min_size=1, max_size=4), capacity_)
def test_memory_is_bounded_fair_and_true(batches, capacity):
    replay, seen = updates(batches, capacity)
    everything = np.array([label for labels in batches for label in labels], dtype=np.int64)
    assert len(replay) == len(replay.X) == min(capacity, seen)
    rows = replay.X.flatten().long().numpy()
    assert len(set(rows)) == len(rows)
    assert (everything[rows] == replay.y.numpy()).all()
    held = np.bincount(replay.y.numpy(), minlength=6)
    short = held < np.bincount(everything, minlength=6)
    if short.any():  # a class that lost samples holds no fewer than any other, up to the indivisible one
        assert held[short].min() >= held.max() - 1


@settings(deadline=None)
@given(st.lists(labels_, min_size=1, max_size=3), capacity_)
def test_same_generator_same_memory(batches, capacity):
    (a, _), (b, _) = updates(batches, capacity), updates(batches, capacity)
    assert torch.equal(a.X, b.X)
    assert torch.equal(a.y, b.y)


@settings(deadline=None)
@given(st.lists(labels_, min_size=1, max_size=3), capacity_)
def test_preferred_samples_stay_while_others_of_their_class_could_go(batches, capacity):
    replay, seen = updates(batches, capacity, keep=True)
    human = np.concatenate([np.arange(len(b)) % 2 == 0 for b in batches]).astype(bool)
    everything = np.array([label for labels in batches for label in labels], dtype=np.int64)
    held = np.zeros(seen, dtype=bool)
    held[replay.X.flatten().long().numpy()] = True
    assert (replay.preferred.numpy() == human[replay.X.flatten().long().numpy()]).all()
    for label in set(everything):
        mine = everything == label
        if (held & mine & ~human).any():
            assert (held | ~mine | ~human).all()


def test_who_leaves_is_random():
    X, y = torch.arange(100.0)[:, None], torch.zeros(100, dtype=torch.int64)
    kept = np.zeros(100)
    for seed in range(200):
        kept[Replay(10).updated(X, y, np.random.default_rng(seed)).X.flatten().long().numpy()] += 1
    assert kept.max() < 50
    assert (kept > 0).all()


@pytest.mark.parametrize("filled", [False, True])
def test_state_round_trips(filled):
    replay = updates([[0, 1, 1, 2]], 3)[0] if filled else Replay(3)
    again = Replay.from_state(replay.state())
    assert again.capacity == 3
    for name, tensor in replay.state().items():
        assert torch.equal(again.state()[name], tensor)
        assert again.state()[name].dtype == tensor.dtype
    assert len(again.samples()) == len(replay)


def test_an_update_leaves_the_old_memory_alone():
    replay, _ = updates([[0, 0, 1, 1]], 4)
    before = replay.X.clone()
    replay.updated(torch.rand(9, 1), torch.full((9,), 2), np.random.default_rng(0))
    assert torch.equal(replay.X, before)


def test_features_keep_their_type():
    X, y = torch.rand(6, 2).half(), torch.zeros(6, dtype=torch.int64)
    assert Replay(4).updated(X, y, np.random.default_rng(0)).X.dtype == torch.float16
