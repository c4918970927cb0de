"""Renaming, joining, removing and splitting classes: exact where the head is, and said where it is not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cual.errors import BadLabels, SamplesMissing, TooFewSamples, UnknownClass
from cual.heads import Lesson, Ridge, Samples
from repair.labelled import NAMES, assert_same, draw, fitted, logits
from worlds import World, file_bytes

FIRST = draw(1).of("cat", "dog")
MORE = draw(2)
TEST = draw(3).X
AGENT = fitted(FIRST)
TAUGHT = AGENT.teach(MORE.X, MORE.y)


def test_a_class_gets_another_name_and_nothing_else_changes():
    agent = TAUGHT.rename_class("owl", "barn owl", person="ada", why="there are others")
    assert agent.version == 2
    assert agent.classes_.tolist() == ["cat", "dog", "fox", "hen", "barn owl"]
    np.testing.assert_array_equal(agent.predict_proba(TEST), TAUGHT.predict_proba(TEST))
    np.testing.assert_array_equal(agent.novelty(TEST), TAUGHT.novelty(TEST))
    change = {"change": "renamed", "class": "owl", "to": "barn owl", "how": "exact"}
    assert agent.history[-1] == {"version": 2, **change, "person": "ada", "why": "there are others"}
    assert TAUGHT.classes_.tolist() == ["cat", "dog", "fox", "hen", "owl"]


def test_names_that_cannot_be():
    with pytest.raises(BadLabels, match="there is a class 'hen' already; merge_classes"):
        TAUGHT.rename_class("owl", "hen")
    with pytest.raises(BadLabels, match="non-empty"):
        TAUGHT.rename_class("owl", "")
    with pytest.raises(BadLabels, match="is int"):
        TAUGHT.rename_class("owl", 3)
    with pytest.raises(UnknownClass, match=r"no class 'owls'; did you mean 'owl'\?"):
        TAUGHT.rename_class("owls", "barn owl")
    with pytest.raises(UnknownClass, match="no class 'zebra'; it knows 'cat', 'dog', 'fox', 'hen', 'owl'"):
        TAUGHT.remove_class("zebra")
    with pytest.raises(UnknownClass, match="is int"):
        TAUGHT.remove_class(3)


@given(
    st.integers(0, 1000),
    st.lists(st.sampled_from(NAMES), min_size=2, max_size=5, unique=True),
    st.sampled_from(["cual-plus", "oracle-ridge"]),
)
@settings(max_examples=25, deadline=None)
def test_a_merged_agent_is_the_one_that_was_taught_the_merged_labels(
    seed: int, classes: list[str], method: str
):
    into, *others = classes
    more = draw(seed, n=9).only(np.random.default_rng(seed).permutation(45)[:30])
    known = fitted(FIRST, method=method)
    first = [name for name in others if name in known.classes_]
    others = [name for name in others if name not in first and name in more.y]
    if into not in {*more.y, *known.classes_} or not others:
        return
    merged = known.teach(more.X, more.y).merge_classes(into, *others)
    taught = known.teach(more.X, np.where(np.isin(more.y, others), into, more.y))
    if method == "cual-plus":
        assert_same(merged, taught, TEST)
    mine, theirs = logits(merged, TEST), logits(taught, TEST)
    for name in theirs:
        np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-5, atol=1e-5)
    assert merged.history[-1]["change"] == "merged"


def test_first_classes_are_merged_as_if_they_had_been_one():
    """Which samples are held out hangs on the classes there, so the head is compared on what was learned."""
    first = draw(1)
    agent = fitted(first)
    merged = agent.merge_classes("owl", "cat")
    assert merged.classes_.tolist() == ["dog", "fox", "hen", "owl"]
    y = torch.tensor([merged.names.index("owl" if n == "cat" else n) for n in _names(agent)])
    none = Samples(agent.replay.X[:0], y[:0])
    head = Ridge(expand=-1).learn(Lesson(4, Samples(agent.replay.X, y), none, none), np.random.default_rng(0))
    head._seed = agent.head._seed  # random features of their own would make another head
    head = type(head).from_state({**head.state(), **_sums(agent, y, merged)}, expand=-1)
    X = torch.from_numpy(TEST)
    torch.testing.assert_close(merged.head.logits(X), head.logits(X), rtol=1e-5, atol=1e-5)
    assert set(merged.validation.y.tolist()) == {0, 1, 2, 3}
    assert len(merged.learned) == len(agent.learned)


def _names(agent) -> list[str]:
    return [agent.names.names[c] for c in agent.replay.y.tolist()]


def _sums(agent, y, merged) -> dict[str, torch.Tensor]:
    """Learned under merged labels by a head with the random features of the agent's."""
    fresh = Ridge.from_state({**agent.head.state(), "counts": torch.zeros(0, dtype=torch.float64)}, expand=-1)
    fresh._sums = agent.head._sums[:0]
    fresh._moment = torch.zeros_like(agent.head._moment)
    none = Samples(agent.replay.X[:0], y[:0])
    fresh._counts = agent.head._counts[:0]
    grown = fresh._copied(len(merged.names), torch.device("cpu"))
    return grown.learn(
        Lesson(len(merged.names), Samples(agent.replay.X, y), none, none), np.random.default_rng(0)
    ).state()


