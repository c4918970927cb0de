"""The numbers and sentences of the loop, each computed again: evidence, outlook, safety and consensus."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cual.data.labels import ClassNames
from cual.data.pool import Pool
from cual.heads import Samples
from cual.learners import Accepted, Scored
from cual.loop import consensus as consensus_module
from cual.loop import outlook as outlook_module
from cual.loop.consensus import Opinions, consensus
from cual.loop.evidence import Estimate, Evidence, estimate, gathered, known, without_themselves
from cual.loop.outlook import Drifted, Outlook, drifted, novel_samples, outlook
from cual.loop.safety import Comparison, comparison, told_of
from cual.seeds import generator
from cual.uncertainty import Threshold

# -- evidence: what is said of an accuracy ---------------------------------------------------------------------


def naive(labels: Sequence[str], predicted: Sequence[str], weights: Sequence[float]) -> tuple[float, float]:
    """The mean over classes of the shares that are right, and how far the interval reaches."""
    shares, variances = [], []
    for name in set(labels):
        mine = [(w, p == name) for label, p, w in zip(labels, predicted, weights, strict=True) if label == name]
        total, squares = sum(w for w, _ in mine), sum(w * w for w, _ in mine)
        share = sum(w for w, right in mine if right) / total
        n = total * total / squares / 3
        a, b = share * n + 1 / 2, (1 - share) * n + 1 / 2
        shares.append(share)
        variances.append(a / (a + b) * (b / (a + b)) / (a + b + 1))
    return sum(shares) / len(shares), 1.96 * math.sqrt(sum(variances)) / len(shares)


def test_an_interval_is_that_of_beta_distributions_of_the_shares() -> None:
    labels = list("aaaaaaabbbbbbbbcccccc")
    predicted = list("aaaabcabbabbcbbcccabc")
    weights = [1, 2, 5, 1, 3, 1, 1, 4, 1, 2, 1, 1, 6, 1, 1, 1, 2, 2, 1, 9, 1]
    value, error = naive(labels, predicted, weights)
    found = estimate(labels, predicted, np.array(weights, np.float32))
    assert value - error > 0.02
    assert value + error < 0.98
    assert (found.value, found.low, found.high) == pytest.approx(
        (value, value - error, value + error), rel=1e-9
    )
    assert (found.samples, found.classes) == (21, 3)


def test_an_interval_ends_at_nothing_and_at_all() -> None:
    ones = np.ones(2, np.float32)
    none, both = estimate(["a", "a"], ["b", "b"], ones), estimate(["a", "a"], ["a", "a"], ones)
    error = naive("aa", "bb", [1, 1])[1]
    assert (none.value, none.low, none.high) == (0.0, 0.0, pytest.approx(error))
    assert (both.value, both.low, both.high) == (1.0, pytest.approx(1 - error), 1.0)


def test_three_samples_of_a_class_count_as_one_unless_told_otherwise() -> None:
    labels, predicted = ["a"] * 3, ["a", "a", "b"]
    three = estimate(labels, predicted, np.ones(3, np.float32), alike=3.0)
    assert estimate(labels, predicted, np.ones(3, np.float32)) == three
    a, b = 2 / 3 + 0.5, 1 / 3 + 0.5  # of one sample
    assert three.low == pytest.approx(2 / 3 - 1.96 * math.sqrt(a * b / (4 * 3)))


def test_an_estimate_is_told_in_whole_per_cents() -> None:
    assert (
        str(Estimate(0.854, low=0.716, high=0.944, samples=1, classes=2))
        == "85 % (72 to 94), by 1 labels of 2 classes"
    )
    assert (
        str(Estimate(1.0, low=1.0, high=1.0, samples=0, classes=0))
        == "100 % (100 to 100), by 0 labels of 0 classes"
    )


class Says:
    """An agent that predicts a label for each sample, by the first number of it."""

    names = ClassNames(("cat", "dog"))

    def __init__(self, *labels: str) -> None:
        self.labels = np.array(labels)

    def predict(self, X: torch.Tensor) -> np.ndarray:
        return self.labels[X[:, 0].long().numpy()]


def numbered(n: int) -> torch.Tensor:
    return torch.arange(n, dtype=torch.float32)[:, None]


def test_the_agent_after_is_asked_only_where_nobody_else_predicted() -> None:
    agent = Says("cat", "cat", "dog", "dog")
    labels, weights = ("cat", "cat", "dog", "dog"), np.array([1, 3, 1, 4], np.float32)
    said = Evidence(numbered(4), labels, weights, (None, "dog", "dog", "cat"))
    before, after = said.before(agent), said.after(agent)
    assert before is not None
    assert after is not None
    assert (before.value, after.value) == (1.0, pytest.approx((1 / 4 + 1 / 5) / 2))


def test_without_labels_there_is_no_estimate() -> None:
    nothing = Evidence(numbered(0), (), np.ones(0, np.float32), ())
    assert nothing.before(Says("cat")) is None
    assert nothing.after(Says("cat")) is None


def test_held_out_labels_count_one_each_and_were_predicted_by_nobody() -> None:
    X = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
    evidence = known(Samples(X, torch.tensor([1, 0, 1])), ClassNames(("cat", "dog")))
    assert (evidence.labels, evidence.predicted) == (("dog", "cat", "dog"), (None, None, None))
    assert evidence.weights.tolist() == [1, 1, 1]
    assert (evidence.X.dtype, evidence.X.tolist()) == (torch.float32, X.tolist())


# -- evidence: answers that are left out -----------------------------------------------------------------------


@dataclass
class Short:
    """A learner that makes of each row what it is told here, and keeps what it was asked."""

    novel: dict[int, int]
    old: dict[int, int]
    lessons: list[tuple[list[int], int]] = field(default_factory=list)
    scored: list[tuple[list[int], bool]] = field(default_factory=list)

    def learn(self, accepted: Accepted, round: int) -> None:
        self.lessons.append((accepted.rows.tolist(), round))

    def score(self, rows: np.ndarray, last: bool = False) -> Scored:
        self.scored.append((rows.tolist(), last))
        classes = np.array([self.novel[row] for row in rows.tolist()])
        return Scored(np.zeros(len(rows)), classes, torch.zeros(1))

    def nearest_old(self, rows: np.ndarray) -> np.ndarray:
        return np.array([self.old[row] for row in rows.tolist()])


def taught_by(short: Short, agent: Any = None, **more: Any) -> Any:
    """An agent whose learner is `short`."""
    begun = SimpleNamespace(begin=lambda *_: short)
    plain = SimpleNamespace(seed=5, version=2, method=SimpleNamespace(learner=begun), **more)
    if agent is not None:
        plain.names, plain.predict = agent.names, agent.predict
    return plain


def by_people(rows: Sequence[int], classes: Sequence[int], human: Sequence[int] | None = None) -> Accepted:
    human = [1] * len(rows) if human is None else human
    return Accepted(*(np.array(numbers, np.int64) for numbers in (rows, classes, human)))


def test_each_answer_is_left_out_once_with_its_group_and_the_last_scores_count() -> None:
    rows = [9, 4, 7, 2, 0, 5, 1, 14, 12, 11, 13]
    short = Short({row: row % 3 - 1 for row in range(15)}, {row: 10 + row for row in range(15)})
    pool = Pool(np.eye(15))
    predicted = without_themselves(taught_by(short), pool, by_people(rows, [0] * 11), folds=3)
    assert predicted.tolist() == [10 + row if row % 3 == 0 else row % 3 - 1 for row in rows]
    group = generator(5, 3, 0, "evidence").permutation([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1])
    left = [[row for row, g in zip(rows, group, strict=True) if g == fold] for fold in range(3)]
    assert short.scored == [(some, True) for some in left]
    assert short.lessons == [([row for row in rows if row not in some], 0) for some in left]


def test_who_has_no_answers_leaves_nothing_out() -> None:
    assert without_themselves(taught_by(Short({}, {})), Pool(np.eye(2)), by_people([], []), 5).tolist() == []


def gathering(human: Sequence[int], held_out: Sequence[int]) -> tuple[Evidence, Short]:
    """Evidence of eight rows, all but the first two of new classes; and the learner that was asked."""
    angles = np.radians([0, 4, 7, 40, 44, 90, 130, 131])
    lengths = np.array([1, 9, 2, 7, 1, 3, 8, 1])
    X = np.stack([np.cos(angles), np.sin(angles)], axis=1) * lengths[:, None]
    short = Short(dict.fromkeys(range(8), -1) | {5: 2, 6: 0}, dict.fromkeys(range(8), 1))
    verified = Samples(torch.full((len(held_out), 2), 0.5), torch.tensor(held_out, dtype=torch.int64))
    accepted = by_people(range(8), [0, 1, 2, 2, 3, 2, 3, 3], human)
    names = ClassNames(("cat", "dog", "owl", "fox"))
    return gathered(taught_by(short), verified, Pool(X), accepted, names), short


def test_evidence_is_what_was_held_out_and_then_the_answers_about_other_classes() -> None:
    evidence, _ = gathering([1, 0, 0, 1, 0, 1, 1, 0], [1, 0])
    assert evidence.labels == ("dog", "cat", "owl", "owl", "fox")
    assert evidence.predicted == (None, None, "dog", "owl", "cat")
    # of eight directions, 0, 4 and 7 degrees are nearest to that of row 0; 40 and 44 to row 3; 90 to row 5
    assert evidence.weights.tolist() == [1, 1, 2, 1, 2]
    assert evidence.X[:2].tolist() == [[0.5, 0.5]] * 2
    assert torch.linalg.vector_norm(evidence.X[2:], dim=1).tolist() == pytest.approx([7, 3, 8])


def test_an_answer_counts_one_though_it_is_the_nearest_to_nothing() -> None:
    X = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 5.0], [0.0, 2.0]])
    short = Short(dict.fromkeys(range(5), -1), dict.fromkeys(range(5), 0))
    nobody = Samples(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    answers = by_people([0, 1, 2], [0, 0, 0])
    evidence = gathered(taught_by(short), nobody, Pool(X), answers, ClassNames(("cat",)))
    assert evidence.weights.tolist() == [2, 1, 3]  # of two that are alike the first one has all
    assert evidence.weights.dtype == np.float32


def test_the_nearest_answer_is_that_of_the_smallest_angle() -> None:
    X = np.random.default_rng(0).normal(0, 1, (40, 3)) * [20, 1, 3]
    short = Short(dict.fromkeys(range(40), -1), dict.fromkeys(range(40), 0))
    nobody = Samples(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
    evidence = gathered(taught_by(short), nobody, Pool(X), by_people([3, 8, 9, 20], [0] * 4), ClassNames((7,)))
    expected = [0, 0, 0, 0]
    for x in X:
        cosines = [float(x @ X[row]) / math.dist(X[row], [0, 0, 0]) for row in (3, 8, 9, 20)]
        expected[cosines.index(max(cosines))] += 1
    assert min(expected) > 0
    assert evidence.weights.tolist() == expected


def test_answers_are_left_out_by_five_groups() -> None:
    _, short = gathering([1, 1, 1, 1, 1, 1, 1, 0], [])
    assert sorted(len(rows) for rows, _ in short.lessons) == [5, 5, 6, 6, 6]


def test_an_adaptation_that_nobody_answered_has_what_was_held_out() -> None:
    evidence, short = gathering([0] * 8, [0, 1])
    assert (evidence.labels, evidence.weights.tolist(), short.lessons) == (("cat", "dog"), [1, 1], [])


# -- outlook: sentences ----------------------------------------------------------------------------------------

NOTHING = "Nothing is known yet of how many novel samples there are."
MOVED = "the whole pool has moved by 2.3 deviations"


@pytest.mark.parametrize("numbers", [(None, 1.0, 1.0), (1.0, None, 1.0), (1.0, 1.0, None), (None, None, None)])
def test_what_is_known_in_part_is_not_known(numbers: tuple[Any, Any, Any]) -> None:
    assert str(Outlook(*numbers, worth_asking=True)) == NOTHING
    look = f"This looks like known classes in a new look: {MOVED}."
    unsure = Outlook(*numbers, worth_asking=True, drift=Drifted(2.34, None))
    assert str(unsure) == f"{look} How much of it is novel, only answers can tell."


def test_an_outlook_says_what_is_left_and_whether_a_question_is_worth_it() -> None:
    assert str(Outlook(120.4, 31.2, 6.1, worth_asking=True)) == (
        "About 120 samples are novel, 31 of them still without a label. "
        "Another question is worth it: it would settle about 6."
    )
    assert str(Outlook(0.0, 0.0, 0.0, worth_asking=False)) == (
        "About 0 samples are novel, 0 of them still without a label. "
        "Another question is hardly worth it: it would settle about 0."
    )


def test_an_outlook_on_a_drifted_pool_begins_with_the_drift() -> None:
    assert str(Outlook(9.0, 8.0, 7.0, True, Drifted(2.34, (0.914, 0.837, 0.963)))) == (
        f"Most of this looks like known classes in a new look: {MOVED}, "
        "and 91 % of it (84 to 96) are of known classes. "
        "About 9 samples are novel, 8 of them still without a label. "
        "Another question is worth it: it would settle about 7."
    )


@pytest.mark.parametrize(
    ("share", "some"),
    [((0.51, 0.4, 0.6), "Most"), ((0.5, 0.5, 0.6), "A part"), ((0.4, 0.3, 0.7), "A part"), ((1, 1, 1), "Most")],
)
def test_most_is_more_than_half(share: tuple[float, float, float], some: str) -> None:
    assert str(Drifted(1.0, share)).startswith(f"{some} of this looks like known classes in a new look: ")


# -- outlook: numbers ------------------------------------------------------------------------------------------


def wilson(right: int, n: int) -> tuple[float, float]:
    """The shares x that are 1.96 standard errors away: the roots of (p − x)² = 1.96² x (1 − x) / n."""
    p, q = right / n, 1.96 * 1.96 / n
    a, b, c = 1 + q, -(2 * p + q), p * p
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


@pytest.mark.parametrize("said", [1, 2, 3, 5, 8, 13, 40])
def test_how_sure_a_share_is_are_the_roots_of_wilson(said: int) -> None:
    for said_novel in range(said + 1):
        low, high = wilson(said - said_novel, said)
        inside = (low + high) / 2
        found = drifted(1.5, pool=1000, novel=1000 * (1 - inside), said_novel=said_novel, said=said)
        assert found.size == 1.5
        assert found.share == pytest.approx((inside, low, high), abs=0.00501)
        assert found.share == tuple(
            round(value, digits) for value, digits in ((inside, 4), (low, 2), (high, 2))
        )


def test_a_share_outside_its_interval_widens_it() -> None:
    low, high = (round(value, 2) for value in wilson(4, 8))
    assert drifted(1.0, 100, 98.7654, said_novel=4, said=8).share == (0.0123, 0.01, high)
    assert drifted(1.0, 300, 1.0, said_novel=4, said=8).share == (0.9967, low, 1.0)
    assert drifted(1.0, 3, 1.0, said_novel=4, said=8).share == (0.6667, low, high)


def test_a_pool_holds_no_more_novel_samples_than_samples() -> None:
    assert drifted(1.0, 100, 150.0, said_novel=8, said=8).share == (0.0, 0.0, round(wilson(0, 8)[1], 2))
    assert drifted(1.0, 100, 0.0, said_novel=0, said=8).share == (1.0, round(wilson(8, 8)[0], 2), 1.0)


@pytest.mark.parametrize("said", range(1, 40))
def test_nothing_is_never_told_as_less_than_nothing(said: int) -> None:
    assert "and 50 % of it (0 to " in str(drifted(1.0, 2, 1.0, said_novel=said, said=said))


def test_before_an_answer_no_share_is_told() -> None:
    assert drifted(2.5, 10, 3.0, said_novel=0, said=0) == Drifted(2.5, None)


def scores(*values: float, known: Sequence[float]) -> Scored:
    return Scored(np.array(values), np.full(len(values), -1), torch.tensor(known))


def test_twice_the_samples_up_to_the_median_of_the_known_are_old() -> None:
    known = [4.0, 1.0, 3.0, 2.0]  # between 2 and 3 the half is below
    assert novel_samples(scores(2.5, 9.0, 9.0, 9.0, known=known)) == 2.0
    assert novel_samples(scores(3.0, 9.0, 9.0, 9.0, known=known)) == 4.0
    assert novel_samples(scores(2.0, 2.5, 9.0, 9.0, 9.0, known=known)) == 1.0
    assert novel_samples(scores(0.0, 0.0, 0.0, 9.0, known=known)) == 0.0
    assert novel_samples(scores(1.0, 9.0, 9.0, known=known)) == 1.0
    assert novel_samples(scores(known=known)) == 0.0


def test_of_equals_the_middle_counts() -> None:
    assert novel_samples(scores(1.0, 9.0, 9.0, known=[1.0, 1.0, 1.0, 1.0])) == 1.0  # 0 and 4 of 4: a half
    assert novel_samples(scores(1.0, 9.0, 9.0, known=[0.0, 1.0, 1.0, 1.0])) == 3.0  # 1 and 4: more
    assert novel_samples(scores(1.0, 9.0, 9.0, known=[1.0, 1.0, 1.0, 2.0])) == 1.0  # 0 and 3: less


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 8])
def test_scores_may_be_looked_at_in_parts(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlook_module, "AT_ONCE", at_once)
    assert novel_samples(scores(1.0, 9.0, 9.0, 9.0, 2.0, 9.0, 9.0, known=[1.0, 2.0, 3.0, 4.0])) == 3.0


def test_probabilities_are_added_up_whatever_the_threshold_is() -> None:
    shares = Scored(np.array([0.25, 0.5], np.float32), np.zeros(2), torch.ones(2), Threshold(0.0, 0.0, 0.0))
    assert novel_samples(shares) == 0.75


def test_the_gain_is_a_chance_times_what_an_answer_settles() -> None:
    assert outlook(30.0, before=5, since=7.0, said_novel=3, said=8) == Outlook(35.0, 23.0, 4 / 10 * 4, False)
    assert outlook(8.0, before=50, since=3.0, said_novel=3, said=3) == Outlook(58.0, 5.0, 4 / 5 * 5, True)
    assert outlook(8.0, before=1, since=2.0, said_novel=0, said=1) == Outlook(9.0, 6.0, 1 / 3 * 6, True)
    unlabelled = outlook(15.0, before=5, since=3.0, said_novel=2, said=8, labelled=False)
    assert unlabelled == Outlook(20.0, 12.0, 3 / 10 * 4, False)
    first = outlook(15.0, before=5, since=3.0, said_novel=0, said=0, labelled=False)
    assert first == Outlook(20.0, 12.0, 1 / 2 * 12, True)


@pytest.mark.parametrize(("since", "left"), [(9.5, 0.5), (10.0, 0.0), (10.5, 0.0), (12.0, 0.0)])
def test_no_less_than_nothing_is_left(since: float, left: float) -> None:
    ahead = outlook(10.0, before=1, since=since, said_novel=1, said=2)
    assert ahead == Outlook(11.0, left, left / 2, False)


@pytest.mark.parametrize(("left", "worth"), [(3.9, False), (4.0, True), (4.1, True), (5.9, True)])
def test_a_question_is_worth_two_samples(left: float, worth: bool) -> None:
    ahead = outlook(left, before=90, since=0.0, said_novel=1, said=2)
    assert (ahead.gain, ahead.worth_asking) == (left / 2, worth)


def test_what_was_never_scored_is_worth_asking_about() -> None:
    assert outlook(math.nan, 3, 2.0, 1, 2) == Outlook(None, None, None, True, None)
    told = Drifted(3.0, (0.5, 0.4, 0.6))
    assert outlook(math.nan, 3, 2.0, 1, 2, drift=told) == Outlook(None, None, None, True, told)


def test_of_a_drifted_pool_nothing_is_known_before_an_answer_and_all_is_worth_asking_after() -> None:
    unasked, told = Drifted(3.0, None), Drifted(3.0, (0.5, 0.4, 0.6))
    assert outlook(50.0, 0, 0.0, 0, 0, drift=unasked) == Outlook(None, None, None, True, unasked)
    assert outlook(1.0, 2, 0.0, 1, 2, drift=told) == Outlook(3.0, 1.0, 0.5, True, told)
    assert outlook(1.0, 2, 0.0, 1, 2) == Outlook(3.0, 1.0, 0.5, False, None)


# -- safety ----------------------------------------------------------------------------------------------------


def test_worse_is_more_than_1_64_deviations_of_either() -> None:
    for lost in range(30):
        for won in range(30):
            worse = lost > won and (lost - won) ** 2 > 1.64**2 * (lost + won)
            assert Comparison((lost, won), (0, 0)).worse == worse
            assert Comparison((0, 0), (lost, won)).worse == worse
            assert Comparison((won, 40), (lost, won)).worse == worse


def test_a_comparison_is_told_with_its_four_numbers() -> None:
    assert str(Comparison((4, 3), (2, 1))) == (
        "of the answers, 4 are predicted by the version before only and 3 by this one only; "
        "of the first labels that were held out, 2 and 1"
    )


def test_only_a_row_that_says_so_tells_of_guesses_that_were_not_learned() -> None:
    assert told_of({"version": 1}) is None
    assert told_of({"unlearned": 0}) == (
        "It would have done worse than the version before, so 0 guesses about known classes were not learned."
    )


def compared(human: Sequence[int]) -> tuple[Comparison, Short]:
    """Seven rows: what the agent before, and the learner after it, make of them; and four held-out samples."""
    truth = [0, 1, 0, 1, 2, 2, 0]
    short = Short(dict(enumerate([1, 0, 0, 0, 2, 2, -1])), dict.fromkeys(range(7), 1))
    first = Says("cat", "dog", "cat", "cat", "cat", "dog", "cat")
    held_out = Samples(torch.tensor([[0.0], [1.0], [2.0], [3.0]]), torch.tensor([0, 1, 1, 1]))
    before = taught_by(short, first, verified_samples=held_out)
    after = Says("cat", "cat", "dog", "dog")
    found = comparison(before, after, Pool(numbered(7).numpy()), by_people(range(7), truth, human))
    return found, short


def test_versions_are_compared_by_what_only_one_of_them_gets_right() -> None:
    # rows 0, 1 and 6 are right before only, 4 and 5 after only, 2 both times, 3 never
    found, short = compared([1] * 7)
    assert found == Comparison(answers=(3, 2), held_out=(1, 2))
    assert sorted(len(rows) for rows, _ in short.lessons) == [5, 5, 6, 6, 6]  # five groups


def test_versions_are_compared_by_answers_of_people_only() -> None:
    found, short = compared([1, 0, 0, 0, 1, 1, 0])
    assert found == Comparison(answers=(1, 2), held_out=(1, 2))
    assert sorted(row for rows, _ in short.scored for row in rows) == [0, 4, 5]


def test_where_nobody_answered_nothing_is_lost_or_won() -> None:
    found, short = compared([0] * 7)
    assert found == Comparison(answers=(0, 0), held_out=(1, 2))
    assert short.lessons == []


# -- consensus -------------------------------------------------------------------------------------------------


def naive_turn(
    samples: Sequence[Opinions], truth: list[dict[Any, float]], classes: list[Any], n_classes: int
) -> list[dict[Any, float]]:
    """The probabilities of classes after one more turn, by products."""
    people = {person for s in samples for person in s.by}
    tables = {}
    for who in people:
        mine = [(s.by[who], t) for s, t in zip(samples, truth, strict=True) if who in s.by]
        right = (20 + sum(t[said] for said, t in mine)) / (25 + len(mine))
        for true in classes:
            for called in classes:
                coin = right if called == true else (1 - right) / (n_classes - 1)
                count = sum(t[true] for said, t in mine if said == called)
                tables[who, true, called] = (10 * coin + count) / (10 + sum(t[true] for _, t in mine))
    frequent = {c: 1 + sum(t[c] for t in truth) for c in classes}
    after = []
    for s in samples:
        odds = {
            c: frequent[c] * math.prod(tables[who, c, said] for who, said in s.by.items())
            if c in s.by.values()
            else 0.0
            for c in classes
        }
        total = sum(odds.values())
        after.append(certain(s, {c: odds[c] / total if total else 0.0 for c in classes}))
    return after


def certain(sample: Opinions, truth: dict[Any, float]) -> dict[Any, float]:
    return truth if sample.settled is None else {c: float(c == sample.settled) for c in truth}


def naive_turns(samples: Sequence[Opinions], n_classes: int, turns: int, close: float) -> list[Any]:
    """The probabilities at first, and after each turn."""
    settled = [[] if s.settled is None else [s.settled] for s in samples]
    named = [[*s.by.values(), *more] for s, more in zip(samples, settled, strict=True)]
    classes = list(dict.fromkeys(name for names in named for name in names))
    shares = [[*s.by.values()] for s in samples]
    first = [{c: votes.count(c) / max(1, len(votes)) for c in classes} for votes in shares]
    steps = [[certain(s, t) for s, t in zip(samples, first, strict=True)]]
    for _ in range(turns):
        steps.append(naive_turn(samples, steps[-1], classes, max(n_classes, len(classes), 2)))
        if moved(*steps[-2:]) < close:
            break
    return steps


def moved(before: list[dict[Any, float]], after: list[dict[Any, float]]) -> float:
    return max(abs(b[c] - a[c]) for b, a in zip(before, after, strict=True) for c in b)


def same(
    samples: Sequence[Opinions], n_classes: int, turns: int = 100, close: float = 1e-9
) -> tuple[list[Any], list[Any]]:
    """What the samples come to, and by loops."""
    last = naive_turns(samples, n_classes, turns, close)[-1]
    found = consensus(samples, n_classes)
    named = [truth[a.label] for truth, a in zip(last, found, strict=True)]
    assert named == pytest.approx([max(truth.values()) for truth in last], abs=1e-9)  # of equals, either one
    return [a.weight for a in found], named


def opinions(*said: str) -> list[Opinions]:
    """Of each word, what person 0, 1, … said: a letter each, a point for nothing; after a comma, settled."""
    parts = [word.partition(",") for word in said]
    return [
        Opinions({i: c for i, c in enumerate(by) if c != "."}, settled=settled or None)
        for by, _, settled in parts
    ]


@pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 9])
@pytest.mark.parametrize(
    "samples",
    [
        opinions("ab", "aa", "ba", "bb", "a.", ".b", "ab"),
        opinions("abc", "aab", "bcc", "a.c", "cab", "aaa", "bbb", "ab."),
        opinions("aab", "bba,a", "abc,c", "bb.", "b.a", "cca,d", "..c"),
        opinions("a", "b", "a", "a,b"),
        opinions("ab", "ba", "ab,a", "ba"),
    ],
)
def test_consensus_is_that_of_naive_loops(samples: list[Opinions], n_classes: int) -> None:
    found, expected = same(samples, n_classes)
    assert found == pytest.approx(expected, abs=1e-11)


def test_after_a_hundred_turns_it_is_over() -> None:
    samples = opinions("ac", "ca", "ca", ".b", "ac", "ac")
    steps = naive_turns(samples, 4, turns=101, close=1e-9)
    assert len(steps) == 102
    assert min(moved(*steps[99:101]), moved(*steps[100:])) > 1e-6
    found, expected = same(samples, 4)
    assert found == pytest.approx(expected, abs=1e-9)


def test_where_nothing_moves_it_is_over_before() -> None:
    samples = opinions("bc", ".c", "ba")
    steps = naive_turns(samples, 4, turns=100, close=1e-9)
    further = naive_turns(samples, 4, turns=100, close=0.0)[-1]
    assert len(steps) < 100
    assert moved(steps[-1], further) > 1e-9
    found, expected = same(samples, 4)
    assert found == pytest.approx(expected, abs=1e-11)


def test_what_moves_just_as_far_as_is_close_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = opinions("ab", "aa", "ba")
    seen: list[np.ndarray] = []
    real = consensus_module._certain

    def watched(truth: np.ndarray, settled: np.ndarray) -> np.ndarray:
        seen.append(real(truth, settled))
        return seen[-1]

    monkeypatch.setattr(consensus_module, "_certain", watched)
    consensus(samples, 3)
    first = float(np.abs(seen[1] - seen[0]).max())
    for close, steps in ((first, 3), (math.nextafter(first, 1.0), 2)):
        monkeypatch.setattr(consensus_module, "CLOSE", close)
        seen.clear()
        consensus(samples, 3)
        assert len(seen) == steps


def test_the_only_name_of_a_sample_is_certain_however_rare_it_is() -> None:
    agreed = consensus(opinions(*["aaa"] * 20, *["baa"] * 20, "b.."), n_classes=2)
    assert (agreed[-1].label, agreed[-1].weight) == ("b", 1.0)


def test_nothing_is_divided_by_nothing() -> None:
    with np.errstate(divide="raise", invalid="raise"):
        alone = consensus([Opinions({"ada": "owl"})], n_classes=1)
        settled = consensus([Opinions({"ada": "owl"}), Opinions({}, settled="fox")], n_classes=2)
    assert [(a.label, a.weight) for a in alone] == [("owl", 1.0)]
    assert [(a.label, a.weight) for a in settled] == [("owl", 1.0), ("fox", 1.0)]


def test_at_first_votes_count_and_of_equals_the_one_that_was_named_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consensus_module, "TURNS", 0)
    agreed = consensus(opinions("ba", "ab", "aabc", "c"), 3)
    assert [(a.label, a.weight) for a in agreed] == [("b", 0.5), ("b", 0.5), ("a", 0.5), ("c", 1.0)]


def test_a_first_class_that_was_settled_is_certain() -> None:
    agreed = consensus(opinions("aaa", "bbb,a"), n_classes=2)
    assert [(a.label, a.weight) for a in agreed] == [("a", 1.0), ("a", 1.0)]
