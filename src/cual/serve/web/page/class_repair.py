"""What administrators do to a class for good: rename it, make it part of another, split it, remove it.

A dialog that says what depends on it, and asks again. What comes of it is in `cual.serve.rules.repairing`; what
takes a worker is followed on the page of repairs.
"""

from collections.abc import Sequence

from nicegui import ui

from cual.errors import CualError, SamplesMissing
from cual.repair.splitting import MOST_PARTS
from cual.serve.rules.records import AgentRecord, DependentsRecord, Person, RepairRecord, Role
from cual.serve.rules.repairing import LONGEST_REASON
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.help import confirmed
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import Viewer, asked, complain, tried
from cual.types import Label, Row


class ClassRepair:
    """Changes classes of one agent."""

    def __init__(self, viewer: Viewer, agent: int) -> None:
        self._viewer, self._agent = viewer, agent

    async def change(self, label: Label, labels: Sequence[Label]) -> bool:
        """Ask what to do with a class, of `labels`; whether something was done."""
        workspace = self._viewer.workspace
        agent = await asked(workspace.agent, self._agent)
        dependents = await asked(workspace.dependents_of_agent, self._agent)
        trained = not await asked(workspace.changes_at_once, self._agent)
        done = False
        with ui.dialog() as dialog, El("div", classes="card stack tight"):
            El("h2", str(label), "wrap")
            El("p", _depends(agent, dependents), "soft wrap")
            if trained:
                El("p", _trained(), "soft wrap")
            why = ui.input(tr("Why (for the history)")).props(f"outlined dense maxlength={LONGEST_REASON}")
            name = ui.input(tr("New name"), value=str(label)).props("outlined dense maxlength=100")
            button(tr("Rename")).on("click", lambda: dialog.submit("rename"))
            others = {str(other): str(other) for other in labels if other != label}
            into = ui.select(others, label=tr("Class that it becomes part of"), with_input=True)
            into.props("outlined dense")
            button(tr("Merge")).on("click", lambda: dialog.submit("merge"))
            parts = ui.number(tr("Parts"), value=2, min=2, max=MOST_PARTS, precision=0).props("outlined dense")
            button(tr("Split")).on("click", lambda: dialog.submit("split"))
            button(tr("Remove the class")).on("click", lambda: dialog.submit("remove"))
            button(tr("Cancel"), autofocus="").on("click", lambda: dialog.submit(None))
        dialog.props["aria-label"] = tr("Change {name}", name=label)
        wanted = await dialog
        reason = str(why.value or "")
        if wanted == "rename":
            done = await self._rename(label, str(name.value or ""), reason)
        elif wanted == "merge":
            target = next((other for other in labels if str(other) == into.value), None)
            done = target is not None and await self._merge(label, target, reason, trained)
        elif wanted == "split":
            done = await self._split(label, int(parts.value or 0), reason)
        elif wanted == "remove":
            done = await self._remove(label, reason, trained)
        dialog.clear()
        return done

    async def _rename(self, label: Label, name: str, why: str) -> bool:
        new = _typed(label, name)
        sure = tr("Call “{name}” “{new}” from now on? A new version is made.", name=label, new=new)
        if new == label or not await confirmed(sure, tr("Rename")):
            return False
        person = await self._person()
        if person is None:
            return False
        workspace = self._viewer.workspace
        return await tried(workspace.rename_class, self._agent, label, new, person, why) is not None

    async def _merge(self, label: Label, into: Label, why: str, trained: bool) -> bool:
        sure = _merging(label, into, trained)
        if not await confirmed(sure, tr("Merge")):
            return False
        person = await self._person()
        if person is None:
            return False
        workspace = self._viewer.workspace
        made = await tried(workspace.merge_classes, self._agent, into, [label], person, why)
        return self._done(made)

    async def _split(self, label: Label, parts: int, why: str) -> bool:
        sure = tr(
            "Split “{name}” into {n} parts? Its samples are grouped first; then you say what the groups are.",
            name=label,
            n=parts,
        )
        if not await confirmed(sure, tr("Split")):
            return False
        person = await self._person()
        if person is None:
            return False
        workspace = self._viewer.workspace
        begun = await tried(workspace.split_class, self._agent, label, person, parts, why=why)
        return self._done(begun)

    async def _remove(self, label: Label, why: str, trained: bool) -> bool:
        sure = _removing(label, trained)
        if not await confirmed(sure, tr("Remove the class")):
            return False
        workspace = self._viewer.workspace
        person = await self._person()
        if person is None:
            return False
        try:
            made = await asked(workspace.remove_class, self._agent, label, person, False, why)
        except SamplesMissing:
            sure = tr(
                "The agent's memory does not keep all samples of “{name}”. Remove it all the same, and leave "
                "in the agent what they said of how classes spread?",
                name=label,
            )
            if not await confirmed(sure, tr("Remove the class")):
                return False
            made = await tried(workspace.remove_class, self._agent, label, person, True, why)
        except CualError as error:
            complain(error)
            return False
        return self._done(made)

    def _done(self, made: AgentRecord | RepairRecord | None) -> bool:
        """Whether it is done already; what a worker does is shown where it can be followed."""
        if isinstance(made, RepairRecord):
            ui.navigate.to(f"/agents/{self._agent}/repair")
        return isinstance(made, AgentRecord)

    async def _person(self) -> Person | None:
        return await tried(self._viewer.now, Role.admin)


