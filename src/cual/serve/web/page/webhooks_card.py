"""Webhooks of an agent on its page, for administrators. The secret is shown once, when it is made."""

from nicegui import ui

from cual.serve.rules.records import Role
from cual.serve.rules.watching.records import EVENTS, WebhookRecord
from cual.serve.web.page.elements import El, button
from cual.serve.web.page.help import confirmed
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import Viewer, asked, tried
from cual.serve.web.page.words import day


class WebhooksCard:
    """Whom events are told to: added, paused, removed."""

    def __init__(self, viewer: Viewer, agent: int) -> None:
        self._viewer, self._agent = viewer, agent
        with El("section", classes="card", aria_label=tr("Webhooks"), data_webhooks=""):
            El("h2", tr("Webhooks"))
            El(
                "p",
                tr("Alerts, proposals and new versions are sent to these addresses, signed with a secret."),
                "soft",
            )
            self._list = El("div", classes="stack tight")
            with El("div", classes="line"):
                self._url = ui.input(tr("Address")).props("outlined dense maxlength=2000 type=url")
                self._url.style("width: 360px; max-width: 100%")
                self._events = ui.select({name: name for name in EVENTS}, multiple=True, label=tr("Events"))
                self._events.value = list(EVENTS)
                self._events.props("outlined dense options-dense").style("min-width: 200px")
                button(tr("Add webhook"), "main").on("click", self._add)
            self._secret = El("p", classes="wrap", aria_live="polite", data_secret="")

    async def draw(self) -> None:
        hooks = await asked(self._viewer.workspace.webhooks, self._agent, self._viewer.person)
        self._list.clear()
        with self._list:
            for hook in hooks:
                self._row(hook)

    def _row(self, hook: WebhookRecord) -> None:
        with El("div", classes="line apart", data_webhook=str(hook.id)):
            with El("div"):
                El("p", hook.url, "wrap")
                El("p", ", ".join(hook.events), "soft wrap")
                El("p", _standing(hook), "bad wrap" if hook.error and hook.waiting else "soft wrap")
            with El("div", classes="line"):
                pause = tr("Pause") if hook.active else tr("Go on")
                button(pause, aria_label=f"{pause}: {hook.url}").on("click", lambda: self._turn(hook))
                button(tr("Remove"), aria_label=tr("Remove {name}", name=hook.url)).on(
                    "click", lambda: self._remove(hook)
                )

    async def _add(self) -> None:
        person = await tried(self._viewer.now, Role.admin)
        if person is None:
            return
        events = [str(event) for event in self._events.value or ()]
        added = await tried(
            self._viewer.workspace.add_webhook, self._agent, str(self._url.value or ""), person, events
        )
        if added is not None:
            self._url.value = ""
            self._secret.say(tr("The secret, which is shown this once: {secret}", secret=added[1]))
            await self.draw()

    async def _turn(self, hook: WebhookRecord) -> None:
        person = await tried(self._viewer.now, Role.admin)
        if person is not None:
            change = self._viewer.workspace.change_webhook
            await tried(change, self._agent, hook.id, person, not hook.active)
            await self.draw()

    async def _remove(self, hook: WebhookRecord) -> None:
        if not await confirmed(tr("Tell {name} no more?", name=hook.url), tr("Remove")):
            return
        person = await tried(self._viewer.now, Role.admin)
        if person is not None:
            await tried(self._viewer.workspace.remove_webhook, self._agent, hook.id, person)
            await self.draw()


def _standing(hook: WebhookRecord) -> str:
    """How far it got, in words."""
    parts = [] if hook.active else [tr("paused")]
    if hook.waiting:
        parts.append(trn("{n} event waits", "{n} events wait", hook.waiting))
        if hook.error:
            parts.append(hook.error)
    elif hook.delivered_at is not None:
        parts.append(tr("delivered at {at}", at=day(hook.delivered_at)))
    return " · ".join(parts) or tr("nothing to tell yet")
