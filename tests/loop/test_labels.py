"""Label rows against naive rules: which of them counts, and who said what of it when."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cual import SKIP
from cual.loop import events
from cual.loop.labels import LabelRow, Origins, Place, label_rows, whole_numbers
from cual.loop.state import State
from cual.types import Row
from worlds import World

ASKED, BELIEVED = ["a", "b", "c"], ["a", "x", "y", "z"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["answer", "answer", "settle", "undo", "believe", "believe", "confirm", "reject", "reopen"]
        ),
        st.sampled_from(ASKED),
        st.sampled_from(BELIEVED),
        st.sampled_from(["ada", "bob"]),
        st.sampled_from(["cat", "fox", "owl", SKIP]),
    ),
    max_size=25,
)


def happened(steps: list[tuple[str, str, str, str, object]]) -> list[Row]:
    """Events that such steps leave, each at a time of its own."""
    asked = [{"sample": sample, "score": 1.0, "zone": "novel", "suggestion": "fox"} for sample in ASKED]
    rows = [events.begun(9, ["cat"], None), events.asked(0, "q0", asked)]
    for kind, sample, other, person, answer in steps:
        state = State.of(rows)
        if kind == "answer":
            rows += state.answering("q0", {sample: answer}, person)
        elif kind == "settle":
            rows.append(events.answered("settled", "q0", sample, answer, person))
        elif kind == "undo" and state.questions[sample].latest(person):
            rows.append(events.undone(sample, person))
        elif kind == "believe" and answer is not SKIP:
            rows.append(events.believed(state.closed, [other], [answer]))
            rows.append(events.asked(state.closed + 1, f"q{state.closed + 1}", []))
        elif kind == "reopen" and state.closed:
            rows.append(events.reopened(state.closed - 1, f"q{state.closed - 1}", person))
        elif kind in ("confirm", "reject"):
            rows.append(events.judged([other], kind == "confirm", person))
    clock = count()
    return [{**row, "at": f"2026-01-01T00:00:{next(clock):02}+00:00"} for row in rows]


@settings(max_examples=300, deadline=None)
@given(steps=STEPS)
def test_one_row_counts_of_each_sample_that_has_a_label(steps: list[tuple[str, str, str, str, object]]) -> None:
    rows = happened(steps)
    state, origins = State.of(rows), Origins.of(rows)
    counting = list(label_rows(state, origins))
    answers = {sample: answer for sample, answer in state.answers.items() if answer is not SKIP}
    assert [(row.sample, row.label) for row in counting] == [
        *((sample, answers[sample]) for sample in state.questions if sample in answers),
        *((sample, label) for sample, label in state.pseudo_labels.items() if sample in state.believed),
    ]
    everything = list(label_rows(state, origins, everything=True))
    assert [row for row in everything if row.counts] == counting
    assert sum(row.source == "answer" for row in everything) == sum(
        len(q.given) for q in state.questions.values()
    )
    by_time = {row["at"]: row for row in rows}
    for row in everything:
        check_origin(row, by_time[row.at], rows)


def check_origin(row: LabelRow, event: Row, rows: list[Row]) -> None:
    """The event of a row's time is the one that it tells of."""
    if row.source == "answer":
        assert (row.sample, row.person) == (event["sample"], event["person"])
        assert row.label == (None if events.answer_of(event) is SKIP else events.answer_of(event))
        assert (row.score, row.zone, row.suggestion, row.round) == (1.0, "novel", "fox", 0)
        return
    assert row.sample in event["samples"]
    gone = events.withdrawn(rows)
    believed = [r for place, r in enumerate(rows) if r["event"] == "believed" and place not in gone]
    beliefs = [r for r in believed if row.sample in r["samples"]]
    assert (row.label, row.round) == (beliefs[-1]["labels"][0], beliefs[-1]["round"])
    if row.source == "verdict":
        assert row.person == event["person"]
        assert row.verdict == {"confirmed": "confirm", "rejected": "reject"}[event["event"]]
        assert event["at"] > beliefs[-1]["at"], "nobody has looked at what was believed later"
    else:
        assert event == beliefs[-1]
        assert row.person is None


def test_what_was_withdrawn_is_forgotten() -> None:
    rows = [events.believed(0, ["a", "b"], ["fox", "fox"]), events.believed(1, ["a", "c"], ["owl", "owl"])]
    origins = Origins.of([*rows, events.judged(["a"], True, "ada"), {"event": "reopened", "round": 1}])
    assert origins.believed_in == {"a": 0, "b": 0}
    assert origins.verdict_on("a", "fox") is None
    origins.apply(events.believed(1, ["c"], ["elk"]))
    assert origins.beliefs[origins.believed_in["c"]].round == 1
    origins.apply({"event": "reopened", "round": 0})
    assert origins.believed_in == {}


def test_a_verdict_is_of_the_label_that_was_looked_at() -> None:
    early = events.judged(["a", "b"], True, "ada", ["fox", "fox"])
    refused = events.judged(["c"], False, "ada", ["fox"], instead="owl")
    rows = [early, events.believed(0, ["a", "b", "c"], ["fox", "owl", "fox"]), refused]
    origins = Origins.of(rows)
    assert origins.verdict_on("a", "fox") is not None
    assert origins.verdict_on("b", "owl") is None, "it was confirmed as a fox"
    refusal = origins.verdict_on("c", "fox")
    assert refusal is not None
    assert (refusal.right, refusal.instead) == (False, "owl")
    origins.apply(events.unjudged(["c"], "ada"))
    assert origins.verdict_on("c", "fox") is None


@pytest.mark.parametrize(
    ("samples", "classes", "numbers"),
    [
        ([1, 2], ["cat"], {"sample"}),
        (["a"], [1, 2], {"label"}),
        ([1], [3], {"sample", "label"}),
        ([1, "a"], [], {"label"}),
    ],
)
def test_which_columns_hold_numbers(samples: list[object], classes: list[object], numbers: set[str]) -> None:
    asked = [{"sample": sample, "score": 1.0} for sample in samples]
    assert whole_numbers(State.of([events.begun(3, classes, None), events.asked(0, "q0", asked)])) == numbers


def test_a_real_adaptation(world: World) -> None:
    task = world.answer_all(world.adapt())
    doubtful = list(task.pseudo_labels)
    task.reject(doubtful[:2])
    task.confirm(doubtful[2:3])
    place = {sample: Place(row, task.doubts.get(sample)) for row, sample in enumerate(task.pool.ids)}
    rows = list(label_rows(task.state, Origins.of(task.journal), place_of=place.__getitem__))
    assert {row.sample: row.label for row in rows} == task.answers | task.pseudo_labels
    assert [row.sample for row in rows if row.source == "verdict"] == doubtful[2:3]
    assert all(task.pool.ids[row.row] == row.sample for row in rows if row.row is not None)
    assert {row.sample: row.doubt for row in rows if row.doubt is not None} == task.doubts
