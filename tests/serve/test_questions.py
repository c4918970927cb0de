"""Questions: who is lent what, which answer counts, what can be undone, and that the budget is kept."""

import time
from dataclasses import replace

import pytest

from cual.data.labels import SKIP
from cual.errors import (
    AlreadyFinished,
    BadLabels,
    BudgetExceeded,
    Conflict,
    LabelsMissing,
    NotAllowed,
    NotFound,
)
from cual.serve.rules.records import OPERATOR
from cual.serve.rules.workspace import Workspace
from serving import Service, add_person


@pytest.fixture
def asking(service: Service) -> int:
    """An adaptation with six questions open."""
    adaptation = service.start(budget=15)
    assert service.workspace.adaptation(adaptation).open == 6
    return adaptation


def test_a_question_is_lent_to_one_person(service: Service, asking: int) -> None:
    w = service.workspace
    first, second = w.lend(asking, service.ann, 4), w.lend(asking, service.bob, 4)
    assert [len(first), len(second)] == [4, 2]
    assert not {q.id for q in first} & {q.id for q in second}
    assert {q.lent_to for q in first} == {"ann"}
    assert w.lend(asking, service.bob, 1) == second[:1] or w.lend(asking, service.bob, 1)[0].id == second[0].id


def test_the_most_useful_come_first_and_what_one_has_before_them(service: Service, asking: int) -> None:
    w = service.workspace
    order = [q.id for q in w.questions(asking)]
    assert [q.id for q in w.lend(asking, service.ann, 2)] == order[:2]
    assert [q.id for q in w.lend(asking, service.bob, 3)] == order[2:5]
    w.pass_on(asking, service.ann, order[:1])
    assert [q.id for q in w.lend(asking, service.bob, 10)] == [*order[2:5], order[0], order[5]]


def test_what_is_not_answered_comes_back(service: Service, asking: int) -> None:
    quick = Workspace(replace(service.workspace.home, lend_seconds=0.05))
    mine = quick.lend(asking, service.ann, 6)
    deadline = time.monotonic() + 10
    while len(service.workspace.lend(asking, service.bob, 6)) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert {q.id for q in service.workspace.lend(asking, service.bob, 6)} == {q.id for q in mine}
    late = service.workspace.answer(asking, service.ann, {mine[0].id: "owl"})
    assert late.spent == 1, "what somebody typed counts, even if it is lent to somebody else by now"


def test_given_back_questions_come_again_when_nothing_else_is_left(service: Service, asking: int) -> None:
    w = service.workspace
    all_ids = [q.id for q in w.lend(asking, service.ann, 6)]
    w.pass_on(asking, service.ann, all_ids[:2])
    w.pass_on(asking, service.ann, all_ids[:2])
    assert [q.id for q in w.lend(asking, service.ann, 6)] == all_ids[2:]
    w.answer(asking, service.ann, dict.fromkeys(all_ids[2:], "owl"))
    assert [q.id for q in w.lend(asking, service.ann, 6)] == all_ids[:2]
    with pytest.raises(NotFound, match="has no question 999"):
        w.pass_on(asking, service.ann, [999])


def test_nothing_is_lent_while_the_learner_thinks(service: Service, asking: int) -> None:
    service.answer_round(asking)
    assert service.workspace.adaptation(asking).state == "thinking"
    assert service.workspace.lend(asking, service.ann, 5) == []
    assert service.workspace.lend(asking, service.ann, 0) == []


def test_every_answer_is_kept_and_the_first_person_counts(service: Service, asking: int) -> None:
    w = service.workspace
    question = w.lend(asking, service.ann, 1)[0].id
    w.answer(asking, service.bob, {question: "owl"})
    w.answer(asking, service.ann, {question: "cat"})
    held = w.question(question)
    assert (held.effective, held.disagreement) == ("owl", True)
    assert [(a.person, a.label) for a in held.answers] == [("bob", "owl"), ("ann", "cat")]
    w.answer(asking, service.bob, {question: "cat"})
    held = w.question(question)
    assert (held.effective, held.disagreement, len(held.answers)) == ("cat", False, 3)


def test_repeating_an_answer_changes_nothing(service: Service, asking: int) -> None:
    w = service.workspace
    question = w.lend(asking, service.ann, 1)[0].id
    for answer in ("owl", " owl ", "owl"):
        w.answer(asking, service.ann, {question: answer})
    w.answer(asking, service.ann, {})
    assert len(w.question(question).answers) == 1


