"""What a step of an adaptation computes, in exact numbers: by a learner whose scores are written down."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cual import SKIP
from cual.data.labels import ClassNames
from cual.data.pool import Pool
from cual.data.scratch import Scratch
from cual.errors import AlreadyFinished, BadOption, BudgetExceeded, DamagedFile, UnknownQuery
from cual.heads import Samples
from cual.learners import Accepted, Scored
from cual.loop import events, rounds
from cual.loop.doubting import Foreseen
from cual.loop.labels import NOWHERE, LabelRow, Origins, Place, label_rows, whole_numbers
from cual.loop.machine import Machine
from cual.loop.outlook import drifted, outlook
from cual.loop.rounds import Round
from cual.loop.state import State
from cual.loop.timing import Timings
from cual.seeds import generator
from cual.types import Row
from cual.uncertainty import Threshold

N = 10
IDS = [f"s{i}" for i in range(N)]
SCORES = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], np.float32)
X = np.random.default_rng(0).normal(0, 1, (N, 3)).astype(np.float32)
HALF = Threshold(4.0, 2.0, 1.0)


@dataclass
class Short:
    """A_s with scores that are written down."""

    scores: np.ndarray = field(default_factory=lambda: SCORES)
    classes: np.ndarray = field(default_factory=lambda: np.full(N, 2))
    validation: torch.Tensor = field(default_factory=lambda: torch.tensor([1.0, 2.0, 3.0, 7.0]))
    threshold: Threshold | None = HALF
    scored: list[tuple[list[int], bool]] = field(default_factory=list)
    learned: list[tuple[Accepted, int]] = field(default_factory=list)
    begun: int = 0

    def begin(self, agent: object, pool: Pool) -> "Short":
        self.begun += 1
        return self

    def score(self, rows: np.ndarray, last: bool = False) -> Scored:
        self.scored.append((rows.tolist(), last))
        return Scored(self.scores[rows], self.classes[rows], self.validation, self.threshold)

    def learn(self, accepted: Accepted, round: int) -> None:
        self.learned.append((accepted, round))

    def probabilities(self, rows: np.ndarray) -> np.ndarray:
        return np.stack([rows, -rows], axis=1)

    def features(self, rows: np.ndarray) -> np.ndarray:
        return X[rows]

    def nearest_old(self, rows: np.ndarray) -> np.ndarray:
        return rows % 2

    def learning(self) -> np.ndarray:
        return np.array([1])

    def state(self) -> dict[str, torch.Tensor]:
        return {"begun": torch.tensor(self.begun)}

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        self.restored = {name: int(state[name]) for name in state}


class Wise(Short):
    """One that has everything to tell that a learner may."""

    moved: float | None = None

    def first_novelty(self, rows: np.ndarray) -> np.ndarray:
        return rows / 10

    def met_before(self, rows: np.ndarray) -> np.ndarray:
        return (rows > 7).astype(np.float32)

    def unexplained(self, rows: np.ndarray) -> np.ndarray:
        return rows[rows > 5]

    def margins(self, rows: np.ndarray) -> np.ndarray:
        return rows * 2.0

    def drift(self) -> float | None:
        return self.moved

    def holdings(self, rows: np.ndarray) -> Any:
        return rows.tolist()


class Chooses:
    """The first samples, or the highest; and whatever it was shown."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def choose(self, view: Any, n: int, rng: np.random.Generator) -> np.ndarray:
        self.seen.append((view, n, rng))
        return np.argsort(-view.scores, kind="stable")[:n]


class Believes:
    """All above the threshold."""

    def __init__(self) -> None:
        self.seen: list[list[float]] = []

    def choose(self, view: Any) -> np.ndarray:
        self.seen.append(view.scores.tolist())
        return np.flatnonzero(view.scores > view.threshold)

    def doubts(self, view: Any) -> np.ndarray:
        return (view.scores / 10).astype(np.float32)


def method(short: Short, **options: Any) -> Any:
    parts: dict[str, Any] = {"learner": short, "first": Chooses(), "then": Chooses(), "believe": Believes()}
    how = {"first_share": 0.25, "believes_last": False, "rounds": 3, "stds": 2.0, "ends_below_threshold": False}
    return SimpleNamespace(**parts | how | options)


def machine(short: Short | None = None, progress: Any = None, **options: Any) -> tuple[Machine, Any, Short]:
    short = short or Short()
    made = method(short, **options)
    replay = SimpleNamespace(samples=lambda: Samples(torch.eye(3)[:2], torch.tensor([0, 1])))
    agent = SimpleNamespace(names=ClassNames(("cat", "dog")), seed=5, version=3, method=made, replay=replay)
    return Machine(agent, Pool(X, IDS), Timings("cpu"), progress), made, short  # type: ignore[arg-type]


def begun(budget: int = 8, **options: Any) -> State:
    """Two classes are known; a third has a number, because an answer named it that was corrected since."""
    state = State.of([events.begun(budget, ["cat", "dog"], options.pop("unnamed", None), **options)])
    state.names = state.names.plus("fox") if state.unnamed is None else state.names
    return state


def step(the: Machine, state: State) -> Row:
    event = the.step(state)
    state.apply(event)
    return event


def tell(state: State, answers: Mapping[str, Any], query: str = "q0", person: Any = None) -> None:
    for row in state.answering(query, answers, person):
        state.apply(row)


def asked_of(event: Row) -> list[str]:
    return [row["sample"] for row in event["samples"]]


# -- a round is opened -----------------------------------------------------------------------------------------


def test_a_first_round_asks_a_share_of_the_budget_and_writes_down_why() -> None:
    told: list[Any] = []
    short = Short(scores=SCORES[::-1].copy(), classes=np.array([2, 0, -1, 1, 0, 1, 0, 1, 0, 1]))
    short.threshold = Threshold(7.5, 2.0, 2.0)
    the, made, _ = machine(short, progress=lambda *said: told.append(said), first_share=0.5)
    state = begun(8)
    event = step(the, state)
    assert told == [("adapting", 0, 3)]
    assert (event["event"], event["round"], event["query"]) == ("asked", 0, "q0")
    assert "ended" not in event
    assert asked_of(event) == ["s0", "s1", "s2", "s3"]
    assert [row["suggestion"] for row in event["samples"]] == ["fox", "cat", None, "dog"]
    assert [(row["score"], row["threshold"], row["iteration"]) for row in event["samples"]] == [
        (9.0, 7.5, 0),
        (8.0, 7.5, 0),
        (7.0, 7.5, 0),
        (6.0, 7.5, 0),
    ]
    assert short.scored == [(list(range(N)), False)]
    assert the._timings.keys() == {"scoring"}
    assert not made.then.seen


