"""The part of the Workspace that is about classes: what people see of them while they label. Only the front."""

from collections.abc import Sequence

from cual.serve.rules import class_keys, classes, finding, repair_jobs, repairing
from cual.serve.rules.records import AgentRecord, ClassRecord, Person, RepairRecord
from cual.serve.storage.home import Home
from cual.types import Label


class OfClasses:
    """What a workspace tells of classes, and is told of them."""

    home: Home

    def classes(self, agent: int, labels: Sequence[Label] | None = None) -> list[ClassRecord]:
        """What people are told of these classes of an agent, of all by default."""
        if labels is None:
            return classes.every(self.home, agent)
        return classes.some(self.home, agent, labels)

    def find_classes(self, agent: int, typed: str, n: int = 20) -> list[finding.Match]:
        """Classes that what somebody typed may mean, the best first."""
        return finding.find(typed, [record.label for record in self.classes(agent)])[:n]

    def describe_class(
        self,
        agent: int,
        label: Label,
        person: Person,
        description: str | None = None,
        colour: str | None = None,
        examples: Sequence[tuple[int, int]] | None = None,
    ) -> ClassRecord:
        """Write down what a class is, its colour (#rrggbb), samples (pool, row) that show it."""
        return classes.describe(self.home, agent, label, person, description, colour, examples)

    def rename_class(
        self, agent: int, label: Label, to: Label, person: Person, why: str = "", meant: bool = False
    ) -> AgentRecord:
        """Give a class another name, in a version of its own. `Conflict` while an adaptation is under way.

        `meant` says that the name is meant also where it differs from another class's only by case or the like.
        """
        return repairing.rename(self.home, agent, label, to, person, why, meant)

    def merge_classes(
        self, agent: int, into: Label, others: Sequence[Label], person: Person, why: str = ""
    ) -> AgentRecord | RepairRecord:
        """Make classes part of another one, in a version of its own.

        At once where the head does it in closed form: the agent as it is then. A head that has to be trained
        again is, by a worker: the repair, which says how far it is.
        """
        return repair_jobs.merge(self.home, agent, into, others, person, why)

    def remove_class(
        self, agent: int, label: Label, person: Person, leave_spread: bool = False, why: str = ""
    ) -> AgentRecord | RepairRecord:
        """Remove a class, in a version of its own: at once, or by a worker, as in `merge_classes`.

        Parameters
        ----------
        leave_spread
            In closed form, also where its samples are not all in memory: leave what they said of how classes
            spread.
        """
        return repair_jobs.remove(self.home, agent, label, person, leave_spread, why)

    def changes_at_once(self, agent: int) -> bool:
        """Whether classes are merged and removed at once, in closed form; else the head is trained again."""
        return repairing.at_once(self.home, agent)

    def recent_classes(self, agent: int, person: Person) -> list[Label]:
        """What a person answered with, the latest first."""
        return classes.recent(self.home, agent, person)

    def class_keys(
        self, agent: int, person: Person, labels: Sequence[Label], likely: Sequence[Label] = ()
    ) -> dict[str, Label]:
        """Which digit answers with which of these classes: a person's own, for good; likely ones get one."""
        return class_keys.of(self.home, agent, person, labels, likely)

    def kept_keys(self, agent: int, person: Person) -> dict[str, Label]:
        """The digits that a person has for classes of an agent; none is given away by asking."""
        return class_keys.kept(self.home, agent, person)

    def give_key(self, agent: int, person: Person, key: str, label: Label) -> None:
        """Give a digit of a person to another class."""
        class_keys.give(self.home, agent, person, key, label)

    def take_key(self, agent: int, person: Person, key: str) -> None:
        """Take a digit of a person away from its class; it is free for the next one that deserves it."""
        class_keys.take(self.home, agent, person, key)
