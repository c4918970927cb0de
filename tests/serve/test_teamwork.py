"""Several people: who is lent what, what it costs, disputes, agreement, gold questions, pace."""

import pytest

from cual.data.labels import SKIP
from cual.errors import NotAllowed, NotFound
from cual.serve.rules import gold
from cual.serve.rules.records import Person
from serving import Service, add_person


@pytest.fixture
def cid(service: Service) -> Person:
    return add_person(service.workspace, "cid")


def test_a_question_goes_to_two_people_and_never_twice_to_one(service: Service, cid: Person) -> None:
    w = service.workspace
    id = service.start(budget=20, overlap=2)
    n = w.adaptation(id).open
    one, two = (w.lend(id, person, 100) for person in (service.ann, service.bob))
    assert [q.id for q in one] == [q.id for q in two], "both are asked about all of it, at the same time"
    assert len(one) == n
    assert w.lend(id, cid, 100) == [], "a third person is not needed"
    first = one[0].id
    record = w.answer(id, service.ann, {first: "owl"})
    assert (record.spent, record.open) == (1, n)
    assert first not in {q.id for q in w.lend(id, service.ann, 100)}
    seen = next(q for q in w.lend(id, service.bob, 100) if q.id == first)
    assert (seen.answers, seen.effective) == ([], None), "nobody sees what others said before they answer"
    w.pass_on(id, service.bob, [first])
    assert [q.id for q in w.lend(id, cid, 100)] == [first]
    record = w.answer(id, cid, {first: "owl"})
    assert (record.spent, record.open, w.question(first).effective) == (2, n - 1, "owl")
    w.undo(id, service.ann)
    assert (w.adaptation(id).spent, w.adaptation(id).open) == (1, n)
    assert first in {q.id for q in w.lend(id, service.ann, 100)}


def test_a_round_is_over_when_all_are_through_and_the_budget_holds(service: Service) -> None:
    w = service.workspace
    id = service.start(budget=12, overlap=2)
    while w.adaptation(id).state == "asking":
        for person in (service.ann, service.bob):
            service.answer_round(id, person)
        service.work()
    assert w.adaptation(id).spent <= 12
    finished = service.finish(id)
    assert (finished.state, w.versions(service.agent)[-1].labels_used) == ("finished", finished.spent)
    assert {row["weight"] for row in w.ledger(id)} == {1.0}


def test_a_lower_overlap_lets_a_running_adaptation_go_on(service: Service) -> None:
    w = service.workspace
    id = service.start(budget=12, overlap=3)
    service.answer_round(id, service.ann)
    with pytest.raises(NotAllowed):
        w.share_work(id, service.bob, overlap=1)
    assert w.adaptation(id).state == "asking"
    assert w.share_work(id, service.ann, overlap=1).state == "thinking"
    service.work()
    assert service.answer_all(id).state == "review"
    assert service.finish(id).state == "finished"


def test_people_are_told_how_they_agree_and_of_others_only_administrators(
    service: Service, cid: Person
) -> None:
    w = service.workspace
    id = service.start(budget=30, overlap=2)
    lent = w.lend(id, service.ann, 100)
    assert len(lent) >= 5
    w.answer(id, service.ann, {q.id: service.truth(q.sample) for q in lent})
    few = w.agreement(id, service.ann)
    assert (few.alpha, few.common, few.annotators) == (None, 0, 3)
    other = {q.id: service.truth(q.sample) for q in lent} | {lent[0].id: "zebra"}
    w.answer(id, service.bob, other)
    told = w.agreement(id, service.ann)
    assert (told.common, told.disagreements) == (len(lent), 1)
    assert told.alpha is not None
    assert 0 < told.alpha < 1
    (pair,) = told.pairs
    assert (pair.people, pair.common, pair.same) == (("ann", "bob"), len(lent), len(lent) - 1)
    assert pair.kappa is not None
    assert [(p.person, p.answers, p.agreed) for p in told.people] == [
        ("ann", len(lent), len(lent) - 1),
        ("bob", len(lent), len(lent) - 1),
    ]
    assert next(c for c in told.classes if c.label == "zebra").agreed == 0
    mine = w.agreement(id, service.bob)
    assert ([p.person for p in mine.people], mine.pairs) == (["bob"], [])
    disputed = w.questions(id, disagreement=True)
    assert [q.id for q in disputed] == [lent[0].id]
    assert disputed[0].weight is not None
    w.settle(lent[0].id, cid, "zebra")
    assert w.agreement(id, service.ann).disagreements == 0


def test_gold_questions_look_like_others_cost_nothing_and_teach_nothing(service: Service) -> None:
    w = service.workspace
    id = service.start(budget=15)
    asked = {q.row for q in w.questions(id)}
    rows = [row for row in range(40) if row not in asked][:4]
    truth = {row: service.truth(service.world.ids[row]) for row in rows}
    with pytest.raises(NotAllowed):
        w.mark_gold(service.pool, truth, service.bob)
    with pytest.raises(NotFound):
        w.mark_gold(service.pool, {10**6: "cat"}, service.ann)
    assert len(w.mark_gold(service.pool, truth, service.ann)) == 4
    assert not [q for q in w.lend(id, service.bob, 100) if q.row in rows], "none, unless a share is set"
    w.share_work(id, service.ann, gold_share=0.4)
    lent = w.lend(id, service.bob, 6)
    golden = [q for q in lent if q.row in rows]
    assert golden
    assert {q.id for q in golden} == {q.id for q in w.lend(id, service.bob, 6) if q.row in rows}
    journal = len(w.ledger(id))
    right, *others = golden
    w.answer(id, service.bob, {right.id: truth[right.row]} | {q.id: "zebra" for q in others})
    assert (w.adaptation(id).spent, len(w.ledger(id))) == (0, journal)
    assert "zebra" not in w.adaptation(id).suggested_classes
    with w.database.reading() as connection:
        state = w.home.states.of(connection, id)
    assert not state.answers
    score = next(p for p in w.agreement(id, service.ann).people if p.person == "bob").gold
    assert score is not None
    assert (score.right, score.answered) == (1, len(golden))
    assert 0 <= score.low < score.high <= 1
    back = w.undo(id, service.bob)
    assert back.id in {q.id for q in golden}, "the last answer was to a gold question, and is taken back"
    w.answer(id, service.bob, {back.id: SKIP})
    with pytest.raises(NotFound):
        w.answer(id, service.ann, {right.id: "cat"})


def test_settled_answers_become_gold(service: Service, cid: Person) -> None:
    w = service.workspace
    id = service.start(budget=12, overlap=2)
    question = w.lend(id, service.ann, 1)[0]
    w.answer(id, service.ann, {question.id: "cat"})
    w.answer(id, service.bob, {question.id: "dog"})
    w.settle(question.id, cid, "owl")
    assert w.mark_settled_gold(id, service.ann) == 1
    assert [(g.row, g.label) for g in w.gold(service.pool, service.ann)] == [(question.row, "owl")]
    assert gold.wilson(5, 10)[0] < 0.5 < gold.wilson(5, 10)[1]