def test_old_ones_are_suggested_the_old_class_that_they_are_most_like() -> None:
    the, _, short = machine(Short(scores=-SCORES, classes=np.full(N, 1)), first_share=1.0)
    short.threshold = Threshold(9.0, 5.0, 1.0)
    samples = step(the, begun(3))["samples"]
    assert [(row["zone"], row["suggestion"]) for row in samples] == [
        ("old", "cat"),
        ("old", "dog"),
        ("old", "cat"),
    ]


def test_what_a_strategy_is_shown() -> None:
    the, made, _ = machine(Wise())
    state = begun(8)
    step(the, state)
    ((view, n, rng),) = made.first.seen
    assert (n, view.left, view.n_old, view.threshold) == (2, 8, 2, 4.0)
    assert rng.integers(1 << 40) == generator(5, 4, 0, "queries").integers(1 << 40)
    assert view.scores.tolist() == SCORES.tolist()
    assert view.validation.tolist() == [1, 2, 3, 7]
    assert view.learning.tolist() == [1]
    assert view.probabilities().shape == (N, 2)
    assert view.holdings() == list(range(N))
    assert view.first().tolist() == [row / 10 for row in range(N)]
    assert len(view.asked()) == 0
    tell(state, {"s9": "fox", "s8": SKIP})
    step(the, state)
    step(the, state)
    ((view, n, rng),) = made.then.seen
    assert len(made.first.seen) == 1
    assert rng.integers(1 << 40) == generator(5, 4, 1, "queries").integers(1 << 40)
    left = [0, 1, 2, 3, 4]  # two are answered, three believed
    assert (n, view.left) == (4, 7)
    assert view.scores.tolist() == SCORES[left].tolist()
    assert view.features(np.array([1, 0])).tolist() == X[[1, 0]].tolist()
    assert view.asked().tolist() == X[[9, 8]].tolist()
    assert view.met_before(np.array([4])).tolist() == [0]


def test_a_plain_learner_tells_less() -> None:
    the, made, _ = machine()
    step(the, begun())
    ((view, *_),) = made.first.seen
    assert (view.holdings, view.first) == (None, None)
    assert view.features(np.array([3])).tolist() == X[[3]].tolist()


def test_what_was_met_before_is_asked_by_positions_among_what_is_left() -> None:
    the, made, _ = machine(Wise())
    state = begun(8)
    step(the, state)
    tell(state, {"s9": "fox", "s8": "cat"})
    state.apply(events.believed(0, ["s0", "s1"], ["fox", "fox"]))
    step(the, state)
    ((view, *_),) = made.then.seen
    assert view.met_before(np.arange(6)).tolist() == [0] * 6
    ((first, *_),) = made.first.seen
    assert first.met_before(np.array([9, 7, 8])).tolist() == [1, 0, 1]


@pytest.mark.parametrize(("above", "mistaken"), [(6.9, 0.25), (7.0, 0.0), (0.5, 1.0)])
def test_old_samples_above_the_threshold_are_as_many_as_of_those_held_out(
    above: float, mistaken: float
) -> None:
    shares = np.full(N, 0.25, np.float32)  # a score with a threshold is a probability: 2.5 are novel
    the, _, _ = machine(Short(scores=shares, threshold=Threshold(above, 0.0, 1.0)))
    step(the, begun())
    (round_,) = the.rounds
    assert round_.novel == 2.5
    assert round_.taken_for_novel == pytest.approx(mistaken * (10 - 2.5))


def test_a_threshold_that_the_learner_does_not_give_is_t_inner() -> None:
    the, _, short = machine(stds=3.0, short=Short(threshold=None))
    step(the, begun())
    held_out = short.validation.numpy()
    assert the.rounds[0].threshold.value == pytest.approx(held_out.mean() + 3.0 * held_out.std())


@pytest.mark.parametrize(("ends", "highest", "why"), [(True, 9.0, True), (True, 8.9, False), (False, 9, False)])
def test_nothing_above_t_inner_is_an_end_where_the_method_says_so(
    ends: bool, highest: float, why: bool
) -> None:
    the, made, _ = machine(Short(threshold=Threshold(highest, 0.0, 1.0)), ends_below_threshold=ends)
    event = step(the, begun())
    assert event.get("ended") == ("nothing lies above T_inner" if why else None)
    assert len(event["samples"]) == len(the.rounds[0].asked) == (0 if why else 2)
    assert len(made.first.seen) == 1 - why


def test_where_the_rounds_are_used_it_ends_unless_the_pool_is_labelled_last() -> None:
    the, _, _ = machine(rounds=1)
    state = begun()
    step(the, state)
    tell(state, {"s9": "fox", "s8": "fox"})
    step(the, state)
    assert the.step(state)["why"] == "all iterations are used"
    state.rounds_added = 1
    assert asked_of(the.step(state)) == ["s4", "s3", "s2", "s1", "s0"], "all that is left, for the last round"


def test_what_is_labelled_last_is_scored_once_more_when_nobody_is_asked() -> None:
    the, made, short = machine(rounds=1, believes_last=True)
    state = begun()
    step(the, state)
    tell(state, {"s9": "fox", "s8": "fox"})
    closed = step(the, state)
    assert (closed["samples"], closed.get("ended")) == ([], None)
    assert len(short.learned) == 1
    opened = step(the, state)
    assert (opened["event"], opened["samples"]) == ("asked", [])
    assert [last for _, last in short.scored] == [False, True]
    assert len(made.first.seen) + len(made.then.seen) == 1
    closed = step(the, state)
    assert (closed["samples"], closed["ended"]) == (["s5", "s6", "s7"], "the pool is labelled")
    assert closed["labels"] == ["fox"] * 3
    assert len(short.learned) == 1
    assert the.doubts() == pytest.approx({"s5": 0.5, "s6": 0.6, "s7": 0.7})