def test_unsure_is_an_answer_that_costs_nothing(service: Service, asking: int) -> None:
    w = service.workspace
    question = w.lend(asking, service.ann, 1)[0].id
    record = w.answer(asking, service.ann, {question: SKIP})
    held = w.question(question)
    assert (record.spent, record.open, record.answered_in_round) == (0, 5, 1)
    assert (held.unsure, held.effective, held.answered, held.answers[0].unsure) == (True, None, True, True)


def test_settling_counts_whoever_was_first(service: Service, asking: int) -> None:
    w = service.workspace
    question = w.lend(asking, service.ann, 1)[0].id
    w.answer(asking, service.ann, {question: "cat"})
    w.answer(asking, service.bob, {question: "dog"})
    assert [q.id for q in w.questions(asking, disagreement=True)] == [question]
    cid = add_person(w, "cid")
    held = w.settle(question, cid, "dog")
    assert (held.effective, held.disagreement, held.answers[-1].settles) == ("dog", False, True)
    w.answer(asking, service.ann, {question: "owl"})
    assert w.question(question).effective == "dog"
    w.answer(asking, cid, {question: "owl"})
    assert w.question(question).effective == "owl", "who settled it may think again"


def test_nobody_settles_their_own_disagreement_unless_that_is_allowed(service: Service, asking: int) -> None:
    w = service.workspace
    question = w.lend(asking, service.ann, 1)[0].id
    assert w.settle(question, service.bob, "owl").effective == "owl", "nobody has answered it yet"
    w.undo(asking, service.bob)
    w.answer(asking, service.ann, {question: "cat"})
    w.answer(asking, service.bob, {question: "dog"})
    for party in (service.ann, service.bob):
        with pytest.raises(NotAllowed, match="somebody else settles it"):
            w.settle(question, party, "dog")
    w.share_work(asking, service.ann, own_disputes=True)
    assert w.settle(question, service.bob, "dog").effective == "dog"
    with pytest.raises(NotAllowed):
        w.share_work(asking, service.bob, own_disputes=False)


def test_all_answers_of_a_call_count_or_none(service: Service, asking: int) -> None:
    w = service.workspace
    one, two, *_ = [q.id for q in w.lend(asking, service.ann, 6)]
    for wrong, error in ((3, BadLabels), ("", BadLabels), ("a\nb", BadLabels), ("x" * 101, BadLabels)):
        with pytest.raises(error):
            w.answer(asking, service.ann, {one: "owl", two: wrong})
    with pytest.raises(NotFound):
        w.answer(asking, service.ann, {one: "owl", 999: "owl"})
    assert not w.questions(asking, answered=True)


def test_questions_of_another_adaptation_are_not_found(service: Service, asking: int) -> None:
    other = service.start()
    theirs = service.workspace.questions(other)[0].id
    with pytest.raises(NotFound, match=f"adaptation {asking} has no question"):
        service.workspace.answer(asking, service.ann, {theirs: "owl"})


def test_readers_cannot_answer(service: Service, asking: int) -> None:
    w, question = service.workspace, service.workspace.questions(asking)[0].id
    for refused in (
        lambda: w.lend(asking, service.eve, 1),
        lambda: w.answer(asking, service.eve, {question: "owl"}),
        lambda: w.pass_on(asking, service.eve, [question]),
        lambda: w.undo(asking, service.eve),
        lambda: w.settle(question, service.eve, "owl"),
        lambda: w.review(asking, service.eve, {}),
        lambda: w.start(service.agent, service.pool, 8, service.bob),
    ):
        with pytest.raises(NotAllowed, match="this takes"):
            refused()


# -- undo and correct ------------------------------------------------------------------------------------------


def test_undo_takes_back_the_last_answer(service: Service, asking: int) -> None:
    w = service.workspace
    one, two, *_ = [q.id for q in w.lend(asking, service.ann, 6)]
    w.answer(asking, service.ann, {one: "owl"})
    w.answer(asking, service.ann, {two: "owl"})
    undone = w.undo(asking, service.ann)
    assert (undone.id, undone.effective, undone.lent_to, undone.answers[0].undone) == (two, None, "ann", True)
    assert w.undo(asking, service.ann).id == one
    with pytest.raises(NotFound, match="no answer that could be undone"):
        w.undo(asking, service.ann)
    assert w.adaptation(asking).spent == 0


def test_undoing_a_correction_brings_back_what_was_said_before(service: Service, asking: int) -> None:
    w = service.workspace
    question = w.lend(asking, service.ann, 1)[0].id
    w.answer(asking, service.ann, {question: "owl"})
    w.answer(asking, service.ann, {question: "cat"})
    assert w.undo(asking, service.ann).effective == "owl"


