"""Label issues of an adaptation by cleanlab: wrong labels come first, and no label judges itself."""

import sys
from typing import Any

import numpy as np
import pytest

from cual.bridges.cleanlab import label_issues, named_by_others, out_of_sample
from cual.errors import BadOption, Unavailable
from cual.learners import Accepted
from cual.loop.adaptation import Adaptation
from neighbours_page import run
from worlds import World, make_world


def told(world: World, wrong: dict[str, str], method: str = "cual-plus") -> Adaptation:
    """An adaptation that is over; some samples get a wrong label, as labels that are there already."""
    trained = {} if method == "cual-plus" else {"head_options": {"hidden": 64, "epochs": 40}}
    task = world.adapt(world.agent(method=method, **trained), budget=8)
    _ = task.ask()
    truth = dict(list(world.truth.items())[::3])
    task.volunteer({**truth, **wrong})
    return world.answer_all(task)


@pytest.fixture(scope="module")
def world() -> World:
    return make_world()


@pytest.fixture(scope="module")
def wrong(world: World) -> dict[str, str]:
    """Owls that somebody takes for cats."""
    return dict.fromkeys([i for i, name in world.truth.items() if name == "owl"][:3], "cat")


@pytest.mark.more
def test_each_label_is_judged_by_a_head_that_was_not_told_it(world: World, wrong: dict[str, str]) -> None:
    """So a label says nothing about itself: another one leaves its own probabilities as they were."""
    sample = next(iter(wrong))
    rows: list[Any] = []
    for label in ("cat", "dog"):
        task = told(world, {**wrong, sample: label})
        names, accepted = task.machine.settled(task.state)
        accepted = accepted.only(accepted.human == 1)
        place = accepted.rows.tolist().index(int(task.pool.ids.rows_of([sample])[0]))
        rows.append(out_of_sample(task, accepted, names)[place])
    assert np.array_equal(rows[0], rows[1])


def test_probabilities_of_all_classes_add_up_to_one(world: World) -> None:
    task = told(world, {})
    names, accepted = task.machine.settled(task.state)
    p = out_of_sample(task, accepted, names, folds=3)
    assert p.shape == (len(accepted.rows), len(names))
    assert np.allclose(p.sum(axis=1), 1)


def test_the_only_label_of_a_new_class_is_not_judged() -> None:
    accepted = Accepted(np.arange(5), np.array([0, 2, 3, 3, 1]), np.ones(5, np.int64))
    assert named_by_others(accepted, 2).tolist() == [True, False, True, True, True]


def test_one_fold_is_refused(world: World) -> None:
    task = told(world, {})
    names, accepted = task.machine.settled(task.state)
    with pytest.raises(BadOption, match="folds is at least 2"):
        out_of_sample(task, accepted, names, folds=1)


def test_an_unknown_way_is_refused(world: World) -> None:
    with pytest.raises(BadOption, match="self_confidence"):
        label_issues(world.adapt(), score="by_eye")


def test_a_missing_package_is_named_with_its_extra(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cleanlab.rank", None)
    with pytest.raises(Unavailable, match=r"pip install 'cual\[cleanlab\]'"):
        label_issues(world.adapt())


@pytest.mark.neighbours
@pytest.mark.parametrize("method", ["cual-plus", "cual"])
@pytest.mark.parametrize("score", ["self_confidence", "normalized_margin"])
def test_wrong_answers_come_first(world: World, wrong: dict[str, str], method: str, score: str) -> None:
    pytest.importorskip("cleanlab", reason="cleanlab is not installed")
    task = told(world, wrong, method)
    before = task.journal
    issues = label_issues(task, score=score)
    assert {issue.id for issue in issues} == {*task.answers, *task.pseudo_labels}
    assert task.journal == before
    scores = [issue.score for issue in issues if issue.score is not None]
    assert scores == sorted(scores)
    answers = [issue for issue in issues if issue.source == "answer"]
    assert {issue.id for issue in answers[: len(wrong)]} == set(wrong)
    for issue in answers[: len(wrong)]:
        assert issue.issue
        assert (issue.label, issue.suggestion) == ("cat", "owl")


@pytest.mark.neighbours
@pytest.mark.parametrize(
    "wrong_by", ["both", "confident_learning", "low_normalized_margin", "predicted_neq_given"]
)
def test_every_way_to_tell_wrong_ones_works(world: World, wrong: dict[str, str], wrong_by: str) -> None:
    pytest.importorskip("cleanlab", reason="cleanlab is not installed")
    flagged = {issue.id for issue in label_issues(told(world, wrong), wrong=wrong_by) if issue.issue}
    assert set(wrong) & flagged


@pytest.mark.neighbours
def test_an_adaptation_without_labels_has_no_issues(world: World) -> None:
    pytest.importorskip("cleanlab", reason="cleanlab is not installed")
    assert label_issues(world.adapt()) == []


@pytest.mark.neighbours
def test_the_example_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("cleanlab", reason="cleanlab is not installed")
    run("cual.bridges.cleanlab")
    assert len(capsys.readouterr().out.splitlines()) == 5
