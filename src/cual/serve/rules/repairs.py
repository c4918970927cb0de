"""The part of the Workspace that is about repairs which a worker does. Only the front."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cual.serve.rules import repair_jobs
from cual.serve.rules.records import Person, RepairRecord
from cual.serve.rules.sources import TableColumns
from cual.serve.storage.home import Home
from cual.types import Label


class OfRepairs:
    """Teaching, forgetting and splitting: each ends in a version of its own."""

    home: Home

    def repairs(self, agent: int) -> list[RepairRecord]:
        """Repairs of an agent, the latest first."""
        return repair_jobs.every(self.home, agent)

    def repair(self, agent: int, repair: int) -> RepairRecord:
        return repair_jobs.one(self.home, agent, repair)

    def teach(
        self, agent: int, source: Path, person: Person, columns: TableColumns | None = None, why: str = ""
    ) -> RepairRecord:
        """Have an agent taught labelled data, without questions.

        Parameters
        ----------
        source
            As in `make_agent`: a zip or a folder with a folder of images per class, a table of text with
            labels, or labelled features; under one of the workspace's roots or in `uploads`.
        """
        return repair_jobs.teach(self.home, agent, source, person, columns, why)

    def forget(
        self,
        agent: int,
        person: Person,
        pool: int | None = None,
        samples: Sequence[Label] | None = None,
        adaptation: int | None = None,
        of: int | None = None,
        earlier: bool = False,
        originals: bool = False,
        why: str = "",
    ) -> RepairRecord:
        """Have samples or answers taken back.

        Parameters
        ----------
        pool, samples
            Samples of a pool, by their ids.
        adaptation, of
            Or what a person answered, in all adaptations that led to the current version or in one of them; or
            all answers of one.
        earlier
            Also in the files of all other versions: these are written anew without it, or removed where that
            cannot be done.
        originals
            With samples: also remove their pictures, texts and columns from the pool.
        """
        return repair_jobs.forget(
            self.home, agent, person, pool, samples, adaptation, of, earlier, originals, why
        )

    def split_class(
        self, agent: int, label: Label, person: Person, parts: int = 2, questions: int = 10, why: str = ""
    ) -> RepairRecord:
        """Have the samples of a class grouped; `answer_split` says what the groups are."""
        return repair_jobs.split(self.home, agent, label, person, parts, questions, why)

    def answer_split(
        self,
        agent: int,
        repair: int,
        names: Sequence[Label],
        answers: Mapping[int, Label],
        person: Person,
        leave_rest: bool = False,
    ) -> RepairRecord:
        """Say what the groups of a split are, and doubtful samples by their numbers.

        Parameters
        ----------
        leave_rest
            Leave samples in the class of which no features are kept; else that is refused.
        """
        return repair_jobs.answer(self.home, agent, repair, names, answers, person, leave_rest)

    def drop_repair(self, agent: int, repair: int, person: Person) -> RepairRecord:
        """Leave a split that asks, or a repair that failed."""
        return repair_jobs.drop(self.home, agent, repair, person)
