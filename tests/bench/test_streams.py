from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cual.bench.streams import Protocol, Stream, make_stream
from cual.errors import BadOption, TooFewSamples

protocols = st.builds(
    Protocol,
    first=st.integers(1, 4),
    increment=st.integers(1, 7),
    rarity=st.none() | st.sampled_from([10.0, 50.0]),
    reuse=st.booleans(),
    natural=st.booleans(),
    imbalance=st.none() | st.floats(1, 100),
)
class_sizes = st.lists(st.integers(8, 60), min_size=5, max_size=9)
seeds = st.integers(0, 1000)


def kept_shares(classes: int, imbalance: float) -> list[float]:
    """What classes keep of their samples, the most frequent first."""
    return [imbalance ** -(np.log(rank) / np.log(classes)) for rank in range(1, classes + 1)]


def labels(sizes: list[int]) -> np.ndarray:
    """Labels in a scrambled order, so that row numbers say nothing about classes."""
    return np.random.default_rng(len(sizes)).permutation(np.repeat(np.arange(len(sizes)), sizes))


def parts(stream: Stream) -> tuple[set[int], set[int], list[set[int]]]:
    """Test rows, rows of the first classes, and the rows of each pool."""
    test = {int(r) for rows in stream.test.values() for r in rows}
    return test, set(stream.first.tolist()), [set(t.rows.tolist()) for t in stream.tasks]


@given(class_sizes, protocols, seeds)
@settings(max_examples=60, deadline=None)
def test_no_test_row_is_learned_from_and_no_sample_is_met_twice_as_unseen(sizes, protocol, seed):
    y = labels(sizes)
    stream = make_stream(y, protocol, seed)
    test, first, pools = parts(stream)
    assert not test & first
    seen = set(first)
    for task, pool in zip(stream.tasks, pools, strict=True):
        assert len(pool) == len(task.rows)
        assert not pool & test
        new = {r for r in pool if int(y[r]) in task.new}
        assert {int(y[r]) for r in pool} <= set(task.new) | set(task.old)
        assert set(stream.met_before(task.number).tolist()) == first.union(*pools[: task.number - 1])
        assert not pool & seen, "a sample comes back that was trained on or was new in an earlier pool"
        seen |= new if protocol.reuse else pool


@given(class_sizes, protocols, seeds)
@settings(max_examples=60, deadline=None)
def test_classes_arrive_in_the_order_of_the_stream_and_all_of_them_do(sizes, protocol, seed):
    stream = make_stream(labels(sizes), protocol, seed)
    assert stream.introduced(0) == stream.order[: protocol.first]
    for task in stream.tasks:
        assert len(task.new) == protocol.increment or task is stream.tasks[-1]
        assert stream.introduced(task.number) == stream.order[: len(task.old) + len(task.new)]
    assert sorted(stream.introduced(len(stream.tasks))) == list(range(len(sizes)))
    assert set(stream.test_rows(len(stream.tasks)).tolist()) == parts(stream)[0]


@given(class_sizes, protocols, seeds)
@settings(max_examples=60, deadline=None)
def test_shares_and_mixture_follow_the_protocol(sizes, protocol, seed):
    y = labels(sizes)
    protocol = replace(protocol, imbalance=None)
    stream = make_stream(y, protocol, seed)
    test = {c: round(0.2 * n) for c, n in enumerate(sizes)}
    held = {c: round(0.35 * (n - test[c])) for c, n in enumerate(sizes)}
    train = {c: n - test[c] - held[c] for c, n in enumerate(sizes)}
    assert {c: len(rows) for c, rows in stream.test.items()} == test
    assert len(stream.first) == sum(train[c] for c in stream.order[: protocol.first])
    for task in stream.tasks:
        count = {c: int((y[task.rows] == c).sum()) for c in (*task.new, *task.old)}
        old, all_new = sum(count[c] for c in task.old), sum(train[c] for c in task.new)
        if protocol.rarity is None:
            assert all(count[c] == train[c] for c in task.new)
        else:
            wanted = max(len(task.new), round(old / protocol.rarity))
            assert sum(count[c] for c in task.new) == min(all_new, wanted)
            assert all(count[c] for c in task.new)
        if protocol.reuse:
            assert old == min(2 * all_new, sum(held[c] for c in task.old))
        if protocol.reuse and not protocol.natural:
            fullest = max(count[c] for c in task.old)
            assert all(count[c] in (fullest, fullest - 1, held[c]) for c in task.old)


@given(class_sizes, protocols, seeds, st.floats(1, 100))
@settings(max_examples=60, deadline=None)
def test_imbalance_takes_samples_away_and_leaves_the_test_rows(sizes, protocol, seed, imbalance):
    y = labels(sizes)
    whole = make_stream(y, replace(protocol, imbalance=None), seed)
    thin = make_stream(y, replace(protocol, imbalance=imbalance), seed)
    assert thin.order == whole.order
    assert all(thin.test[c].tobytes() == whole.test[c].tobytes() for c in whole.test)
    assert set(thin.first.tolist()) <= set(whole.first.tolist())
    assert np.isin(thin.first, np.concatenate([*thin.test.values(), *(t.rows for t in thin.tasks)])).sum() == 0
    for few, all_ in zip(thin.tasks, whole.tasks, strict=True):
        assert (few.new, few.old) == (all_.new, all_.old)
        assert set(few.new) <= {int(c) for c in y[few.rows]}