def test_a_pool_that_is_used_up_is_an_end_before_any_other() -> None:
    the, _, _ = machine(first_share=1.0, rounds=1)
    state = begun(10)
    step(the, state)
    tell(state, dict.fromkeys(IDS, "fox"))
    step(the, state)
    assert the.step(state)["why"] == "the pool is used up"


def test_without_beliefs_it_ends_when_the_budget_is_spent() -> None:
    the, _, short = machine(believe=None, first_share=1.0)
    state = begun(2)
    step(the, state)
    tell(state, {"s9": "fox", "s8": "fox"})
    step(the, state)
    assert short.learned == [], "nothing follows that would use it"
    assert the.step(state)["why"] == "the budget is spent"
    going_on, _, _ = machine(first_share=1.0)
    going_on.rounds = list(the.rounds)
    assert going_on.step(state)["samples"] == [], "what is believed goes on"


@pytest.mark.parametrize(
    ("change", "n"),
    [
        ({}, 2),
        ({"overlap": 2}, 1),
        ({"unnamed": "unnamed 1"}, 0),
        ({"budget": 1}, 1),
    ],
)
def test_how_many_are_asked(change: dict[str, Any], n: int) -> None:
    the, _, _ = machine()
    state = begun(change.pop("budget", 8), **change)
    assert len(the.step(state)["samples"]) == n
    state.apply(events.stopped())
    assert the.step(state)["samples"] == []


def test_what_was_scored_before_is_put_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "KEPT_ROWS", 0)
    the, _, _ = machine(believe=None)
    state = begun()
    for query in ("q0", "q1", "q2"):
        tell(state, dict.fromkeys(asked_of(step(the, state)), "fox"), query)
        if query != "q2":
            step(the, state)
    away = [isinstance(round_._scores._place, Scratch) for round_ in the.rounds]
    assert away == [True, True, False]
    again, _, short = machine()
    again.restore(3, dict(the.tensors()))
    assert [isinstance(round_._scores._place, Scratch) for round_ in again.rounds] == away
    assert [r.rows.tolist() for r in again.rounds] == [r.rows.tolist() for r in the.rounds]
    assert [r.round for r in again.rounds] == [0, 1, 2]
    assert short.restored == {"begun": 1}


# -- a round is closed -----------------------------------------------------------------------------------------


def closing(state: State, **options: Any) -> tuple[Row, Short]:
    """The end of a round in which two were asked and are foxes."""
    the, _, short = machine(**options)
    tell(state, dict.fromkeys(asked_of(step(the, state)), "fox"))
    return step(the, state), short


@pytest.mark.parametrize(
    ("options", "budget", "learns"),
    [
        ({"rounds": 2}, 8, True),
        ({"rounds": 1}, 8, False),
        ({"rounds": 1, "believes_last": True}, 8, True),
        ({"rounds": 2, "believe": None}, 8, True),
        ({"rounds": 1, "believe": None}, 8, False),
        ({"rounds": 2, "believe": None, "first_share": 1.0}, 2, False),
        ({"rounds": 2, "first_share": 1.0}, 2, True),
    ],
)
def test_a_learner_learns_what_another_round_will_use(
    options: dict[str, Any], budget: int, learns: bool
) -> None:
    closed, short = closing(begun(budget), **options)
    assert [round for _, round in short.learned] == [0] * learns
    assert "ended" not in closed


def test_rounds_that_were_added_count() -> None:
    state = begun(8)
    state.apply(events.extended(0, 1, None))
    _, short = closing(state, rounds=1)
    assert len(short.learned) == 1


def test_what_it_learns_are_answers_by_row_and_then_beliefs_those_just_made_included() -> None:
    the, _, short = machine(first_share=0.5)
    state = begun(8)
    assert asked_of(step(the, state)) == ["s9", "s8", "s7", "s6"]
    tell(state, {"s9": "fox", "s8": "cat", "s7": SKIP, "s6": "owl"})
    closed = step(the, state)
    ((accepted, round),) = short.learned
    assert round == 0
    assert closed["samples"] == ["s5"]
    assert accepted.rows.tolist() == [6, 8, 9, 5]
    assert accepted.classes.tolist() == [3, 0, 2, 2]
    assert accepted.human.tolist() == [1, 1, 1, 0]
    assert accepted.weights is None
    names, settled = the.settled(state)
    assert names.names == ("cat", "dog", "fox", "owl")
    assert settled.rows.tolist() == accepted.rows.tolist()
    assert the.rounds[0].pseudo_rows.tolist() == [5]
    assert the.rounds[0].pseudo_classes.tolist() == [2]
    assert the.doubts() == {"s5": 0.5}


def test_of_several_people_each_answer_weighs_what_they_agree() -> None:
    the, _, short = machine(first_share=0.5)
    state = begun(8, overlap=2)
    assert asked_of(step(the, state)) == ["s9", "s8"]
    for person, second in (("ada", "owl"), ("bob", "fox")):
        tell(state, {"s9": "fox", "s8": second}, person=person)
    step(the, state)
    ((accepted, _),) = short.learned
    assert accepted.rows.tolist()[:2] == [8, 9]
    assert accepted.weights is not None
    assert accepted.weights.dtype == np.float32
    sure = state.weights
    assert sure["s8"] < sure["s9"]
    assert accepted.weights.tolist() == pytest.approx(
        [sure["s8"], sure["s9"]] + [1.0] * (len(accepted.rows) - 2)
    )


def test_nothing_asked_and_nothing_believed_is_the_end() -> None:
    the, _, short = machine(Short(threshold=Threshold(99.0, 0.0, 1.0)))
    state = begun()
    state.apply(events.stopped())
    assert step(the, state)["samples"] == []
    assert step(the, state)["ended"] == "nothing more to ask or to believe"
    assert short.learned == []


def test_beliefs_without_questions_go_on() -> None:
    the, _, short = machine()
    state = begun(unnamed="unnamed 1")
    step(the, state)
    closed = step(the, state)
    assert (closed["samples"], set(closed["labels"])) == (["s5", "s6", "s7", "s8", "s9"], {"unnamed 1"})
    assert "ended" not in closed
    assert len(short.learned) == 1


