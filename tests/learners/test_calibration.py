"""How sure the competition may be, against naive loops, and that shares mean what they say."""

import numpy as np
import pytest
import torch

from cual import Agent
from cual.data.pool import Pool
from cual.learners import Accepted, Prototypes
from cual.learners.prototypes.calibration import FAR, HARDER, KNOWN, SPREAD, Spread, Sureness, measured
from cual.learners.prototypes.competition import GROUPS, Competition, outcomes
from cual.learners.prototypes.learner import PrototypeLearner
from cual.learners.prototypes.space import Space

OLD, NOVEL = 8, 3


def hard(seed: int = 0, each: int = 40, precision: float = 0.0) -> tuple[Agent, np.ndarray, np.ndarray]:
    """Classes that overlap: an agent that knows eight, a pool of these and of three novel ones, its classes."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 0.55, (OLD + NOVEL, 24))

    def draw(n_classes: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.permutation(np.repeat(np.arange(n_classes), n))
        return (centres[y] + rng.normal(0, 1, (len(y), 24))).astype(np.float32), y

    known = Agent.fit(*draw(OLD, 60), "cual-plus", believe={"precision": precision})
    return known, *draw(OLD + NOVEL, each)


def answers(y: np.ndarray, n: int, seed: int = 0) -> Accepted:
    """So many of each novel class and of three old ones, named by a person."""
    rng = np.random.default_rng(seed)
    rows = np.sort(np.concatenate([rng.choice(np.flatnonzero(y == c), n) for c in (0, 1, 2, 8, 9, 10)]))
    rows = np.unique(rows)
    return Accepted(rows, y[rows], np.ones(len(rows), np.int64))


def softmax(row: np.ndarray) -> np.ndarray:
    return np.exp(row - row.max()) / np.exp(row - row.max()).sum()


def of_outcomes(logits: np.ndarray, n_old: int) -> np.ndarray:
    return np.array([np.log(np.exp(logits[:n_old]).sum()), *logits[n_old:]])


def sure(margin: float, spread: Spread) -> float:
    return 1 / (1 + np.exp(-spread.level - SPREAD * min(margin / spread.usual, FAR)))


def margin(row: np.ndarray, best: int) -> float:
    return row[best] - np.log(np.exp(np.delete(row, best)).sum())


def held(row: np.ndarray, often: np.ndarray, novel: Spread, old: Spread) -> np.ndarray:
    """Shares of the outcomes of one sample: old, novel ones, none of these."""
    best, plain = int(np.argmax(row)), softmax(row)
    if best == len(row) - 1:
        return np.array([0.5, *(plain[1:] / plain[1:].sum() / 2)])
    certain = sure(margin(row, best), old if best == 0 else novel)
    others = plain + often
    others[best] = 0
    shares = (1 - certain) * others / others.sum()
    shares[best] = certain
    return shares


def test_what_wins_is_sure_by_its_margin_and_the_rest_is_shared_out() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (60, 7))
    often = softmax(rng.normal(0, 1, 4))
    novel, old, learned = Spread(2.5, -0.5), Spread(4.0, 1.0), Spread(1.5, -1.0)
    sureness = Sureness(novel, old, torch.from_numpy(often), torch.tensor([0, 2]), learned)
    shares = sureness.shares(torch.from_numpy(logits), n_old=4).numpy()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    for row, found in zip(logits, shares, strict=True):
        outcome = held(of_outcomes(row, 4), often, novel, old)
        of_old, best = softmax(row[:4]), int(np.argmax(row[:4]))
        if best in (0, 2):  # an old class that is being learned
            certain = sure(margin(row[:4], best), learned)
            of_old *= (1 - certain) / (1 - of_old[best])
            of_old[best] = certain
        np.testing.assert_allclose(found, [*(outcome[0] * of_old), *outcome[1:]], rtol=1e-6)
    plain = Sureness.unchecked().shares(torch.from_numpy(logits), n_old=4).numpy()
    np.testing.assert_allclose(plain, [softmax(row) for row in logits], rtol=1e-6)


def test_where_there_is_nothing_else_what_wins_is_certain() -> None:
    """A drifted pool of old classes: there is no class without a name."""
    alone = Sureness(None, Spread(1.0, -2.0), torch.tensor([1.0, 0.0]))
    assert alone.outcomes(torch.tensor([[3.0, -torch.inf]])).tolist() == [[1.0, 0.0]]


def test_who_is_won_by_more_is_surer_and_all_together_are_as_sure_as_they_should_be() -> None:
    rng = np.random.default_rng(0)
    margins = rng.exponential(3, 301)
    weights = rng.integers(1, 9, 301).astype(np.float64)
    spread = Spread.of(torch.from_numpy(margins), torch.from_numpy(weights), right=0.7)
    assert spread is not None
    everyone = np.sort(np.repeat(margins, weights.astype(int)))
    assert spread.usual == pytest.approx(everyone[(len(everyone) - 1) // 2])
    found = spread.sure(torch.from_numpy(margins)).numpy()
    np.testing.assert_allclose(found, [sure(m, spread) for m in margins])
    assert np.average(found, weights=weights) == pytest.approx(0.7, abs=1e-6)
    assert found[margins.argmax()] > found[margins.argmin()] + 0.2
    assert Spread.of(torch.zeros(0), torch.zeros(0), 0.5) is None, "nothing was won"


@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("anchors", [4096, 200])
def test_how_sure_it_is_rests_on_known_classes_and_on_answers_that_were_not_told(n: int, anchors: int) -> None:
    known, pool, y = hard()
    part, learning = Prototypes(anchors=anchors), np.array([1])
    home = Space(known.head, known, Pool(pool), part)
    accepted = answers(y, n)
    competition = Competition(part, home, accepted, learning, known.head.counts[:OLD])
    prototypes = competition.refined()
    found = measured(home, competition, prototypes)
    logits = competition.logits(home.look(home.anchors), prototypes).double().numpy()
    weight = home.weights.double().numpy()
    assert weight.sum() == pytest.approx(len(pool))
    every = [of_outcomes(row, OLD) for row in logits]
    often = np.average([softmax(row) for row in every], axis=0, weights=weight)
    np.testing.assert_allclose(found.frequencies.numpy(), often, rtol=1e-3)

    U, classes = home.directions(known.validation.X), home.old.numpy()
    nearest = [int(np.argmax(classes @ u)) for u in U.numpy()]
    apart = (np.sum(np.array(nearest) == known.validation.y.numpy()) + 0.5) / (len(nearest) + 1)
    right, judged = competition.judged()
    level = (right + KNOWN * (1 - HARDER * (1 - apart))) / (judged + KNOWN)
    won = np.array([int(np.argmax(row)) for row in every])
    margins = np.array([margin(row, best) for row, best in zip(every, won, strict=True)])
    by_novel = (won > 0) & (won < NOVEL + 1)
    assert found.novel is not None
    assert np.average(
        [sure(m, found.novel) for m in margins[by_novel]], weights=weight[by_novel]
    ) == pytest.approx(level, abs=1e-3)
    missed = (1 - apart) * OLD / (OLD + NOVEL - 1)
    novel = sum(
        w * (1 - held(row, often, found.novel, found.novel)[0])
        for row, w, best in zip(every, weight, won, strict=True)
        if best
    )
    by_old = won == 0
    assert found.old is not None
    assert 1 - np.average(
        [sure(m, found.old) for m in margins[by_old]], weights=weight[by_old]
    ) == pytest.approx(novel * missed / (1 - missed) / weight[by_old].sum(), abs=1e-3)
    best = np.array([int(np.argmax(row[:OLD])) for row in logits])
    assert found.learning is not None
    assert found.learning.tolist() == [1]
    assert found.learned is not None
    mine = by_old & (best == 1)
    assert np.average(
        [sure(margin(row[:OLD], 1), found.learned) for row in logits[mine]], weights=weight[mine]
    ) == pytest.approx(level, abs=1e-3)


def test_an_answer_is_judged_by_what_the_others_say() -> None:
    """Five times without a fifth of the answers, spread over the classes; what is won then is counted."""
    known, pool, y = hard(seed=1)
    part, learning = Prototypes(), np.array([1])
    home = Space(known.head, known, Pool(pool), part)
    accepted = answers(y, 3)
    counts = known.head.counts[:OLD]
    order = sorted(range(len(accepted.rows)), key=lambda i: (accepted.classes[i], accepted.rows[i]))
    right = judged = 0
    for number in range(GROUPS):
        left_out = order[number::GROUPS]
        others = accepted.only(~np.isin(np.arange(len(order)), left_out))
        competition = Competition(part, home, others, learning, counts)
        prototypes = competition.refined()
        for i in left_out:
            row = competition.logits(home.look(accepted.rows[i : i + 1]), prototypes)[0].double().numpy()
            best = int(np.argmax(of_outcomes(row, OLD)))
            numbers = [*range(OLD), *sorted({c for c in others.classes.tolist() if c >= OLD}), -1]
            won = int(np.argmax(row[:OLD])) if best == 0 else numbers[OLD + best - 1]
            judged += won in (1, 8, 9, 10)
            right += won in (1, 8, 9, 10) and won == accepted.classes[i]
    assert Competition(part, home, accepted, learning, counts).judged() == (right, judged)
    assert 0 < right < judged


def test_anchors_of_a_large_pool_stand_for_those_that_are_none() -> None:
    """The most novel ones stand for themselves, those that were drawn for all others."""
    known, pool, _ = hard(each=200)
    home = Space(known.head, known, Pool(pool), Prototypes(anchors=100))
    assert sorted(set(home.weights.tolist())) == [1.0, (len(pool) - 50) / 50]
    assert (home.weights == 1).sum() == 50


def believed(precision: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Doubts of pseudo-labels in several pools, questions chosen as they really are, and which are wrong."""
    doubts, wrong = list[float](), list[bool]()
    for seed in range(5):
        known, pool, y = hard(seed, precision=precision)
        task = known.adapt(pool, budget=24)
        while query := task.ask():
            task.tell(query.id, {i: int(y[i]) for i in query.ids})
        for sample, label in task.pseudo_labels.items():
            if label >= OLD:
                doubts.append(task.doubts[sample])
                wrong.append(bool(label != y[sample]))
    return np.array(doubts), np.array(wrong)


