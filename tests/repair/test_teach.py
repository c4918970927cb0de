"""Teaching: labelled data goes in without questions, once, and the right way round."""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cual import Agent
from cual.errors import BadFeatures, BadLabels, DuplicateIds, TooFewSamples
from cual.held_out import held_out_of_taught
from cual.learned import Learned, coins, marks_of
from repair.labelled import assert_same, draw, fitted
from worlds import World, file_bytes

FIRST = draw(1).of("cat", "dog")
MORE = draw(2)
TEST = draw(3).X
AGENT = fitted(FIRST)


def test_new_classes_and_more_of_known_ones_are_learned_at_once():
    agent = AGENT.teach(MORE.X, MORE.y, person="ada", why="labels of May")
    assert agent.version == 1
    assert agent.classes_.tolist() == ["cat", "dog", "fox", "hen", "owl"]
    assert np.mean(agent.predict(TEST) == draw(3).y) > 0.9
    (row,) = agent.history
    assert row["change"] == "taught"
    assert row["samples"] == len(MORE.y) == len(agent.learned) + len(agent.validation) - len(FIRST.y)
    assert row["new_classes"] == ["fox", "hen", "owl"]
    assert (row["how"], row["person"], row["why"]) == ("exact", "ada", "labels of May")
    assert AGENT.version == 0
    assert AGENT.classes_.tolist() == ["cat", "dog"]


def test_the_old_agent_is_unchanged_and_the_new_one_is_the_same_every_time(tmp_path):
    before = file_bytes(AGENT, tmp_path)
    one = file_bytes(AGENT.teach(MORE.X, MORE.y), tmp_path)
    assert one == file_bytes(AGENT.teach(MORE.X, MORE.y), tmp_path)
    assert before == file_bytes(AGENT, tmp_path)
    Agent.load(tmp_path / "agent.safetensors")


def test_the_closed_form_has_learned_what_it_would_have_at_once():
    agent = AGENT.teach(MORE.X, MORE.y)
    halves = AGENT.teach(MORE.X[::2], MORE.y[::2]).teach(MORE.X[1::2], MORE.y[1::2])
    assert_same(agent, halves, TEST)
    assert halves.version == 2


def test_a_share_is_held_out_and_never_learned():
    many = draw(4, n=300)
    agent = AGENT.teach(many.X, many.y)
    held_out = len(agent.validation) - len(AGENT.validation)
    assert agent.history[-1]["held_out"] == held_out
    assert 0.07 < held_out / len(many.y) < 0.13
    assert not np.isin(marks_of(agent.validation.X), agent.learned.marks).any()
    assert agent.verified_mask.all()
    assert (
        float(agent.head.counts.sum())
        == len(agent.learned)
        == len(FIRST.y) + len(many.y) - len(agent.validation)
    )


def test_what_was_learned_is_not_learned_twice():
    once = AGENT.teach(MORE.X, MORE.y)
    twice = once.teach(np.concatenate([MORE.X, MORE.X]), np.concatenate([MORE.y, MORE.y]))
    assert_same(once, twice, TEST)
    row = twice.history[-1]
    assert (row["samples"], row["replaced"], row["new_classes"]) == (0, 0, [])
    assert once.history[-1]["held_out"] > 0
    assert row["known_before"] == len(MORE.y)


@given(st.integers(0, 50))
@settings(max_examples=15, deadline=None)
def test_a_label_that_is_taught_replaces_the_one_before(seed: int):
    rng = np.random.default_rng(seed)
    wrong = np.where(rng.random(len(MORE.y)) < 0.2, rng.permutation(MORE.y), MORE.y)
    mistaken = AGENT.teach(MORE.X, wrong)
    right, never = mistaken.teach(MORE.X, MORE.y), AGENT.teach(MORE.X, MORE.y)
    assert right.history[-1]["replaced"] == (wrong != MORE.y).sum()
    if mistaken.history[0]["held_out"] == never.history[0]["held_out"]:  # else a class had no other sample
        assert_same(right, never, TEST)


def test_a_class_whose_samples_all_get_other_labels_is_gone():
    agent = AGENT.teach(MORE.X, MORE.y)
    foxes = MORE.of("fox")
    split = agent.teach(foxes.X, np.where(np.arange(len(foxes.y)) % 2, "red fox", "grey fox"))
    assert split.classes_.tolist() == ["cat", "dog", "hen", "owl", "grey fox", "red fox"]
    assert split.history[-1]["removed_classes"] == ["fox"]


def test_a_belief_that_is_confirmed_is_a_label_of_a_person(world: World):
    agent = world.answer_all(world.adapt(world.agent(method="cual-plus"))).finish()
    believed = int((~agent.learned.human).sum())
    assert believed
    after = agent.teach(world.pool, list(world.truth.values()))
    assert after.learned.human.all()
    assert after.history[-1]["known_before"] >= believed / 2