def test_what_was_answered_or_rejected_is_not_believed_nor_a_class_that_nobody_names() -> None:
    the, made, short = machine(Short(classes=np.array([2, 2, 2, 2, 2, 2, 3, 0, 2, 2])))
    state = begun()
    step(the, state)
    tell(state, {"s9": "fox", "s8": SKIP})
    state.apply(events.judged(["s5"], right=False))
    closed = the.step(state)
    assert made.believe.seen == [[0, 1, 2, 3, 4, 6, 7]]
    assert closed["samples"] == [], "the sixth was rejected, nobody named the fourth class or the first"
    tell(state, {"s8": "owl"})
    assert the.step(state)["samples"] == ["s6"]
    assert len(short.learned) == 2


# -- computed again --------------------------------------------------------------------------------------------


def unnamed_yet() -> Short:
    return Short(classes=np.full(N, -1))


def journal() -> list[Row]:
    the, _, _ = machine(unnamed_yet())
    rows = [events.begun(8, ["cat", "dog"], None)]
    state = State.of(rows)
    rows.append(step(the, state))
    rows += state.answering("q0", {"s9": "fox", "s8": "fox"})
    state = State.of(rows)
    rows.append(step(the, state))
    return rows


def test_computing_again_gives_the_same_or_says_which_round_differs() -> None:
    rows = journal()
    the, _, short = machine(unnamed_yet())
    the.rounds = [None]  # type: ignore[list-item]
    the.compute(rows)
    assert [len(round_.asked) for round_ in the.rounds] == [2]
    assert (short.begun, len(short.learned)) == (2, 1)
    with pytest.raises(DamagedFile, match="computing round 0 again gave something else"):
        the.compute([*rows[:-1], {**rows[-1], "samples": ["s1"]}])
    the.forget()
    assert (the.rounds, short.begun) == ([], 4)


def test_what_was_withdrawn_is_not_computed() -> None:
    rows = journal()
    the, _, short = machine(unnamed_yet())
    changed = {**rows[-1], "samples": ["s1"], "labels": ["fox"]}
    the.compute([*rows[:-1], changed, events.reopened(0, "q0"), rows[-1]])
    assert len(short.learned) == 1


def test_everything_that_was_computed_is_named() -> None:
    the, _, _ = machine(unnamed_yet())
    the.compute(journal())
    kept = dict(the.tensors())
    assert set(kept) == {"short.begun", *(f"round.0.{name}" for name in Round.TENSORS)}
    assert int(kept["short.begun"]) == 2
    assert kept["round.0.asked"].tolist() == [9, 8]


# -- what is known of it ---------------------------------------------------------------------------------------


def test_a_row_is_told_of_as_it_was_scored_last() -> None:
    the, _, _ = machine()
    assert the.about(3) == {}
    early, late = np.array([1, 3, 5]), np.array([3, 9])
    scores = np.array([1.0, 2.0, 9.0], np.float32)
    the.rounds = [
        Round(0, early, scores, np.full(3, -1), HALF),
        Round(1, late, scores[:2], np.full(2, -1), Threshold(1.5, 0.5, 0.5)),
    ]
    assert the.about(3) == {"iteration": 1, "score": 1.0, "threshold": 1.5, "zone": "ambiguous"}
    assert the.about(5) == {"iteration": 0, "score": 9.0, "threshold": 4.0, "zone": "novel"}
    assert the.about(1) == {"iteration": 0, "score": 1.0, "threshold": 4.0, "zone": "old"}
    assert [the.about(row) for row in (0, 2, 4, 8)] == [{}] * 4
    assert the.about(9)["iteration"] == 1


def test_margins_are_the_learners_or_those_of_the_nearest() -> None:
    state = begun()
    wise, _, _ = machine(Wise())
    assert wise.margins(state, {"s3": "cat", "s1": "dog"}).tolist() == [6, 2]
    assert wise.unexplained(state).tolist() == [6, 7, 8, 9]
    plain, _, _ = machine()
    assert plain.unexplained(state).tolist() == []
    middle = torch.eye(3)[:2].mean(0).numpy()
    known = np.eye(3)[:2] - middle
    row = X[3] - middle
    cosines = known @ row / np.linalg.norm(known, axis=1) / np.linalg.norm(row)
    assert plain.margins(state, {"s3": "cat"}).tolist() == pytest.approx([cosines[0] - cosines[1]], rel=1e-5)
    (alike,) = plain.alike(state, np.array([3]), 1).values()
    assert alike[0][0] == ("cat", "dog")[int(cosines.argmax())]


def test_known_samples_are_what_people_said_and_no_beliefs() -> None:
    the, _, _ = machine()
    state = begun()
    step(the, state)
    tell(state, {"s9": "fox", "s8": SKIP})
    step(the, state)
    known = the._known(state)
    assert known.rows.tolist() == [-1, -1, 9]
    assert known.y.tolist() == [0, 1, 2]


def test_classes_that_nothing_is_left_of_are_closed_up() -> None:
    the, _, _ = machine(first_share=0.5)
    state = begun()
    step(the, state)
    tell(state, {"s9": "typo", "s8": "owl", "s7": "fox", "s6": SKIP})
    step(the, state)
    tell(state, {"s9": "owl"})
    names, accepted = the.settled(state)
    assert names.names == ("cat", "dog", "fox", "owl")
    assert accepted.rows.tolist() == [7, 8, 9, 5]
    assert accepted.classes.tolist() == [2, 3, 3, 2]


# -- what would be believed ------------------------------------------------------------------------------------


def labelled_last(**options: Any) -> tuple[Machine, State]:
    """A second round is open; the first was answered, and foxes have a number."""
    the, _, _ = machine(**{"believes_last": True} | options)
    state = begun()
    step(the, state)
    tell(state, {"s9": "fox", "s8": "fox"})
    step(the, state)
    step(the, state)
    return the, state


def test_what_is_foreseen_is_neither_asked_nor_rejected() -> None:
    the, state = labelled_last(rounds=5)
    assert asked_of({"samples": [q.asked for s, q in state.questions.items() if q.round == 1]}) == ["s7", "s6"]
    assert the.foreseen(state) == Foreseen({"s5": "fox"}, {"s5": 0.5})
    state.apply(events.judged(["s5"], right=False))
    assert the.foreseen(state) == Foreseen({}, {})


