"""Which version of an agent predicts, on its page: the settings, who changed it and why, and reasons asked for.

The candidate itself, and where it differs, is in `candidate`; the rules are in `cual.serve.rules.stages`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from nicegui import ui

from cual.serve.rules.records import AgentRecord, NewVersions, Role, VersionRecord
from cual.serve.rules.sentences import Sentence, said
from cual.serve.rules.stages import LEAST_SHARE, LONGEST_REASON, StageRecord
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.texts import told, tr
from cual.serve.web.page.viewer import Viewer, complain, tried
from cual.serve.web.page.words import day, percent

Refresh = Callable[[], Awaitable[None]]
BADGES: Mapping[str, Sentence] = {
    "live": said("current"),
    "candidate": said("candidate"),
    "discarded": said("discarded"),
}
"""What a version is, where it is not simply retired."""
_CHANGES: Mapping[str, Sentence] = {
    "promote": said("{day}: {person} promoted version {version}; before it, version {before} was live."),
    "roll back": said(
        "{day}: {person} rolled back to version {version}; before it, version {before} was live."
    ),
    "discard": said("{day}: {person} discarded version {version}; version {before} stayed live."),
}


def rollout_card(viewer: Viewer, agent: AgentRecord, changes: Sequence[StageRecord], refresh: Refresh) -> None:
    """How new versions begin, and who made which one live; administrators change it."""
    with El("section", classes="card", aria_label=tr("Roll-out"), data_rollout=""):
        El("h2", tr("Roll-out"))
        El("p", _setting(agent), "wrap")
        if viewer.may(Role.admin):
            _form(viewer, agent, refresh)
        if changes:
            El("h3", tr("Who changed the live version"))
            with El("ul"):
                for change in changes[:20]:
                    _change(change)


def _setting(agent: AgentRecord) -> str:
    if agent.new_versions == "live":
        return tr("A version that an adaptation makes is live at once: it predicts from then on.")
    return tr(
        "A version that an adaptation makes begins as a candidate. In the shadow of the live version it "
        "predicts {share} of what that one is asked, until an administrator promotes or discards it.",
        share=percent(agent.shadow_share),
    )


def _form(viewer: Viewer, agent: AgentRecord, refresh: Refresh) -> None:
    async def save(new_versions: NewVersions | None = None, share: float | None = None) -> None:
        person = await tried(viewer.now, Role.admin)
        if person is None:
            return
        if await tried(viewer.workspace.set_rollout, agent.id, person, new_versions, share) is not None:
            ui.notify(tr("Saved."))
            await refresh()

    if agent.new_versions == "live":
        button(tr("Let new versions begin as candidates")).on("click", lambda: save("candidate"))
        return
    share = ui.number(
        tr("Samples that a candidate predicts, %"),
        value=100 * agent.shadow_share,
        min=100 * LEAST_SHARE,
        max=100,
    )
    share.props("outlined dense").style("width: 260px; max-width: 100%")
    with El("div", classes="line"):
        button(tr("Save"), "main").on("click", lambda: save(share=round(float(share.value or 0) / 100, 6)))
        button(tr("Let new versions be live at once")).on("click", lambda: save("live"))


def _change(change: StageRecord) -> None:
    sentence = _CHANGES[change.action]
    values = {"person": change.person, "version": change.version, "before": change.before}
    with El("li", classes="wrap"):
        El("span", told(said(sentence.text, day=day(change.at), **values)))
        if change.why:
            El("q", change.why, "wrap")


async def reason_for(question: str, yes: str, needed: bool = True) -> str | None:
    """Why somebody wants something for everybody; None where they do not want it after all."""
    with ui.dialog() as dialog, El("div", classes="card stack tight"):
        El("p", question, "wrap")
        why = ui.input(tr("Why (for the history)")).props(f"outlined dense maxlength={LONGEST_REASON}")
        with El("div", classes="line"):
            button(tr("Cancel"), autofocus="").on("click", lambda: dialog.submit(False))
            button(yes, "main").on("click", lambda: dialog.submit(True))
    dialog.props["aria-label"] = question
    wanted = await dialog
    reason = str(why.value or "").strip()
    dialog.clear()
    if not wanted:
        return None
    if needed and not reason:
        complain(tr("Say why, for those who read the history."))
        return None
    return reason


def accuracy_in_words(version: VersionRecord) -> str:
    """How good it is, by how many labels of people, and how good the version before was on the same samples."""
    if not version.held_out:
        return ""
    value = percent(version.held_out_accuracy)
    if version.accuracy_low is None:  # made by an earlier cual, which counted pseudo-labels too
        return tr("{share} of {n}, guesses of its own among them", share=value, n=version.held_out)
    what = {
        "share": value,
        "low": percent(version.accuracy_low),
        "high": percent(version.accuracy_high),
        "n": version.held_out,
    }
    if version.accuracy_before is None:
        return tr("{share} ({low} to {high}), by {n} labels", **what)
    before = percent(version.accuracy_before)
    return tr("{share} ({low} to {high}), by {n} labels; before it {before}", **what, before=before)
