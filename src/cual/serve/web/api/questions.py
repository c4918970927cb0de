"""Questions and answers of an adaptation, and the review of what it believes without asking."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field, StrictBool, StrictInt

from cual.data.labels import SKIP
from cual.data.plain import Value
from cual.errors import NotFound
from cual.serve.rules.records import AdaptationRecord, NamingRecord, QuestionRecord, UndoRecord
from cual.serve.web.api.common import (
    LARGEST_ID,
    Annotator,
    Body,
    Id,
    InWorkspace,
    LabelIn,
    Reader,
    problems,
)
from cual.types import Label

router = APIRouter(prefix="/api/adaptations/{id}", tags=["questions"])
NumberKey = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})$")]
"""JSON has no numbers as keys; nine digits fit every database."""
MOST_AT_ONCE = 5000
Key = Annotated[StrictInt, Field(ge=1, le=LARGEST_ID)]


class Lend(Body):
    n: Annotated[StrictInt, Field(ge=1, le=1000)] = 20


class GiveBack(Body):
    questions: Annotated[list[Key], Field(max_length=MOST_AT_ONCE)]


class Answers(Body):
    answers: Annotated[dict[NumberKey, LabelIn | None], Field(max_length=MOST_AT_ONCE)]
    """Labels by the question's id; null for "cannot tell"."""
    grace: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 0
    """Seconds that the learner waits after the last answer of a round, so that it can still be undone."""
    meant: StrictBool = False
    """Whether new names are meant that differ from known ones only by case or form; else they are refused."""


class Settle(Body):
    question: Key
    label: LabelIn | None
    meant: StrictBool = False


class Reviews(Body):
    reviews: Annotated[dict[NumberKey, Literal["confirm", "reject"] | None], Field(max_length=MOST_AT_ONCE)]
    """By the sample's row in the pool; null takes back what was said of it."""


class Classes(Body):
    classes: Annotated[dict[NumberKey, LabelIn], Field(max_length=1000)]
    """What samples are, by their rows in the pool."""
    meant: StrictBool = False


class Withdrawn(Body):
    rows: Annotated[list[Annotated[StrictInt, Field(ge=0, le=LARGEST_ID)]], Field(max_length=1000)]


@dataclass(frozen=True)
class PseudoLabel:
    """What is believed of a sample without asking."""

    sample: Label
    row: int
    label: Label
    doubt: float
    """0 … 1."""
    margin: float
    """By how much the class beats the others: the lowest are the most doubtful."""
    provisional: bool
    """Whether it would be believed if nobody were asked any more; else it is."""
    verdict: Literal["confirm", "reject", "correct"] | None
    instead: Label | None
    """What somebody said it is."""
    columns: dict[str, Value]
    """What the pool's table says of it, for people to read."""


@router.get("/questions", responses=problems(404))
def questions(
    person: Reader,
    workspace: InWorkspace,
    id: Id,
    round: Annotated[int | None, Query(ge=0, le=LARGEST_ID)] = None,
    answered: bool | None = None,
    disagreement: bool | None = None,
) -> list[QuestionRecord]:
    """All questions asked so far with all their answers, in the order asked."""
    found = workspace.questions(id, round=round, answered=answered, disagreement=disagreement)
    return workspace.with_columns(found)


@router.post("/lend", responses=problems(404))
def lend(person: Annotator, workspace: InWorkspace, id: Id, wanted: Lend) -> list[QuestionRecord]:
    """Open questions for whoever asks: those lent to them already, then free ones, most useful first."""
    return workspace.with_columns(workspace.lend(id, person, wanted.n))


@router.post("/give-back", status_code=204, responses=problems(404))
def give_back(person: Annotator, workspace: InWorkspace, id: Id, given: GiveBack) -> None:
    """Leave questions to somebody else."""
    workspace.pass_on(id, person, given.questions)


@router.post("/answers", responses=problems(404, 409))
def answer(person: Annotator, workspace: InWorkspace, id: Id, body: Answers) -> AdaptationRecord:
    """Answer questions, all or none of them. Saying the same again changes nothing; saying else corrects."""
    given = {int(key): SKIP if label is None else label for key, label in body.answers.items()}
    return workspace.answer(id, person, given, body.grace, body.meant)


@router.post("/undo", responses=problems(404, 409))
def undo(
    person: Annotator,
    workspace: InWorkspace,
    id: Id,
    reopen: Annotated[
        bool, Query(description="Also if the learner has used it: its round is reopened.")
    ] = False,
) -> QuestionRecord:
    """Take back one's last answer, as long as nothing was finished."""
    return workspace.with_columns([workspace.undo(id, person, reopen)])[0]


@router.get("/undo", responses=problems(404, 409))
def undo_cost(person: Annotator, workspace: InWorkspace, id: Id) -> UndoRecord:
    """What taking back one's last answer would come to."""
    return workspace.undo_cost(id, person)


@router.post("/settle", responses=problems(404, 409))
def settle(person: Annotator, workspace: InWorkspace, id: Id, body: Settle) -> QuestionRecord:
    """Settle a disagreement: from now on this label counts."""
    if workspace.question(body.question).adaptation != id:
        raise NotFound(f"adaptation {id} has no question {body.question}")
    settled = workspace.settle(body.question, person, SKIP if body.label is None else body.label, body.meant)
    return workspace.with_columns([settled])[0]


@router.get("/pseudo-labels", responses=problems(404))
def pseudo_labels(
    person: Reader,
    workspace: InWorkspace,
    id: Id,
    label: Annotated[str | None, Query(max_length=200, description="Only of this class.")] = None,
    start: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
    n: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> list[PseudoLabel]:
    """What is believed without asking, most doubtful first."""
    rows: list[dict[str, Any]] = workspace.pseudo_labels(id)
    chosen = [row for row in rows if label is None or str(row["label"]) == label]
    here = chosen[start : start + n]
    columns = workspace.columns(workspace.adaptation(id).pool, [row["row"] for row in here])
    return [PseudoLabel(**row, columns=columns[row["row"]]) for row in here]


@router.post("/reviews", status_code=204, responses=problems(404, 409))
def review(person: Annotator, workspace: InWorkspace, id: Id, body: Reviews) -> None:
    """Confirm pseudo-labels, reject them, which sends the samples back to the pool, or take that back."""
    workspace.review(id, person, {int(row): verdict for row, verdict in body.reviews.items()})


@router.post("/classes", responses=problems(404, 409))
def name_classes(person: Annotator, workspace: InWorkspace, id: Id, body: Classes) -> NamingRecord:
    """Say what samples are that something else is believed of: answers, charged while the budget has room."""
    return workspace.name_classes(
        id, person, {int(row): label for row, label in body.classes.items()}, body.meant
    )


@router.post("/classes/withdraw", status_code=204, responses=problems(404, 409))
def withdraw_classes(person: Annotator, workspace: InWorkspace, id: Id, body: Withdrawn) -> None:
    """Take back such classes, while the learner has not used them."""
    workspace.withdraw_classes(id, person, body.rows)
