import numpy as np
import pytest

from cual import SKIP
from cual.bench.annotators import Recorded, second_names
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


def test_classes_that_are_confused_are_taken_for_one_another():
    plain, confused = (
        Recorded(LABELS, CLASSES, seed=0, task=1, wrong=0.5, confused=new) for new in ((), ("dog", "owl"))
    )
    before, after = plain.answer(range(3000)), confused.answer(range(3000))
    wrong = [i for i, answer in before.items() if answer != LABELS[i]]
    assert [i for i, answer in after.items() if answer != LABELS[i]] == wrong, "the same ones are wrong"
    assert {(LABELS[i].item(), before[i]) for i in wrong} == {
        (a, b) for a in CLASSES for b in CLASSES if a != b
    }
    assert {(LABELS[i].item(), after[i]) for i in wrong} == {
        ("dog", "owl"), ("owl", "dog"), ("cat", "dog"), ("cat", "owl"),
    }  # fmt: skip


def test_a_class_that_is_confused_with_no_other_is_taken_for_any():
    plain, alone = (
        Recorded(LABELS, CLASSES, seed=0, task=1, wrong=1.0, confused=new).answer(range(50))
        for new in ((), ("owl",))
    )
    assert plain == alone


def test_a_share_of_the_samples_goes_by_a_second_name():
    noise = {"seed": 5, "wrong": 0.2, "skip": 0.1}
    plain = Recorded(LABELS, CLASSES, task=1, **noise).answer(range(3000))
    named = Recorded(LABELS, CLASSES, task=1, synonyms=0.3, **noise).answer(range(3000))
    other = {i for i in plain if plain[i] is not SKIP and named[i] != plain[i]}
    assert {i for i in plain if plain[i] is SKIP} == {i for i in named if named[i] is SKIP}
    assert all(named[i] == f"{plain[i]} (2)" for i in other)
    assert len(other) / sum(answer is not SKIP for answer in plain.values()) == pytest.approx(0.3, abs=0.03)
    clean = {"seed": 5, "synonyms": 0.3}
    first, later = (Recorded(LABELS, CLASSES, task=t, **clean).answer(range(300)) for t in (1, 2))
    assert first == later, "a sample that is met again has the same name"
    assert Recorded(LABELS, CLASSES, task=1, **clean | {"seed": 6}).answer(range(300)) != first


@pytest.mark.parametrize("names", [["a", "a (2)", "b"], [3, -1, 7], ["1", "2"]])
def test_second_names_are_names_of_no_class(names):
    second = second_names(names)
    assert list(second) == names
    assert len({*names, *second.values()}) == 2 * len(names)
    assert {type(name) for name in second.values()} == {type(name) for name in names}


@pytest.mark.parametrize("rates", [{"wrong": 1.2}, {"skip": 1.0}, {"skip": -0.1}, {"synonyms": 2.0}])
def test_rates_are_shares(rates):
    with pytest.raises(BadOption):
        Recorded(LABELS, CLASSES, seed=0, task=1, **rates)