def test_samples_that_are_held_out_get_their_new_label_there():
    label = AGENT.names.names[int(AGENT.validation.y[0])]
    other = "dog" if label == "cat" else "cat"
    agent = AGENT.teach(AGENT.validation.X[:1].numpy(), [other])
    assert agent.names.names[int(agent.validation.y[0])] == other
    assert len(agent.validation) == len(AGENT.validation)
    assert len(agent.learned) == len(AGENT.learned)


def test_a_new_class_of_nothing_but_held_out_samples_is_learned_from_them():
    agent = AGENT.teach(AGENT.validation.X[:1].numpy(), ["owl"])
    assert float(agent.head.counts[2]) == 1
    assert len(agent.validation) == len(AGENT.validation) - 1


@pytest.mark.parametrize("method", ["cual", "er-entropy"])
def test_heads_that_train_are_trained_once_and_it_says_so(method: str, caplog: pytest.LogCaptureFixture):
    agent = fitted(FIRST, method=method, head={"hidden": 32, "epochs": 80})
    with caplog.at_level(logging.INFO):
        after = agent.teach(MORE.X, MORE.y)
    assert after.history[-1]["how"] == "trained with replay"
    assert "trained with replay" in caplog.text
    assert np.mean(after.predict(TEST) == draw(3).y) > 0.8
    assert len(after.models) in (0, 5)
    again = after.teach(MORE.X[:1], ["cat" if MORE.y[0] != "cat" else "dog"])
    assert again.history[-1]["how"] == "trained again"


def test_an_adaptation_goes_on_after_teaching(world: World):
    agent = world.agent(method="cual-plus").teach(owls_of(world), ["owl"] * 5)
    after = world.answer_all(world.adapt(agent, budget=6)).finish()
    assert after.version == 2
    assert "owl" in after.classes_


def owls_of(world: World) -> np.ndarray:
    owls = [row for row, name in enumerate(world.truth.values()) if name == "owl"]
    return world.pool[owls[:5]]


def test_what_does_not_fit_is_refused():
    with pytest.raises(BadFeatures, match="4 wide"):
        AGENT.teach(MORE.X[:, :4], MORE.y)
    with pytest.raises(BadLabels, match="60 samples came with 59"):
        AGENT.teach(MORE.X, MORE.y[:-1])
    with pytest.raises(BadLabels, match="is int, but the classes known so far are str"):
        AGENT.teach(MORE.X, np.arange(len(MORE.y)))
    with pytest.raises(TooFewSamples):
        AGENT.teach(MORE.X[:0], [])
    with pytest.raises(DuplicateIds):
        AGENT.teach(MORE.X[:2], MORE.y[:2], ids=["a", "a"])
    with pytest.raises(BadLabels, match=r"sample 'a' and sample 'b' have the same features.*'cat'.*'dog'"):
        AGENT.teach(MORE.X[[0, 0]], ["cat", "dog"], ids=["a", "b"])
    with pytest.raises(BadFeatures, match="NaN"):
        AGENT.teach(np.full((1, 8), np.nan), ["cat"])


def test_marks_depend_on_every_bit_and_on_nothing_else():
    X = draw(5).X
    marks = marks_of(torch.from_numpy(X))
    assert len(np.unique(marks)) == len(X)
    np.testing.assert_array_equal(marks, marks_of(torch.from_numpy(X.copy(order="F"))))
    np.testing.assert_array_equal(marks[7:9], marks_of(torch.from_numpy(X[7:9])))
    close = X.copy()
    close[:, 3] = np.nextafter(close[:, 3], np.inf)
    assert not np.isin(marks_of(torch.from_numpy(close)), marks).any()
    zeros = np.zeros((1, 8), np.float32)
    assert marks_of(torch.from_numpy(zeros)) == marks_of(torch.from_numpy(-zeros))


def test_coins_are_fair_and_of_the_seed():
    marks = marks_of(torch.from_numpy(draw(6, n=2000).X))
    for seed in (0, 1):
        assert abs((coins(marks, seed) < 0.1).mean() - 0.1) < 0.01
    assert abs(np.corrcoef(coins(marks, 0), coins(marks, 1))[0, 1]) < 0.05


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 5)), unique_by=lambda row: row[0]))
@settings(deadline=None)
def test_no_new_class_is_held_out_whole_and_no_sample_depends_on_others(rows: list[tuple[int, int]]):
    marks = np.array([mark for mark, _ in rows], np.int64)
    codes = np.array([code for _, code in rows], np.int64)
    held_out = held_out_of_taught(marks, codes, 2, 0.5, 0)
    for c in set(codes[codes >= 2].tolist()):
        assert not held_out[codes == c].all()
    known = codes < 2
    np.testing.assert_array_equal(held_out[known], held_out_of_taught(marks[known], codes[known], 2, 0.5, 0))


def test_a_record_has_an_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cual.learned.MOST", 3)
    marks = np.arange(5)
    record = Learned.nothing().plus(marks[:3], marks[:3], None, marks[:3] > 0)
    assert record.complete
    more = record.plus(marks[3:], marks[3:], None, marks[3:] > 0)
    assert (len(more), more.complete) == (3, False)
