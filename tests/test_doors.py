"""Whatever is passed to a door of the library, only errors of cual come out, and nothing is changed then."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cual import SKIP, Adaptation, Agent, Pool
from cual.errors import BadFeatures, BadLabels, BadOption, CualError, UnknownQuery, UnknownSample
from odd import THINGS, anything, things
from worlds import SMALL, make_world

pytestmark = pytest.mark.more

WORLD = make_world()
PAIR = WORLD.X[:2]
Door = Callable[[Any], object]


@cache
def agent() -> Agent:
    return WORLD.agent()


@cache
def finished() -> Adaptation:
    """An adaptation that believes something, and is not finished."""
    return WORLD.answer_all(WORLD.adapt(agent()))


def asking() -> Adaptation:
    """An adaptation with open questions; what was computed is taken from one that was made before."""
    task = WORLD.adapt(agent())
    assert task.ask() is not None
    return task


SAMPLE = asking().state.open[0]
BELIEVED = next(iter(finished().pseudo_labels))
FEATURES: dict[str, Door] = {
    "fit": lambda v: Agent.fit(v, ["a", "b"], **SMALL),
    "teach": lambda v: agent().teach(v, ["cat", "dog"]),
    "predict": lambda v: agent().predict(v),
    "predict_proba": lambda v: agent().predict_proba(v),
    "novelty": lambda v: agent().novelty(v),
    "novelty_together": lambda v: agent().novelty_together(v),
    "calibrated": lambda v: agent().calibrated(v),
    "adapt": lambda v: agent().adapt(v, 1),
    "Pool": Pool,
    "forget": lambda v: agent().forget(v),
    "split_class": lambda v: agent().split_class("cat", v, ["cat"]),
}
LABELS: dict[str, Door] = {
    "fit": lambda v: Agent.fit(PAIR, v, **SMALL),
    "one of fit": lambda v: Agent.fit(PAIR, [v, "dog"], **SMALL),
    "teach": lambda v: agent().teach(PAIR, v),
    "split_class": lambda v: agent().split_class("cat", WORLD.X[:30], v),
    "rename_class": lambda v: agent().rename_class(v, "owl"),
    "to rename_class": lambda v: agent().rename_class("cat", v),
    "merge_classes": lambda v: agent().merge_classes("cat", v),
    "remove_class": lambda v: agent().remove_class(v),
    "propose_split": lambda v: agent().propose_split(v),
}
OTHERS: dict[str, Door] = {
    "ids": lambda v: Pool(PAIR, v),
    "an id": lambda v: Pool(PAIR, [v, "x"]),
    "ids of adapt": lambda v: agent().adapt(WORLD.pool, 5, ids=v),
    "budget": lambda v: agent().adapt(WORLD.pool, v),
    "overlap": lambda v: agent().adapt(WORLD.pool, 5, overlap=v),
    "method": lambda v: Agent.fit(WORLD.X, WORLD.y, method=v, epochs=1),
    "seed": lambda v: Agent.fit(PAIR, ["a", "b"], **SMALL, seed=v),
    "device": lambda v: Agent.fit(PAIR, ["a", "b"], **SMALL, device=v),
    "encoder": lambda v: Agent.fit(PAIR, ["a", "b"], **SMALL, encoder=v),
    "encoder of a pool": lambda v: Pool(PAIR, encoder=v),
    "buffer": lambda v: Agent.fit(PAIR, ["a", "b"], **{**SMALL, "buffer": v}),
    "alpha": lambda v: Agent.fit(PAIR, ["a", "b"], **SMALL, alpha=v),
    "threshold_at": lambda v: agent().threshold_at(v),
    "parts": lambda v: agent().propose_split("cat", v),
    "answered": lambda v: agent().split_class("cat", WORLD.X[:30], ["cat"] * 30, answered=v, exact=False),
    "forget_answers of": lambda v: agent().forget_answers(finished(), of=v),
    "forget_answers of samples": lambda v: agent().forget_answers(finished(), samples=v),
    "forget_answers of task": lambda v: agent().forget_answers(v, of="ada"),
    "why": lambda v: agent().rename_class("cat", "tomcat", why=v),
    "person": lambda v: agent().rename_class("cat", "tomcat", person=v),
}
TASK: dict[str, Callable[[Adaptation, Any], object]] = {
    "tell a query": lambda task, v: task.tell(v, {SAMPLE: "cat"}),
    "tell": lambda task, v: task.tell("q0", v),
    "tell a label": lambda task, v: task.tell("q0", {SAMPLE: v}),
    "tell a person": lambda task, v: task.tell("q0", {SAMPLE: "cat"}, v),
    "settle": lambda task, v: task.settle("q0", v),
    "settle a label": lambda task, v: task.settle("q0", {SAMPLE: v}),
    "volunteer": lambda task, v: task.volunteer(v),
    "volunteer a label": lambda task, v: task.volunteer({SAMPLE: v}),
    "correct": lambda task, v: task.correct(v),
    "reject": lambda task, v: task.reject(v),
    "reject one": lambda task, v: task.reject([v]),
    "confirm": lambda task, v: task.confirm(v),
    "confirm one": lambda task, v: task.confirm([v]),
    "unjudge": lambda task, v: task.unjudge(v),
    "stop": lambda task, v: task.stop(v),
    "raise_budget": lambda task, v: task.raise_budget(v),
    "raise_budget by": lambda task, v: task.raise_budget(9, v),
    "finish by": lambda task, v: task.finish(v),
    "merges": lambda task, v: task.merges(v),
}


def tried(door: Callable[..., object], *values: Any) -> bool:
    """Whether a door takes a value; whatever it raises but errors of cual ends the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            door(*values)
        except CualError:
            return False
    return True


