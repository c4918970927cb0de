"""The workspace: agents, versions, a whole adaptation, what people see of it, and that folders are checked."""

import html
import json
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from cual import Pool
from cual.data.labels import SKIP
from cual.errors import BadBudget, BadOption, Conflict, ForeignFile, NewerFormat, NotFound, WrongEncoder
from cual.serve.rules.records import OPERATOR
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from serving import Service, make_service
from worlds import World, file_bytes, make_world


def test_a_workspace_is_made_once_and_opened_again(tmp_path: Path) -> None:
    first = Workspace.open(tmp_path / "w")
    first.add_agent("animals", make_world().agent(), OPERATOR)
    again = Workspace.open(tmp_path / "w")
    assert again.home.id == first.home.id
    assert [a.name for a in again.agents()] == ["animals"]


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(ForeignFile, match="no workspace"):
        Workspace.open(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["photo.jpg"]


def test_a_newer_workspace_is_refused(tmp_path: Path) -> None:
    Workspace.open(tmp_path)
    (tmp_path / "workspace.json").write_text(json.dumps({"format": 9, "id": "x"}))
    with pytest.raises(NewerFormat):
        Workspace.open(tmp_path)


def test_what_was_half_received_is_removed(workspace: Workspace) -> None:
    (workspace.uploads / "half").mkdir()
    (workspace.uploads / "half" / "a.jpg").touch()
    (workspace.uploads / "b.npz").touch()
    workspace.empty_uploads()
    assert not list(workspace.uploads.iterdir())


# -- agents ----------------------------------------------------------------------------------------------------


def test_an_agent_comes_back_as_it_was(workspace: Workspace, world: World, tmp_path: Path) -> None:
    agent = world.agent()
    record = workspace.add_agent(" animals ", agent, OPERATOR)
    assert (record.name, record.version, record.classes) == ("animals", 0, ["cat", "dog"])
    assert (record.method, record.width, record.encoder) == ("cual", 16, None)
    assert file_bytes(workspace.load_agent(record.id), tmp_path) == file_bytes(agent, tmp_path)
    assert workspace.load_agent(record.id) is workspace.load_agent(record.id, 0)
    version = workspace.versions(record.id)[0]
    assert (version.number, version.parent, version.current, version.held_out) == (0, None, True, 6)


def test_what_is_not_there_is_not_found(service: Service) -> None:
    w = service.workspace
    for asked in (
        lambda: w.agent(99),
        lambda: w.versions(99),
        lambda: w.load_agent(99),
        lambda: w.load_agent(service.agent, 7),
        lambda: w.roll_back(service.agent, 7, OPERATOR),
        lambda: w.pool(99),
        lambda: w.skipped(99),
        lambda: w.picture(service.pool, 70),
        lambda: w.picture(service.pool, -1),
        lambda: w.text(service.pool, 0),
        lambda: w.adaptation(99),
        lambda: w.questions(99),
        lambda: w.ledger(99),
        lambda: w.question(99),
        lambda: w.map(99),
        lambda: w.start(99, service.pool, 8, service.ann),
        lambda: w.start(service.agent, 99, 8, service.ann),
        lambda: w.add_pool("x", Pool(service.world.pool), 99, OPERATOR),
    ):
        with pytest.raises(NotFound):
            asked()


@pytest.mark.parametrize("name", ["", "  ", "a\tb", "x" * 101, "left\u202eright", 3, None])
def test_odd_names_are_refused(workspace: Workspace, world: World, name: object) -> None:
    with pytest.raises(BadOption, match="an agent's name"):
        workspace.add_agent(name, world.agent(), OPERATOR)


# -- a whole adaptation ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["cual", "cual-plus", "er-random", "incdfm", "oracle"])
def test_the_service_makes_the_agent_that_the_library_makes(
    workspace: Workspace, world: World, tmp_path: Path, method: str
) -> None:
    service = make_service(workspace, world, method=method)
    adaptation = service.start(budget=8)
    service.answer_all(adaptation)
    assert service.finish(adaptation).state == "finished"
    direct = world.answer_all(world.adapt(world.agent(method=method))).finish()
    assert service.agent_bytes(1) == file_bytes(direct, tmp_path)
    direct_names = [str(name) for name in direct.names.names]
    assert workspace.agent(service.agent).classes == direct_names


def test_what_people_see_on_the_way(service: Service) -> None:
    w = service.workspace
    record = w.start(service.agent, service.pool, 0.1, service.ann)
    assert (record.state, record.round, record.budget, record.open) == ("thinking", -1, 7, 0)
    assert w.scores(record.id)["rounds"] == 0
    assert w.history(record.id) == w.pseudo_labels(record.id) == []
    assert set(w.map(record.id)["state"]) == {"old"}
    assert record.outlook is None
    service.work()
    record = w.adaptation(record.id)
    task = service.world.adapt(service.world.agent(), budget=7)
    task.ask()
    assert record.outlook == str(task.outlook)
    assert (record.state, record.round, record.spent, record.asked_in_round) == ("asking", 0, 0, 3)
    assert record.suggested_classes == ["cat", "dog"]
    assert record.next.startswith("3 questions of round 1")
    w.answer(record.id, service.ann, {w.lend(record.id, service.ann, 1)[0].id: "owl"})
    record = w.adaptation(record.id)
    assert (record.open, record.answered_in_round, record.spent) == (2, 1, 1)
    assert record.new_classes == ["owl"]
    assert record.suggested_classes == ["cat", "dog", "owl"]


def test_map_scores_and_pseudo_labels_agree(service: Service) -> None:
    w = service.workspace
    adaptation = service.start()
    record = service.answer_all(adaptation)
    believed = w.pseudo_labels(adaptation)
    task = service.world.answer_all(service.world.adapt(service.world.agent()))
    assert record.outlook == str(task.outlook)
    assert {row["sample"]: row["doubt"] for row in believed} == pytest.approx(task.doubts)
    assert (record.state, record.ended) == ("review", "all iterations are used")
    assert {row["sample"]: row["margin"] for row in believed} == pytest.approx(task.margins(), abs=1e-5)
    assert [row["margin"] for row in believed] == sorted(row["margin"] for row in believed)
    shown = w.map(adaptation)
    assert len({len(column) for column in shown.values()}) == 1
    states = dict(zip(shown["row"], zip(shown["state"], shown["label"], strict=True), strict=True))
    for question in w.questions(adaptation):
        assert states[question.row] == ("asked", question.effective)
    for row in believed:
        assert states[row["row"]] == ("pseudo", row["label"])
    assert {state for state, _ in states.values()} <= {"old", "ambiguous", "novel", "asked", "pseudo"}
    scores = w.scores(adaptation)
    assert (scores["round"], scores["rounds"]) == (9, 10)
    assert w.scores(adaptation, 0)["t_inner"] == w.history(adaptation)[0]["t_inner"]
    assert len(scores["edges"]) == len(scores["counts"]) + 1
    with pytest.raises(NotFound):
        w.scores(adaptation, 10)
    only = w.pseudo_labels(adaptation, "owl")
    assert only == [row for row in believed if row["label"] == "owl"]


def test_the_ledger_tells_who_said_what(service: Service) -> None:
    w = service.workspace
    adaptation = service.start()
    one, two, three = w.lend(adaptation, service.bob, 3)
    w.answer(adaptation, service.bob, {one.id: "cat", two.id: SKIP})
    w.answer(adaptation, service.bob, {one.id: "owl"})
    rows = {row["question"]: row for row in w.ledger(adaptation)}
    first, second, third = rows[one.id], rows[two.id], rows[three.id]
    assert (first["answer"], first["corrected"], first["person"], first["charged"]) == ("owl", "cat", "bob", 1)
    assert (second["answer"], second["skipped"], second["charged"]) == (None, True, 0)
    assert (third["answer"], third["skipped"], third["told_at"]) == (None, False, None)
    assert first["asked_at"] < first["told_at"]
    json.dumps(list(rows.values()))


def test_an_adaptation_can_be_stopped(service: Service) -> None:
    w = service.workspace
    adaptation = service.start(budget=15)
    w.answer(adaptation, service.ann, {w.lend(adaptation, service.ann, 1)[0].id: "owl"})
    assert w.stop(adaptation, service.ann).state == "thinking"
    assert w.stop(adaptation, service.ann).state == "thinking"
    service.work()
    record = w.adaptation(adaptation)
    assert (record.state, record.open, record.spent) == ("review", 0, 1)
    assert w.stop(adaptation, service.ann).state == "review"
    assert service.finish(adaptation).state == "finished"
    version = w.versions(service.agent)[-1]
    assert (version.labels_used, version.new_classes) == (1, ["owl"])


def test_corrections_during_the_review_count(service: Service) -> None:
    w = service.workspace
    adaptation = service.start()
    service.answer_all(adaptation)
    wrong = [q.id for q in w.questions(adaptation) if q.effective == "owl"]
    w.answer(adaptation, service.ann, dict.fromkeys(wrong, "cat"))
    assert "owl" not in w.adaptation(adaptation).new_classes
    assert not w.pseudo_labels(adaptation, "owl"), "nobody vouches for the class any more"
    service.finish(adaptation)
    assert w.agent(service.agent).classes == ["cat", "dog", "Füchsin mit Schal"]


def test_an_old_class_that_nobody_names_any_more_has_no_pseudo_labels(workspace: Workspace) -> None:
    world = make_world()
    few_dogs = replace(world, X=world.X[:36], y=world.y[:36])
    service = make_service(workspace, few_dogs, method="cual-plus")
    adaptation = service.start(budget=12)
    service.answer_all(adaptation)
    assert workspace.pseudo_labels(adaptation, "dog")
    said = [q.id for q in workspace.questions(adaptation) if q.effective == "dog"]
    workspace.answer(adaptation, service.ann, dict.fromkeys(said, "cat"))
    assert not workspace.pseudo_labels(adaptation, "dog")
    assert workspace.pseudo_labels(adaptation, "owl")


def test_reviewed_pseudo_labels(service: Service) -> None:
    w = service.workspace
    adaptation = service.start()
    service.answer_all(adaptation)
    rows = [row["row"] for row in w.pseudo_labels(adaptation)]
    w.review(adaptation, service.bob, {rows[0]: "reject", rows[1]: "confirm", rows[2]: "reject"})
    w.review(adaptation, service.ann, {rows[2]: "confirm"})
    verdicts = {row["row"]: row["verdict"] for row in w.pseudo_labels(adaptation)}
    assert [verdicts[row] for row in rows[:4]] == ["reject", "confirm", "confirm", None]
    assert w.map(adaptation)["state"][rows[0]] != "pseudo"
    with pytest.raises(NotFound, match="has no pseudo-label"):
        w.review(adaptation, service.ann, {w.questions(adaptation)[0].row: "reject"})
    with pytest.raises(BadOption, match="confirm or reject"):
        w.review(adaptation, service.ann, {rows[0]: "maybe"})
    service.finish(adaptation)
    assert w.versions(service.agent)[-1].pseudo_labels == len(rows) - 1
    assert {row["row"]: row["verdict"] for row in w.pseudo_labels(adaptation)}[rows[0]] == "reject"


def test_rejecting_while_questions_are_open(service: Service) -> None:
    w = service.workspace
    adaptation = service.start()
    while not w.pseudo_labels(adaptation):
        service.answer_round(adaptation)
        service.work()
    rejected = w.pseudo_labels(adaptation)[0]["row"]
    w.review(adaptation, service.ann, {rejected: "reject"})
    service.answer_all(adaptation)
    assert {row["row"]: row["verdict"] for row in w.pseudo_labels(adaptation)}[rejected] == "reject"


# -- versions --------------------------------------------------------------------------------------------------


def test_two_adaptations_of_one_version_make_two(service: Service) -> None:
    w = service.workspace
    first, second = service.start(), service.start()
    for adaptation in (second, first):
        service.answer_all(adaptation)
        service.finish(adaptation)
    versions = w.versions(service.agent)
    assert [(v.number, v.parent, v.adaptation) for v in versions] == [
        (0, None, None),
        (1, 0, second),
        (2, 0, first),
    ]
    assert [v.current for v in versions] == [False, False, True]
    assert [w.load_agent(service.agent, n).version for n in (0, 1, 2)] == [0, 1, 1]
    assert service.agent_bytes(1) == service.agent_bytes(2), "the same answers make the same agent"
    assert w.adaptation(first).result_version == 2


def test_rolling_back_deletes_nothing(service: Service) -> None:
    w = service.workspace
    adaptation = service.start()
    service.answer_all(adaptation)
    service.finish(adaptation)
    assert w.agent(service.agent).version == 1
    assert w.roll_back(service.agent, 0, OPERATOR).classes == ["cat", "dog"]
    assert w.load_agent(service.agent).version == 0
    assert len(w.versions(service.agent)) == 2
    again = w.start(service.agent, service.pool, 8, service.ann)
    assert again.base_version == 0
    assert w.roll_back(service.agent, 1, OPERATOR).version == 1


def test_a_version_tells_what_it_is_worth(service: Service) -> None:
    w = service.workspace
    adaptation = service.start(budget=15)
    service.answer_all(adaptation)
    service.finish(adaptation)
    version = w.versions(service.agent)[-1]
    agent = w.load_agent(service.agent)
    verified = len(agent.verified_samples)
    assert verified < len(agent.validation)  # pseudo-labels are in there, and say nothing here
    named = {q.effective for q in w.questions(adaptation)} - {"cat", "dog", None}
    answers = [q for q in w.questions(adaptation) if q.effective in named]
    assert version.held_out == verified + len(answers)
    assert version.accuracy_low <= version.held_out_accuracy <= version.accuracy_high
    assert version.accuracy_before <= 0.5  # of four classes it knew two
    shown = [q for q in w.questions(adaptation) if q.suggestion is not None]
    assert version.suggestions_right == pytest.approx(
        sum(q.suggestion == q.effective for q in shown) / len(shown)
    )
    assert version.new_classes == ["owl", "Füchsin mit Schal"]


# -- starting --------------------------------------------------------------------------------------------------


def test_a_pool_that_is_not_ready_cannot_be_adapted_to(service: Service) -> None:
    w = service.workspace
    pool = w.add_pool("later", Pool(service.world.pool), service.agent, OPERATOR)
    with pytest.raises(Conflict, match="is preparing"):
        w.start(service.agent, pool.id, 8, service.ann)


@pytest.mark.parametrize("budget", [0, -1, 0.0, 1.5, 0.001, "8", None, True])
def test_odd_budgets_are_refused_at_once(service: Service, budget: object) -> None:
    with pytest.raises(BadBudget):
        service.workspace.start(service.agent, service.pool, budget, service.ann)
    assert not service.workspace.adaptations()


def test_a_pool_of_another_encoder_is_refused(service: Service) -> None:
    w = service.workspace
    with w.database.writing() as c:
        c.execute(sa.update(db.agents).values(encoder="one@0123456789ab"))
    other = w.add_agent("other", service.world.agent(encoder="two@0123456789ab"), OPERATOR)
    with pytest.raises(WrongEncoder):
        w.start(other.id, service.pool, 8, service.ann)


# -- the report ------------------------------------------------------------------------------------------------


def test_the_report_is_one_page_and_escapes_everything(workspace: Workspace, world: World) -> None:
    evil = "<script>alert('x')</script>"
    world.truth = {f"{evil}{i}": label for i, label in enumerate(world.truth.values())}
    service = make_service(workspace, world)
    adaptation = service.start()
    lent = workspace.lend(adaptation, service.ann, 100)
    workspace.answer(adaptation, service.ann, {q.id: f"<b>{evil}" for q in lent})
    service.work()
    page = workspace.report(adaptation)
    assert "Another question is" in page
    assert "<script" not in page
    assert html.escape(f"<b>{evil}") in page
    assert page.count("<svg") == len(workspace.history(adaptation))
    assert "http" not in page.replace('"http://www.w3.org', "")
    assert page.startswith("<!doctype html>")


def test_a_report_of_something_that_has_hardly_begun(service: Service) -> None:
    started = service.workspace.start(service.agent, service.pool, 8, service.ann)
    assert "0 of 8" in service.workspace.report(started.id)
