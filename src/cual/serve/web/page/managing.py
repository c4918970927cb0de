"""What administrators do to agents and pools from their cards: rename, delete, cancel, try again."""

from collections.abc import Awaitable, Callable

from nicegui import ui

from cual.serve.rules.records import AgentRecord, DependentsRecord, JobRecord, PoolRecord, Role
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.help import confirmed
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import Viewer, asked, tried

Record = AgentRecord | PoolRecord


class Managing:
    """Asks where something goes for good, and shows what came of it."""

    def __init__(self, viewer: Viewer, refresh: Callable[[], Awaitable[None]]) -> None:
        self._viewer, self._workspace, self._refresh = viewer, viewer.workspace, refresh

    async def rename(self, record: Record) -> None:
        name = await _new_name(record.name)
        person = None if name is None else await tried(self._viewer.now, Role.admin)
        if name is None or person is None:
            return
        if isinstance(record, AgentRecord):
            await tried(self._workspace.rename_agent, record.id, name, person)
        else:
            await tried(self._workspace.rename_pool, record.id, name, person)
        await self._refresh()

    async def delete(self, record: Record) -> None:
        agent = isinstance(record, AgentRecord)
        w = self._workspace
        if agent:
            dependents = await tried(w.dependents_of_agent, record.id)
        else:
            dependents = await tried(w.dependents_of_pool, record.id)
        if dependents is None:
            return
        if not await confirmed(_consequences(record, dependents), tr("Delete")):
            return
        person = await tried(self._viewer.now, Role.admin)
        if person is not None:
            if agent:
                await tried(w.delete_agent, record.id, person)
            else:
                await tried(w.delete_pool, record.id, person)
            await self._refresh()

    async def cancel(self, record: Record) -> None:
        """End the job that makes it."""
        job = await self._job(record, ("waiting", "running"))
        person = await tried(self._viewer.now, Role.admin)
        if job is not None and person is not None:
            await tried(self._workspace.cancel_job, job.id, person)
        await self._refresh()

    async def retry(self, record: Record) -> None:
        job = await self._job(record, ("failed",))
        person = await tried(self._viewer.now, Role.admin)
        if job is not None and person is not None:
            await tried(self._workspace.retry_job, job.id, person)
        await self._refresh()

    async def _job(self, record: Record, states: tuple[str, ...]) -> JobRecord | None:
        agent = isinstance(record, AgentRecord)
        for job in await asked(self._workspace.jobs):
            if (job.agent if agent else job.pool) == record.id and job.state in states:
                return job
        return None


def _consequences(record: Record, dependents: DependentsRecord) -> str:
    """What goes and what stays, before anything is deleted."""
    sentences = [tr("Delete “{name}”? Its files go for good.", name=record.name)]
    if dependents.versions > 1:
        sentences.append(trn("{n} version goes.", "All {n} versions go.", dependents.versions))
    if dependents.going or dependents.preparing:
        sentences.append(tr("It is in use, and will not be deleted before that is over."))
    if dependents.over:
        sentences.append(
            trn(
                "{n} adaptation used it: its {answers} answers stay and can be exported.",
                "{n} adaptations used it: their {answers} answers stay and can be exported.",
                len(dependents.over),
                answers=dependents.answers,
            )
        )
    return " ".join(sentences)


async def _new_name(now: str) -> str | None:
    """What somebody wants to call it; None if they do not."""
    with ui.dialog() as dialog, El("div", classes="card"), El("form", classes="stack tight") as form:
        with El("label", classes="field"):
            El("span", tr("New name"))
            field = ui.input(value=now).props("outlined dense autofocus maxlength=100")
            field.props["aria-label"] = tr("New name")
        with El("div", classes="line"):
            El("button", tr("Rename"), "button main", type_="submit")
            button(tr("Cancel")).on("click", lambda: dialog.submit(None))
    form.on("submit.prevent", lambda: dialog.submit(field.value))
    dialog.props["aria-label"] = tr("Rename")
    name = await dialog
    dialog.clear()
    return name or None