def test_what_is_foreseen_is_of_the_round_that_is_open() -> None:
    short = Short(threshold=Threshold(0.5, 0.0, 0.1))
    the, state = labelled_last(short=short, rounds=5)
    tell(state, {"s7": "fox", "s6": "cat"}, "q1")
    step(the, state)
    short.classes = np.array([2, 2, 2, 1, 2, 2, 2, 2, 2, 2])
    assert asked_of(step(the, state)) == ["s5", "s4"]
    assert the.foreseen(state).labels == {"s1": "fox", "s2": "fox"}, "the fourth is taken for a dog now"


@pytest.mark.parametrize("options", [{"believes_last": False}, {"believe": None}])
def test_who_does_not_believe_last_foresees_nothing(options: dict[str, Any]) -> None:
    the, state = labelled_last(**options)
    assert the.foreseen(state) == Foreseen({}, {})


def test_nothing_is_foreseen_between_rounds_at_the_end_or_before_a_class_is_known() -> None:
    the, _, _ = machine(believes_last=True, rounds=5)
    state = begun()
    step(the, state)
    assert the.foreseen(state) == Foreseen({}, {})
    state.names = ClassNames(("cat", "dog"))
    tell(state, {"s9": "fox", "s8": "fox"})
    assert the.foreseen(state) == Foreseen({}, {}), "it has no number yet"
    step(the, state)
    assert the.foreseen(state) == Foreseen({}, {}), "no round is open"
    step(the, state)
    assert the.foreseen(state).labels
    state.ended = "because"
    assert the.foreseen(state) == Foreseen({}, {})


# -- the outlook -----------------------------------------------------------------------------------------------


def seen(
    the: Machine, above: int, taken: int, mistaken: float = 2.0, classes: Iterable[int] = (2,) * 8
) -> State:
    """Of a first round, one novel answer; of the last, one more and two that are believed."""
    scores = np.where(np.arange(8) < above, 1.5, 1.0).astype(np.float32)
    last = Round(2, np.arange(2, N), scores, np.array(list(classes)), Threshold(1.0, 0.0, 1.0))
    last.novel, last.taken_for_novel = 6.0, mistaken
    last.pseudo_classes = np.array([2] * taken + [1, 0])
    earlier = [Round(i, np.arange(N), SCORES, np.full(N, 2), HALF) for i in range(2)]
    the.rounds = [*earlier, last]
    questions = [{"sample": sample, "score": 1.0} for sample in ("s0", "s1", "s2", "s3")]
    state = begun(8, known_vouched=True)
    state.apply(events.asked(0, "q0", questions))
    tell(state, {"s0": "fox", "s1": "cat", "s2": "fox", "s3": SKIP})
    state.apply(events.believed(0, ["s4", "s5", "s6"], ["fox", "fox", "cat"]))
    return state


@pytest.mark.parametrize(
    ("above", "taken", "mistaken", "wrong"),
    [
        (5, 2, 2.0, 0.8),
        (2, 2, 2.0, 2.0),
        (1, 1, 2.0, 2.0),
        (1, 2, 2.0, 2.0),
        (0, 1, 2.0, 2.0),
        (8, 0, 2.0, 0.0),
        (4, 3, 40.0, 3.0),
    ],
)
def test_what_is_labelled_counts_less_those_that_were_probably_mistaken(
    above: int, taken: int, mistaken: float, wrong: float
) -> None:
    the, _, _ = machine()
    ahead = the.outlook(seen(the, above, taken, mistaken))
    since = 3 - wrong  # of four novel labels, three are of rows that the last round scored
    assert ahead.novel == 6 + 1
    assert ahead.left == pytest.approx(6 - since)
    assert ahead.gain == pytest.approx((2 + 1) / (3 + 2) * min(6 - since, (1 + since) / 2))
    assert ahead.drift is None


def test_who_labels_last_counts_what_would_be_labelled() -> None:
    the, _, _ = machine(believes_last=True)
    state = seen(the, above=6, taken=0)  # rows 2 to 7 lie above; two of them are answered, two believed
    state.apply(events.judged(["s7"], right=False))
    labelled = the._foreseen(state)
    assert labelled.tolist() == [4, 5, 6]
    assert the.outlook(state) == outlook(6.0, 1, 3 + 3, 2, 3, True, None)
    state.ended = "because"
    assert the._foreseen(state).tolist() == []
    plain, _, _ = machine()
    assert plain._foreseen(seen(plain, 6, 0)).tolist() == []


@pytest.mark.parametrize(("classes", "tried"), [([1] * 8, False), ([1] * 7 + [2], True)])
def test_before_anything_was_taken_for_novel_a_gain_is_guessed(classes: list[int], tried: bool) -> None:
    the, _, _ = machine(believes_last=True)
    state = seen(the, above=0, taken=0, classes=classes)
    assert the.outlook(state) == outlook(6.0, 1, 3.0, 2, 3, tried, None)
    at_once, _, _ = machine()
    assert at_once.outlook(seen(at_once, 0, 0, classes=classes)) == outlook(6.0, 1, 3.0, 2, 3, True, None)


def test_a_drifted_pool_is_told_of() -> None:
    the, _, short = machine(Wise())
    state = seen(the, above=5, taken=0)
    assert the.drift is None
    assert the.outlook(state).drift is None
    short.moved = 2.5  # type: ignore[attr-defined]
    assert the.drift == 2.5
    assert the.outlook(state).drift == drifted(2.5, pool=10, novel=6.0 + 1, said_novel=2, said=3)
    unseen, _, _ = machine()
    assert unseen.drift is None
    assert unseen.outlook(state) == outlook(float("nan"), 0, 0, 0, 0)


# -- the state -------------------------------------------------------------------------------------------------


def questions(*samples: str) -> list[Row]:
    return [{"sample": sample, "score": 1.0, "zone": "novel", "suggestion": None} for sample in samples]


def two_of(budget: int = 4, **options: Any) -> State:
    """One query about two samples."""
    rows = [events.begun(budget, ["cat"], None, **options), events.asked(0, "q0", questions("a", "b"))]
    return State.of(rows)


def test_nothing_has_happened_in_the_beginning() -> None:
    state = State()
    counts = (state.budget, state.overlap, state.opened, state.closed, state.rounds_added, state.events)
    assert counts == (0, 1, 0, 0, 0, 0)
    flags = (state.several, state.known_vouched, state.stopped, state.finished)
    assert flags == (False, False, False, False)
    assert (state.computed, state.reopened, state.ended, state.unnamed) == (-1, 0, None, None)
    assert (state.charged, state.promised, state.affordable, state.open, state.skipped) == (0, 0, 0, [], 0)
    with pytest.raises(ValueError, match="there is no event 'hoped'"):
        state.apply({"event": "hoped"})


