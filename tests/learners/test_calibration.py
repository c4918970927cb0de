"""How sure the competition may be, against naive loops, and that shares mean what they say."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cual import Agent
from cual.data.pool import Pool
from cual.learners import Accepted, Prototypes
from cual.learners.prototypes.calibration import (
    FAR,
    SPREAD,
    SURPRISES,
    TEMPERATURES,
    Spread,
    Sureness,
    _cells,
    measured,
    outcomes,
)
from cual.learners.prototypes.competition import Competition
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


def sure(row: np.ndarray, temperature: float, surprise: float, often: np.ndarray) -> np.ndarray:
    """Probabilities of the outcomes of one sample."""
    plain = softmax(row / temperature)
    novel = plain[1:].sum()
    less = np.array([plain[0], *((1 - surprise) * plain[1:])])
    return less + surprise * novel * often


def test_shares_are_tempered_and_a_part_of_what_is_novel_goes_to_all_outcomes() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (20, 6))
    often = softmax(rng.normal(0, 1, 4))
    sureness = Sureness(2.5, 0.2, torch.from_numpy(often))
    shares = sureness.shares(torch.from_numpy(logits), n_old=3).numpy()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    for row, found in zip(logits, shares, strict=True):
        outcome = sure(of_outcomes(row, 3), 2.5, 0.2, often)
        expected = [*(outcome[0] * softmax(row[:3])), *outcome[1:]]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    plain = Sureness.unchecked().shares(torch.from_numpy(logits), n_old=3).numpy()
    np.testing.assert_allclose(plain, [softmax(row) for row in logits], rtol=1e-6)


@pytest.mark.parametrize("n", [1, 4])
def test_sureness_is_that_under_which_answers_and_known_samples_are_likeliest(n: int) -> None:
    known, pool, y = hard()
    home = Space(known.head, known, Pool(pool), Prototypes())
    accepted = answers(y, n)
    competition = Competition(Prototypes(), home, accepted, np.empty(0, np.int64), known.head.counts[:OLD])
    prototypes = competition.refined()
    looks_novel = y >= OLD
    found = measured(home, accepted, competition, prototypes, looks_novel)

    def judged(logits: torch.Tensor) -> np.ndarray:
        return np.array([of_outcomes(row, OLD) for row in logits.double().numpy()])

    every = judged(competition.logits(home.anchors_and_validation, prototypes))
    often = np.mean([softmax(row) for row in every[: len(pool)]], axis=0)
    validation = every[len(pool) :]
    U = home.look(np.arange(len(pool))).directions.numpy()
    cells = np.zeros(len(accepted.rows))
    for row in np.flatnonzero(looks_novel):
        cells[int(np.argmax([U[row] @ U[a] for a in accepted.rows]))] += 1
    cells = np.maximum(cells, 1)
    cases = [(row, 0, (~looks_novel).sum() / len(validation)) for row in validation]
    untold = judged(competition.untold(accepted, prototypes))
    for row, c, cell in zip(untold, accepted.classes.tolist(), cells, strict=True):
        if c < OLD or accepted.classes.tolist().count(c) > 1:  # else nobody but this one told the name
            cases.append((row, 0 if c < OLD else 1 + [8, 9, 10].index(c), cell))
    assert (len(cases) > len(validation) + 6) == (n > 1)

    def loss(pair: tuple[float, float]) -> float:
        temperature, surprise = pair
        total = -cells.sum() / (len(cells) + 2) / 2 * (np.log(surprise) + np.log(1 - surprise))
        for row, right, weight in cases:
            total -= weight * np.log(max(sure(row, temperature, surprise, often)[right], 1e-9))
        return total

    best = min(((t, e) for t in TEMPERATURES for e in SURPRISES), key=loss)
    assert (found.temperature, found.surprise) == best
    np.testing.assert_allclose(found.frequencies.numpy(), often, rtol=1e-4)


def test_an_answer_stands_for_the_samples_that_it_is_nearest_to_and_for_one_at_least() -> None:
    """Of six rows four are nearest to the first answer, two to the second, none to the last."""
    angles = torch.deg2rad(torch.tensor([0.0, 40, 200, 5, 355, 10, 350, 35, 60]))
    U = torch.stack([angles.cos(), angles.sin()], dim=1)
    space = SimpleNamespace(
        chunks=lambda rows: [(slice(None), U[rows])],
        map=lambda work, rows: [(slice(None), work(U[rows[:4]])), (slice(None), work(U[rows[4:]]))],
    )
    assert _cells(space, np.array([0, 1, 2]), np.arange(3, 9)).tolist() == [4, 2, 1]


@pytest.mark.parametrize("anchors", [4096, 200])
def test_an_answer_is_judged_without_what_it_added_to_its_class(anchors: int) -> None:
    """Against a prototype from which it is taken by hand; an answer that is no anchor has added less."""
    part = Prototypes(anchors=anchors)
    known, pool, y = hard()
    home = Space(known.head, known, Pool(pool), part)
    accepted = answers(y, 3)
    competition = Competition(part, home, accepted, np.array([1]), known.head.counts[:OLD])
    prototypes = competition.refined()
    untold = competition.untold(accepted, prototypes)
    learned = [1, 8, 9, 10]
    anchored = list[bool]()
    for i, (row, c) in enumerate(zip(accepted.rows.tolist(), accepted.classes.tolist(), strict=True)):
        seen = home.look(np.array([row]))
        without = prototypes
        if c in learned:
            anchored.append(row in home.anchors)
            weight = part.answer_weight - (not anchored[-1])
            sums, mass = prototypes.sums.clone(), prototypes.mass.clone()
            sums[learned.index(c)] -= weight * seen.directions[0]
            mass[learned.index(c)] -= weight
            without = replace(prototypes, sums=sums, mass=mass)
            assert untold[i, c] < competition.logits(seen, prototypes)[0, c]
        np.testing.assert_allclose(untold[i].numpy(), competition.logits(seen, without)[0].numpy(), atol=1e-3)
    assert any(anchored)
    assert all(anchored) == (anchors > len(pool))


def test_who_is_won_by_more_is_surer_and_all_together_are_as_sure_as_before() -> None:
    """Against a loop; what an old class wins, or nobody, keeps its shares."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (300, 5))
    shares = np.array([sure(row, 1.5, 0.2, np.full(5, 0.2)) for row in logits])
    spread = Spread.of(torch.from_numpy(logits), torch.from_numpy(shares))
    assert spread is not None
    found = spread.over(torch.from_numpy(logits), torch.from_numpy(shares)).numpy()
    won, margins, before = list[int](), list[float](), list[float]()
    for row, held, now in zip(logits, shares, found, strict=True):
        best = int(np.argmax(row))
        if best in (0, 4):
            np.testing.assert_array_equal(now, held)
            continue
        margin = row[best] - np.log(np.exp(np.delete(row, best)).sum())
        expected = 1 / (1 + np.exp(-spread.level - SPREAD * min(margin / spread.usual, FAR)))
        np.testing.assert_allclose(now[best], expected, rtol=1e-6)
        np.testing.assert_allclose(
            np.delete(now, best) / (1 - expected), np.delete(held, best) / (1 - held[best])
        )
        won.append(now[best])
        margins.append(margin)
        before.append(held[best])
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert spread.usual == pytest.approx(sorted(margins)[(len(margins) - 1) // 2])
    assert np.mean(won) == pytest.approx(np.mean(before), abs=1e-4)
    assert Spread.of(torch.zeros(3, 2), torch.full((3, 2), 0.5)) is None, "nothing has a name"


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
    assert np.mean(wrong) == pytest.approx(0.2, abs=0.1)


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
