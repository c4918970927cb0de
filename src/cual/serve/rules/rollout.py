"""The part of the Workspace that is about which version predicts: stages, candidates and their shadow. Only the
front."""

from cual.serve.rules import shadows, stages
from cual.serve.rules.records import AgentRecord, NewVersions, Person
from cual.serve.rules.shadows import ShadowRecord
from cual.serve.rules.stages import StageRecord
from cual.serve.storage.home import Home


class OfRollout:
    """What a workspace does with stages of versions."""

    home: Home

    def set_rollout(
        self,
        agent: int,
        person: Person,
        new_versions: NewVersions | None = None,
        shadow_share: float | None = None,
    ) -> AgentRecord:
        """Say what versions begin as that adaptations make, and which share of samples a candidate predicts."""
        return stages.set_rollout(self.home, agent, person, new_versions, shadow_share)

    def promote(self, agent: int, version: int, live: int, why: str, person: Person) -> AgentRecord:
        """Make a candidate live; the version that is `live`, which must be that still, is retired."""
        return stages.promote(self.home, agent, version, live, why, person)

    def roll_back(
        self, agent: int, version: int, person: Person, why: str = "", live: int | None = None
    ) -> AgentRecord:
        """Make a retired version live again. Nothing is deleted; the next adaptation starts from it.

        `Conflict` where `live` is given and another version is live by now.
        """
        return stages.roll_back(self.home, agent, version, person, why, live)

    def discard(self, agent: int, version: int, why: str, person: Person) -> AgentRecord:
        """Give up a candidate."""
        return stages.discard(self.home, agent, version, why, person)

    def stage_changes(self, agent: int) -> list[StageRecord]:
        """Who made which version live, or gave one up, and why; the latest first."""
        return stages.changes(self.home, agent)

    def shadow(self, agent: int, version: int | None = None) -> ShadowRecord:
        """Where a candidate, the latest by default, differs from the live version."""
        return shadows.read(self.home, agent, version)

    def shadow_picture(self, agent: int, example: int) -> bytes:
        """The small picture of an example of that, as WebP."""
        return shadows.picture(self.home, agent, example)
