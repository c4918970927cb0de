"""Agents and their versions. Their predictions are in `cual.serve.web.api.predictions`."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from cual.agent import Agent
from cual.errors import CualError, DamagedFile, ForeignFile, NewerFormat
from cual.serve.rules.agents import LEAST_RATE, MOST_RATE
from cual.serve.rules.records import AgentRecord, DependentsRecord, VersionRecord
from cual.serve.rules.sources import TableColumns
from cual.serve.web import uploads
from cual.serve.web.api.common import (
    Admin,
    Body,
    Caller,
    Id,
    InSettings,
    InWorkspace,
    Name,
    Reader,
    Rename,
    SkippedOut,
    problems,
)
from cual.serve.web.api.sending import FromData, Optional, ServerPath, described, sent

router = APIRouter(prefix="/api/agents", tags=["agents"])
_AGENT_FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


_FROM_DATA = described(
    {
        "encoder": {"type": "string", "maxLength": 200, "default": "", "description": "A built-in one."},
        "label": {"type": "string", "maxLength": 200, "default": "", "description": "Of a table."},
    },
    "One zip with a folder of pictures per class, or one table of text with labels (CSV, TSV, JSON lines), or "
    "one .npz of labelled features.",
)


class LabelledData(FromData):
    """Samples with labels, of which an agent is made."""

    encoder: Optional = None
    """A built-in one; by default the usual one for pictures or for text."""
    label: Optional = None
    """The table's column of labels."""

    @property
    def table(self) -> TableColumns:
        return TableColumns(self.text, self.label, self.id)


class LabelledPath(LabelledData):
    path: ServerPath


class FalseAlarms(Body):
    share: Annotated[float, Field(ge=LEAST_RATE, le=MOST_RATE, allow_inf_nan=False)] | None
    """null for the method's own threshold."""


@router.get("", responses=problems())
def agents(person: Reader, workspace: InWorkspace) -> list[AgentRecord]:
    return workspace.agents()


@router.post("", status_code=201, responses=problems(409, 413), openapi_extra=_AGENT_FILE)
async def add_agent(
    request: Request,
    person: Admin,
    workspace: InWorkspace,
    settings: InSettings,
    name: Annotated[Name, Query(min_length=1, max_length=100)],
) -> AgentRecord:
    """Upload an agent's file, as `Agent.save` and `cual fit` write it."""
    async with uploads.arriving(workspace.uploads) as folder:
        await uploads.receive_one(request.stream(), folder / "agent", settings.limits.agent)
        agent = await run_in_threadpool(_load, folder / "agent")
        return await run_in_threadpool(workspace.add_agent, name, agent, person)


@router.post("/from-data", status_code=201, responses=problems(409, 413, 415), openapi_extra=_FROM_DATA)
async def make_agent(
    request: Request, person: Admin, workspace: InWorkspace, settings: InSettings
) -> AgentRecord:
    """Make an agent of labelled data that is uploaded, or lies under an allowed root. A worker does it."""
    async with sent(request, workspace, settings.limits, LabelledPath, LabelledData) as (wanted, path):
        return await run_in_threadpool(
            workspace.make_agent, wanted.name, path, person, wanted.encoder, wanted.table
        )


@router.post("/example", status_code=201, responses=problems())
def make_example(person: Admin, workspace: InWorkspace) -> AgentRecord:
    """Make the built-in example: an agent that knows five digits, then a pool in which all ten turn up."""
    return workspace.make_example(person)


@router.get("/{id}", responses=problems(404))
def agent(person: Caller, workspace: InWorkspace, id: Id) -> AgentRecord:
    return workspace.agent(id)


@router.patch("/{id}", responses=problems(404))
def rename_agent(person: Admin, workspace: InWorkspace, id: Id, body: Rename) -> AgentRecord:
    return workspace.rename_agent(id, body.name, person)


@router.delete("/{id}", status_code=204, responses=problems(404, 409))
def delete_agent(person: Admin, workspace: InWorkspace, id: Id) -> None:
    """Remove an agent with all its versions. Answers stay. Refused while something is made with it."""
    workspace.delete_agent(id, person)


@router.get("/{id}/dependents", responses=problems(404))
def dependents(person: Reader, workspace: InWorkspace, id: Id) -> DependentsRecord:
    """What the agent is needed for."""
    return workspace.dependents_of_agent(id)


@router.get("/{id}/skipped", responses=problems(404))
def skipped(person: Reader, workspace: InWorkspace, id: Id) -> list[SkippedOut]:
    """Labelled items that could not be read when the agent was made, and why."""
    return [SkippedOut(row["source"], row["reason"]) for row in workspace.skipped_of_agent(id)]


@router.get("/{id}/versions", responses=problems(404))
def versions(person: Reader, workspace: InWorkspace, id: Id) -> list[VersionRecord]:
    """All versions, with what led to each and how good it is by labels of people."""
    return workspace.versions(id)


@router.put("/{id}/false-alarms", responses=problems(404, 409))
def set_false_alarms(person: Admin, workspace: InWorkspace, id: Id, new: FalseAlarms) -> AgentRecord:
    """Say which share of known samples may be called unlike anything known, from the next prediction on."""
    return workspace.set_false_alarms(id, new.share, person)


def _load(file: Path) -> Agent:
    """An agent that has shown that it can predict: later it would be too late to find out that it cannot."""
    try:
        agent = Agent.load(file)
        for label in agent.names.names:
            agent.names.check(label)
        blank = np.zeros((1, agent.width), np.float32)
        outputs = (agent.predict_proba(blank), agent.novelty(blank), np.array(agent.threshold.value))
        if not all(np.isfinite(numbers).all() for numbers in outputs):
            raise DamagedFile("the agent's predictions are no numbers")
    except (ForeignFile, NewerFormat) as error:
        raise type(error)(str(error).replace(str(file), "the file")) from None
    except CualError as error:
        raise DamagedFile(str(error).replace(str(file), "the file")) from None
    except Exception as error:  # a file made by hand can go wrong in any way there is
        raise DamagedFile(f"the file holds no agent that works: {type(error).__name__}") from error
    return agent