def test_an_undo_in_the_grace_time_reopens_the_round(service: Service, asking: int) -> None:
    w = service.workspace
    lent = w.lend(asking, service.ann, 6)
    record = w.answer(asking, service.ann, {q.id: "owl" for q in lent}, grace=3600)
    assert record.state == "thinking"
    assert "Undo now" in record.next
    service.work()
    assert w.adaptation(asking).state == "thinking", "the worker waits for the grace to pass"
    w.undo(asking, service.ann)
    record = w.adaptation(asking)
    assert (record.state, record.open) == ("asking", 1)
    assert not [job for job in w.jobs() if job.state == "waiting"]
    w.answer(asking, service.ann, {w.lend(asking, service.ann, 1)[0].id: "cat"})
    service.work()
    assert w.adaptation(asking).round == 1


def test_what_the_learner_has_used_is_corrected_instead(service: Service, asking: int) -> None:
    w = service.workspace
    service.answer_round(asking)
    service.work()
    with pytest.raises(Conflict, match="correct it instead"):
        w.undo(asking, service.ann)
    first = w.questions(asking)[0]
    w.answer(asking, service.ann, {first.id: "something else"})
    assert "something else" in w.adaptation(asking).new_classes
    assert w.undo(asking, service.ann).effective == first.effective, "the correction itself is not used yet"


# -- budget ----------------------------------------------------------------------------------------------------


def test_the_budget_is_checked_at_once(service: Service) -> None:
    w = service.workspace
    adaptation = service.start(budget=3)
    skipped = [q.id for q in w.lend(adaptation, service.ann, 10)]
    w.answer(adaptation, service.ann, dict.fromkeys(skipped, SKIP))
    service.work()
    while w.adaptation(adaptation).state == "asking":
        service.answer_round(adaptation)
        service.work()
    assert w.adaptation(adaptation).spent == 3
    with pytest.raises(BudgetExceeded, match="no room"):
        w.answer(adaptation, service.ann, {skipped[0]: "owl"})
    assert w.question(skipped[0]).unsure


def test_the_learner_is_told_in_an_order_that_keeps_the_budget(service: Service) -> None:
    """Two answers change places between a label and 'unsure': on the way there must never be one too many."""
    w = service.workspace
    adaptation = service.start(budget=3)
    first = w.lend(adaptation, service.ann, 10)[0].id
    w.answer(adaptation, service.ann, {first: SKIP})
    service.work()
    second = w.lend(adaptation, service.ann, 10)[0].id
    w.answer(adaptation, service.ann, {second: "owl"})
    service.work()
    while w.adaptation(adaptation).state == "asking":
        service.answer_round(adaptation)
        service.work()
    w.answer(adaptation, service.ann, {second: SKIP})
    w.answer(adaptation, service.ann, {first: "owl"})
    record = service.finish(adaptation)
    assert (record.state, record.error, record.spent) == ("finished", None, 3)


# -- too early, too late ---------------------------------------------------------------------------------------


def test_finishing_too_early_says_what_is_missing(service: Service, asking: int) -> None:
    with pytest.raises(LabelsMissing, match="still waits for 6 answers"):
        service.workspace.finish(asking, OPERATOR)


def test_after_the_end_nothing_is_taken(service: Service, asking: int) -> None:
    w = service.workspace
    service.answer_all(asking)
    assert service.finish(asking).state == "finished"
    question = w.questions(asking)[0].id
    for refused in (
        lambda: w.answer(asking, service.ann, {question: "cat"}),
        lambda: w.undo(asking, service.ann),
        lambda: w.settle(question, service.ann, "cat"),
        lambda: w.drop(asking, OPERATOR),
        lambda: w.stop(asking, service.ann),
    ):
        with pytest.raises(AlreadyFinished):
            refused()
    assert w.lend(asking, service.ann, 1) == []
    assert w.finish(asking, OPERATOR).result_version == 1


def test_a_dropped_one_takes_nothing_and_leaves_no_job(service: Service, asking: int) -> None:
    w = service.workspace
    service.answer_round(asking)
    assert w.drop(asking, OPERATOR).state == "dropped"
    service.work()
    assert w.adaptation(asking).state == "dropped"
    question = w.questions(asking)[0]
    assert question.effective is not None, "answers are kept"
    for refused in (
        lambda: w.answer(asking, service.ann, {question.id: "cat"}),
        lambda: w.finish(asking, OPERATOR),
        lambda: w.stop(asking, service.ann),
        lambda: w.retry(asking, OPERATOR),
    ):
        with pytest.raises(Conflict):
            refused()