def test_doubts_are_about_as_large_as_the_share_of_pseudo_labels_that_is_wrong_and_sort_them() -> None:
    doubts, wrong = believed()
    assert len(wrong) > 200
    assert 0.1 < np.mean(wrong) < 0.6  # hard enough to be unsure
    assert abs(np.mean(doubts) - np.mean(wrong)) < 0.1
    least, most = np.array_split(wrong[np.argsort(doubts)], 2)
    assert least.mean() < 0.7 * most.mean()


def test_a_precision_that_is_asked_for_leaves_out_the_doubtful_ones() -> None:
    _, every = believed()
    doubts, wrong = believed(precision=0.8)
    assert 50 < len(wrong) < 0.9 * len(every)
    assert np.mean(doubts) <= 0.2 + 1e-6
    assert np.mean(wrong) < 0.8 * np.mean(every)
    assert 0.05 < np.mean(wrong) < 0.25


def test_what_wins_a_sample_is_decided_before_sureness_is_measured() -> None:
    """Old classes count together; −1 where a class without a name wins."""
    known, pool, y = hard()
    part, rows = Prototypes(), np.arange(len(pool))
    short = PrototypeLearner(part, known, Pool(pool))
    accepted = answers(y, 3)
    short.learn(accepted, 0)
    home = Space(known.head, known, Pool(pool), part)
    competition = Competition(part, home, accepted, short.learning(), known.head.counts[:OLD])
    ((_, seen),) = home.map_seen(lambda seen: seen)
    logits = competition.logits(seen, competition.refined())
    numbers = [*range(OLD), 8, 9, 10, -1]
    expected = []
    for row in logits.double().numpy():
        best = int(np.argmax(of_outcomes(row, OLD)))
        expected.append(int(np.argmax(row[:OLD])) if best == 0 else numbers[OLD + best - 1])
    for last in (False, True):
        assert short.score(rows, last=last).classes.tolist() == expected
    np.testing.assert_allclose(
        outcomes(logits, OLD).double().numpy(),
        [of_outcomes(row, OLD) for row in logits.double().numpy()],
        rtol=1e-4,
        atol=1e-3,
    )
