"""Budgets raised while an adaptation is going on or has ended, and the sentences that say how it stands."""

from dataclasses import replace

import pytest

from cual.errors import AlreadyFinished, BadBudget, Conflict, NotAllowed
from cual.serve.rules import standing
from cual.serve.rules.records import OPERATOR, AdaptationRecord
from serving import Service


@pytest.fixture
def asking(service: Service) -> int:
    return service.start()


def test_questions_that_have_ended_go_on_to_the_agent_of_one_process(service: Service, asking: int) -> None:
    w = service.workspace
    ended = service.answer_all(asking)
    assert (ended.state, ended.spent, ended.status) == ("review", 8, "All 8 labels are spent.")
    raised = w.raise_budget(asking, 12, OPERATOR)
    assert (raised.state, raised.budget, raised.ended) == ("thinking", 12, None)
    assert raised.status == "8 of 12 labels spent, 4 left."
    service.work()
    assert w.adaptation(asking).state == "asking"
    again = service.answer_all(asking)
    assert (again.state, again.spent) == ("review", 12)
    assert service.finish(asking).state == "finished"
    task = service.world.answer_all(service.world.adapt(service.world.agent()))
    task.raise_budget(12)
    service.world.answer_all(task)
    task.finish().save(w.folder / "alone.agent")
    assert (w.folder / "alone.agent").read_bytes() == service.agent_bytes(1)
    (row,) = w.audit(OPERATOR, action="raise budget")
    assert (row.kind, row.thing, row.details) == ("adaptation", asking, {"labels": 12})


def test_an_open_round_stays_and_the_next_ones_are_larger(service: Service, asking: int) -> None:
    w = service.workspace
    before = [q.id for q in w.questions(asking)]
    raised = w.raise_budget(asking, 0.4, OPERATOR)
    assert (raised.state, raised.budget) == ("asking", 28)
    assert [q.id for q in w.questions(asking)] == before
    assert service.answer_all(asking).spent == 28


def test_what_was_stopped_is_asked_again(service: Service, asking: int) -> None:
    w = service.workspace
    first, *rest = w.lend(asking, service.ann, 100)
    w.answer(asking, service.ann, {first.id: service.truth(first.sample)})
    w.stop(asking, OPERATOR)
    service.work()
    stopped = w.adaptation(asking)
    assert (stopped.state, stopped.stopped) == ("review", True)
    assert "the questions were stopped, 7 stay unspent" in stopped.status
    raised = w.raise_budget(asking, 9, OPERATOR)
    assert (raised.state, raised.round, raised.open) == ("asking", 0, len(rest))
    assert {q.id for q in w.lend(asking, service.ann, 100)} == {q.id for q in rest}
    assert service.answer_all(asking).spent == 9


def test_a_stop_that_the_learner_has_not_heard_of_is_taken_back(service: Service, asking: int) -> None:
    w = service.workspace
    w.stop(asking, OPERATOR)
    assert w.adaptation(asking).state == "thinking"
    raised = w.raise_budget(asking, 9, OPERATOR)
    assert raised.state == "asking"
    assert raised.open == len(w.questions(asking))
    assert service.answer_all(asking).spent == 9


def test_what_cannot_be(service: Service, asking: int) -> None:
    w = service.workspace
    with pytest.raises(NotAllowed):
        w.raise_budget(asking, 20, service.bob)
    with pytest.raises(BadBudget, match="is 8 labels already, and can only be raised"):
        w.raise_budget(asking, 8, OPERATOR)
    service.answer_all(asking)
    w.finish(asking, OPERATOR)
    with pytest.raises(Conflict, match="is being made"):
        w.raise_budget(asking, 20, OPERATOR)
    service.work()
    with pytest.raises(AlreadyFinished):
        w.raise_budget(asking, 20, OPERATOR)


def test_one_sentence_says_what_is_spent_what_is_left_and_why_it_ended(service: Service, asking: int) -> None:
    record = replace(service.workspace.adaptation(asking), budget=10, spent=4)

    def status(**changes: object) -> str:
        return str(standing.status(replace(record, **changes)))

    assert status() == "4 of 10 labels spent, 6 left."
    assert status(ended="the pool is labelled", spent=10) == "All 10 labels are spent."
    novel = status(ended="nothing lies above T_inner")
    assert novel == "4 of 10 labels spent: nothing is left that looks novel, 6 stay unspent."
    assert "all rounds are over" in status(ended="all iterations are used")
    for why in ("the pool is used up", "the pool is labelled", "nothing more to ask or to believe"):
        assert "nothing is left that is worth asking, 6 stay unspent" in status(ended=why)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"state": "asking", "open": 1, "round": 2}, "1 question of round 3 waits"),
        ({"state": "thinking", "doing": "finish"}, "makes the next version"),
        ({"state": "thinking", "doing": "pause"}, "Undo now"),
        ({"state": "thinking", "doing": "advance"}, "works through the pool"),
        ({"state": "review"}, "then finish"),
        ({"state": "finished", "result_version": 3}, "Version 3 is made"),
        ({"state": "failed"}, "try again"),
        ({"state": "dropped"}, "given up"),
    ],
)
def test_what_happens_next(changes: dict[str, object], said: str, service: Service) -> None:
    record: AdaptationRecord = service.workspace.adaptation(service.start())
    assert said in str(standing.following(replace(record, **changes)))
