"""A small labelling service for tests: people, an agent of the world, its pool, and who answers everything."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from cual import Pool
from cual.serve.jobs.worker import work_until_idle
from cual.serve.rules.records import OPERATOR, AdaptationRecord, Person, Role
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from worlds import World


@dataclass
class Service:
    """A workspace in which `world` can be labelled, by people in this process."""

    workspace: Workspace
    world: World
    agent: int
    pool: int
    ann: Person
    """May do everything."""
    bob: Person
    """Answers."""
    eve: Person
    """Only looks."""

    def start(self, budget: float | int = 8, overlap: int = 1) -> int:
        """An adaptation whose first questions are there."""
        started = self.workspace.start(self.agent, self.pool, budget, self.ann, overlap)
        self.work()
        return started.id

    def work(self) -> None:
        """Be the worker, until there is nothing to do."""
        work_until_idle(self.workspace)

    def answer_all(self, adaptation: int, person: Person | None = None) -> AdaptationRecord:
        """Answer rightly until no questions come any more."""
        while self.workspace.adaptation(adaptation).state == "asking":
            self.answer_round(adaptation, person)
            self.work()
        return self.workspace.adaptation(adaptation)

    def answer_round(self, adaptation: int, person: Person | None = None) -> None:
        person = person or self.ann
        lent = self.workspace.lend(adaptation, person, 1000)
        assert lent, "all open questions are lent to others"
        self.workspace.answer(adaptation, person, {q.id: self.truth(q.sample) for q in lent})

    def truth(self, sample: Any) -> str:
        return self.world.truth[sample]

    def finish(self, adaptation: int) -> AdaptationRecord:
        self.workspace.finish(adaptation, OPERATOR)
        self.work()
        return self.workspace.adaptation(adaptation)

    def agent_bytes(self, version: int) -> bytes:
        return self.workspace.home.agent_file(self.agent, version).read_bytes()


def add_person(workspace: Workspace, name: str, role: Role = Role.annotator) -> Person:
    with workspace.database.writing() as c:
        made = c.execute(sa.insert(db.people).values(name=name, role=role.value))
        return Person(made.inserted_primary_key[0], name, role)


def make_service(workspace: Workspace, world: World, **options: Any) -> Service:
    """People, an agent of the world's known classes, and its pool with pictures of four by four pixels."""
    agent = workspace.add_agent("animals", world.agent(**options), OPERATOR)
    pictures = np.random.default_rng(0).integers(0, 256, (len(world.ids), 4, 4), dtype=np.uint8)
    pool = workspace.add_pool("garden", Pool(world.pool, world.ids), agent.id, OPERATOR, pictures=pictures)
    work_until_idle(workspace)
    people = (
        add_person(workspace, name, role)
        for name, role in (("ann", Role.admin), ("bob", Role.annotator), ("eve", Role.reader))
    )
    return Service(workspace, world, agent.id, pool.id, *people)
