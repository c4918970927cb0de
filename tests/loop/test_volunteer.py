"""Labels that are there already count as answers, cost nothing unless they were asked for, and are kept."""

import numpy as np
import pytest

from cual import Adaptation
from cual.errors import AlreadyFinished, BadLabels, UnknownSample
from cual.export.saved import saved_labels
from cual.loop import files
from worlds import World, file_bytes


@pytest.fixture
def task(world: World) -> Adaptation:
    return world.adapt(world.agent(method="cual-plus"), budget=6)


def unasked(world: World, task: Adaptation, n: int = 20) -> dict[str, str]:
    """Labels of samples that the first question is not about."""
    query = task.ask()
    assert query is not None
    left = [sample for sample in world.ids if sample not in query.ids]
    return {sample: world.truth[sample] for sample in left[:n]}


def test_they_are_answers_that_cost_nothing(world: World, task: Adaptation) -> None:
    labels = unasked(world, task)
    assert task.volunteer(labels, person="ada") == 20
    assert task.volunteer(labels, person="ada") == 0
    assert task.labels_used == 0
    assert {sample: task.answers[sample] for sample in labels} == labels
    assert task.outcome["volunteered"] == 20
    world.answer_all(task)
    assert task.labels_used == 6
    assert not set(labels) & set(task.pseudo_labels)
    rows = [row for row in task.ledger if row.get("recorded")]
    assert [row["charged"] for row in rows] == [0] * 20
    agent = task.finish()
    assert agent.history[-1]["volunteered"] == 20
    with pytest.raises(AlreadyFinished):
        task.volunteer({world.ids[0]: "cat"})


def test_the_learner_uses_them_at_once(world: World, task: Adaptation) -> None:
    owls = {sample: name for sample, name in unasked(world, task, 70).items() if name == "owl"}
    task.volunteer(owls)
    task.stop()
    agent = task.finish()
    assert agent.classes_.tolist() == ["cat", "dog", "owl"]
    assert "owl" in task.pseudo_labels.values() or len(owls) == 15


def test_what_was_asked_for_is_charged_and_what_was_said_can_be_corrected(
    world: World, task: Adaptation
) -> None:
    query = task.ask()
    assert query is not None
    first = query.ids[0]
    assert task.volunteer({first: world.truth[first]}) == 1
    assert task.labels_used == 1
    labels = unasked(world, task, 2)
    wrong = dict.fromkeys(labels, "Eule")
    task.volunteer(wrong)
    assert task.volunteer(labels) == len(labels)
    assert {sample: task.answers[sample] for sample in labels} == labels
    assert task.labels_used == 1


def test_what_is_no_label_or_no_sample_is_refused_and_nothing_is_kept(world: World, task: Adaptation) -> None:
    with pytest.raises(UnknownSample, match="no sample 'zebra'"):
        task.volunteer({world.ids[0]: "cat", "zebra": "cat"})
    with pytest.raises(BadLabels):
        task.volunteer({world.ids[0]: 3})
    assert task.answers == {}


def test_a_resumed_adaptation_ends_in_the_same_bits(world: World, task: Adaptation, tmp_path) -> None:
    task.volunteer(unasked(world, task), person="ada")
    task.save(tmp_path / "task")
    (tmp_path / "task" / files.CACHE).unlink()
    again = Adaptation.load(tmp_path / "task")
    one, other = (file_bytes(world.answer_all(t).finish(), tmp_path) for t in (task, again))
    assert one == other
    rows = list(saved_labels(tmp_path / "task", False).rows)
    assert sum(row.source == "answer" and row.person == "ada" for row in rows) == 20


def test_before_anything_was_asked_the_first_round_is_opened(world: World, task: Adaptation) -> None:
    task.volunteer(dict(list(world.truth.items())[-3:]))
    assert task.state.opened == 1
    assert np.isfinite([row["score"] for row in task.ledger]).all()
