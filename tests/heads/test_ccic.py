"""CCIC's formulas against naive loops, its step against plain autograd, and lessons that lack something."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from cual.errors import BadFeatures, TooFewSamples
from cual.heads import CCIC, MLP, Lesson, Samples, TakesUnlabelled, ccic
from cual.heads.ccic import (
    CONSISTENCY,
    CONTRAST,
    MARGIN,
    MINED,
    NEIGHBOURS,
    NO_VOTE,
    TIE,
    VIEWS,
    Interpolation,
    _endless,
    draw,
    log_votes,
    negative_triplets,
    sharpened,
    supervised_triplets,
)
from cual.heads.training import gathered

D, CLASSES = 7, 4


def features(n: int, seed: int = 0, width: int = D) -> Tensor:
    return torch.from_numpy(np.random.default_rng([seed, n]).standard_normal((n, width), dtype=np.float32))


def samples(n: int, seed: int = 0, classes: int = CLASSES) -> Samples:
    return Samples(features(n, seed), torch.arange(n) % classes)


def lesson(current: int = 9, memory: int = 20, unlabelled: int = 15, old: int = 3, **changes) -> Lesson:
    parts = {
        "queried": samples(current, 1),
        "pseudo": samples(0),
        "replay": samples(memory, 2),
        "old": samples(old, 3),
        "unlabelled": features(unlabelled, 4),
    }
    return Lesson(CLASSES, **(parts | changes))


def squared(a: Tensor, b: Tensor) -> Tensor:
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def naive_supervised(embeddings: Tensor, classes: list[int]) -> Tensor:
    losses = []
    for i, anchor in enumerate(embeddings):
        at = list(range(len(classes)))
        positive = [squared(anchor, embeddings[j]) for j in at if classes[j] == classes[i] and j != i]
        negative = [squared(anchor, embeddings[j]) for j in at if classes[j] != classes[i]]
        positive = sorted(positive, key=Tensor.item, reverse=True)[:MINED]
        positive += [torch.zeros(())] * (MINED - len(positive))
        negative = sorted(negative, key=Tensor.item)[:MINED]
        losses += [(p - n + MARGIN).clamp(min=0) for p, n in zip(positive, negative, strict=False)]
    return sum(losses, torch.zeros(())) / max(1, len(losses))


def naive_negative(new: Tensor, old: Tensor) -> Tensor:
    losses = []
    for anchors, others in ((new, old), (old, new)):
        for anchor in anchors:
            nearest = sorted((squared(anchor, other) for other in others), key=Tensor.item)[:MINED]
            losses += [(MARGIN - d).clamp(min=0) for d in nearest]
    return sum(losses) / len(losses)


def test_sharpening_takes_the_power_and_sums_to_one():
    for p in torch.softmax(features(5, width=CLASSES), dim=1):
        powers = [float(x) ** (1 / 0.5) for x in p]
        expected = torch.tensor([x / sum(powers) for x in powers])
        torch.testing.assert_close(sharpened(p[None])[0], expected)


@pytest.mark.parametrize("classes", [[0, 1, 2, 0, 1, 2, 0, 0], [0, 0, 0, 0, 0, 1], [0, 0, 0], [0], [0, 1]])
def test_supervised_triplets_mine_the_hardest(classes):
    embeddings = features(len(classes))
    expected = naive_supervised(embeddings, classes)
    torch.testing.assert_close(supervised_triplets(embeddings, torch.tensor(classes)), expected)


@pytest.mark.parametrize(("new", "old"), [(6, 9), (1, 9), (6, 2), (1, 1)])
def test_negative_triplets_push_new_from_old(new, old):
    a, b = 0.3 * features(new, 1), 0.3 * features(old, 2)
    expected = naive_negative(a, b)
    assert expected > 0
    torch.testing.assert_close(negative_triplets(a, b), expected)


def test_votes_are_those_of_the_nearest_and_the_nearest_decides_ties():
    references, classes = normalize(features(30, 1)), (torch.arange(30) % 3).tolist()
    ties = 0
    for u in normalize(features(40, 2)):
        distances = [float(squared(u, r)) for r in references]
        order = sorted(range(30), key=distances.__getitem__)
        votes = [sum(classes[i] == c for i in order[:NEIGHBOURS]) for c in range(CLASSES)]
        logits = log_votes(u[None], references, torch.tensor(classes), CLASSES)[0].tolist()
        for c in range(CLASSES):
            nearest = min([4.0, *(d for d, of in zip(distances, classes, strict=True) if of == c)])
            share = max(votes[c] / NEIGHBOURS, NO_VOTE)
            assert logits[c] == pytest.approx(math.log(share) - TIE * nearest, abs=1e-5)
        winner = classes[order[0]] if max(votes) == 1 else votes.index(max(votes))
        assert logits.index(max(logits)) == winner
        ties += max(votes) == 1
    assert ties


def test_a_class_without_references_is_last():
    logits = log_votes(features(9, 1), features(2, 2), torch.tensor([0, 2]), 3)
    assert logits.isfinite().all()
    assert (logits.argmin(dim=1) == 1).all()


def test_what_is_drawn():
    drawn = draw(12, 20, 15, epochs=10, batch=8, rng=np.random.default_rng(0))
    steps, n, u = 10 * 4, 8, 4
    assert drawn.rows.shape == (steps, n + 2 * u)
    current, memory, unlabelled, contrasted = np.split(drawn.rows, [4, 8, 12], axis=1)
    for part, low, high in ((current, 0, 12), (memory, 12, 32), (unlabelled, 32, 47), (contrasted, 12, 32)):
        assert set(part.ravel().tolist()) == set(range(low, high))
    assert drawn.weights.tolist() == [0.25] * 8
    mixes, triplets = slice(0, n + VIEWS * u), slice(n + VIEWS * u, 2 * n + VIEWS * u)
    assert (drawn.share >= 0.5).all()
    assert np.array_equal(np.sort(drawn.second[:, mixes]), np.tile(np.sort(drawn.first[mixes]), (steps, 1)))
    assert set(drawn.second[:, triplets].ravel().tolist()) == set(range(n))
    # the last tenth: labelled samples as they are, no contrast
    assert (drawn.share[:36, triplets] < 1).all()
    assert (drawn.share[36:, triplets] == 1).all()
    assert drawn.contrast.tolist() == [np.float32(CONTRAST)] * 36 + [0.0] * 4
    assert (drawn.share[:, 2 * n + VIEWS * u :] == 1).all()


def test_without_memory_nothing_is_contrasted():
    drawn = draw(12, 0, 15, epochs=10, batch=8, rng=np.random.default_rng(0))
    assert drawn.rows.shape[1] == 8 + 4
    assert not drawn.contrast.any()
    assert (drawn.share[:, 8 + VIEWS * 4 :] == 1).all()


def naive_step(step: Interpolation, drawn: ccic.Draws, layers: list[Tensor], at: int) -> Tensor:
    """The loss of step `at`, sample by sample, as a function of weights and biases."""
    w0, b0, w1, b1 = layers
    rows, n, u = drawn.rows[at], step.n, step.u
    X, known = [step.X[r] for r in rows], [step.targets[r] for r in rows]
    embed = lambda x: (w0 @ x + b0).relu()  # noqa: E731
    output = lambda x: w1 @ embed(x) + b1  # noqa: E731
    for i in range(n, n + u):
        powers = output(X[i]).detach().softmax(0) ** 2
        known[i] = powers / powers.sum()
    mixes = []
    for first, second, share in zip(drawn.first, drawn.second[at], drawn.share[at], strict=True):
        lam = float(share)
        x = lam * X[first] + (1 - lam) * X[second]
        mixes.append((x, lam * known[first] + (1 - lam) * known[second]))
    loss = torch.zeros(())
    for i, (x, target) in enumerate(mixes[:n]):
        loss = loss - float(drawn.weights[i]) * (target * output(x).log_softmax(0)).sum()
    views = mixes[n : n + VIEWS * u]
    errors = [((output(x).softmax(0) - target) ** 2).mean() for x, target in views]
    loss = loss + CONSISTENCY * sum(errors) / max(1, len(errors)) / CLASSES  # and once more, as published
    triplets = torch.stack([embed(x) for x, _ in mixes[n + VIEWS * u : 2 * n + VIEWS * u]])
    loss = loss + naive_supervised(triplets, [int(t.argmax()) for t in known[:n]])
    if len(rows) > n + u:
        new, old = (torch.stack([embed(x) for x in part]) for part in (X[n : n + u], X[n + u :]))
        loss = loss + float(drawn.contrast[at]) * naive_negative(new, old)
    return loss


@pytest.mark.parametrize(("memory", "unlabelled"), [(20, 15), (0, 15), (20, 0), (0, 0)])
def test_a_step_is_the_gradient_of_the_loss(memory, unlabelled):
    drawn = draw(9, memory, unlabelled, epochs=1, batch=6, rng=np.random.default_rng(0))
    sources = [samples(9, 1), samples(memory, 2), Samples(features(unlabelled, 4), torch.zeros(unlabelled, 1))]
    X, targets = gathered([s for s in sources if len(s)], CLASSES)
    head = CCIC(hidden=11).sized(lesson()).grown(CLASSES, np.random.default_rng(1))
    step = Interpolation(head._layers, X, targets, drawn, lr=0.0)
    layers = [tensor.clone().requires_grad_() for layer in head._layers for tensor in layer]
    for at in range(len(drawn.rows)):
        step()
        expected = torch.autograd.grad(naive_step(step, drawn, layers, at), layers)
        found = [tensor for layer in step.gradients for tensor in layer]
        for name, a, b in zip(("weight 0", "bias 0", "weight 1", "bias 1"), found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5, msg=f"step {at}: {name}")


@pytest.mark.parametrize(
    "task",
    [
        lesson(memory=0, unlabelled=0, old=0),
        lesson(memory=0),
        lesson(current=0, old=0),
        Lesson(CLASSES, *(samples(n, n) for n in (9, 5, 20))),
        lesson(current=1, memory=1, unlabelled=1, old=1),
        lesson(pseudo=Samples(features(6), torch.softmax(features(6, width=CLASSES), 1))),
        lesson(queried=Samples(features(9).half(), torch.arange(9) % CLASSES)),
    ],
    ids=["first", "no memory", "only memory", "no unlabelled", "tiny", "soft", "half"],
)
@pytest.mark.parametrize("batch", [1, 2, 50])
def test_lessons_that_lack_something(task, batch):
    ticks: list[tuple[int, int]] = []
    head = CCIC(hidden=8, epochs=3, batch=batch)
    head = head.learn(task, np.random.default_rng(0), lambda *at: ticks.append(at))
    logits = head.logits(features(5))
    assert logits.shape == (5, CLASSES)
    assert logits.isfinite().all()
    sizes = [len(s) for s, _ in task.sources()]
    assert ticks[-1][0] == ticks[-1][1]
    if batch > len(sizes):
        assert ticks[-1][1] == 3 * -(-sum(sizes) // batch)


def test_all_labelled_samples_of_a_lesson_vote():
    head = CCIC(hidden=8, epochs=1).learn(lesson(), np.random.default_rng(0))
    state = head.state()
    assert len(state["references"]) == len(state["reference_classes"]) == 9 + 3 + 20
    torch.testing.assert_close(state["references"].norm(dim=1), torch.ones(32))


def test_unlabelled_samples_are_learned_from():
    with_them, others, without = (
        CCIC(hidden=8, epochs=2).learn(task, np.random.default_rng(0)).state()["weight_0"]
        for task in (lesson(), lesson(unlabelled=14), lesson(unlabelled=0))
    )
    assert not torch.equal(with_them, others)
    assert not torch.equal(with_them, without)
    assert isinstance(CCIC(), TakesUnlabelled)
    assert not isinstance(MLP(), TakesUnlabelled)


def test_mistakes_have_names():
    with pytest.raises(TooFewSamples):
        CCIC(hidden=8).learn(lesson(0, 0, 5, 0), np.random.default_rng(0))
    narrow = Samples(features(5, width=D - 1), torch.zeros(5, dtype=torch.int64))
    with pytest.raises(BadFeatures, match="width 7, not 6"):
        CCIC(hidden=8).learn(lesson(), np.random.default_rng(0)).learn(
            Lesson(CLASSES, narrow, narrow, narrow), np.random.default_rng(0)
        )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_learns_what_the_cpu_learns():
    """Enough steps that most of them are recorded; twice, for the same bits."""
    task, head = lesson(), CCIC(hidden=33, epochs=150)
    on_gpu = Lesson(
        CLASSES,
        *(Samples(s.X.cuda(), s.y.cuda()) for s in (task.queried, task.pseudo, task.replay)),
        old=Samples(task.old.X.cuda(), task.old.y.cuda()),
        unlabelled=task.unlabelled.cuda(),
    )
    a, b, again = (head.learn(each, np.random.default_rng(0)) for each in (task, on_gpu, on_gpu))
    assert all(torch.equal(x, again.state()[name]) for name, x in b.state().items())
    torch.testing.assert_close(a.state()["weight_0"], b.state()["weight_0"].cpu(), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(a.logits(task.replay.X).argmax(1), b.logits(task.replay.X).argmax(1).cpu())


@pytest.mark.parametrize(("n", "shape"), [(5, (4, 5)), (5, (4, 6)), (7, (3, 2)), (3, (0, 4))])
def test_numbers_come_from_permutations_and_no_more_of_them_are_drawn_than_needed(n, shape):
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    numbers = _endless(10, n, shape, rng)
    assert numbers.shape == shape
    for start in range(0, numbers.size - n + 1, n):
        assert sorted(numbers.ravel()[start : start + n]) == list(range(10, 10 + n))
    other.permuted(np.tile(np.arange(n), (math.ceil(numbers.size / n), 1)), axis=1)
    assert rng.random() == other.random()
