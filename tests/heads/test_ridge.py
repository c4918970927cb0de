"""The ridge head against a naive discriminant, and what its sums promise: any order, any split, a way back."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cual import Agent
from cual.errors import BadFeatures, BadLabels, BadOption, TooFewSamples
from cual.heads import Lesson, Ridge, Samples
from cual.heads import ridge as module

D, CLASSES = 6, 4
NONE = Samples(torch.empty(0, D), torch.empty(0, dtype=torch.int64))


def samples(n: int, seed: int = 0, classes: int = CLASSES, width: int = D, soft: bool = False) -> Samples:
    rng = np.random.default_rng([seed, n])
    y = torch.from_numpy(rng.integers(classes, size=n))
    X = torch.from_numpy(rng.standard_normal((n, width))).float()
    X[torch.arange(n), y % width] += 2
    return Samples(X, torch.from_numpy(rng.dirichlet(np.ones(classes), size=n)) if soft else y)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def lesson(queried: Samples, classes: int = CLASSES, **sources: Samples) -> Lesson:
    none = Samples(queried.X[:0], queried.y[:0])
    return Lesson(classes, **{"queried": queried, "pseudo": none, "replay": none, **sources})


def learned(parts: list[Samples], classes: int = CLASSES, **options: float) -> Ridge:
    head = Ridge(**options)
    for part in parts:
        head = head.learn(lesson(part, classes), rng())
    return head


def assert_same_weights(a: Ridge, b: Ridge) -> None:
    for first, second in zip(a._solution, b._solution, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-5, atol=1e-5)


def pick(of: Samples, rows: list[int]) -> Samples:
    return Samples(of.X[rows], of.y[rows])


def naive_logits(given: Samples, X: Tensor, shrink: float, even: float, scarce: float = 0) -> Tensor:
    """The discriminant of the docstring, sample by sample, without an offset and with an explicit inverse."""
    soft = given.y.numpy() if given.y.is_floating_point() else np.eye(CLASSES)[given.y.numpy()]
    units = [x / np.linalg.norm(x) for x in given.X.double().numpy()]
    means = [sum(y[c] * z for y, z in zip(soft, units, strict=True)) / soft[:, c].sum() for c in range(CLASSES)]
    scatter = np.zeros((D, D))
    for y, z in zip(soft, units, strict=True):
        for c in range(CLASSES):
            scatter += y[c] * np.outer(z - means[c], z - means[c])
    scatter /= soft.sum()
    shrink = max(shrink, scarce * D / soft.sum())
    inverse = np.linalg.inv(scatter + shrink * np.trace(scatter) / D * np.eye(D))
    centre = sum(y.sum() * z for y, z in zip(soft, units, strict=True)) / soft.sum()
    means = [m - centre for m in means]
    measured = [m @ inverse @ m for m in means]
    noise = scarce * np.trace(inverse @ scatter) / soft.sum(axis=0)
    squares = [max(m - n, min(m, 0.1 * np.mean(measured))) for m, n in zip(measured, noise, strict=True)]
    stretches = [(np.mean(squares) / square) ** (even / 2) for square in squares]
    rows = [
        [
            f * (m @ inverse @ (x / np.linalg.norm(x) - centre)) - 0.5 * f**2 * square
            for m, f, square in zip(means, stretches, squares, strict=True)
        ]
        for x in X.double().numpy()
    ]
    return torch.tensor(np.array(rows))


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize(("shrink", "even"), [(0.01, 0.0), (0.1, 0.25), (3.0, 1.0)])
def test_logits_are_those_of_the_discriminant(soft: bool, shrink: float, even: float) -> None:
    taught, X = samples(50, soft=soft), samples(9, seed=1).X
    found = learned([taught], shrink=shrink, even=even, scarce=0).logits(X)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), naive_logits(taught, X, shrink, even), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize(
    ("scarce", "n", "least"), [(1.0, 12, 0.1), (3.0, 50, 0.1), (1.0, 50, 2.0), (1.0, 500, 0.1)]
)
def test_few_samples_are_trusted_less(soft: bool, scarce: float, n: int, least: float) -> None:
    """The ridge is stronger the fewer there are for each dimension, and means are shorter than they look."""
    taught, X = samples(n, soft=soft), samples(9, seed=1).X
    found = learned([taught], shrink=least, scarce=scarce, even=0.25).logits(X)
    right = naive_logits(taught, X, least, 0.25, scarce)
    torch.testing.assert_close(found.double(), right, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found.double(), naive_logits(taught, X, least, 0.25), rtol=1e-3)


@pytest.mark.parametrize(("options", "dimensions"), [({"expand": 200}, 40), ({"widest": 20}, 20)])
def test_random_features_count_as_no_more_dimensions_than_there_are(
    options: dict[str, int], dimensions: int
) -> None:
    every, X = samples(50, width=40), samples(9, 1, width=40).X
    head = learned([every], shrink=0.01, scarce=1.0, **options)
    same = learned([every], shrink=dimensions / 50, scarce=1.0, **options)
    assert torch.equal(head.logits(X), same.logits(X))
    assert not torch.equal(head.logits(X), Ridge.from_state(head.state(), shrink=4.0).logits(X))


def test_a_head_of_a_file_that_knows_no_scarcity_stays_as_it_was() -> None:
    X, head = samples(9, seed=1).X, learned([samples(12)], shrink=0.5, scarce=0)
    state = {name: part for name, part in head.state().items() if name != "scarce"}
    assert torch.equal(Ridge.from_state(state).logits(X), head.logits(X))
    assert not torch.equal(Ridge.from_state(state, scarce=9).logits(X), head.logits(X))


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_neither_order_nor_split_matters(data: st.DataObject) -> None:
    width = data.draw(st.sampled_from([1, 2, 6, 9]))
    n = data.draw(st.integers(1, 25))
    soft = data.draw(st.booleans())
    options = {"shrink": data.draw(st.sampled_from([0.001, 0.1, 1.0]))}
    if data.draw(st.booleans()):
        options["expand"] = 7
    every = samples(n, data.draw(st.integers(0, 99)), width=width, soft=soft)
    order = data.draw(st.permutations(range(n)))
    cuts = sorted(data.draw(st.sets(st.integers(1, n), max_size=4)) | {0, n})
    parts = [pick(every, order[a:b]) for a, b in itertools.pairwise(cuts)]
    assert_same_weights(learned(parts, **options), learned([every], **options))


@settings(deadline=None, max_examples=40)
@given(kept=st.integers(1, 12), gone=st.integers(1, 12), soft=st.booleans(), seed=st.integers(0, 99))
def test_what_is_taken_back_was_never_there(kept: int, gone: int, soft: bool, seed: int) -> None:
    stay, leave = samples(kept, seed, soft=soft), samples(gone, seed + 100, soft=soft)
    head = learned([stay, leave])
    assert_same_weights(head.without(leave), learned([stay]))
    first_leaves = head.without(stay)
    assert_same_weights(first_leaves, learned([leave]))
    nothing = first_leaves.without(leave)
    assert (nothing.logits(stay.X) == module.NO_LOGIT).all()
    assert_same_weights(nothing.learn(lesson(stay), rng()), learned([stay]))


@pytest.mark.parametrize(("width", "inner"), [(16, 512), (384, 1536), (768, 2048), (1024, 1024), (2048, 2048)])
def test_narrow_features_are_expanded_if_asked_to(width: int, inner: int) -> None:
    for expand, expected in ((-1, inner), (0, width)):
        head = Ridge(expand=expand).learn(lesson(samples(8, width=width)), rng())
        assert len(head.state()["offset"]) == expected


def test_sources_are_alike_and_replay_is_not_learned_again() -> None:
    a, b, c, d = (samples(8, seed) for seed in range(4))
    first = Ridge().learn(lesson(a), rng())
    head = first.learn(lesson(b, pseudo=c, old=d, replay=a), rng())
    assert_same_weights(head, learned([a, b, c, d]))


def test_hard_and_soft_labels_agree() -> None:
    hard = samples(20)
    soft = Samples(hard.X, torch.nn.functional.one_hot(hard.y, CLASSES).float())
    assert_same_weights(learned([hard]), learned([soft]))


def test_classes_come_at_any_time_and_may_wait_for_samples() -> None:
    two, four = samples(20, classes=2), samples(20, seed=1)
    head = Ridge().learn(lesson(two, classes=2), rng()).learn(lesson(NONE, classes=3), rng())
    waiting = head.logits(two.X)
    assert waiting.shape == (20, 3)
    assert waiting.isfinite().all()
    assert (waiting[:, 2] == module.NO_LOGIT).all()
    assert_same_weights(head.learn(lesson(four), rng()), learned([two, four]))
    soft = Samples(two.X, torch.nn.functional.one_hot(two.y, 2).double())
    assert_same_weights(head.learn(lesson(soft), rng()), learned([two, two]))


def test_chunks_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    every = samples(30)
    whole = learned([every])
    steps: list[tuple[int, int]] = []
    monkeypatch.setattr(module, "CHUNK", 7)
    monkeypatch.setattr(module, "BLOCK", 4)
    split = Ridge().learn(lesson(every, pseudo=pick(every, [])), rng(), lambda *step: steps.append(step))
    assert_same_weights(split, whole)
    assert steps == [(i, 5) for i in range(1, 6)]
    torch.testing.assert_close(split.logits(every.X), whole.logits(every.X), rtol=1e-5, atol=1e-5)


def test_memory_does_not_grow_with_samples() -> None:
    few, many = (learned([samples(n)] * 2).state() for n in (10, 1000))
    assert {k: v.shape for k, v in few.items()} == {k: v.shape for k, v in many.items()}


@pytest.mark.parametrize("options", [{}, {"expand": 12}, {"widest": 3}])
def test_a_saved_head_goes_on_with_the_same_bits(options: dict[str, int]) -> None:
    head = learned([samples(30)], **options)
    again = Ridge.from_state({k: v.clone() for k, v in head.state().items()}, **options)
    X, more = samples(9, 1).X, lesson(samples(5, 2))
    assert torch.equal(head.logits(X), again.logits(X))
    before = {k: v.clone() for k, v in head.state().items()}
    later, later_again = (h.learn(more, rng(5)) for h in (head, again))
    assert torch.equal(later.logits(X), later_again.logits(X))
    assert torch.equal(head.without(samples(30)).logits(X), again.without(samples(30)).logits(X))
    assert all(torch.equal(before[k], v) for k, v in head.state().items())


def test_shrink_may_change_later_but_the_features_may_not() -> None:
    every = samples(30)
    state = learned([every]).state()
    assert_same_weights(Ridge.from_state(state, shrink=0.5), learned([every], shrink=0.5))
    for change in ({"expand": 6}, {"widest": 3}):
        with pytest.raises(BadOption, match="fixed once a head has learned"):
            Ridge.from_state(state, **change)


@pytest.mark.parametrize(("options", "inner"), [({"expand": 200}, 200), ({"widest": 20}, 20)])
def test_random_directions_keep_the_classes_apart(options: dict[str, int], inner: int) -> None:
    every, test = samples(200, width=40), samples(100, 1, width=40)
    every.X[torch.arange(200), every.y] += 3
    test.X[torch.arange(100), test.y] += 3
    head = learned([every], **options)
    assert head.state()["moment"].shape == (inner, inner)
    assert (head.logits(test.X).argmax(1) == test.y).float().mean() > 0.85


@pytest.mark.parametrize(("options", "bent"), [({"expand": 24}, True), ({"widest": 4}, False)])
def test_what_random_directions_give_has_unit_length(options: dict[str, int], bent: bool) -> None:
    """So it is what a head without them learns of the same vectors, which it makes as long itself."""
    every, X = samples(60), samples(9, seed=1).X
    head = learned([every], scarce=0, **options)

    def seen(X: Tensor) -> Tensor:
        z = torch.nn.functional.normalize(X) @ head._directions.T
        return z.relu() if bent else z

    plain = learned([Samples(seen(every.X), every.y)], expand=0, scarce=0)
    torch.testing.assert_close(head.logits(X), plain.logits(seen(X)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"expand": 5}])
def test_features_without_length_or_variance(options: dict[str, int]) -> None:
    for X in (torch.zeros(6, D), torch.ones(6, D), torch.full((6, D), 1e-30), torch.full((6, D), 3e38)):
        head = learned([Samples(X, torch.arange(6) % CLASSES)], **options)
        assert head.logits(X).isfinite().all()
        assert head.logits(samples(3).X).isfinite().all()


def test_one_sample_of_each_class_makes_a_nearest_mean() -> None:
    X = samples(50, 3).X
    one = Samples(X[:CLASSES], torch.arange(CLASSES))
    directions = torch.nn.functional.normalize(X)
    nearest = torch.cdist(directions, directions[:CLASSES]).argmin(1)
    assert torch.equal(learned([one], even=0.0).logits(X).argmax(1), nearest)


def test_one_dimension() -> None:
    X = torch.tensor([[-2.0], [-1.0], [0.0], [3.0], [0.5]])
    head = learned([Samples(X, torch.tensor([0, 0, 1, 2, 2]))], classes=3)
    assert head.logits(X).argmax(1).tolist() == [0, 0, 1, 2, 2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shrink": 0}, "shrink lies between 0 and 1000, and not at 0"),
        ({"shrink": -0.1}, "shrink lies"),
        ({"shrink": float("inf")}, "shrink lies"),
        ({"shrink": "much"}, "shrink is 'much', but takes a number"),
        ({"expand": -2}, "expand is at least -1"),
        ({"expand": 0.5}, "expand is 0.5, but takes a whole number"),
        ({"even": 1.5}, "even lies between 0 and 1"),
        ({"widest": 0}, "widest is at least 1"),
        ({"scarce": -1}, "scarce lies between 0 and 1000"),
    ],
)
def test_options_are_checked(options: dict[str, float], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        Ridge(**options)


def test_what_cannot_be_learned_or_taken_back() -> None:
    head = learned([samples(20)])
    with pytest.raises(TooFewSamples, match="from nothing"):
        Ridge().learn(lesson(NONE, replay=samples(3)), rng())
    with pytest.raises(BadFeatures, match="width 6, not 5"):
        head.learn(lesson(samples(3, width=5)), rng())
    with pytest.raises(BadLabels, match="cannot shrink to 3"):
        head.learn(lesson(samples(3), classes=3), rng())
    with pytest.raises(BadLabels, match="from 0 to 3"):
        head.learn(lesson(samples(9, classes=9)), rng())
    with pytest.raises(BadLabels, match="targets of 9 classes do not fit into 4"):
        head.learn(lesson(samples(7, classes=9, soft=True)), rng())
    with pytest.raises(BadLabels, match="not negative"):
        head.learn(lesson(Samples(NONE.X.new_ones(1, D), torch.tensor([[1.5, -0.5]]))), rng())
    with pytest.raises(BadLabels, match="fewer samples than are taken back"):
        head.without(samples(100))
    only_two = samples(100)
    with pytest.raises(BadLabels, match="class 2 has fewer"):
        head.without(Samples(only_two.X, torch.full_like(only_two.y, 2)))
    emptied = head.without(pick(samples(20), (samples(20).y == 1).nonzero().flatten().tolist()))
    assert emptied.joined([0, -1, 1, 2]).n_classes == 3
    for sums, counts in ((emptied._sums, head._counts), (head._sums, emptied._counts)):
        part = emptied._with(emptied._all_sums._replace(sums=sums, counts=counts))
        with pytest.raises(BadLabels, match="class 1 cannot be left out"):
            part.joined([0, -1, 1, 2])


@pytest.mark.parametrize("options", [{}, {"expand": 40}, {"widest": 3}])
def test_whitened_classes_lie_around_their_means_with_a_round_spread(options: dict[str, int]) -> None:
    """Means of whitened samples are whitened means, and what spreads around them has the covariance 1."""
    given = samples(4000)
    head = learned([given], shrink=1e-6, scarce=0, **options)
    Z, means = head.whiten(given.X), head.whitened_means()
    for c in range(CLASSES):
        torch.testing.assert_close(Z[given.y == c].mean(dim=0), means[c], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(Z.mean(dim=0), torch.zeros(Z.shape[1]), rtol=0, atol=1e-3)
    if not options:
        within = (Z - means[given.y]).double()
        torch.testing.assert_close(
            within.T @ within / len(Z), torch.eye(D, dtype=torch.float64), rtol=0, atol=1e-2
        )


def test_logits_are_never_made_surer() -> None:
    head, held_out = learned([samples(400)]), samples(300, seed=1)
    assert head.sureness(Samples(held_out.X[:0], held_out.y[:0])) == 1.0
    sure = Samples(held_out.X, head.logits(held_out.X).argmax(dim=1))
    assert head.sureness(sure) == 1.0
    assert head.sureness(Samples(held_out.X, (sure.y + 1) % CLASSES)) == 2.0**-12

    def loss(factor: float) -> float:
        return float(torch.nn.functional.cross_entropy(factor * head.logits(held_out.X), held_out.y))

    found = head.sureness(held_out)
    assert found <= 1
    assert loss(found) <= min(loss(found / 2), loss(min(1.0, 2 * found)), loss(1.0))


def test_an_agent_learns_with_it_and_is_saved(tmp_path, world) -> None:
    agent = world.answer_all(world.adapt(world.agent(head="ridge", head_options={"shrink": 0.2}))).finish()
    agent.save(tmp_path / "agent")
    assert set(world.truth.values()) <= set(agent.classes_)
    truth = [world.truth[i] for i in world.ids]
    assert np.mean(agent.predict(world.pool) == truth) > 0.9
    again = Agent.load(tmp_path / "agent")
    assert np.array_equal(agent.predict_proba(world.pool), again.predict_proba(world.pool))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("options", [{}, {"expand": 12}])
def test_a_gpu_gives_the_same_weights(options: dict[str, int]) -> None:
    parts = [samples(30, 0), samples(30, 1, soft=True)]
    there = learned([Samples(p.X.cuda(), p.y.cuda()) for p in parts], **options)
    here = learned(parts, **options)
    for found, expected in zip(there._solution, here._solution, strict=True):
        assert found.is_cuda
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)
    X = samples(9, 2).X
    torch.testing.assert_close(there.logits(X).cpu(), here.logits(X), rtol=1e-4, atol=1e-4)
