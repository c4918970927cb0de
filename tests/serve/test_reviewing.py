"""What people say of what is believed: early, taken back, with the right class; and what that costs."""

from pathlib import Path

import pytest

from cual.errors import BadOption, NotAllowed, NotFound
from cual.serve.jobs.worker import work_until_idle
from cual.serve.rules.workspace import Workspace
from serving import Service, make_service
from worlds import World


@pytest.fixture
def early(tmp_path: Path, world: World) -> Service:
    """An agent whose method believes only at the end."""
    return make_service(Workspace.open(tmp_path / "early"), world, method="cual-plus")


def asking_again(service: Service) -> int:
    """An adaptation that asks for the second time."""
    task = service.start(budget=16)
    service.answer_round(task)
    service.work()
    assert service.workspace.adaptation(task).state == "asking"
    return task


def test_what_would_be_believed_is_there_after_a_round_and_changes_nothing(early: Service) -> None:
    w, task = early.workspace, asking_again(early)
    foreseen = w.pseudo_labels(task)
    assert foreseen
    assert all(row["provisional"] for row in foreseen)
    assert [row["margin"] for row in foreseen] == sorted(row["margin"] for row in foreseen)
    asked = {question.row for question in w.questions(task)}
    assert not asked & {row["row"] for row in foreseen}
    assert w.adaptation(task).spent == len([q for q in w.questions(task) if q.answered])
    early.answer_all(task)
    believed = w.pseudo_labels(task)
    assert believed
    assert not any(row["provisional"] for row in believed)
    early.finish(task)
    by_hand = early.world.adapt(early.world.agent(method="cual-plus"), 16)
    early.world.answer_all(by_hand).finish().save(w.folder / "by-hand.safetensors")
    assert early.agent_bytes(1) == (w.folder / "by-hand.safetensors").read_bytes()


def test_what_is_rejected_early_stays_visible_and_is_not_believed(early: Service) -> None:
    w, task = early.workspace, asking_again(early)
    row = w.pseudo_labels(task)[0]["row"]
    w.review(task, early.bob, {row: "reject"})
    early.answer_all(task)
    kept = {each["row"]: each["verdict"] for each in w.pseudo_labels(task)}
    assert kept[row] == "reject"
    assert row not in {label.row for label in w.export(early.ann, adaptation=task).rows if label.counts}
    w.review(task, early.bob, {row: None})
    assert next(each for each in w.pseudo_labels(task) if each["row"] == row)["verdict"] is None


def test_the_right_class_is_charged_and_taken_back(early: Service) -> None:
    w, task = early.workspace, asking_again(early)
    before, first = w.adaptation(task), w.pseudo_labels(task)[0]
    told = w.name_classes(task, early.bob, {first["row"]: "heron"})
    assert (told.charged, told.noted, told.confirmed) == (1, 0, 0)
    after = w.adaptation(task)
    assert (after.spent, after.open) == (before.spent + 1, before.open)
    assert "heron" in after.new_classes
    shown = next(each for each in w.pseudo_labels(task) if each["row"] == first["row"])
    assert (shown["verdict"], shown["instead"], shown["label"]) == ("correct", "heron", first["label"])
    w.withdraw_classes(task, early.bob, [first["row"]])
    assert w.adaptation(task).spent == before.spent
    assert w.pseudo_labels(task)[0] == first
    with pytest.raises(NotFound):
        w.withdraw_classes(task, early.bob, [first["row"]])
    w.name_classes(task, early.bob, {first["row"]: "heron"})
    early.answer_all(task)
    assert w.adaptation(task).spent <= w.adaptation(task).budget
    early.finish(task)
    assert "heron" in w.agent(early.agent).classes
    rows = [label for label in w.export(early.ann, adaptation=task).rows if label.row == first["row"]]
    assert [(r.label, r.source, r.person) for r in rows] == [("heron", "answer", "bob")]


def test_without_room_the_class_is_noted_and_not_learned(service: Service) -> None:
    w, task = service.workspace, service.start()
    record = service.answer_all(task)
    rows = [each["row"] for each in w.pseudo_labels(task)][: record.budget - record.spent + 2]
    told = w.name_classes(task, service.bob, dict.fromkeys(rows, "heron"))
    assert (told.charged, told.noted) == (record.budget - record.spent, 2)
    noted = [
        each for each in w.pseudo_labels(task) if (each["verdict"], each["instead"]) == ("reject", "heron")
    ]
    assert len(noted) == 2
    said = [r for r in w.export(service.ann, adaptation=task, everything=True).rows if r.instead == "heron"]
    assert [(r.source, r.verdict, r.counts, r.person) for r in said] == [
        ("verdict", "reject", False, "bob")
    ] * 2
    last = rows[-1]
    w.review(task, service.bob, {last: "confirm"})
    again = next(each for each in w.pseudo_labels(task) if each["row"] == last)
    assert (again["verdict"], again["instead"]) == ("confirm", None)


def test_who_may_not_and_what_is_not_believed(service: Service) -> None:
    w, task = service.workspace, service.start()
    service.answer_all(task)
    row = w.pseudo_labels(task)[0]["row"]
    for act in (
        lambda: w.review(task, service.eve, {row: "reject"}),
        lambda: w.name_classes(task, service.eve, {row: "heron"}),
        lambda: w.withdraw_classes(task, service.eve, [row]),
    ):
        with pytest.raises(NotAllowed):
            act()
    asked = w.questions(task)[0].row
    with pytest.raises(NotFound, match="no pseudo-label"):
        w.name_classes(task, service.bob, {asked: "heron"})
    with pytest.raises(BadOption):
        w.review(task, service.bob, {row: "perhaps"})


def test_questions_say_what_they_are_most_like(service: Service) -> None:
    w, task = service.workspace, service.start()
    service.answer_round(task)
    work_until_idle(w)
    rows = [question.row for question in w.questions(task, answered=False)]
    alike = w.alike(task, rows)
    assert set(alike) == set(rows)
    answered = {question.row: question.effective for question in w.questions(task, answered=True)}
    for most in alike.values():
        assert len({label for label, _, _ in most}) == len(most) <= 3
        assert [cosine for _, cosine, _ in most] == sorted((cosine for _, cosine, _ in most), reverse=True)
        assert all(row is None or answered[row] == label for label, _, row in most), "only what was answered"
