"""The state of an adaptation against naive rules: which answer counts, what is charged, who vouches."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cual import SKIP
from cual.errors import AlreadyFinished, BudgetExceeded, UnknownQuery, UnknownSample
from cual.loop import events
from cual.loop.state import State
from cual.types import Row

SAMPLES = ["a", "b", "c", "d"]


def begun(budget: int = 4, unnamed: str | None = None) -> list[Row]:
    asked = [{"sample": sample, "score": 1.0, "suggestion": None} for sample in SAMPLES]
    return [events.begun(budget, ["cat"], unnamed), events.asked(0, "q0", asked)]


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["answer", "answer", "answer", "settle", "undo", "reject", "confirm"]),
        st.sampled_from(SAMPLES),
        st.sampled_from(["ada", "bob", "eve"]),
        st.sampled_from(["cat", "fox", "owl", SKIP]),
    ),
    max_size=30,
)


def naive(rows: list[Row]) -> dict[str, object]:
    """The answer that counts, by going through everything from the start for each sample."""
    counting: dict[str, object] = {}
    for sample in SAMPLES:
        standing: list[Row] = []
        for row in rows:
            if row.get("sample") != sample:
                continue
            if row["event"] == "undone":
                mine = [r for r in standing if r.get("person") == row.get("person")]
                if mine:
                    standing = [r for r in standing if r is not mine[-1]]
            elif row["event"] in events.ANSWERS:
                standing.append(row)
        settled = [r for r in standing if r["event"] == "settled"]
        if standing:
            who = (settled[-1] if settled else standing[0]).get("person")
            counting[sample] = events.answer_of([r for r in standing if r.get("person") == who][-1])
    return counting


@settings(max_examples=300, deadline=None)
@given(actions=ACTIONS)
def test_which_answer_counts_and_what_it_costs(actions: list[tuple[str, str, str, object]]) -> None:
    rows = begun()
    state = State.of(rows)
    for kind, sample, person, answer in actions:
        if kind == "answer":
            new = state.answering("q0", {sample: answer}, person)
        elif kind == "settle":
            new = [events.answered("settled", "q0", sample, answer, person)]
        elif kind == "undo":
            new = [events.undone(sample, person)] if state.questions[sample].latest(person) else []
        else:
            new = [events.judged([sample], kind == "confirm", person)]
        for row in new:
            state.apply(row)
            rows.append(row)
        expected = naive(rows)
        assert state.answers == expected
        assert state.charged == sum(a is not SKIP for a in expected.values())
        assert state.open == [s for s in SAMPLES if s not in expected]
        assert state.vouched == {a for a in expected.values() if a is not SKIP}
    again = State.of(copy.deepcopy(rows))
    assert again.answers == state.answers
    assert again.ledger() == state.ledger()
    assert again.verdicts == state.verdicts
    assert sum(row["charged"] for row in state.ledger()) == state.charged


def test_the_first_to_answer_counts_until_somebody_settles_it() -> None:
    state = State.of(begun())
    for person, answer in (("ada", "fox"), ("bob", "owl"), ("ada", "wolf")):
        for row in state.answering("q0", {"a": answer}, person):
            state.apply(row)
    assert (state.answers["a"], state.questions["a"].disagreement) == ("wolf", True)
    for row in state.answering("q0", {"a": "owl"}, "eve", settle=True):
        state.apply(row)
    assert (state.answers["a"], state.questions["a"].disagreement) == ("owl", False)
    assert state.answering("q0", {"a": "owl"}, "eve", settle=True) == []
    assert state.last_answer("ada") == ("a", state.questions["a"].latest("ada"))
    (row, *_) = state.ledger()
    assert (row["person"], row["answers"], row["corrected"], row["charged"]) == ("eve", 4, None, 1)


def test_saying_the_same_again_is_no_event_and_asking_what_would_happen_changes_nothing() -> None:
    state = State.of(begun())
    first = state.answering("q0", {"a": "fox"}, "ada")
    assert state.answers == {}
    for row in first:
        state.apply(row)
    assert state.answering("q0", {"a": "fox"}, "ada") == []
    assert [row["event"] for row in state.answering("q0", {"a": SKIP}, "ada")] == ["corrected"]
    assert [row["event"] for row in state.answering("q0", {"a": "fox"}, "bob")] == ["told"]


def test_what_is_promised_to_open_questions_cannot_be_spent() -> None:
    """Two labels, four questions, of which two were skipped: the skips cannot be answered any more."""
    state = State.of(begun(budget=4))
    for row in state.answering("q0", dict.fromkeys("ab", SKIP)):
        state.apply(row)
    state.apply(events.believed(0, [], []))
    more = [{"sample": s, "score": 1.0, "suggestion": None} for s in ("e", "f")]
    state.apply(events.asked(1, "q1", more))
    late = state.answering("q0", {"a": "fox"})
    with pytest.raises(BudgetExceeded, match="1 would be used and 4 are promised"):
        state.after(late).check_budget()
    assert state.charged == 0
    state.apply(events.stopped())
    state.after(late).check_budget()


def test_a_belief_goes_with_the_answer_that_vouches_for_it() -> None:
    state = State.of(begun())
    for row in state.answering("q0", {"a": "fox", "b": "owl"}):
        state.apply(row)
    state.apply(events.believed(0, ["x", "y", "z"], ["fox", "owl", "fox"]))
    assert state.names.names == ("cat", "fox", "owl")
    assert state.believed == {"x": "fox", "y": "owl", "z": "fox"}
    state.apply(events.judged(["z"], right=False))
    for row in state.answering("q0", {"b": "cat"}):
        state.apply(row)
    assert state.believed == {"x": "fox"}
    assert state.new_classes == ["fox"]
    for row in state.answering("q0", {"c": "owl"}):
        state.apply(row)
    assert state.believed == {"x": "fox", "y": "owl"}


def test_the_class_that_nobody_names_vouches_for_itself() -> None:
    state = State.of(begun(unnamed="unnamed 1"))
    state.apply(events.believed(0, ["x"], ["unnamed 1"]))
    assert state.believed == {"x": "unnamed 1"}


def test_classes_are_numbered_in_the_order_asked_whatever_the_order_told() -> None:
    for order in ("abc", "cba", "bca"):
        state = State.of(begun())
        truth = {"a": "owl", "b": "fox", "c": "bee"}
        for sample in order:
            for row in state.answering("q0", {sample: truth[sample]}):
                state.apply(row)
        assert state.numbered.names == ("cat", "owl", "fox", "bee")


def test_what_was_not_asked_cannot_be_answered() -> None:
    state = State.of(begun())
    with pytest.raises(UnknownQuery, match="asked so far: q0"):
        state.answering("q1", {"a": "fox"})
    with pytest.raises(UnknownSample, match="'x'"):
        state.answering("q0", {"x": "fox"})
    state.apply(events.finished())
    with pytest.raises(AlreadyFinished):
        state.answering("q0", {"a": "fox"})


# -- a round that is opened again ------------------------------------------------------------------------------


def two_rounds() -> State:
    """One question of the first round was answered by a slip; two more were asked since, one is answered."""
    state = State.of(begun(budget=6))
    for row in state.answering("q0", dict.fromkeys("abc", "fox"), "ada"):
        state.apply(row)
    for row in state.answering("q0", {"d": "weathr"}, "ada"):
        state.apply(row)
    state.apply(events.believed(0, ["x", "y"], ["fox", "weathr"]))
    more = [{"sample": s, "score": 1.0, "suggestion": None} for s in ("e", "f")]
    state.apply(events.asked(1, "q1", more))
    for row in state.answering("q1", {"e": "owl"}, "bob"):
        state.apply(row)
    return state


def test_a_round_that_is_opened_again_forgets_what_was_computed_since_and_no_answer() -> None:
    state = two_rounds()
    _, slip = state.last_answer("ada") or pytest.fail("ada has answered")
    again = state.reopening(slip, "ada")
    assert again is not None
    back = state.after([again, events.undone("d", "ada")])
    assert (back.opened, back.closed, back.reopened, back.ended) == (1, 0, 1, None)
    assert back.open == ["d"], "of the second round, what nobody answered is withdrawn"
    assert back.answers == {"a": "fox", "b": "fox", "c": "fox", "e": "owl"}
    assert (back.questions["e"].query, back.questions["e"].round) == ("q0", 0)
    assert back.charged == 4
    assert back.believed == {}
    assert back.names.names == ("cat",)
    assert state.open == ["f"], "asking what would happen changes nothing"
    assert back.reopening(back.last_answer("ada")[1]) is None, "the learner has not used it any more"


def test_an_answer_that_was_not_used_needs_no_round_to_be_opened_again() -> None:
    state = two_rounds()
    _, answer = state.last_answer("bob") or pytest.fail("bob has answered")
    assert state.reopening(answer) is None


def test_a_round_can_be_opened_again_more_than_once() -> None:
    state = two_rounds()
    for _ in range(2):
        sample, slip = state.last_answer("ada")
        for row in (state.reopening(slip), events.undone(sample, "ada")):
            state.apply(row)
        for row in state.answering("q0", {"d": "fox"}, "ada"):
            state.apply(row)
        state.apply(events.believed(0, ["x"], ["fox"]))
        state.apply(events.asked(1, "q1", [{"sample": "f", "score": 1.0, "suggestion": None}]))
    assert (state.open, state.believed, state.reopened) == (["f"], {"x": "fox"}, 2)
    assert state.names.names == ("cat", "fox", "owl")
