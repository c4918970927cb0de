"""What every registered head keeps, found through the registry."""

import numpy as np
import pytest
import torch

from cual.heads import Lesson, Samples, heads

D = 10
OPTIONS = {"mlp": {"hidden": 32}, "ccic": {"hidden": 32}}


def lesson(classes: int, n: int = 60) -> Lesson:
    rng = np.random.default_rng(classes)
    y = torch.from_numpy(rng.integers(classes, size=n))
    X = (
        2 * torch.nn.functional.one_hot(y, D).float()
        + 0.1 * torch.from_numpy(rng.standard_normal((n, D))).float()
    )
    return Lesson(classes, Samples(X[:20], y[:20]), Samples(X[20:30], y[20:30]), Samples(X[30:], y[30:]))


@pytest.fixture(params=heads.names())
def head(request):
    return heads[request.param](**OPTIONS.get(request.param, {}))


@pytest.fixture
def learned(head):
    return head.learn(lesson(3), np.random.default_rng(0))


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) and a[k].dtype == b[k].dtype for k in a)


def test_an_empty_head_knows_nothing(head):
    assert head.n_classes == 0
    assert head.logits(torch.zeros(5, D)).shape == (5, 0)


def test_a_head_learns(head):
    task = lesson(3)
    for seed in range(10):
        head = head.learn(task, np.random.default_rng(seed))
    assert (head.logits(task.replay.X).argmax(1) == task.replay.y).float().mean() > 0.9


def test_learning_leaves_head_and_lesson_alone(learned):
    task = lesson(5)
    before = {k: v.clone() for k, v in learned.state().items()}
    X, y = task.replay.X.clone(), task.replay.y.clone()
    grown = learned.learn(task, np.random.default_rng(1))
    assert (learned.n_classes, grown.n_classes) == (3, 5)
    assert same(learned.state(), before)
    assert torch.equal(task.replay.X, X)
    assert torch.equal(task.replay.y, y)


def test_same_generator_same_bits(head):
    a, b, other = (head.learn(lesson(3), np.random.default_rng(seed)).state() for seed in (0, 0, 1))
    assert same(a, b)
    assert not same(a, other)


@pytest.mark.parametrize("when", ["empty", "learned"])
def test_state_round_trips_exactly(head, learned, when):
    original = head if when == "empty" else learned
    again = type(original).from_state({k: v.clone() for k, v in original.state().items()})
    assert same(original.state(), again.state())
    X = lesson(3).replay.X
    assert torch.equal(original.logits(X), again.logits(X))
    a, b = (h.learn(lesson(4), np.random.default_rng(2)) for h in (original, again))
    assert same(a.state(), b.state())


def test_state_goes_through_safetensors(learned):
    safetensors = pytest.importorskip("safetensors.torch")
    saved = safetensors.load(safetensors.save(learned.state()))
    assert same(type(learned).from_state(saved).state(), learned.state())


def test_options_replace_saved_ones(learned):
    option = "epochs" if "epochs" in learned.state() else "shrink"
    again = type(learned).from_state(learned.state(), **{option: 1})
    assert again.state()[option] == 1


def test_logits_do_not_depend_on_chunks(learned):
    X = torch.from_numpy(np.random.default_rng(0).standard_normal((2500, D))).float()
    torch.testing.assert_close(learned.logits(X)[-10:], learned.logits(X[-10:]))
    assert learned.logits(X[:0]).shape == (0, 3)