def test_a_merge_needs_two_classes():
    for classes in [("cat",), ("cat", "cat"), ("cat", "dog", "dog")]:
        with pytest.raises(BadLabels, match="each once"):
            TAUGHT.merge_classes(*classes)
    with pytest.raises(UnknownClass, match="did you mean 'dog'"):
        TAUGHT.merge_classes("cat", "dogs")


@given(st.integers(0, 1000), st.sampled_from(("owl", "fox", "hen")))
@settings(max_examples=20, deadline=None)
def test_an_agent_without_a_class_is_the_one_that_never_knew_it(seed: int, name: str):
    more = draw(seed)
    others = more.only(more.y != name)
    agent = AGENT.teach(more.X, more.y).remove_class(name)
    assert_same(agent, AGENT.teach(others.X, others.y), TEST)
    assert agent.history[-1]["how"] == "exact"
    assert agent.history[-1]["class"] == name


def test_what_the_memory_does_not_keep_of_a_class_must_be_given():
    small = fitted(FIRST, buffer=20).teach(MORE.X, MORE.y)
    with pytest.raises(SamplesMissing, match=r"'owl' was learned from 1\d samples, of which 4 are"):
        small.remove_class("owl")
    with pytest.raises(SamplesMissing):
        small.remove_class("owl", MORE.of("owl").X[:6])
    agent = small.remove_class("owl", MORE.X)  # others among them are left alone
    others = MORE.only(MORE.y != "owl")
    never = fitted(FIRST, buffer=20).teach(others.X, others.y)
    mine, theirs = logits(agent, TEST), logits(never, TEST)
    for name in theirs:
        np.testing.assert_allclose(mine[name], theirs[name], rtol=1e-5, atol=1e-5)
    assert agent.learned.marks.tolist() == never.learned.marks.tolist()


def test_without_its_samples_a_class_goes_but_for_its_spread():
    small = fitted(FIRST, buffer=20).teach(MORE.X, MORE.y)
    agent = small.remove_class("owl", exact=False)
    assert "owl" not in agent.classes_
    assert agent.history[-1]["how"] == "but for its spread"
    X = draw(3).only(draw(3).y != "owl")
    assert np.mean(agent.predict(X.X) == X.y) > 0.8
    before, after = small.head._moments()[3], agent.head._moments()[3]
    torch.testing.assert_close(before.tril(), after.tril(), rtol=1e-6, atol=1e-9)


def test_the_last_class_stays():
    agent = fitted(FIRST.of("cat"))
    with pytest.raises(TooFewSamples, match="one class at least"):
        agent.remove_class("cat")


@pytest.mark.parametrize("method", ["cual", "er-entropy", "ccic"])
def test_heads_that_train_are_trained_again_from_what_is_kept(
    method: str, caplog: pytest.LogCaptureFixture, tmp_path
):
    options = {} if method == "ccic" else {"head": {"hidden": 32, "epochs": 60}}
    agent = fitted(draw(1), method=method, **options)
    removed = agent.remove_class("owl")
    assert removed.history[-1]["how"] == "trained again"
    assert "trained again, from the 44 samples" in caplog.text
    assert removed.classes_.tolist() == ["cat", "dog", "fox", "hen"]
    merged = removed.merge_classes("cat", "dog")
    X = draw(3).of("cat", "dog", "hen", "fox")
    y = np.where(X.y == "dog", "cat", X.y)
    assert np.mean(merged.predict(X.X) == y) > 0.8
    assert merged.rename_class("cat", "pet").history[-1]["how"] == "exact"
    assert file_bytes(merged, tmp_path) == file_bytes(removed.merge_classes("cat", "dog"), tmp_path)


def test_a_class_is_split_by_asking_about_its_samples(world: World):
    both = [row for row, name in enumerate(world.truth.values()) if name not in ("cat", "dog")]
    ids = [world.ids[row] for row in both]
    agent = world.agent(method="cual-plus").teach(world.pool[both], ["bird or fox"] * len(both))
    task = agent.split("bird or fox", world.pool[both], budget=6, ids=ids)
    while query := task.ask():
        task.tell(query.id, {i: world.truth[i] for i in query.ids})
    after = task.finish()
    assert set(after.classes_) == {"cat", "dog", "owl", "Füchsin mit Schal"}
    assert after.history[-2]["why"] == "split"
    truth = [world.truth[i] for i in ids]
    assert np.mean(after.predict(world.pool[both]) == np.array(truth)) > 0.9
