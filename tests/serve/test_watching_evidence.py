"""The arithmetic of watching: intervals that hold, alerts that are as rare as is said, and as quick."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cual.serve.rules.watching import keeping
from cual.serve.rules.watching.course import BLOCK, BLOCKS, FIRST, Course, Judged, Tally, Yardstick
from cual.serve.rules.watching.evidence import (
    ODDS,
    OTHER,
    Baseline,
    Evidence,
    Moments,
    added,
    mix_change,
    share,
    shift,
)
from cual.serve.rules.watching.worth import PER_GROUP, worth

bits = st.lists(st.booleans(), max_size=60)


def judged(unlike: np.ndarray, scores: np.ndarray | None = None, classes: np.ndarray | None = None) -> Judged:
    n = len(unlike)
    scores = np.where(unlike, 5.0, 0.0) if scores is None else scores
    return Judged(unlike, scores.astype(np.float32), np.zeros(n, np.int64) if classes is None else classes)


def drawn(rng: np.random.Generator, n: int, rate: float = 0.05, moved: float = 0.0, mix: int = 10) -> Judged:
    """Known samples: normal scores, of which a share `rate` lies above the threshold."""
    return judged(rng.random(n) < rate, rng.normal(moved, 1, n), rng.integers(0, mix, n))


def yardstick(rng: np.random.Generator, n: int = 400) -> Yardstick:
    """Of validation samples whose scores below the threshold are those of `drawn`."""
    return Yardstick(0.05, n // 20, n, Moments.of(rng.normal(0, 1, n - n // 20).astype(np.float32)))


# -- shares ----------------------------------------------------------------------------------------------------


@given(st.integers(0, 500), st.integers(1, 500))
def test_a_share_lies_in_its_interval(part: int, more: int) -> None:
    found = share(part, part + more)
    assert 0 <= found.low <= found.value <= found.high <= 1


@given(bits, st.floats(0.01, 0.5))
def test_evidence_is_that_of_the_recursion_sample_by_sample(unlike: list[bool], most: float) -> None:
    statistic = [0.0] * len(ODDS)
    for one in unlike:
        for i, factor in enumerate(ODDS):
            odds = factor * most / (1 - most)
            grown = odds / (1 + odds)
            ratio = grown / most if one else (1 - grown) / (1 - most)
            statistic[i] = (1 + statistic[i]) * ratio
    told = Evidence().after(unlike, most, rarity=math.inf).evidence
    assert [math.exp(log) for log in told.logs] == pytest.approx(statistic, rel=1e-6)


@given(bits, bits)
def test_evidence_does_not_depend_on_how_samples_are_cut_into_requests(
    first: list[bool], then: list[bool]
) -> None:
    whole = Evidence().after(first + then, 0.1).evidence
    parts = Evidence().after(first, 0.1).evidence.after(then, 0.1).evidence
    assert parts.logs == pytest.approx(whole.logs)


def test_false_alerts_are_as_rare_as_is_said() -> None:
    """The mean run until a false alert is `rarity` samples or more, at the highest share that is allowed."""
    rng, rarity, runs = np.random.default_rng(0), 1000, []
    for _ in range(300):
        evidence, n = Evidence(), 0
        while (told := evidence.after((rng.random(500) < 0.05).tolist(), 0.05, rarity)).at is None:
            evidence, n = told.evidence, n + 500
        runs.append(n + told.at + 1)
    assert np.mean(runs) - 2 * np.std(runs) / math.sqrt(len(runs)) > rarity


def test_a_new_class_is_noticed_within_the_stated_number_of_its_samples() -> None:
    """One of ten samples is new, nine of ten of these look so: docs/watching.md says 70 of its samples."""
    rng, needed = np.random.default_rng(1), []
    most = Baseline.of(above=20, n=400).seen(unlike=100, n=2000).most
    for _ in range(200):
        new = rng.random(5000) < 0.1
        unlike = rng.random(5000) < np.where(new, 0.9, 0.05)
        at = Evidence().after(unlike.tolist(), most).at
        needed.append(math.inf if at is None else int(new[: at + 1].sum()))
    assert np.quantile(needed, 0.95) <= 70


@pytest.mark.parametrize(("above", "n"), [(4, 99), (0, 20), (49, 999)])
def test_the_baseline_holds_for_nearly_all_validation_sets(above: int, n: int) -> None:
    rng = np.random.default_rng(2)
    scores = np.sort(rng.random((2000, n)), axis=1)
    shares = 1 - scores[:, n - above - 1]
    baseline = Baseline.of(above, n)
    assert np.mean(shares) == pytest.approx(baseline.rate, rel=0.1)
    assert np.mean(shares > baseline.most) < 0.02


def test_without_validation_samples_nothing_is_ever_alerting() -> None:
    assert Evidence().after([True] * 5000, Baseline.of(0, 0).most).at is None


# -- drift -----------------------------------------------------------------------------------------------------


def test_a_shift_is_within_its_interval_in_95_of_100_cases() -> None:
    rng, hits = np.random.default_rng(3), 0
    for _ in range(400):
        known, now = rng.normal(1, 2, 100), rng.normal(2, 2, 500)
        found = shift(Moments.of(now.astype(np.float32)), Moments.of(known.astype(np.float32)))
        assert found is not None
        hits += found.low <= 0.5 <= found.high
    assert hits > 0.92 * 400


def test_the_change_of_a_mix_is_within_its_interval() -> None:
    rng, hits = np.random.default_rng(4), 0
    here, there = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.3, 0.4])
    for _ in range(300):
        now, before = (dict(enumerate(rng.multinomial(n, p).tolist())) for n, p in ((500, here), (800, there)))
        found = mix_change(now, before)
        assert found is not None
        hits += found.low <= 0.2 <= found.high
    assert hits > 0.95 * 300


@given(st.lists(st.dictionaries(st.integers(0, 40), st.integers(1, 9)), max_size=4), st.integers(1, 20))
def test_mixes_that_are_cut_lose_no_sample(mixes: list[dict[int, int]], most: int) -> None:
    whole = added(*mixes, most=most)
    assert sum(whole.values()) == sum(sum(mix.values()) for mix in mixes)
    assert len([number for number in whole if number != OTHER]) <= most


# -- the course ------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 300), min_size=1, max_size=6), st.integers(0, 99))
def test_a_course_does_not_depend_on_how_samples_are_cut_into_requests(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    stick, samples = yardstick(rng), drawn(rng, sum(sizes), rate=0.3)
    whole, turns = Course(0).after(samples, stick)
    course, told, start = Course(0), [], 0
    for size in sizes:
        course, more = course.after(samples.part(start, start + size), stick)
        told += more
        start += size
    assert (course.seen, course.novelty is None) == (whole.seen, whole.novelty is None)
    assert [(turn.kind, turn.begins, turn.after) for turn in told] == [
        (turn.kind, turn.begins, turn.after) for turn in turns
    ]
    assert course.recent.seen == whole.recent.seen
    assert course.recent.unlike == whole.recent.unlike


def test_known_samples_raise_no_alert_for_a_long_time() -> None:
    """Ten agents, 50,000 known samples each: stated is one false alert of novelty in 100,000 or more."""
    alerts = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        _, turns = Course(0).after(drawn(rng, 50_000), yardstick(rng))
        alerts += [turn.kind for turn in turns if turn.begins]
    assert alerts.count("novelty") <= 1
    assert alerts.count("drift") <= 1


def test_a_class_that_appears_is_novelty_and_no_drift() -> None:
    rng = np.random.default_rng(5)
    stick = yardstick(rng)
    course, turns = Course(0).after(drawn(rng, 5000), stick)
    assert turns == []
    course, turns = course.after(drawn(rng, 3000, rate=0.2), stick)
    assert [(turn.kind, turn.begins) for turn in turns] == [("novelty", True)]
    assert turns[0].after < 5000 + 1000
    assert course.drift is None


def test_a_look_that_changes_is_drift_and_no_novelty() -> None:
    rng = np.random.default_rng(6)
    stick = yardstick(rng)
    course, _ = Course(0).after(drawn(rng, 5000), stick)
    course, turns = course.after(drawn(rng, 3000, moved=1.0), stick)
    assert [(turn.kind, turn.begins) for turn in turns] == [("drift", True)]
    assert course.shift is not None
    assert course.shift.low <= 1.0 <= course.shift.high
    assert course.novelty is None


def test_classes_that_become_more_frequent_are_drift() -> None:
    rng = np.random.default_rng(7)
    stick = yardstick(rng)
    course, _ = Course(0).after(drawn(rng, 5000), stick)
    course, turns = course.after(drawn(rng, 3000, mix=3), stick)
    assert [turn.kind for turn in turns] == ["drift"]
    assert course.change is not None
    assert course.change.value == pytest.approx(0.7, abs=0.06)


def test_an_alert_ends_when_its_cause_is_gone_and_not_before() -> None:
    rng = np.random.default_rng(8)
    stick = yardstick(rng)
    course, _ = Course(0).after(drawn(rng, 5000), stick)
    course, _ = course.after(drawn(rng, 1000, rate=0.3), stick)
    assert course.novelty is not None
    course, turns = course.after(drawn(rng, BLOCK * BLOCKS // 2), stick)
    assert turns == []  # hysteresis: half of what is now is still of the new class
    course, turns = course.after(drawn(rng, 3 * BLOCK * BLOCKS), stick)
    assert [(turn.kind, turn.begins) for turn in turns] == [("novelty", False)]
    assert course.novelty is None


def test_another_threshold_begins_a_new_course() -> None:
    rng = np.random.default_rng(9)
    course, _ = Course(0).after(drawn(rng, 1000, rate=0.5), yardstick(rng))
    assert course.novelty is not None
    course, turns = course.after(drawn(rng, 10), yardstick(rng))
    assert course.seen == 10
    assert [(turn.kind, turn.begins) for turn in turns] == [("novelty", False)]


def test_a_course_survives_its_file() -> None:
    rng = np.random.default_rng(10)
    stick = yardstick(rng)
    course, _ = Course(3).after(drawn(rng, FIRST + 555), stick)
    again = keeping.from_json(keeping.to_json(course))
    assert again == course
    samples = drawn(rng, 700, rate=0.4)
    assert again.after(samples, stick) == course.after(samples, stick)
    assert keeping.from_json({**keeping.to_json(course), "format": 99}) == Course(3)


def test_a_tally_counts_classes_of_samples_that_look_known() -> None:
    unlike = np.array([True, False, False, False])
    tally = Tally.of(judged(unlike, np.array([9.0, 1, 2, 3]), np.array([0, 1, 1, OTHER])))
    assert (tally.seen, tally.unlike, dict(tally.mix)) == (4, 1, {1: 2})
    assert (tally.known.n, tally.known.mean) == (3, 2.0)


# -- worth -----------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(10, 400), max_size=30), st.integers(1, 200), st.floats(1, 50))
def test_what_is_worth_it_settles_enough_for_its_questions(sizes: list[int], most: int, gain: float) -> None:
    found = worth(sizes, sum(sizes), sum(sizes), most, gain)
    assert found.questions <= most
    assert found.worth == (found.questions > 0 and found.settled >= gain * found.questions)
    assert found.settled <= sum(sizes)
    more = worth([*sizes, 500], sum(sizes) + 500, sum(sizes) + 500, most, gain)
    assert more.settled >= found.settled


def test_groups_stand_for_those_that_nobody_looked_at() -> None:
    assert worth([50], looked_at=100, waiting=400).settled == 200
    assert worth([50, 40], 100, 100, most_questions=PER_GROUP).groups == 1
