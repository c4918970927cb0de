"""The part of the Workspace that is about several people: overlap, agreement, gold. Only the front."""

from collections.abc import Mapping

from cual.serve.rules import agreement, gold
from cual.serve.rules import overlap as sharing
from cual.serve.rules.agreement import AgreementRecord
from cual.serve.rules.gold import GoldRecord
from cual.serve.rules.records import AdaptationRecord, Person
from cual.serve.storage.home import Home
from cual.types import Label


class OfTeams:
    """How people share the work in a workspace, and how they agree."""

    home: Home

    def share_work(
        self,
        adaptation: int,
        person: Person,
        overlap: int | None = None,
        own_disputes: bool | None = None,
        gold_share: float | None = None,
    ) -> AdaptationRecord:
        """Change how many people each question is put to, who settles disagreements, how many are gold."""
        return sharing.change(self.home, adaptation, person, overlap, own_disputes, gold_share)

    def agreement(self, adaptation: int, person: Person) -> AgreementRecord:
        """How far people agree, and how each gets on; of others only administrators are told."""
        return agreement.agreement(self.home, adaptation, person, sharing.annotators(self.home))

    def gold(self, pool: int, person: Person) -> list[GoldRecord]:
        """The samples of a pool whose label is known, for administrators."""
        return gold.every(self.home, pool, person)

    def mark_gold(self, pool: int, labels: Mapping[int, Label | None], person: Person) -> list[GoldRecord]:
        """Say what samples are, by their rows in the pool; None makes one ordinary again."""
        return gold.mark(self.home, pool, labels, person)

    def mark_settled_gold(self, adaptation: int, person: Person) -> int:
        """Make everything gold that a reviewer has settled; how many that are."""
        return gold.mark_settled(self.home, adaptation, person)
