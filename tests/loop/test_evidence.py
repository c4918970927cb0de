"""The accuracy that people are shown: labels of people only, predicted without themselves, with an interval."""

from typing import Any

import numpy as np
import pytest
import torch

from cual import Agent
from cual.loop.evidence import estimate
from worlds import World


def adapted(world: World, **options: Any) -> tuple[Agent, Any, Agent]:
    before = world.agent(method="cual-plus", **options)
    task = world.answer_all(world.adapt(before, budget=12))
    return before, task, task.finish()


def test_accuracy_is_the_mean_over_classes_of_weighted_shares() -> None:
    labels = ["a", "a", "a", "b", "b"]
    predicted = ["a", "a", "b", "b", "a"]
    weights = np.array([1, 1, 2, 3, 1], np.float32)
    accuracy = estimate(labels, predicted, weights)
    assert accuracy.value == pytest.approx((2 / 4 + 3 / 4) / 2)
    assert (accuracy.samples, accuracy.classes) == (5, 2)


def test_the_interval_narrows_with_samples_and_holds_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    widths: list[float] = []
    for n in (5, 50, 500):
        hits = 0
        width = 0.0
        for _ in range(300):
            right = rng.random(n) < 0.8
            accuracy = estimate(["a"] * n, ["a" if r else "b" for r in right], np.ones(n, np.float32), alike=1)
            hits += accuracy.low <= 0.8 <= accuracy.high
            width += accuracy.high - accuracy.low
        widths.append(width)
        assert hits / 300 > 0.9
    assert widths[0] > widths[1] > widths[2]


def test_pseudo_labels_count_for_nothing(world: World) -> None:
    _, task, after = adapted(world)
    evidence = task.evidence()
    rows = {row.tobytes(): sample for row, sample in zip(world.pool, world.ids, strict=True)}
    samples = [rows.get(x.numpy().tobytes()) for x in evidence.X]
    assert {sample for sample in samples if sample} <= task.answers.keys()
    assert len(task.pseudo_labels) > 10
    assert sum(sample is None for sample in samples) == len(task.agent.validation)  # all first labels
    assert after.verified is not None
    believed = {world.pool[world.ids.index(str(s))].tobytes() for s in task.pseudo_labels}
    assert after.verified.tolist() == [x.numpy().tobytes() not in believed for x in after.validation.X]
    assert not after.verified.all()


def test_an_answer_is_predicted_by_a_learner_that_was_not_told_it(world: World) -> None:
    """A lie about one sample of a class cannot confirm itself."""
    task = world.adapt(world.agent(method="cual-plus"), budget=12)
    lie = ""
    while query := task.ask():
        answers = {i: world.truth[str(i)] for i in query.ids}
        if not lie:
            lie = next(str(i) for i in query.ids if world.truth[str(i)] == "owl")
            answers[lie] = "unicorn"
        task.tell(query.id, answers)
    evidence = task.evidence()
    at = evidence.labels.index("unicorn")
    assert evidence.predicted[at] != "unicorn"
    accuracy = evidence.after(task.finish())
    assert accuracy is not None
    assert accuracy.value < 1


def test_versions_are_compared_on_the_same_samples(world: World) -> None:
    before, task, after = adapted(world)
    evidence = task.evidence()
    was, is_now = evidence.before(before), evidence.after(after)
    assert was is not None
    assert is_now is not None
    assert (was.samples, was.classes) == (is_now.samples, is_now.classes) == (len(evidence.labels), 4)
    assert was.value < is_now.value
    assert set(evidence.labels) - set(before.classes_) == {"owl", "Füchsin mit Schal"}


def test_weights_are_how_many_samples_an_answer_stands_for(world: World) -> None:
    _, task, _ = adapted(world)
    evidence = task.evidence()
    asked = [i for i, label in enumerate(evidence.predicted) if label is not None]
    order = sorted(row for row, sample in enumerate(world.ids) if sample in task.answers)
    U = torch.nn.functional.normalize(torch.from_numpy(world.pool), dim=1)
    nearest = (U @ U[order].T).argmax(dim=1)
    cells = {world.pool[row].tobytes(): int((nearest == i).sum()) for i, row in enumerate(order)}
    assert asked
    for i in asked:
        assert evidence.weights[i] == max(1, cells[evidence.X[i].numpy().tobytes()])


@pytest.mark.parametrize("method", ["cual", "er-entropy", "incdfm", "oracle"])
def test_every_kind_of_method_has_evidence(world: World, method: str) -> None:
    task = world.answer_all(world.adapt(world.agent(method=method), budget=12))
    accuracy = task.evidence().after(task.finish())
    assert accuracy is not None
    assert 0 <= accuracy.low <= accuracy.value <= accuracy.high <= 1


def test_who_gave_a_label_survives_a_file(world: World, tmp_path: Any) -> None:
    _, _, after = adapted(world)
    after.save(tmp_path / "agent")
    again = Agent.load(tmp_path / "agent")
    assert after.verified is not None
    assert again.verified is not None
    assert torch.equal(after.verified, again.verified)
    assert len(again.verified_samples) < len(again.validation)
