import numpy as np
import pytest

from cual import SKIP
from cual.bench.annotators import Recorded
from cual.errors import BadOption

LABELS = np.array(["cat", "dog", "owl"] * 1000)
CLASSES = ["cat", "dog", "owl"]


def test_answers_are_the_recorded_labels_and_each_is_counted_once():
    annotator = Recorded(LABELS, CLASSES, seed=0, task=1)
    assert annotator.answer([0, 4, 5]) == {0: "cat", 4: "dog", 5: "owl"}
    annotator.answer([5, 6])
    assert (annotator.paid, annotator.skipped) == (4, 0)


def test_rates_of_mistakes_and_skips():
    annotator = Recorded(LABELS, CLASSES, seed=3, task=1, wrong=0.3, skip=0.2)
    said = annotator.answer(range(3000))
    skipped = [i for i, a in said.items() if a is SKIP]
    wrong = [i for i, a in said.items() if a is not SKIP and a != LABELS[i]]
    assert len(skipped) == annotator.skipped == 3000 - annotator.paid
    assert len(skipped) / 3000 == pytest.approx(0.2, abs=0.03)
    assert len(wrong) / annotator.paid == pytest.approx(0.3, abs=0.03)
    confused = [said[i] for i in wrong if LABELS[i] == "cat"]
    assert confused.count("dog") / len(confused) == pytest.approx(0.5, abs=0.1)


def test_the_same_sample_gets_the_same_answer_whenever_and_with_whomever_it_is_asked():
    noise = {"seed": 1, "task": 2, "wrong": 0.4, "skip": 0.2}
    at_once = Recorded(LABELS, CLASSES, **noise).answer(range(200))
    later = Recorded(LABELS, CLASSES, **noise)
    assert {i: later.answer([i])[i] for i in reversed(range(200))} == at_once
    assert Recorded(LABELS, CLASSES, **noise | {"seed": 2}).answer(range(200)) != at_once


def test_a_wrong_answer_needs_another_class():
    assert Recorded(LABELS, ["cat"], seed=0, task=1, wrong=1.0).answer([0]) == {0: "cat"}


@pytest.mark.parametrize("rates", [{"wrong": 1.2}, {"skip": 1.0}, {"skip": -0.1}])
def test_rates_are_shares(rates):
    with pytest.raises(BadOption):
        Recorded(LABELS, CLASSES, seed=0, task=1, **rates)