def test_events_are_counted_and_the_last_that_was_computed_is_known() -> None:
    state = two_of()
    assert (state.events, state.computed) == (2, 1)
    tell(state, {"a": "fox", "b": SKIP})
    assert (state.events, state.computed, state.skipped) == (4, 1, 1)
    assert [question.given[0].number for question in state.questions.values()] == [2, 3]
    state.apply(events.believed(0, [], []))
    assert (state.events, state.computed, state.opened, state.closed) == (5, 4, 1, 1)
    state.apply(events.ended("enough"))
    assert (state.computed, state.ended) == (5, "enough")
    state.apply(events.finished())
    assert (state.finished, state.names.names) == (True, ("cat", "fox"))
    with pytest.raises(AlreadyFinished):
        state.check_going()


def test_who_cannot_tell_is_counted() -> None:
    state = two_of()
    state.apply(events.asked(1, "q1", questions("c")))
    tell(state, {"a": SKIP, "b": SKIP})
    tell(state, {"c": "fox"}, "q1")
    assert (state.skipped, state.charged) == (2, 1)


def test_an_open_question_of_a_round_that_was_stopped_is_open_when_the_round_is() -> None:
    state = two_of()
    tell(state, {"a": "fox"})
    state.apply(events.stopped())
    state.apply(events.believed(0, [], []))
    state.apply(events.reopened(0, "q0"))
    assert list(state.questions) == ["a", "b"]


def test_finishing_numbers_what_was_named_since() -> None:
    state = two_of()
    tell(state, {"a": "fox"})
    assert state.names.names == ("cat",)
    state.apply(events.finished())
    assert state.names.names == ("cat", "fox")


def test_a_budget_may_be_used_to_its_last_label_and_no_further() -> None:
    state = two_of(budget=2)
    state.check_budget()
    tell(state, {"a": "fox"})
    state.check_budget()
    assert (state.charged, state.promised, state.affordable) == (1, 1, 1)
    state.apply(events.asked(1, "q1", questions("c")))
    with pytest.raises(BudgetExceeded, match=r"budget of 2 labels .* 1 would be used and 2 are promised"):
        state.check_budget()
    tell(state, {"b": "fox"})
    tell(state, {"c": "fox"}, "q1")
    assert (state.charged, state.affordable) == (3, 0)


def test_what_is_affordable_is_put_to_so_many_people() -> None:
    state = two_of(budget=5, overlap=2)
    assert (state.affordable, state.promised, state.several) == (2, 4, True)
    with pytest.raises(BadOption, match="each question is put to 2 people"):
        state.answering("q0", {"a": "fox"})
    tell(state, {"a": "fox"}, person="ada")
    assert (state.charged, state.affordable, state.promised, state.open) == (1, 2, 3, ["a", "b"])
    tell(state, {"a": "fox"}, person="bob")
    assert (state.charged, state.affordable, state.open) == (2, 1, ["b"])
    assert state.weights.keys() == {"a"}
    tell(state, {"b": SKIP}, person="ada")
    assert state.answers == {"a": "fox", "b": SKIP}
    assert [row["weight"] is None for row in state.ledger()] == [False, True]


def test_open_questions_wait_for_no_more_than_are_asked_now() -> None:
    state = two_of(budget=9, overlap=3)
    state.apply(events.asked(1, "q1", questions("c")))
    for person in ("ada", "bob"):
        tell(state, {"a": "fox"}, person=person)
    tell(state, {"c": "fox"}, "q1", person="ada")
    state.apply(events.overlapped(1))
    assert {sample: question.overlap for sample, question in state.questions.items()} == {
        "a": 2,
        "b": 1,
        "c": 1,
    }
    assert (state.overlap, state.several, state.open) == (1, True, ["b"])
    state.apply(events.overlapped(2))
    assert state.questions["b"].overlap == 1, "and for no more than were asked then"
    state.apply(events.asked(2, "q2", questions("d")))
    assert state.questions["d"].overlap == 2


def test_one_person_is_weighed_by_nobody() -> None:
    state = two_of()
    tell(state, {"a": "fox"})
    assert (state.several, state.weights) == (False, {})
    assert "weight" not in state.ledger()[0]


def test_which_query_is_meant_is_said_where_it_is_not_known() -> None:
    with pytest.raises(UnknownQuery, match="asked so far: none"):
        State().of_query("q0")
    state = two_of()
    assert list(state.of_query("q0")) == ["a", "b"]
    state.apply(events.asked(1, "q1", questions("c")))
    assert list(state.of_query("q1")) == ["c"]
    with pytest.raises(UnknownQuery, match=r"no query 3 was asked; asked so far: q0, q1$"):
        state.of_query(3)  # type: ignore[arg-type]


def test_settling_is_an_event_where_the_same_was_only_said() -> None:
    state = two_of()
    tell(state, {"a": "fox"}, person="ada")
    (row,) = state.answering("q0", {"a": "fox", "b": "owl"}, "ada", settle=True)[:1]
    assert (row["event"], row["sample"], row["person"]) == ("settled", "a", "ada")
    state.apply(row)
    assert state.answering("q0", {"a": "fox"}, "ada", settle=True) == []
    assert state.answering("q0", {"a": "fox"}, "ada") == [], "what settles says it as well"
    kinds = [row["event"] for row in state.answering("q0", {"a": "owl", "b": SKIP}, "ada")]
    assert kinds == ["corrected", "skipped"]


def test_the_last_answer_is_to_a_question_that_was_asked() -> None:
    state = two_of()
    assert state.last_answer("ada") is None
    tell(state, {"b": "fox"}, person="ada")
    tell(state, {"a": "fox"}, person="ada")
    tell(state, {"b": "fox"}, person="bob")
    state.apply(events.volunteered("v", "owl", {"unasked": True, "sample": "v"}, "ada"))
    found = state.last_answer("ada")
    assert found is not None
    assert (found[0], found[1].number) == ("a", 3)


