"""Answers taken back after the learner has used them: what it costs, and that it is as if they had not been."""

import pytest

from cual.errors import AlreadyFinished, Conflict, NotFound
from cual.serve.jobs.worker import work_once
from cual.serve.rules import jobs
from cual.serve.rules.records import OPERATOR
from serving import Service


@pytest.fixture
def asking(service: Service) -> int:
    return service.start()


def slip(service: Service, adaptation: int) -> int:
    """All of a round is answered, the last question wrongly; which one that is."""
    *rest, last = service.workspace.lend(adaptation, service.ann, 100)
    service.workspace.answer(adaptation, service.ann, {q.id: service.truth(q.sample) for q in rest})
    service.workspace.answer(adaptation, service.ann, {last.id: "weathr"})
    return last.id


def test_the_cost_is_told_and_nothing_happens_unless_it_is_wanted(service: Service, asking: int) -> None:
    w = service.workspace
    last = slip(service, asking)
    service.work()
    before = w.adaptation(asking)
    assert (before.state, before.round) == ("asking", 1)
    cost = w.undo_cost(asking, service.ann)
    assert (cost.question, cost.label, cost.used, cost.round) == (last, "weathr", True, 0)
    assert (cost.withdrawn, cost.kept) == (before.open, 0)
    assert f"{before.open} open question" in cost.text
    assert "back to round 1" in cost.text
    with pytest.raises(Conflict, match="withdrawn"):
        w.undo(asking, service.ann)
    assert w.adaptation(asking) == before


def test_a_round_is_opened_again_and_the_end_is_as_if_the_slip_had_not_been(
    service: Service, asking: int
) -> None:
    w = service.workspace
    last = slip(service, asking)
    service.work()
    assert "weathr" in w.adaptation(asking).new_classes
    undone = w.undo(asking, service.ann, reopen=True)
    record = w.adaptation(asking)
    assert (undone.id, record.state, record.round, record.open) == (last, "asking", 0, 1)
    assert "weathr" not in record.suggested_classes
    assert w.questions(asking, round=1) == []
    assert len(w.history(asking)) <= 1
    assert w.pseudo_labels(asking) == []
    service.answer_all(asking)
    assert service.finish(asking).state == "finished"

    w.roll_back(service.agent, 0, OPERATOR)
    straight = service.start()
    service.answer_all(straight)
    assert service.finish(straight).state == "finished"
    assert service.agent_bytes(1) == service.agent_bytes(2)


def test_undo_reaches_back_from_the_end_of_the_questions(service: Service, asking: int) -> None:
    w = service.workspace
    record = service.answer_all(asking)
    assert record.state == "review"
    cost = w.undo_cost(asking, service.ann)
    assert cost.used
    w.undo(asking, service.ann, reopen=True)
    back = w.adaptation(asking)
    assert (back.state, back.open, back.ended, back.spent) == ("asking", 1, None, record.spent - 1)
    again = service.answer_all(asking)
    assert (again.state, again.spent) == ("review", record.spent)
    assert service.finish(asking).state == "finished"
    with pytest.raises(AlreadyFinished):
        w.undo(asking, service.ann, reopen=True)


def test_answers_that_others_gave_since_stay_and_are_paid_for_once(service: Service) -> None:
    w = service.workspace
    asking = service.start(budget=20)
    slip(service, asking)
    service.work()
    theirs, *others = w.lend(asking, service.bob, 100)
    w.answer(asking, service.bob, {theirs.id: service.truth(theirs.sample)})
    mine = others[0]
    w.answer(asking, service.bob, {mine.id: "cat"})
    w.undo(asking, service.bob)  # said and taken back: it is withdrawn like the others
    spent = w.adaptation(asking).spent
    cost = w.undo_cost(asking, service.ann)
    assert (cost.withdrawn, cost.kept) == (len(others), 1)
    w.undo(asking, service.ann, reopen=True)
    kept = w.question(theirs.id)
    assert (kept.effective, kept.round) == (service.truth(theirs.sample), 0)
    with pytest.raises(NotFound):
        w.answer(asking, service.bob, {mine.id: "cat"})
    assert w.adaptation(asking).spent == spent - 1
    record = service.answer_all(asking)
    assert record.spent <= record.budget
    samples = [q.sample for q in w.questions(asking)]
    assert len(samples) == len(set(samples))
    # whoever's answer was kept can take it back as well: it is asked again with the round that it belongs to
    w.undo(asking, service.bob, reopen=True)
    assert w.question(theirs.id).lent_to == "bob"
    service.answer_all(asking, service.bob)
    assert service.finish(asking).state == "finished"


def test_undo_while_the_learner_computes_ends_that_computation(service: Service, asking: int) -> None:
    w = service.workspace
    last = slip(service, asking)
    claim = jobs.claim(w.home, "somebody")
    assert claim is not None
    assert not w.undo_cost(asking, service.ann).used
    assert w.undo(asking, service.ann).id == last
    assert w.adaptation(asking).state == "asking"
    assert not jobs.beat(w.home, claim, None)
    assert not work_once(w)


def test_a_correction_that_was_used_is_taken_back_and_the_learner_goes_on(
    service: Service, asking: int
) -> None:
    w = service.workspace
    first, *rest = w.lend(asking, service.ann, 100)
    w.answer(asking, service.ann, {first.id: service.truth(first.sample)})
    w.answer(asking, service.ann, {q.id: service.truth(q.sample) for q in rest[:-1]})
    w.answer(asking, service.ann, {rest[-1].id: service.truth(rest[-1].sample)}, grace=3600)
    w.answer(asking, service.ann, {first.id: "weathr"})
    with w.database.writing() as connection:
        jobs.cancel(connection, asking)
        jobs.add(connection, "advance", adaptation=asking)
    service.work()
    assert w.undo_cost(asking, service.ann).used
    assert w.undo(asking, service.ann, reopen=True).effective == service.truth(first.sample)
    assert w.adaptation(asking).state == "thinking"
    service.work()
    record = w.adaptation(asking)
    assert (record.state, record.round) == ("asking", 1)
    assert "weathr" not in record.new_classes


def test_nothing_is_taken_back_while_a_version_is_made_or_once_nobody_is_asked(
    service: Service, asking: int
) -> None:
    w = service.workspace
    service.answer_round(asking)
    service.work()
    w.stop(asking, service.ann)
    service.work()
    with pytest.raises(Conflict, match="nobody is asked any more"):
        w.undo(asking, service.ann, reopen=True)
    w.finish(asking, OPERATOR)
    with pytest.raises(Conflict, match="next version is being made"):
        w.undo(asking, service.ann, reopen=True)