@pytest.mark.parametrize("door", FEATURES.values(), ids=FEATURES)
def test_odd_features(door: Door):
    taken = [value for value in THINGS if tried(door, value)]
    assert all(len(value) == 0 for value in taken), "only empty tables are features among these"


@pytest.mark.parametrize("door", LABELS.values(), ids=LABELS)
def test_odd_labels(door: Door):
    for value in THINGS:
        tried(door, value)


@pytest.mark.parametrize("door", OTHERS.values(), ids=OTHERS)
def test_other_odd_arguments(door: Door):
    for value in THINGS:
        tried(door, value)


@pytest.mark.parametrize("name", TASK)
def test_odd_arguments_of_an_adaptation(name: str, tmp_path):
    task = asking()
    for value in THINGS:
        before = task.journal
        if tried(TASK[name], task, value):
            task.save(tmp_path)  # what was taken can be written down …
            assert Adaptation.load(tmp_path).journal == task.journal  # … and is the same when read again
            task = asking()
        else:
            assert task.journal == before, "what is refused leaves nothing behind"


@given(st.sampled_from(sorted(TASK)), anything)
@settings(max_examples=150, deadline=None)
def test_an_adaptation_under_anything(name: str, value: Any):
    task = asking()
    before = task.journal
    if not tried(TASK[name], task, value):
        assert task.journal == before


@given(
    st.dictionaries(things.filter(lambda v: v.__hash__ is not None) | st.just(SAMPLE), anything, max_size=3),
    st.sampled_from(["tell", "settle", "volunteer", "correct"]),
)
@settings(deadline=None)
def test_answers_under_anything(answers: dict[Any, Any], door: str):
    task = asking()
    tried(TASK[door], task, answers)
    assert set(task.answers) <= {SAMPLE}


@given(st.sampled_from([*FEATURES.values(), *LABELS.values(), *OTHERS.values()]), anything)
@settings(max_examples=200, deadline=None)
def test_doors_under_anything(door: Door, value: Any):
    tried(door, value)


# -- what the errors say ---------------------------------------------------------------------------------------


def test_errors_say_what_was_meant():
    task = asking()
    refused: list[tuple[type[CualError], str, Callable[[], object]]] = [
        (BadFeatures, "rows of different lengths", lambda: agent().predict([[1.0, 2.0], [3.0]])),
        (BadLabels, "one for each sample", lambda: Agent.fit(PAIR, 3, **SMALL)),
        (BadLabels, "one for each sample", lambda: Agent.fit(WORLD.X[:3], "cat", **SMALL)),
        (BadFeatures, "ids come as a list", lambda: Pool(PAIR, 3)),
        (BadFeatures, "ids come as a list", lambda: Pool(PAIR, "ab")),
        (BadLabels, "by the id of each sample", lambda: task.tell("q0", ["cat"])),
        (UnknownQuery, "asked so far: q0", lambda: task.tell(np.array(0), {SAMPLE: "cat"})),
        (UnknownSample, "a str or an int", lambda: task.tell("q0", {None: "cat"})),
        (BadOption, "ids of samples", lambda: task.reject(BELIEVED)),
        (BadOption, "person is", lambda: task.tell("q0", {SAMPLE: "cat"}, person=["ada"])),
        (BadOption, "parts is", lambda: agent().propose_split("cat", 2.0)),
    ]
    for kind, words, door in refused:
        with pytest.raises(kind, match=words):
            door()


def test_numbers_as_ids_are_whole():
    """1.5 was taken for the sample 1."""
    task = agent().adapt(WORLD.pool, 8)
    for sample in (1.5, True, np.array(1), "1"):
        with suppress(TypeError), pytest.raises(UnknownSample):  # an array is no key of a dict
            task.volunteer({sample: "cat"})
    assert task.volunteer({np.int64(1): "cat", 2.0: "cat"}) == 2
    assert list(task.answers) == [1, 2]
    assert all(type(sample) is int for sample in task.answers)


def test_people_have_names_or_numbers(tmp_path):
    for person in ("ada", 7, np.int64(7), np.str_("ada")):
        task = asking()
        task.tell("q0", {SAMPLE: SKIP}, person=person)
        task.save(tmp_path / str(person))
        assert Adaptation.load(tmp_path / str(person)).ledger == task.ledger