def test_what_nobody_asked_about_belongs_to_the_last_question_or_to_the_round_that_is_open() -> None:
    about = {"unasked": True, "sample": "v"}
    state = State.of([events.begun(3, ["cat"], None), events.asked(0, "q0", []), events.believed(0, [], [])])
    state.apply(events.asked(1, "q1", []))
    state.apply(events.volunteered("v", "owl", about))
    assert (state.questions["v"].query, state.questions["v"].round) == ("q1", 1)
    assert state.questions["v"].given[0].settles
    state = two_of()
    state.apply(events.believed(0, [], []))
    state.apply(events.asked(1, "q1", []))
    state.apply(events.volunteered("v", "owl", about, "ada"))
    assert (state.questions["v"].query, state.questions["v"].round) == ("q0", 0)
    state.apply(events.undone("v", "ada"))
    assert list(state.questions) == ["a", "b"]
    tell(state, {"a": "fox"})
    assert not state.questions["a"].given[0].settles
    state.apply(events.undone("a"))
    assert (list(state.questions), state.answers) == (["a", "b"], {})


def test_of_two_who_gave_a_class_unasked_one_may_take_it_back() -> None:
    state = two_of()
    state.apply(events.volunteered("v", "owl", {"unasked": True}, "ada"))
    state.apply(events.answered("settled", "q0", "v", "fox", "bob"))
    state.apply(events.undone("v", "bob"))
    assert state.answers == {"v": "owl"}


def test_known_classes_are_vouched_for_where_the_method_says_so() -> None:
    for vouched in (False, True):
        state = two_of(known_vouched=vouched)
        tell(state, {"a": "fox", "b": SKIP})
        state.apply(events.believed(0, ["x", "y", "b"], ["cat", "fox", "fox"]))
        assert state.vouched == ({"cat", "fox"} if vouched else {"fox"})
        assert state.believed == ({"x": "cat", "y": "fox"} if vouched else {"y": "fox"})
        assert state.new_classes == ["fox"]


def test_new_classes_are_told_in_the_order_asked_then_those_that_are_only_believed() -> None:
    state = State.of([events.begun(3, ["cat"], "unnamed 1"), events.asked(0, "q0", questions("a", "b", "c"))])
    assert state.names.names == ("cat", "unnamed 1")
    tell(state, {"c": "owl", "b": "cat", "a": "fox"})
    state.apply(events.believed(0, ["x"], ["unnamed 1"]))
    assert state.new_classes == ["fox", "owl", "unnamed 1"]
    assert state.vouched == {"owl", "cat", "fox", "unnamed 1"}


def test_verdicts_are_taken_back_one_by_one() -> None:
    state = two_of()
    state.apply(events.judged(["x", "y"], right=False))
    state.apply(events.judged(["z"], right=True))
    assert state.rejected == ["x", "y"]
    state.apply(events.unjudged(["x", "z"]))
    assert (state.rejected, list(state.verdicts)) == (["y"], ["y"])


def test_an_end_that_comes_with_a_question_closes_the_round() -> None:
    state = two_of()
    assert (state.opened, state.closed, state.ended) == (1, 0, None)
    state.apply(events.asked(1, "q1", [], ended="nothing lies above T_inner"))
    assert (state.opened, state.closed, state.ended) == (2, 2, "nothing lies above T_inner")


def three_rounds() -> State:
    """Of each round one sample was asked about, answered and another one believed."""
    state = State.of([events.begun(9, ["cat"], None)])
    for i, label in enumerate(("fox", "owl", "elk")):
        state.apply(events.asked(i, f"q{i}", questions(f"a{i}")))
        tell(state, {f"a{i}": label}, f"q{i}", person=i)
        state.apply(events.believed(i, [f"x{i}"], [label], ended="enough" if i == 2 else None))
    return state


def test_closings_say_what_was_so_before() -> None:
    state = three_rounds()
    assert [closing.number for closing in state._closings] == [3, 6, 9]
    assert [closing.asked for closing in state._closings] == [1, 4, 7]
    assert [closing.query for closing in state._closings] == ["q0", "q1", "q2"]
    assert [list(closing.pseudo_labels) for closing in state._closings] == [[], ["x0"], ["x0", "x1"]]
    for i in range(3):
        found = state.last_answer(i)
        assert found is not None
        row = state.reopening(found[1], "ada")
        assert row is not None
        assert (row["round"], row["query"], row["person"]) == (i, f"q{i}", "ada")


def test_a_round_in_the_middle_is_opened_again() -> None:
    state = three_rounds()
    state.apply(events.asked(3, "q3", questions("open")))
    back = state.after([events.reopened(1, "q1")])
    assert (back.opened, back.closed, back.reopened, back.ended) == (2, 1, 1, None)
    assert (back.computed, back._opening) == (4, (4, "q1"))
    assert back.names.names == ("cat", "fox")
    assert back.pseudo_labels == {"x0": "fox"}
    assert [closing.round for closing in back._closings] == [0]
    at = {sample: (question.query, question.round) for sample, question in back.questions.items()}
    assert at == {"a0": ("q0", 0), "a1": ("q1", 1), "a2": ("q1", 1)}
    assert state.questions.keys() == {"a0", "a1", "a2", "open"}
    assert (state.reopened, state.closed) == (0, 3)


def test_labels_that_are_added_go_on_with_what_is_there() -> None:
    state = three_rounds()
    state.apply(events.stopped())
    assert (state.stopped, state.open, state.promised) == (True, [], 0)
    state.apply(events.extended(4, 2, None))
    assert (state.budget, state.rounds_added, state.stopped) == (13, 2, False)
    assert (state.ended, state.closed, state.reopened) == ("enough", 3, 0)
    state.apply(events.extended(1, 1, None))
    assert (state.budget, state.rounds_added) == (14, 3)


@pytest.mark.parametrize(
    ("again", "computed", "reopened", "names", "believed"),
    [
        (0, -1, 1, ("cat",), []),
        (1, 3, 1, ("cat", "fox"), ["x0"]),
        (2, 6, 1, ("cat", "fox", "owl"), ["x0", "x1"]),
        (3, 9, 0, ("cat", "fox", "owl", "elk"), ["x0", "x1", "x2"]),
    ],
)
def test_labels_that_are_added_take_back_rounds_in_which_nobody_was_asked(
    again: int, computed: int, reopened: int, names: tuple[str, ...], believed: list[str]
) -> None:
    state = three_rounds()
    state.apply(events.extended(1, 1, again))
    assert (state.computed, state.reopened, state.ended) == (computed, reopened, None)
    assert (state.opened, state.closed) == (again, again)
    assert state.names.names == names
    assert list(state.pseudo_labels) == believed
    assert [closing.round for closing in state._closings] == list(range(again))


