"""The part of the Workspace that is about watching: how predictions go, proposals, webhooks. Only the front."""

from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime

from cual.serve.rules.records import Person, PoolRecord
from cual.serve.rules.watching import looking, proposing, webhooks
from cual.serve.rules.watching.records import EVENTS, WatchRecord, WebhookRecord
from cual.serve.rules.watching.worth import LEAST_GAIN, MOST_QUESTIONS
from cual.serve.storage.home import Home


class OfWatching:
    """What a workspace tells of its agents' predictions, and whom."""

    home: Home

    @abstractmethod
    def close_inbox(self, agent: int, name: str, person: Person) -> PoolRecord: ...

    def watching(self, agent: int, since: datetime | None = None) -> WatchRecord:
        """How the predictions of an agent go: novelty, drift, groups, what is proposed; and since when."""
        return looking.one(self.home, agent, since)

    def group_example(self, agent: int, sample: int, original: str) -> bytes:
        """The picture's file ("picture") or the "text" of a sample that shows what a group is."""
        return looking.example(self.home, agent, sample, original)

    def set_watching(
        self,
        agent: int,
        person: Person,
        starts: bool = False,
        most_questions: int = MOST_QUESTIONS,
        least_gain: float = LEAST_GAIN,
    ) -> WatchRecord:
        """Set what an adaptation that is proposed may cost and must settle, and whether it begins by itself."""
        proposing.settle(self.home, agent, person, starts, most_questions, least_gain)
        return self.watching(agent)

    def begin_proposed(self, agent: int, person: Person) -> WatchRecord:
        """Begin the adaptation that is proposed, on the samples that wait."""
        proposing.begin(self.home, agent, person, self.close_inbox)
        return self.watching(agent)

    def webhooks(self, agent: int, person: Person) -> list[WebhookRecord]:
        """Whom an agent's events are told to, for administrators."""
        return webhooks.every(self.home, agent, person)

    def add_webhook(
        self,
        agent: int,
        url: str,
        person: Person,
        events: Sequence[str] = EVENTS,
        secret: str | None = None,
    ) -> tuple[WebhookRecord, str]:
        """Tell an agent's events to an address; also the secret that bodies are signed with, told this once."""
        return webhooks.add(self.home, agent, url, person, events, secret)

    def change_webhook(
        self, agent: int, webhook: int, person: Person, active: bool, events: Sequence[str] | None = None
    ) -> WebhookRecord:
        """Pause a webhook, or let it go on."""
        return webhooks.change(self.home, agent, webhook, person, active, events)

    def remove_webhook(self, agent: int, webhook: int, person: Person) -> None:
        webhooks.remove(self.home, agent, webhook, person)
