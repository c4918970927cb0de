"""Which version of an agent predicts, from afar: candidates, what they say otherwise, and the way back."""

from typing import Any, Literal

from cual.client.connection import Connection
from cual.client.records import RemoteAgent, id_of, read
from cual.errors import NotFound


class OfRollout(Connection):
    """What a client does with stages of versions."""

    def set_rollout(
        self,
        agent: int | RemoteAgent,
        new_versions: Literal["live", "candidate"] | None = None,
        shadow_share: float | None = None,
    ) -> RemoteAgent:
        """Say what versions begin as that adaptations make, and which share of samples a candidate predicts."""
        said = {"new_versions": new_versions, "shadow_share": shadow_share}
        body = {name: value for name, value in said.items() if value is not None}
        return read(RemoteAgent, self._send("PUT", f"/api/agents/{id_of(agent)}/rollout", json=body).json())

    def shadow(self, agent: int | RemoteAgent, version: int | None = None) -> dict[str, Any]:
        """Where a candidate, the latest by default, and the live version differ.

        ``candidate, live, compared, agreed, agreement, judged, live_unlike, unlike, dropped, failed, pairs,
        uncounted, examples, since, until``, as in ``GET /api/agents/{id}/shadow``.
        """
        at = "" if version is None else f"versions/{version}/"
        return self.get(f"/api/agents/{id_of(agent)}/{at}shadow")

    def shadow_picture(self, agent: int | RemoteAgent, example: int) -> bytes:
        """The small picture of an example of that, by its id, as WebP."""
        return self._send("GET", f"/api/agents/{id_of(agent)}/shadow/pictures/{example}").content

    def stages(self, agent: int | RemoteAgent) -> list[dict[str, Any]]:
        """Who made which version live, or gave one up, when and why; the latest first."""
        return self.get(f"/api/agents/{id_of(agent)}/stages")

    def promote(
        self, agent: int | RemoteAgent, version: int | None = None, why: str = "", live: int | None = None
    ) -> RemoteAgent:
        """Make a candidate live, the latest by default; the version that was is retired.

        Parameters
        ----------
        why
            For the history; must be given.
        live
            The version that is live as far as you know: `Conflict` where it is another one by now. By default
            what `agent` says, or the service if that is a number.
        """
        known = self._known(agent)
        body = {"version": _named(known, version), "live": known.version if live is None else live, "why": why}
        return read(RemoteAgent, self.post(f"/api/agents/{known.id}/promote", json=body, once=True))

    def discard(self, agent: int | RemoteAgent, version: int | None = None, why: str = "") -> RemoteAgent:
        """Give up a candidate, the latest by default. `why` must be given."""
        known = self._known(agent)
        body = {"version": _named(known, version), "why": why}
        return read(RemoteAgent, self.post(f"/api/agents/{known.id}/discard", json=body, once=True))

    def roll_back(
        self, agent: int | RemoteAgent, version: int, why: str = "", live: int | None = None
    ) -> RemoteAgent:
        """Make a retired version live again; `Conflict` where `live` is given and is not live any more."""
        body = {"version": version, "why": why} | ({} if live is None else {"live": live})
        return read(RemoteAgent, self.post(f"/api/agents/{id_of(agent)}/roll-back", json=body))

    def _known(self, agent: int | RemoteAgent) -> RemoteAgent:
        return read(RemoteAgent, self.get(f"/api/agents/{agent}")) if isinstance(agent, int) else agent


def _named(agent: RemoteAgent, version: int | None) -> int:
    named = agent.candidate if version is None else version
    if named is None:
        raise NotFound(f"the agent {agent.name!r} has no candidate")
    return named
