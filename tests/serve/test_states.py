"""The workspace under whatever two people and a worker do, in any order: nothing lost, nothing twice."""

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cual.data.labels import SKIP
from cual.errors import BudgetExceeded, Conflict, CualError, NotAllowed, NotFound
from cual.serve.jobs.worker import work_once
from cual.serve.rules.records import OPERATOR, AdaptationRecord
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from serving import make_service
from worlds import make_world

LABELS = st.sampled_from(["cat", "dog", "owl", "Füchsin mit Schal", SKIP])
PEOPLE = st.sampled_from(["ann", "bob"])


class Labelling(RuleBasedStateMachine):
    """A model of what people said, beside the real workspace."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.workspace = Workspace.open(Path(self.folder.name) / "w")
        self.service = make_service(self.workspace, make_world())
        self.people = {"ann": self.service.ann, "bob": self.service.bob}
        self.adaptation = self.service.start(budget=9)
        self.said: dict[int, list[tuple[str, Any, bool]]] = {}
        """For each question who said what, and whether it settled it, in order; without what was undone."""
        self.order: list[tuple[str, int]] = []

    def teardown(self) -> None:
        if hasattr(self, "workspace"):
            self.workspace.close()
            self.folder.cleanup()

    @property
    def record(self) -> AdaptationRecord:
        return self.workspace.adaptation(self.adaptation)

    @rule(name=PEOPLE, label=LABELS, place=st.integers(0, 30))
    def answer(self, name: str, label: Any, place: int) -> None:
        questions = self.workspace.questions(self.adaptation)
        question = questions[place % len(questions)].id
        before = [label for who, label, _ in self.said.get(question, []) if who == name]
        try:
            self.workspace.answer(self.adaptation, self.people[name], {question: label})
        except BudgetExceeded:
            return
        if not before or before[-1] is not label:
            self.said.setdefault(question, []).append((name, label, False))
            self.order.append((name, question))

    @rule(name=PEOPLE, label=LABELS, place=st.integers(0, 30))
    def settle(self, name: str, label: Any, place: int) -> None:
        questions = self.workspace.questions(self.adaptation)
        question = questions[place % len(questions)].id
        mine = [said for said in self.said.get(question, []) if said[0] == name]
        others = any(who != name for who, _, _ in self.said.get(question, []))
        party = others and any(not settles for _, _, settles in mine)
        try:
            self.workspace.settle(question, self.people[name], label)
            assert not party
        except BudgetExceeded:
            return
        except NotAllowed:
            assert party
            return
        if not mine or mine[-1][1] is not label or not mine[-1][2]:
            self.said.setdefault(question, []).append((name, label, True))
            self.order.append((name, question))

    @rule(name=PEOPLE, reopen=st.booleans())
    def undo(self, name: str, reopen: bool) -> None:
        try:
            undone = self.workspace.undo(self.adaptation, self.people[name], reopen).id
        except (Conflict, NotFound, BudgetExceeded):
            return
        last = max(i for i, (who, _) in enumerate(self.order) if who == name)
        assert self.order.pop(last) == (name, undone)
        mine = max(i for i, said in enumerate(self.said[undone]) if said[0] == name)
        self.said[undone].pop(mine)

    @rule(name=PEOPLE, n=st.integers(1, 3))
    def lend(self, name: str, n: int) -> None:
        lent = self.workspace.lend(self.adaptation, self.people[name], n)
        assert len(lent) <= n
        assert all(q.lent_to == name and not q.answered for q in lent)
        if self.record.state == "asking" and len(lent) > 1:
            self.workspace.pass_on(self.adaptation, self.people[name], [lent[0].id])

    @rule()
    def answer_the_rest(self) -> None:
        for question in self.workspace.questions(self.adaptation, answered=False):
            if self.record.state == "asking" and question.round == self.record.round:
                self.workspace.answer(self.adaptation, self.people["ann"], {question.id: "owl"})
                self.said.setdefault(question.id, []).append(("ann", "owl", False))
                self.order.append(("ann", question.id))

    @rule()
    def work(self) -> None:
        work_once(self.workspace)
        assert self.record.state != "failed", self.record.error

    @precondition(lambda self: len(self.order) > 6)
    @rule()
    def stop(self) -> None:
        self.workspace.stop(self.adaptation, self.service.ann)

    @invariant()
    def what_counts_is_what_was_said(self) -> None:
        if not hasattr(self, "said"):
            return
        charged = 0
        for question in self.workspace.questions(self.adaptation):
            said = self.said.get(question.id, [])
            kept = [(a.person, SKIP if a.unsure else a.label) for a in question.answers if not a.undone]
            assert kept == [(who, label) for who, label, _ in said]
            assert question.answered == bool(said)
            if said:
                settled = [who for who, _, settles in said if settles]
                counting = settled[-1] if settled else said[0][0]
                expected = [label for who, label, _ in said if who == counting][-1]
                assert (SKIP if question.unsure else question.effective) == expected
                latest = {who: label for who, label, _ in said}
                assert question.disagreement == (not settled and len(set(latest.values())) > 1)
            charged += question.effective is not None
        record = self.record
        assert record.spent == charged
        assert record.spent + record.open <= record.budget

    @invariant()
    def there_is_a_job_exactly_while_it_thinks(self) -> None:
        if not hasattr(self, "said"):
            return
        with self.workspace.database.reading() as c:
            active = c.execute(sa.select(db.jobs.c.id).where(db.jobs.c.state.in_(("waiting", "running")))).all()
        assert len(active) == (self.record.state == "thinking")

    @precondition(lambda self: len(self.order) > 4)
    @rule()
    def end(self) -> None:
        """Whatever was done, it can be brought to an end, and the agent is what the library makes of it."""
        self.workspace.stop(self.adaptation, self.service.ann)
        while self.record.state == "thinking":
            self.work()
        self.service.finish(self.adaptation)
        record = self.record
        assert record.state == "finished", record.error
        version = self.workspace.versions(self.service.agent)[-1]
        assert version.labels_used == record.spent
        with pytest.raises(CualError):
            self.workspace.stop(self.adaptation, self.service.ann)
        self.workspace.roll_back(self.service.agent, 0, OPERATOR)
        self.adaptation = self.service.start(budget=9)
        self.said, self.order = {}, []


TestLabelling = Labelling.TestCase
TestLabelling.settings = settings(max_examples=6, stateful_step_count=25, deadline=None)
