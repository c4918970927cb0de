"""The ledger of an adaptation, from the database: one row per question, who answered what, what it cost."""

from cual.serve import adaptations, questions
from cual.serve.home import Home
from cual.serve.records import AnswerRecord, QuestionRecord
from cual.types import Row


def ledger(home: Home, adaptation: int) -> list[Row]:
    """As `Adaptation.ledger`, with people: ``person`` gave the answer that counts."""
    with home.database.reading() as c:
        adaptations.get(c, adaptation)
    return [_row(question) for question in questions.every(home, adaptation)]


def _row(question: QuestionRecord) -> Row:
    standing = [answer for answer in question.answers if not answer.undone]
    counting = _counting(standing)
    before = [answer for answer in standing if counting is not None and answer.id < counting.id]
    changed = next((answer for answer in reversed(before) if answer.person == _person(counting)), None)
    return {
        "question": question.id,
        "query": question.query,
        "iteration": question.round,
        "sample": question.sample,
        "row": question.row,
        "score": question.score,
        "threshold": question.threshold,
        "zone": question.zone,
        "suggestion": question.suggestion,
        "asked_at": question.asked_at.isoformat(timespec="milliseconds"),
        "answer": question.effective,
        "skipped": question.unsure,
        "charged": int(question.effective is not None),
        "told_at": None if counting is None else counting.at.isoformat(timespec="milliseconds"),
        "person": _person(counting),
        "corrected": None if changed is None else changed.label,
        "answers": len(standing),
        "disagreement": question.disagreement,
    }


def _counting(standing: list[AnswerRecord]) -> AnswerRecord | None:
    """The answer that counts: the latest of who settled it last, else of who answered first."""
    if not standing:
        return None
    settlers = [answer.person for answer in standing if answer.settles]
    who = settlers[-1] if settlers else standing[0].person
    return next(answer for answer in reversed(standing) if answer.person == who)


def _person(answer: AnswerRecord | None) -> str | None:
    return None if answer is None else answer.person
