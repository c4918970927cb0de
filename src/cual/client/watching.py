"""The part of the Client that is about watching: how predictions go, proposals, webhooks."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from cual.client.connection import Connection
from cual.client.records import RemoteAgent, id_of


class OfWatching(Connection):
    """What a service tells of its agents' predictions. Records are as in ``GET /api/openapi.json``."""

    def watching(self, agent: int | RemoteAgent, since: datetime | None = None) -> dict[str, Any]:
        """How the predictions of an agent go: share unlike anything known, drift, groups, what is proposed."""
        asked = {} if since is None else {"since": since.isoformat()}
        return self.get(f"/api/agents/{id_of(agent)}/watching", params=asked)

    def set_watching(
        self, agent: int | RemoteAgent, starts: bool = False, most_questions: int = 50, least_gain: float = 5.0
    ) -> dict[str, Any]:
        """Set what an adaptation may cost and must settle to be proposed, and whether it begins by itself."""
        said = {"starts": starts, "most_questions": most_questions, "least_gain": least_gain}
        return self._send("PUT", f"/api/agents/{id_of(agent)}/watching", json=said).json()

    def begin_proposed(self, agent: int | RemoteAgent) -> dict[str, Any]:
        """Begin the adaptation that is proposed, on the samples that wait."""
        return self.post(f"/api/agents/{id_of(agent)}/watching/adapt", once=True)

    def webhooks(self, agent: int | RemoteAgent) -> list[dict[str, Any]]:
        """Whom an agent's events are told to."""
        return self.get(f"/api/agents/{id_of(agent)}/webhooks")

    def add_webhook(
        self,
        agent: int | RemoteAgent,
        url: str,
        events: Iterable[str] | None = None,
        secret: str | None = None,
    ) -> tuple[dict[str, Any], str]:
        """Tell an agent's events to an address; also the secret, for `cual.client.check_webhook`."""
        said: dict[str, Any] = {"url": url}
        said |= {} if events is None else {"events": list(events)}
        said |= {} if secret is None else {"secret": secret}
        added = self.post(f"/api/agents/{id_of(agent)}/webhooks", json=said, once=True)
        return added["webhook"], added["secret"]

    def change_webhook(
        self, agent: int | RemoteAgent, webhook: int, active: bool, events: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Pause a webhook, or let it go on."""
        said = {"active": active, "events": None if events is None else list(events)}
        return self._send("PATCH", f"/api/agents/{id_of(agent)}/webhooks/{webhook}", json=said).json()

    def remove_webhook(self, agent: int | RemoteAgent, webhook: int) -> None:
        """Tell an address no more."""
        self._send("DELETE", f"/api/agents/{id_of(agent)}/webhooks/{webhook}", once=True)