# -- label rows ------------------------------------------------------------------------------------------------


def told_of(rows: list[Row], **options: Any) -> list[LabelRow]:
    dated = [{**row, "at": f"at {i}"} for i, row in enumerate(rows)]
    return list(label_rows(State.of(dated), Origins.of(dated), **options))


def said() -> list[Row]:
    """An answer, one that was corrected, one that cannot tell; three are believed and two were looked at."""
    asked = [{"sample": s, "score": 2.5, "zone": "novel", "suggestion": "cat"} for s in ("a", "b", "c")]
    rows = [events.begun(9, ["cat"], None), events.asked(0, "q0", asked)]
    rows += [events.answered("told", "q0", "a", "fox", "ada"), events.answered("told", "q0", "b", "owl", "ada")]
    rows += [events.answered("corrected", "q0", "b", "fox", "ada"), events.answered("skipped", "q0", "c", SKIP)]
    rows += [events.believed(0, ["x", "y", "z"], ["fox", "fox", "fox"])]
    rows += [
        events.judged(["x"], True, "bob", ["fox"]),
        events.judged(["y"], False, "bob", ["fox"], instead="elk"),
    ]
    return rows


def test_every_column_of_a_row_is_what_was_said() -> None:
    answer = LabelRow("a", "fox", "answer", True, None, "ada", "at 2", 0, None, 2.5, "novel", "cat", 7)
    places = {"a": Place(7, 0.5), "x": Place(3, 0.25)}
    rows = told_of(said(), everything=True, place_of=lambda sample: places.get(sample, NOWHERE))
    assert rows[0] == answer
    corrected = answer._replace(sample="b", at="at 3", label="owl", counts=False, row=None)
    assert rows[1] == corrected
    assert rows[2] == corrected._replace(label="fox", at="at 4", counts=True)
    assert rows[3] == corrected._replace(sample="c", label=None, at="at 5", person=None)
    belief = LabelRow("x", "fox", "pseudo-label", False, None, None, "at 6", 0, 0.25, None, None, None, 3)
    assert rows[4] == belief
    verdict = belief._replace(source="verdict", counts=True, verdict="confirm", person="bob", at="at 7")
    assert rows[5] == verdict
    nowhere = belief._replace(sample="y", doubt=None, row=None)
    assert rows[6] == nowhere
    assert rows[7] == nowhere._replace(
        source="verdict", verdict="reject", person="bob", at="at 8", instead="elk"
    )
    assert rows[8] == nowhere._replace(sample="z", counts=True)
    assert len(rows) == 9
    assert [(row.sample, row.source) for row in told_of(said())] == [
        ("a", "answer"),
        ("b", "answer"),
        ("x", "verdict"),
        ("z", "pseudo-label"),
    ]


def test_of_several_people_the_row_counts_that_says_what_they_agree_on() -> None:
    rows = [events.begun(9, ["cat"], None, overlap=3), events.asked(0, "q0", questions("a"))]
    for person, label in (("ada", "owl"), ("bob", "fox"), ("eve", "fox")):
        rows.append(events.answered("told", "q0", "a", label, person))
    assert [(row.person, row.label) for row in told_of(rows)] == [("bob", "fox")]
    alone = [{**rows[0], "overlap": 1}, *rows[1:]]
    assert [(row.person, row.label) for row in told_of(alone)] == [("ada", "owl")]


def test_of_beliefs_that_are_withdrawn_those_before_stand() -> None:
    rows = [events.believed(i, ["a", *("b" * (i == 2))], ["fox", *(["owl"] * (i == 2))]) for i in range(4)]
    origins = Origins.of(rows)
    assert (origins.believed_in, origins._earlier) == ({"a": 3, "b": 2}, {"a": [0, 1, 2]})
    origins.apply({"event": "reopened", "round": 2})
    assert (origins.believed_in, origins._earlier) == ({"a": 1}, {"a": [0]})
    origins.apply({"event": "reopened", "round": 1})
    assert origins.believed_in == {"a": 0}
    origins.apply({"event": "reopened", "round": 1})
    assert origins.believed_in == {"a": 0}, "it was believed before"
    origins.apply({"event": "reopened", "round": 0})
    assert origins.believed_in == {}
    assert [belief.round for belief in origins.beliefs] == [0, 1, 2, 3]


def test_a_verdict_without_a_label_is_of_the_belief_that_stood_then() -> None:
    origins = Origins.of([events.believed(0, ["a"], ["fox"]), events.judged(["a"], True, "ada")])
    judged = origins.verdict_on("a", "fox")
    assert judged is not None
    assert (judged.belief, judged.of, judged.person, judged.right) == (0, None, "ada", True)
    assert origins.verdict_on("b", "fox") is None
    origins.apply(events.believed(1, ["a"], ["fox"]))
    assert origins.verdict_on("a", "fox") is None
    early = Origins.of([events.judged(["a"], True), events.believed(0, ["a"], ["fox"])])
    assert early.judged["a"].belief == -1
    assert early.verdict_on("a", "fox") is None
    early.apply(events.unjudged(["a", "b"]))
    assert early.judged == {}


def test_a_name_anywhere_makes_a_column_one_of_names() -> None:
    rows = [events.begun(3, [1], None), events.asked(0, "q0", [{"sample": 1}])]
    whole = whole_numbers(State.of(rows))
    assert whole == {"sample", "label"}
    believed = [*rows, events.believed(0, ["x"], [1])]
    assert whole_numbers(State.of(believed)) == {"label"}
    refused = [*rows, events.judged([1], False)]
    assert whole_numbers(State.of(refused)) == {"sample", "label"}, "nothing was said instead"
    assert whole_numbers(State.of([*rows, events.judged([1], False, instead="elk")])) == {"sample"}
    named = [*rows, events.answered("told", "q0", 1, "fox")]
    assert whole_numbers(State.of(named)) == {"sample"}
