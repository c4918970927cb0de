"""The part of the Workspace that is about adaptations: started, stopped, finished. Only the front."""

from abc import abstractmethod

from cual.agent import Agent
from cual.serve.rules import adaptations, agents, leftovers, raising, stages
from cual.serve.rules.records import AdaptationRecord, Person
from cual.serve.storage.home import Home


class OfAdaptations:
    """What a workspace does with adaptations."""

    home: Home

    @abstractmethod
    def load_agent(self, agent: int, version: int | None = None) -> Agent: ...

    def adaptations(self) -> list[AdaptationRecord]:
        """The latest first."""
        return adaptations.every(self.home)

    def adaptation(self, adaptation: int) -> AdaptationRecord:
        return adaptations.one(self.home, adaptation)

    def start(
        self,
        agent: int,
        pool: int,
        budget: float | int,
        person: Person,
        overlap: int = 1,
        version: int | None = None,
    ) -> AdaptationRecord:
        """Adapt an agent's version; `budget` is a share of the pool (float) or a number of labels.

        Each question is put to `overlap` people, and every opinion is charged. The answers build on the live
        version, also where there is a candidate, unless another `version` is named.
        """
        if version is None:
            version = agents.one(self.home, agent).version
        with self.home.database.reading() as connection:
            stages.check_kept(connection, agent, version)  # before its file, which is gone
        loaded = self.load_agent(agent, version)
        return adaptations.start(self.home, agent, loaded, version, pool, budget, person, overlap)

    def raise_budget(self, adaptation: int, budget: float | int, person: Person) -> AdaptationRecord:
        """Allow more labels in all, a share of the pool or a number; questions that have ended go on.

        Until it is finished. `BadBudget` where that is not more than there was.
        """
        record = self.adaptation(adaptation)
        method = self.load_agent(record.agent, record.base_version).method
        return raising.raise_budget(self.home, adaptation, method, budget, person)

    def stop(self, adaptation: int, person: Person) -> AdaptationRecord:
        """Ask no more questions."""
        return adaptations.stop(self.home, adaptation, person)

    def finish(self, adaptation: int, person: Person) -> AdaptationRecord:
        """Have the next version made, once the loop is over (state "review")."""
        return adaptations.finish(self.home, adaptation, person)

    def drop(self, adaptation: int, person: Person) -> AdaptationRecord:
        """Give it up."""
        dropped = adaptations.drop(self.home, adaptation, person)
        leftovers.tidy(self.home, adaptation)
        return dropped

    def retry(self, adaptation: int, person: Person) -> AdaptationRecord:
        """Try again after a failure."""
        return adaptations.retry(self.home, adaptation, person)
