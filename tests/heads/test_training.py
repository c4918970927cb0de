"""The hand-written trainer against the loop everyone writes; edge cases of the plan."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cual.errors import BadFeatures, BadLabels, TooFewSamples
from cual.heads import MLP, Lesson, Linear, Samples, training
from cual.heads.training import plan

D, CLASSES = 12, 4


def samples(n: int, rng: np.random.Generator, soft: bool = False, classes: int = CLASSES) -> Samples:
    X = torch.from_numpy(rng.standard_normal((n, D), dtype=np.float32))
    if soft:
        return Samples(X, torch.from_numpy(rng.dirichlet(np.ones(classes), n).astype(np.float32)))
    return Samples(X, torch.from_numpy(rng.integers(classes, size=n)))


def lesson(sizes: tuple[int, int, int], soft: bool = False, classes: int = CLASSES) -> Lesson:
    rng = np.random.default_rng(7)
    queried, pseudo, replay = (
        samples(n, rng, soft=soft and i == 1, classes=classes) for i, n in enumerate(sizes)
    )
    return Lesson(classes, queried, pseudo, replay)


def network(head: Linear | MLP) -> nn.Sequential:
    """The head as a torch module with its own copy of the weights."""
    state = head.state()
    modules: list[nn.Module] = []
    for i in range(sum(name.startswith("weight_") for name in state)):
        weight, bias = state[f"weight_{i}"], state[f"bias_{i}"]
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        with torch.no_grad():
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
        modules += [nn.ReLU(), layer] if modules else [layer]
    return nn.Sequential(*modules)


def autograd_logits(head: Linear | MLP, lesson: Lesson, rng: np.random.Generator, X: Tensor) -> Tensor:
    """Logits after the plain loop: autograd, nn.CrossEntropyLoss per source, torch.optim.Adam."""
    net = network(head.grown(lesson.n_classes, rng))
    sources = [
        (s, w)
        for s, w in zip((lesson.queried, lesson.pseudo, lesson.replay), lesson.weights, strict=True)
        if len(s)
    ]
    weights = [w / sum(w for _, w in sources) for _, w in sources]
    rows, _ = plan([len(s) for s, _ in sources], weights, head.epochs, head.batch, rng)
    adam = torch.optim.Adam(net.parameters(), lr=head.lr)
    for step in rows:
        loss, start = torch.zeros(()), 0
        for (source, _), weight in zip(sources, weights, strict=True):
            mine = step[(step >= start) & (step < start + len(source))] - start
            loss = loss + weight * nn.CrossEntropyLoss()(net(source.X[mine]), source.y[mine])
            start += len(source)
        adam.zero_grad()
        loss.backward()
        adam.step()
    return net(X).detach()


def started(head: Linear | MLP, classes: int) -> Linear | MLP:
    """`head` with random weights. At zero some gradients are nothing but rounding, which Adam blows up."""
    rng = np.random.default_rng(5)
    return type(head).from_state(
        {
            name: torch.from_numpy(rng.uniform(-0.3, 0.3, t.shape)).float() if t.ndim else t
            for name, t in head.sized(lesson((1, 0, 0))).grown(classes, rng).state().items()
        }
    )


@pytest.mark.parametrize("head", [Linear(), MLP(hidden=33, epochs=6)], ids=["linear", "mlp"])
@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
@pytest.mark.parametrize("sizes", [(70, 0, 0), (0, 70, 0), (9, 0, 80), (0, 30, 80), (9, 60, 80)])
def test_training_equals_the_plain_autograd_loop(head, soft, sizes):
    head, first = started(head, CLASSES), lesson(sizes, soft)
    X = samples(50, np.random.default_rng(1)).X
    expected = autograd_logits(head, first, np.random.default_rng(3), X)
    learned = head.learn(first, np.random.default_rng(3))
    torch.testing.assert_close(learned.logits(X), expected, rtol=1e-4, atol=1e-5)

    second = lesson(sizes, soft, classes=CLASSES + 2)
    expected = autograd_logits(learned, second, np.random.default_rng(4), X)
    grown = learned.learn(second, np.random.default_rng(4))
    assert grown.n_classes == CLASSES + 2
    torch.testing.assert_close(grown.logits(X), expected, rtol=1e-4, atol=1e-5)


def test_a_sample_counts_as_much_as_its_target_sums_to():
    """As in the plain loop, whose cross-entropy is linear in the target."""
    head, whole, rng = (
        started(MLP(hidden=33, epochs=6), CLASSES),
        lesson((9, 60, 80), True),
        np.random.default_rng(1),
    )
    y = whole.pseudo.y * torch.from_numpy(rng.uniform(0.1, 1, (60, 1))).float()
    parts = Lesson(CLASSES, whole.queried, Samples(whole.pseudo.X, y), whole.replay)
    expected = autograd_logits(head, parts, np.random.default_rng(3), whole.replay.X)
    logits = head.learn(parts, np.random.default_rng(3)).logits(whole.replay.X)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)
    assert (logits - head.learn(whole, np.random.default_rng(3)).logits(whole.replay.X)).abs().max() > 0.01


@pytest.mark.parametrize("head", [Linear(), MLP(hidden=33)], ids=["linear", "mlp"])
def test_growing_keeps_old_rows_bit_for_bit(head):
    learned = head.learn(lesson((60, 0, 0)), np.random.default_rng(0))
    before, after = learned.state(), learned.grown(CLASSES + 2, np.random.default_rng(9)).state()
    for name, old in before.items():
        assert torch.equal(after[name][: len(old)] if old.ndim else after[name], old), name
    last = max(name for name in after if name.startswith("weight_"))
    bound = after[last].shape[1] ** -0.5
    assert after[last].shape[0] == CLASSES + 2
    assert after[last][CLASSES:].abs().max() <= bound


@pytest.mark.parametrize("sizes", [[5], [1, 40], [7, 1, 300], [1, 1, 1]])
@pytest.mark.parametrize("batch", [1, 2, 16, 50])
def test_plan_takes_equal_parts_and_every_sample_equally_often(sizes, batch):
    weights = [0.5, 0.3, 0.2][: len(sizes)]
    rows, per_place = plan(sizes, weights, 3, batch, np.random.default_rng(0))
    batch = max(batch, len(sizes))
    assert rows.shape == (3 * -(-sum(sizes) // batch), batch)
    start, place = 0, 0
    for size, weight, part in zip(
        sizes, weights, map(len, np.array_split(range(batch), len(sizes))), strict=True
    ):
        mine = rows[:, place : place + part].ravel() - start
        times = np.bincount(mine, minlength=size)
        assert len(times) == size
        assert times.max() - times.min() <= 1
        assert per_place[place : place + part].sum() == pytest.approx(weight)
        start, place = start + size, place + part


@pytest.mark.parametrize("sizes", [(1, 0, 0), (1, 1, 1), (1, 0, 90)])
@pytest.mark.parametrize("batch", [1, 2, 50])
@pytest.mark.parametrize("classes", [1, 3])
def test_tiny_lessons(sizes, batch, classes):
    head = MLP(hidden=8, batch=batch).learn(lesson(sizes, classes=classes), np.random.default_rng(0))
    logits = head.logits(torch.ones(2, D))
    assert logits.shape == (2, classes)
    assert logits.isfinite().all()


def test_half_precision_features_are_learned_in_single():
    full = lesson((40, 0, 60))
    half = Lesson(
        CLASSES,
        Samples(full.queried.X.half(), full.queried.y),
        full.pseudo,
        Samples(full.replay.X.half(), full.replay.y),
    )
    rounded = Lesson(
        CLASSES,
        Samples(half.queried.X.float(), full.queried.y),
        full.pseudo,
        Samples(half.replay.X.float(), full.replay.y),
    )
    a, b = (Linear().learn(each, np.random.default_rng(0)) for each in (half, rounded))
    assert torch.equal(a.logits(full.queried.X.half()), b.logits(half.queried.X.float()))


def test_soft_targets_may_know_fewer_classes_than_the_lesson():
    soft = lesson((0, 60, 0), soft=True)
    wider = Samples(soft.pseudo.X, torch.cat([soft.pseudo.y, torch.zeros(60, 2)], 1))
    a, b = (
        Linear().learn(Lesson(CLASSES + 2, soft.queried, pseudo, soft.replay), np.random.default_rng(0))
        for pseudo in (soft.pseudo, wider)
    )
    assert torch.equal(a.logits(soft.pseudo.X), b.logits(soft.pseudo.X))


def test_progress_is_reported_in_order_and_not_too_often():
    calls: list[tuple[int, int]] = []
    Linear(epochs=33, batch=4).learn(
        lesson((30, 20, 9)), np.random.default_rng(0), lambda *at: calls.append(at)
    )
    steps = 33 * 15
    assert calls == sorted(set(calls))
    assert calls[-1] == (steps, steps)
    assert 50 <= len(calls) <= 101
    assert calls[:2] == [(5, steps), (10, steps)]  # every 5: no more than a hundred times


def test_mistakes_have_names():
    head = Linear().learn(lesson((20, 0, 0)), np.random.default_rng(0))
    with pytest.raises(TooFewSamples):
        head.learn(lesson((0, 0, 0)), np.random.default_rng(0))
    with pytest.raises(BadLabels, match="shrink"):
        head.learn(lesson((20, 0, 0), classes=2), np.random.default_rng(0))
    task = lesson((20, 0, 0))
    wide = Samples(torch.zeros(3, D + 1), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(BadFeatures, match="width 12, not 13"):
        head.learn(Lesson(CLASSES, wide, task.pseudo, task.replay), np.random.default_rng(0))


@pytest.mark.parametrize("steps", [1, training.MIN_RECORDED - 1, training.MIN_RECORDED, 1000])
def test_on_a_gpu_recorded_steps_replace_eager_ones(monkeypatch, steps):
    taken = {"eager": 0, "recorded": 0}

    class FakeStep:
        X = SimpleNamespace(is_cuda=True, device="cuda")

        def __call__(self):
            taken["eager"] += 1

    def recorded(step):
        return lambda: taken.update(recorded=taken["recorded"] + 1)

    monkeypatch.setattr(training, "recorded", recorded)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    training.repeat(FakeStep(), steps, None)
    eager = steps if steps < training.MIN_RECORDED else training.EAGER_STEPS
    assert taken == {"eager": eager, "recorded": steps - eager}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_learns_what_the_cpu_learns():
    first, head = lesson((9, 60, 80)), MLP(hidden=33)
    on_gpu = Lesson(
        CLASSES, *(Samples(s.X.cuda(), s.y.cuda()) for s in (first.queried, first.pseudo, first.replay))
    )
    a, b = (head.learn(each, np.random.default_rng(0)).logits(first.replay.X).cpu() for each in (first, on_gpu))
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_a_few_steps_of_the_linear_head_are_not_decided_by_its_start(seed: int):
    """A_s learns for five steps; from a random start it would often still name the wrong class."""
    rng = np.random.default_rng(seed)
    X = torch.from_numpy(rng.normal(0, 0.1, (6, 8)).astype(np.float32))
    X[:3, 0] += 1
    X[3:, 1] += 1
    y = torch.tensor([0, 0, 0, 1, 1, 1])
    none = Samples(X[:0], y[:0])
    head = Linear(8).learn(Lesson(2, Samples(X, y), none, none), rng)
    assert head.logits(X).argmax(1).tolist() == y.tolist()
