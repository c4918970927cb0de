"""The part of the Workspace that is about how agents and pools come, are called, and go. Only the front."""

from pathlib import Path

from cual.serve.rules import agents, founding, pace, removing, retention
from cual.serve.rules.records import AgentRecord, DependentsRecord, Person, PoolRecord
from cual.serve.rules.retention import Going, Rule, StorageRecord
from cual.serve.rules.sources import TableColumns
from cual.serve.storage.home import Home


class OfInventory:
    """Agents made of labelled data; agents and pools renamed and deleted, by hand or by a rule."""

    home: Home

    def make_agent(
        self,
        name: str,
        source: Path,
        person: Person,
        encoder: str | None = None,
        columns: TableColumns | None = None,
    ) -> AgentRecord:
        """Have a worker make an agent of labelled data.

        Parameters
        ----------
        source
            A zip or a folder with a folder of images per class, a table of text with labels, or labelled
            features; under one of the workspace's roots or in `uploads` (from where it is moved).
        encoder
            One of `encoders`; by default the usual one for images or for text.
        columns
            Columns of a table, where they are not called as usual.
        """
        return founding.add(self.home, name, source, person, encoder, columns)

    def make_example(self, person: Person) -> AgentRecord:
        """Have a worker make the built-in example: an agent of handwritten digits, and a pool for it."""
        return founding.add_example(self.home, person)

    def encoders(self) -> list[str]:
        """Encoders that may be chosen by whoever makes an agent."""
        return founding.built_in()

    def skipped_of_agent(self, agent: int) -> list[dict[str, str]]:
        """Labelled items that could not be read when an agent was made: ``source`` and ``reason``."""
        return founding.skipped(self.home, agent)

    def pace(self) -> float | None:
        """Seconds that people take for an answer, the median; None where too few were given to say."""
        return pace.seconds(self.home)

    def rename_agent(self, agent: int, name: str, person: Person) -> AgentRecord:
        return removing.rename_agent(self.home, agent, name, person)

    def set_false_alarms(self, agent: int, share: float | None, person: Person) -> AgentRecord:
        """Say which share of known samples may be called unlike anything known; None for the method's own."""
        return agents.set_false_alarms(self.home, agent, share, person)

    def rename_pool(self, pool: int, name: str, person: Person) -> PoolRecord:
        return removing.rename_pool(self.home, pool, name, person)

    def dependents_of_agent(self, agent: int) -> DependentsRecord:
        """What an agent is needed for."""
        return removing.of_agent(self.home, agent)

    def dependents_of_pool(self, pool: int) -> DependentsRecord:
        """What a pool is needed for."""
        return removing.of_pool(self.home, pool)

    def delete_agent(self, agent: int, person: Person) -> None:
        """Remove an agent's files; answers stay. `Conflict` while an adaptation or a pool is made with it."""
        removing.delete_agent(self.home, agent, person)

    def delete_pool(self, pool: int, person: Person) -> None:
        """Remove a pool's files; answers stay. `Conflict` while an adaptation is under way on it."""
        removing.delete_pool(self.home, pool, person)

    def storage(self, person: Person, rule: Rule | None = None) -> StorageRecord:
        """What the workspace takes, and what would go by a rule, by default the one that was set."""
        return retention.look(self.home, person, rule)

    def set_retention(self, rule: Rule, person: Person) -> Rule:
        """Say how long pools and versions are kept that nobody needs any more; a worker looks once an hour."""
        return retention.set_rule(self.home, rule, person)

    def clean_up(self, person: Person, rule: Rule | None = None) -> list[Going]:
        """Let go at once what `storage` says would go; what went."""
        return retention.clean_up(self.home, person, rule)
