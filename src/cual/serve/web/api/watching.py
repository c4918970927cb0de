"""How predictions go: novelty, drift and what follows; and webhooks. What it means, `rules.watching` says."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AwareDatetime, Field, StrictBool, StrictInt, StrictStr

from cual.serve.rules.watching.proposing import LARGEST_BUDGET, LARGEST_GAIN
from cual.serve.rules.watching.records import EVENTS, Event, WatchRecord, WebhookRecord
from cual.serve.rules.watching.webhooks import LEAST_SECRET, LONGEST_URL, MOST_SECRET
from cual.serve.rules.watching.worth import LEAST_GAIN, MOST_QUESTIONS
from cual.serve.web.api.common import LARGEST_ID, Admin, Body, Id, InWorkspace, Reader, problems
from cual.serve.web.api.pools import TextOut
from cual.serve.web.watching.thumbnails import Thumbnails

router = APIRouter(prefix="/api/agents", tags=["watching"])
WebhookId = Annotated[int, Path(ge=1, le=LARGEST_ID)]
SampleId = Annotated[int, Path(ge=1, le=LARGEST_ID)]
Events = Annotated[list[Event], Field(min_length=1, max_length=len(EVENTS))]


class Watching(Body):
    starts: StrictBool = False
    """Whether an adaptation that is worth it begins by itself, in the name of whoever says so."""
    most_questions: Annotated[StrictInt, Field(ge=1, le=LARGEST_BUDGET)] = MOST_QUESTIONS
    """Its largest budget."""
    least_gain: Annotated[float, Field(ge=1, le=LARGEST_GAIN, allow_inf_nan=False)] = LEAST_GAIN
    """Samples that each question must settle."""


class NewWebhook(Body):
    url: Annotated[StrictStr, Field(min_length=1, max_length=LONGEST_URL)]
    events: Events | None = None
    """All if none are named."""
    secret: Annotated[StrictStr, Field(min_length=LEAST_SECRET, max_length=MOST_SECRET)] | None = None
    """One is made up if none is given."""


class WebhookChange(Body):
    active: StrictBool = True
    events: Events | None = None


@dataclass(frozen=True)
class WebhookOut:
    webhook: WebhookRecord
    secret: str
    """What bodies are signed with. It is told this once."""


@router.get("/{id}/watching", responses=problems(404))
def watching(
    person: Reader,
    workspace: InWorkspace,
    id: Id,
    since: Annotated[AwareDatetime | None, Query(description="Of the points; a day ago if not given.")] = None,
) -> WatchRecord:
    """How the predictions of the agent go."""
    return workspace.watching(id, since)


@router.get(
    "/{id}/watching/pictures/{sample}",
    responses={
        **problems(404),
        200: {"content": {"image/webp": {"schema": {"type": "string", "format": "binary"}}}},
    },
    response_class=Response,
)
def picture(request: Request, person: Reader, workspace: InWorkspace, id: Id, sample: SampleId) -> Response:
    """A small picture of a sample that is an example of a group, written anew."""
    thumbnails: Thumbnails = request.app.state.thumbnails
    data = thumbnails.of(sample, lambda: workspace.group_example(id, sample, "picture"))
    return Response(data, media_type="image/webp", headers={"Cache-Control": "private, no-cache"})


@router.get("/{id}/watching/texts/{sample}", responses=problems(404))
def text(person: Reader, workspace: InWorkspace, id: Id, sample: SampleId) -> TextOut:
    """The text of a sample that is an example of a group."""
    return TextOut(workspace.group_example(id, sample, "text").decode(errors="replace"))


@router.put("/{id}/watching", responses=problems(404, 409))
def set_watching(person: Admin, workspace: InWorkspace, id: Id, new: Watching) -> WatchRecord:
    """Set when an adaptation is worth it, and whether it begins by itself."""
    return workspace.set_watching(id, person, new.starts, new.most_questions, new.least_gain)


@router.post("/{id}/watching/adapt", responses=problems(404, 409))
def begin_proposed(person: Admin, workspace: InWorkspace, id: Id) -> WatchRecord:
    """Begin the adaptation that is proposed: the samples that wait become its pool."""
    return workspace.begin_proposed(id, person)


@router.get("/{id}/webhooks", responses=problems(404))
def webhooks(person: Admin, workspace: InWorkspace, id: Id) -> list[WebhookRecord]:
    """Whom the agent's events are told to."""
    return workspace.webhooks(id, person)


@router.post("/{id}/webhooks", status_code=201, responses=problems(404, 409))
def add_webhook(person: Admin, workspace: InWorkspace, id: Id, new: NewWebhook) -> WebhookOut:
    """Tell the agent's events to an address from now on."""
    return WebhookOut(*workspace.add_webhook(id, new.url, person, new.events or EVENTS, new.secret))


@router.patch("/{id}/webhooks/{webhook}", responses=problems(404))
def change_webhook(
    person: Admin, workspace: InWorkspace, id: Id, webhook: WebhookId, new: WebhookChange
) -> WebhookRecord:
    """Pause a webhook or let it go on, and choose its events."""
    return workspace.change_webhook(id, webhook, person, new.active, new.events)


@router.delete("/{id}/webhooks/{webhook}", status_code=204, responses=problems(404))
def remove_webhook(person: Admin, workspace: InWorkspace, id: Id, webhook: WebhookId) -> None:
    """Tell an address no more."""
    workspace.remove_webhook(id, webhook, person)
