"""The part of the Workspace that is about what is sent to agents and waits to become a pool. Only the front."""

from collections.abc import Sequence

from cual.serve.rules.inbox import closing, policies, reading
from cual.serve.rules.inbox.keeping import Inboxes
from cual.serve.rules.inbox.records import (
    VERDICTS,
    Arrivals,
    InboxRecord,
    Key,
    Policy,
    Verdict,
    WaitingSamples,
)
from cual.serve.rules.inbox.writing import Answer
from cual.serve.rules.records import Person, PoolRecord
from cual.serve.storage.home import Home


class OfInboxes:
    """Samples that programs send, kept once and within limits, until somebody makes a pool of them."""

    home: Home
    _inboxes: Inboxes

    def inbox(self, agent: int) -> InboxRecord:
        """What waits for an agent, and what came since its last pool."""
        return reading.one(self.home, agent)

    def waiting_samples(self, agent: int, verdicts: Sequence[Verdict] = VERDICTS) -> WaitingSamples:
        """Samples that wait, with their features, ids and times of arrival; the oldest first."""
        return reading.waiting(self.home, agent, verdicts)

    def unlike_samples(self, agent: int) -> WaitingSamples:
        """Those of them that are unlike anything known."""
        return reading.waiting(self.home, agent, ("unlike anything known",))

    def waiting_original(self, agent: int, sample: int) -> bytes:
        """The picture's file or the text of a sample that waits, as it came; `NotFound` where it was not kept.

        It came from anybody: decode it in a process with limits, and show only what was made of it.
        """
        return reading.original(self.home, agent, sample)

    def sent_before(self, agent: int, person: Person, key: Key) -> bytes | None:
        """What was answered to a request of this person with this key, if there was one."""
        return self._inboxes.answered(agent, person, key)

    def send(
        self, agent: int, arrivals: Arrivals, person: Person, answer: Answer, key: Key | None = None
    ) -> bytes:
        """Keep what a program sends; what is answered to it.

        Parameters
        ----------
        answer
            What to answer, given what became of each sample.
        key
            With one, the same request can be sent again: it is answered the same, and nothing is kept twice.
        """
        return self._inboxes.keep(agent, arrivals, person, answer, key)

    def set_inbox_policy(self, agent: int, policy: Policy, person: Person) -> Policy:
        """Say what is kept of what is sent to an agent, from the next sample on."""
        return policies.set_policy(self.home, agent, policy, person)

    def close_inbox(self, agent: int, name: str, person: Person) -> PoolRecord:
        """Make a pool of all that waits, which a worker makes ready; an empty inbox begins."""
        with self._inboxes.turn(agent):
            return closing.close(self.home, agent, name, person)