@given(st.integers(5, 12), st.integers(100, 400), st.floats(1, 20), seeds)
@settings(max_examples=60, deadline=None)
def test_frequencies_of_classes_follow_the_power_law(classes, size, imbalance, seed):
    y = labels([size] * classes)
    stream = make_stream(y, Protocol(first=classes - 1, old_per_new=1e9, imbalance=imbalance), seed)
    (task,) = stream.tasks
    fitted, pool = y[stream.first], y[task.rows]
    n_held = round(0.35 * (size - round(0.2 * size)))
    n_train = size - round(0.2 * size) - n_held
    train = {c: int(((pool if c in task.new else fitted) == c).sum()) for c in range(classes)}
    held = {c: int((pool == c).sum()) for c in task.old}
    shares = kept_shares(classes, imbalance)
    assert sorted(train.values(), reverse=True) == [max(2, round(n_train * share)) for share in shares]
    assert max(train.values()) / min(train.values()) == pytest.approx(imbalance, rel=1 / min(train.values()))
    assert all(abs(held[c] / n_held - train[c] / n_train) < 2 / n_held for c in task.old)


def test_the_seed_draws_which_class_is_how_frequent():
    y = np.repeat(np.arange(8), 100)
    sizes = {
        tuple(np.bincount(y[make_stream(y, Protocol(first=7, imbalance=10), seed).first], minlength=8).tolist())
        for seed in range(6)
    }
    assert len(sizes) == 6


def test_natural_pools_are_as_frequent_as_their_classes():
    y = np.repeat(np.arange(4), [4000, 2000, 1000, 500])
    held = {c: round(0.35 * 0.8 * n) for c, n in enumerate((4000, 2000, 1000, 500))}
    for seed in range(5):
        (task,) = make_stream(y, Protocol(first=3, old_per_new=1.0, natural=True), seed).tasks
        drawn = {c: int((y[task.rows] == c).sum()) for c in task.old}
        total = sum(drawn.values())
        for c in task.old:
            share = held[c] / sum(held[o] for o in task.old)
            deviation = (share * (1 - share) / total) ** 0.5
            assert abs(drawn[c] / total - share) < 4 * deviation
        (even,) = make_stream(y, Protocol(first=3, old_per_new=1.0), seed).tasks
        assert len(even.rows) == len(task.rows)
        assert set(even.rows[np.isin(y[even.rows], even.new)]) == set(
            task.rows[np.isin(y[task.rows], task.new)]
        )


@given(class_sizes, protocols, seeds)
@settings(max_examples=20, deadline=None)
def test_same_seed_same_bytes(sizes, protocol, seed):
    one, two = (make_stream(labels(sizes), protocol, seed) for _ in range(2))
    assert one.order == two.order
    assert one.first.tobytes() == two.first.tobytes()
    assert [t.rows.tobytes() for t in one.tasks] == [t.rows.tobytes() for t in two.tasks]
    assert all(one.test[c].tobytes() == two.test[c].tobytes() for c in one.test)


def test_other_seeds_give_other_orders_splits_and_pools():
    one, two = (make_stream(labels([50] * 8), Protocol(), seed) for seed in (0, 1))
    assert one.order != two.order
    assert set(one.test[0].tolist()) != set(two.test[0].tolist())


def test_old_samples_are_redrawn_for_each_task():
    y = np.repeat(np.arange(12), 100)
    stream = make_stream(y, Protocol(first=8), 0)
    first, second = (set(t.rows[np.isin(y[t.rows], stream.order[:8])].tolist()) for t in stream.tasks[:2])
    assert first & second
    assert first != second


def test_without_reuse_every_task_meets_every_old_class():
    y = np.repeat(np.arange(6), 100)
    stream = make_stream(y, Protocol(first=2, reuse=False), 0)
    for task in stream.tasks:
        assert {int(c) for c in y[task.rows]} == {*task.new, *task.old}


def test_pools_are_shuffled():
    y = np.repeat(np.arange(5), 100)
    task = make_stream(y, Protocol(), 0).tasks[0]
    novel = np.isin(y[task.rows], task.new)
    assert 0 < novel[: len(novel) // 2].sum() < novel.sum()


@pytest.mark.parametrize(
    ("y", "protocol", "error", "says"),
    [
        (np.repeat([0, 1], 50), {"first": 2}, BadOption, "2 classes are too few"),
        (np.array([0] * 50 + [1] * 50 + [2]), {}, TooFewSamples, "class 2 has 1 samples"),
    ],
)
def test_data_that_cannot_make_a_stream(y, protocol, error, says):
    with pytest.raises(error, match=says):
        make_stream(y, Protocol(**protocol), 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"first": 0},
        {"increment": 0},
        {"test": 1.0},
        {"holdout": 0.0},
        {"rarity": -1.0},
        {"imbalance": 0.5},
        {"imbalance": float("inf")},
        {"imbalance": float("nan")},
    ],
)
def test_protocols_that_make_no_sense(wrong):
    with pytest.raises(BadOption):
        Protocol(**wrong)