def change_in_words(change: Row) -> str:
    """What a version's row says was changed, and that it is not exact, where it is not."""
    return _changed(change) + _how(change)


def _changed(change: Row) -> str:
    if change["change"] == "renamed":
        return tr("“{name}” is called “{new}” now", name=change["class"], new=change["to"])
    if change["change"] == "merged":
        return tr("{names} became part of “{into}”", names=quoted(change["classes"]), into=change["into"])
    if change["change"] == "split":
        return tr("“{name}” was split into {parts}", name=change["class"], parts=quoted(list(change["into"])))
    if change["change"] == "taught":
        return _taught(change)
    if change["change"] == "forgot":
        return trn("{n} sample was taken back", "{n} samples were taken back", change["samples"])
    return tr("“{name}” was removed", name=change["class"])


def _taught(change: Row) -> str:
    text = trn("{n} sample was taught", "{n} samples were taught", change["samples"])
    if change["replaced"]:
        text += ", " + trn("{n} got another label", "{n} got another label", change["replaced"])
    if change["new_classes"]:
        text += ", " + tr("new: {names}", names=quoted(change["new_classes"]))
    return text


def _how(change: Row) -> str:
    """That a head was trained, or something left in it, where it was: exact is not worth a word."""
    how = change.get("how", "exact")
    if how == "exact":
        return ""
    if how == "but for its spread":
        return "; " + tr("what its samples said of how classes spread is left")
    return "; " + tr("trained with what is kept, not exact")


def quoted(labels: Sequence[Label]) -> str:
    """Names in quotation marks, one after the other.

    >>> quoted(["cat", "owl"])
    '“cat”, “owl”'
    """
    return ", ".join(f"“{label}”" for label in labels)


def _depends(agent: AgentRecord, dependents: DependentsRecord) -> str:
    """What a change of a class means for others."""
    if dependents.going:
        numbers = ", ".join(map(str, dependents.going))
        return trn(
            "Adaptation {numbers} is under way with this agent: finish or drop it first.",
            "Adaptations {numbers} are under way with this agent: finish or drop them first.",
            len(dependents.going),
            numbers=numbers,
        )
    return tr(
        "Version {version} predicts now. A change makes the next version, which predicts from then on; the "
        "history says who made it and why, and you can go back. Answers stay as they were given.",
        version=agent.version,
    )


def _trained() -> str:
    return tr(
        "Merging, splitting and removing train the head of this agent again, from what is kept: that takes a "
        "while and is not exact. The history says so."
    )


def _merging(label: Label, into: Label, trained: bool) -> str:
    """What is asked before a class becomes part of another."""
    if trained:
        return tr(
            "Make “{name}” part of “{into}”? The head is trained again from what is kept, which takes a while; "
            "then there is a new version.",
            name=label,
            into=into,
        )
    return tr(
        "Make “{name}” part of “{into}”? A new version is made, in which they were always one class.",
        name=label,
        into=into,
    )


def _removing(label: Label, trained: bool) -> str:
    """What is asked before a class is removed."""
    if trained:
        return tr(
            "Remove “{name}”? The head is trained again from what is kept of the others, which takes a while; "
            "then there is a new version. Answers stay.",
            name=label,
        )
    return tr("Remove “{name}”? A new version is made that never knew it. Answers stay.", name=label)


def _typed(label: Label, text: str) -> Label:
    """A new name of the type that the old one has; what is no whole number is refused as a name."""
    plain = text.strip()
    return int(plain) if isinstance(label, int) and plain.lstrip("-").isdigit() else plain
