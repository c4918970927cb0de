"""The audit trail: every command that changes something leaves one row, with the right person and no secret."""

import csv
import inspect
import io
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from cual import Pool
from cual.errors import BadOption, CualError, NotAllowed
from cual.serve.rules import jobs
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.inbox.records import Arrivals, Policy
from cual.serve.rules.records import OPERATOR, AuditRecord, Person, Role
from cual.serve.rules.retention import Rule
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from serving import Service
from visiting import site
from watched import look, send_unlike

READING = {
    *("agents", "agent", "versions", "load_agent", "pools", "pool", "picture", "text", "skipped"),
    *("columns", "columns_of", "with_columns"),
    *("adaptations", "adaptation", "questions", "question", "map", "scores", "ledger", "history"),
    *("pseudo_labels", "alike", "report", "jobs", "audit", "audit_actions"),
    *("encoders", "skipped_of_agent", "dependents_of_agent", "dependents_of_pool"),
    *("classes", "find_classes", "recent_classes", "class_keys", "kept_keys", "undo_cost"),
    *("agreement", "gold", "pace", "repairs", "repair", "changes_at_once"),
    *("stage_changes", "shadow", "shadow_picture"),
    *("watching", "webhooks", "group_example"),
    *("inbox", "waiting_samples", "unlike_samples", "waiting_original", "sent_before"),
    "storage",
    *("folder", "database", "uploads", "open", "close", "empty_uploads"),  # the process's own housekeeping
}
URL = "https://hooks.example.org/cual"
FOR_READERS = {"export"}
"""Commands that whoever sees everything may give."""
READING_ACCOUNTS = {"people", "person", "called", "tokens", "known", "by_cookie", "by_token", "owner"}
"""`owner` adds somebody with `add_person`."""


def trail(workspace: Workspace) -> list[AuditRecord]:
    """The oldest first."""
    return workspace.audit(OPERATOR, n=1000)[::-1]


def fail(service: Service, adaptation: int | None = None, pool: int | None = None) -> int:
    """Let what waits or runs fail; the number of its job."""
    workspace = service.workspace
    claim = jobs.claim(workspace.home, jobs.identity())
    assert claim is not None
    assert (claim.adaptation, claim.pool) == (adaptation, pool)
    jobs.failed(workspace.home, claim, "on purpose", for_good=True)
    return claim.job


class Commands:
    """For each command a method: what it needs first, then what calls it, and the action that is written."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service, self.workspace, self.folder = service, service.workspace, folder
        self.task = 0

    def asking(self) -> int:
        self.task = self.service.start()
        return self.task

    def over(self) -> int:
        self.service.answer_all(self.asking())
        return self.task

    def add_agent(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.add_agent("new", self.service.world.agent(), p), "add agent"

    def set_false_alarms(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.set_false_alarms(self.service.agent, 0.01, p), "set false alarms"

    def send(self) -> tuple[Callable[[Person], object], str]:
        X = self.service.world.pool[:1]
        sent = Arrivals(X, ["0" * 64], ["unsure"], ["cat"], [1.0], 0)
        return lambda p: self.workspace.send(self.service.agent, sent, p, lambda fates: b""), "send"

    def set_inbox_policy(self) -> tuple[Callable[[Person], object], str]:
        policy = Policy(originals=False)
        agent = self.service.agent
        return lambda p: self.workspace.set_inbox_policy(agent, policy, p), "set inbox policy"

    def close_inbox(self) -> tuple[Callable[[Person], object], str]:
        call, _ = self.send()
        call(self.service.ann)
        return lambda p: self.workspace.close_inbox(self.service.agent, "new", p), "close inbox"

    def set_watching(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.set_watching(self.service.agent, p, least_gain=9), "set watching"

    def begin_proposed(self) -> tuple[Callable[[Person], object], str]:
        workspace, agent = self.workspace, self.service.agent
        send_unlike(self.service, 40)
        look(workspace)
        return lambda p: workspace.begin_proposed(agent, p), "close inbox"

    def add_webhook(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.add_webhook(self.service.agent, URL, p), "add webhook"

    def _webhook(self) -> int:
        return self.workspace.add_webhook(self.service.agent, URL, OPERATOR)[0].id

    def change_webhook(self) -> tuple[Callable[[Person], object], str]:
        agent, webhook = self.service.agent, self._webhook()
        return lambda p: self.workspace.change_webhook(agent, webhook, p, active=False), "change webhook"

    def remove_webhook(self) -> tuple[Callable[[Person], object], str]:
        agent, webhook = self.service.agent, self._webhook()
        return lambda p: self.workspace.remove_webhook(agent, webhook, p), "remove webhook"

    def set_retention(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.set_retention(Rule(pools_days=30), p), "set retention"

    def clean_up(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.clean_up(p), "clean up"

    def roll_back(self) -> tuple[Callable[[Person], object], str]:
        self.service.finish(self.over())
        return lambda p: self.workspace.roll_back(self.service.agent, 0, p), "roll back"

    def set_rollout(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.set_rollout(self.service.agent, p, "candidate"), "set rollout"

    def _candidate(self) -> int:
        self.workspace.set_rollout(self.service.agent, OPERATOR, "candidate")
        self.service.finish(self.over())
        return self.service.agent

    def promote(self) -> tuple[Callable[[Person], object], str]:
        agent = self._candidate()
        return lambda p: self.workspace.promote(agent, 1, 0, "better", p), "promote"

    def discard(self) -> tuple[Callable[[Person], object], str]:
        agent = self._candidate()
        return lambda p: self.workspace.discard(agent, 1, "worse", p), "discard"

    def add_pool(self) -> tuple[Callable[[Person], object], str]:
        pool = Pool(self.service.world.pool)
        return lambda p: self.workspace.add_pool("new", pool, self.service.agent, p), "add pool"

    def make_agent(self) -> tuple[Callable[[Person], object], str]:
        def make(person: Person) -> object:
            self.workspace.uploads.mkdir(exist_ok=True)
            file = self.workspace.uploads / "said.csv"
            file.write_text("text,label\na,b\n")
            return self.workspace.make_agent("new", file, person)

        return make, "make agent"

    def make_example(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.make_example(p), "make agent"

    def rename_agent(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.rename_agent(self.service.agent, "beasts", p), "rename"

    def rename_pool(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.rename_pool(self.service.pool, "yard", p), "rename"

    def delete_agent(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.delete_agent(self.service.agent, p), "delete agent"

    def delete_pool(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.delete_pool(self.service.pool, p), "delete pool"

    def set_guidelines(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.set_guidelines(self.service.pool, "Look twice.", p), "set guidelines"

    def describe_class(self) -> tuple[Callable[[Person], object], str]:
        agent = self.service.agent
        return lambda p: self.workspace.describe_class(agent, "cat", p, description="purrs"), "describe class"

    def rename_class(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.rename_class(self.service.agent, "cat", "tomcat", p), "rename class"

    def _of_plus(self) -> int:
        agent = self.service.world.agent(method="cual-plus")
        return self.workspace.add_agent("plus", agent, OPERATOR).id

    def merge_classes(self) -> tuple[Callable[[Person], object], str]:
        agent = self._of_plus()
        return lambda p: self.workspace.merge_classes(agent, "cat", ["dog"], p), "merge classes"

    def remove_class(self) -> tuple[Callable[[Person], object], str]:
        agent = self._of_plus()
        return lambda p: self.workspace.remove_class(agent, "cat", p), "remove class"

    def teach(self) -> tuple[Callable[[Person], object], str]:
        agent = self._of_plus()

        def teach(person: Person) -> object:
            self.workspace.uploads.mkdir(exist_ok=True)
            file = self.workspace.uploads / "said.csv"
            file.write_text("text,label\na,b\n")
            return self.workspace.teach(agent, file, person)

        return teach, "teach"

    def forget(self) -> tuple[Callable[[Person], object], str]:
        agent = self._of_plus()
        return lambda p: self.workspace.forget(agent, p, of=self.service.bob.id), "forget"

    def split_class(self) -> tuple[Callable[[Person], object], str]:
        agent = self._of_plus()
        return lambda p: self.workspace.split_class(agent, "cat", p), "split class"

    def _asking_split(self) -> tuple[int, int]:
        agent = self._of_plus()
        asked = self.workspace.split_class(agent, "cat", self.service.ann)
        self.service.work()
        return agent, asked.id

    def answer_split(self) -> tuple[Callable[[Person], object], str]:
        at = self._asking_split()
        return lambda p: self.workspace.answer_split(*at, ["tom", "kit"], {}, p), "answer split"

    def drop_repair(self) -> tuple[Callable[[Person], object], str]:
        at = self._asking_split()
        return lambda p: self.workspace.drop_repair(*at, p), "drop repair"

    def give_key(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.give_key(self.service.agent, p, "7", "cat"), "give key"

    def take_key(self) -> tuple[Callable[[Person], object], str]:
        agent = self.service.agent
        for person in (self.service.ann, self.service.bob, self.service.eve):
            self.workspace.class_keys(agent, person, ["cat", "dog"])
        return lambda p: self.workspace.take_key(agent, p, "1"), "take key"

    def raise_budget(self) -> tuple[Callable[[Person], object], str]:
        task = self.asking()
        return lambda p: self.workspace.raise_budget(task, 20, p), "raise budget"

    def start(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.start(self.service.agent, self.service.pool, 5, p), "start"

    def stop(self) -> tuple[Callable[[Person], object], str]:
        task = self.asking()
        return lambda p: self.workspace.stop(task, p), "stop"

    def finish(self) -> tuple[Callable[[Person], object], str]:
        task = self.over()
        return lambda p: self.workspace.finish(task, p), "finish"

    def drop(self) -> tuple[Callable[[Person], object], str]:
        task = self.asking()
        return lambda p: self.workspace.drop(task, p), "drop"

    def retry(self) -> tuple[Callable[[Person], object], str]:
        task = self.workspace.start(self.service.agent, self.service.pool, 5, self.service.ann).id
        fail(self.service, adaptation=task)
        return lambda p: self.workspace.retry(task, p), "retry"

    def lend(self) -> tuple[Callable[[Person], object], str]:
        task = self.asking()
        return lambda p: self.workspace.lend(task, p, 3), "lend"

    def pass_on(self) -> tuple[Callable[[Person], object], str]:
        task = self.asking()
        lent = [question.id for question in self.workspace.lend(task, self.service.ann, 2)]
        return lambda p: self.workspace.pass_on(task, p, lent), "pass on"

    def answer(self) -> tuple[Callable[[Person], object], str]:
        task = self.asking()
        (question,) = self.workspace.lend(task, self.service.ann, 1)
        return lambda p: self.workspace.answer(task, p, {question.id: "cat"}), "answer"

    def undo(self) -> tuple[Callable[[Person], object], str]:
        task = self.asking()
        (question,) = self.workspace.lend(task, self.service.ann, 1)
        self.workspace.answer(task, self.service.ann, {question.id: "cat"})
        return lambda p: self.workspace.undo(task, p), "undo"

    def settle(self) -> tuple[Callable[[Person], object], str]:
        task = self.asking()
        (question,) = self.workspace.lend(task, self.service.ann, 1)
        self.workspace.answer(task, self.service.ann, {question.id: "cat"})
        self.workspace.answer(task, self.service.bob, {question.id: "dog"})
        self.workspace.share_work(task, self.service.ann, own_disputes=True)
        return lambda p: self.workspace.settle(question.id, p, "dog"), "settle"

    def share_work(self) -> tuple[Callable[[Person], object], str]:
        task = self.asking()
        return lambda p: self.workspace.share_work(task, p, overlap=2), "share work"

    def mark_gold(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.mark_gold(self.service.pool, {3: "cat"}, p), "mark gold"

    def mark_settled_gold(self) -> tuple[Callable[[Person], object], str]:
        settle, _ = self.settle()
        settle(self.service.ann)
        return lambda p: self.workspace.mark_settled_gold(self.task, p), "mark gold"

    def review(self) -> tuple[Callable[[Person], object], str]:
        task = self.over()
        row = self.workspace.pseudo_labels(task)[0]["row"]
        return lambda p: self.workspace.review(task, p, {row: "confirm"}), "review"

    def name_classes(self) -> tuple[Callable[[Person], object], str]:
        task = self.over()
        row = self.workspace.pseudo_labels(task)[0]["row"]
        return lambda p: self.workspace.name_classes(task, p, {row: "heron"}), "name classes"

    def withdraw_classes(self) -> tuple[Callable[[Person], object], str]:
        task = self.asking()
        while not self.workspace.pseudo_labels(task):
            self.service.answer_round(task)
            self.service.work()
        row = self.workspace.pseudo_labels(task)[0]["row"]
        self.workspace.name_classes(task, self.service.ann, {row: "heron"})
        return lambda p: self.workspace.withdraw_classes(task, p, [row]), "withdraw classes"

    def cancel_job(self) -> tuple[Callable[[Person], object], str]:
        self.workspace.start(self.service.agent, self.service.pool, 5, self.service.ann)
        job = self.workspace.jobs()[0].id
        return lambda p: self.workspace.cancel_job(job, p), "cancel job"

    def retry_job(self) -> tuple[Callable[[Person], object], str]:
        pool = self.workspace.add_pool("new", Pool(self.service.world.pool), self.service.agent, OPERATOR).id
        job = fail(self.service, pool=pool)
        return lambda p: self.workspace.retry_job(job, p), "retry"

    def export(self) -> tuple[Callable[[Person], object], str]:
        task = self.asking()
        return lambda p: self.workspace.export(p, adaptation=task), "export"

    def backup(self) -> tuple[Callable[[Person], object], str]:
        return lambda p: self.workspace.backup(self.folder / "all.backup", p), "backup"


def commands_of(kind: type, reading: set[str]) -> list[str]:
    return sorted(name for name in dir(kind) if not name.startswith("_") and name not in reading)


@pytest.mark.parametrize("name", [*commands_of(Workspace, {*READING, "restore"})])
def test_every_command_takes_the_person_checks_the_right_and_is_written_down(
    service: Service, tmp_path: Path, name: str
) -> None:
    """A new method of the workspace is a command until it is said above that it only reads."""
    assert "person" in inspect.signature(getattr(Workspace, name)).parameters
    call, action = getattr(Commands(service, tmp_path), name)()
    before = trail(service.workspace)
    if name not in FOR_READERS:
        with pytest.raises(NotAllowed):
            call(service.eve)
        assert trail(service.workspace) == before, "what is refused is not written down"
    call(service.ann)
    (row,) = trail(service.workspace)[len(before) :]
    assert (row.person, row.action) == ("ann", action)
    assert service.workspace.audit(service.ann, n=1) == [row]


def test_restoring_is_the_operators(service: Service, tmp_path: Path) -> None:
    file = service.workspace.backup(tmp_path / "all.backup", service.ann)
    restored = Workspace.restore(file, tmp_path / "restored")
    assert [(row.person, row.action) for row in trail(restored)][-2:] == [
        ("ann", "backup"),
        ("the operator", "restore"),
    ]
    assert trail(restored)[:-1] == trail(service.workspace), "the trail goes along"
    restored.close()


def test_what_changes_nothing_leaves_no_row(service: Service) -> None:
    workspace, task = service.workspace, service.start()
    (question,) = workspace.lend(task, service.bob, 1)
    workspace.answer(task, service.bob, {question.id: "cat"})
    lent = workspace.lend(task, service.bob, 2)
    workspace.stop(task, service.ann)
    before = trail(workspace)
    workspace.answer(task, service.bob, {question.id: "cat"})
    workspace.stop(task, service.ann)
    workspace.roll_back(service.agent, 0, service.ann)
    assert lent
    assert trail(workspace) == before


def test_lending_for_longer_is_not_written_down_again(service: Service) -> None:
    task = service.start()
    service.workspace.lend(task, service.bob, 2)
    before = trail(service.workspace)
    service.workspace.lend(task, service.bob, 2)
    assert trail(service.workspace) == before


# -- people and their ways in ----------------------------------------------------------------------------------

ACCOUNTS: dict[str, Callable[[Accounts, Person, int, int], object]] = {
    "add_person": lambda accounts, by, person, token: accounts.add_person("new", Role.reader, by=by),
    "change_person": lambda accounts, by, person, token: accounts.change_person(person, Role.reader, by=by),
    "new_token": lambda accounts, by, person, token: accounts.new_token(person, "api", by=by),
    "revoke": lambda accounts, by, person, token: accounts.revoke(person, token, by=by),
    "end_sessions": lambda accounts, by, person, token: accounts.end_sessions(person, by=by),
}


@pytest.mark.parametrize("name", commands_of(Accounts, {*READING_ACCOUNTS, "sign_in", "sign_out"}))
def test_changes_of_people_are_written_down_without_secrets(service: Service, name: str) -> None:
    accounts = Accounts(service.workspace.database)
    token, secret = accounts.new_token(service.bob.id, "sign-in", by=OPERATOR)
    before = trail(service.workspace)
    for nobody in (service.eve, service.bob):
        with pytest.raises(NotAllowed):
            ACCOUNTS[name](accounts, nobody, service.bob.id, token.id)
    assert trail(service.workspace) == before
    new = ACCOUNTS[name](accounts, service.ann, service.bob.id, token.id)
    (row,) = trail(service.workspace)[len(before) :]
    assert row.person == "ann"
    text = json.dumps([vars(row) for row in trail(service.workspace)], default=str)
    with service.workspace.database.reading() as connection:
        hashes = connection.execute(sa.select(db.tokens.c.hash)).scalars().all()
    assert not any(part in text for part in (secret, "cual_", *hashes))
    assert not (name == "new_token" and isinstance(new, tuple) and new[1] in text)


def test_coming_and_going_is_written_down(service: Service) -> None:
    accounts = Accounts(service.workspace.database)
    _, secret = accounts.new_token(service.bob.id, "sign-in", by=OPERATOR)
    visitor, cookie = accounts.sign_in(secret)
    assert visitor.session is not None
    accounts.sign_out(visitor.session, by=service.eve)
    assert accounts.by_cookie(cookie) is not None, "nobody signs somebody else out"
    accounts.sign_out(visitor.session, by=service.bob)
    accounts.sign_out(visitor.session, by=service.bob)
    done = [(row.person, row.action) for row in trail(service.workspace)][-3:]
    assert done == [("the operator", "new token"), ("bob", "sign in"), ("bob", "sign out")]
    with pytest.raises(CualError):
        accounts.sign_in(secret)
    assert len(trail(service.workspace)) == len(trail(service.workspace))


# -- reading it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("who", ["bob", "eve"])
def test_only_administrators_read_it(service: Service, who: str) -> None:
    with pytest.raises(NotAllowed):
        service.workspace.audit(getattr(service, who))


def test_it_is_read_by_person_action_time_and_page(service: Service) -> None:
    workspace, task = service.workspace, service.start()
    for person in (service.bob, service.ann):
        lent = workspace.lend(task, person, 1)
        workspace.answer(task, person, {question.id: "cat" for question in lent})
    rows = trail(workspace)
    assert [row.action for row in workspace.audit(service.ann, by=service.bob.id)] == ["answer", "lend"]
    assert {row.person for row in workspace.audit(service.ann, by=0)} == {"the operator"}
    assert {row.person for row in workspace.audit(service.ann, action="answer")} == {"ann", "bob"}
    assert workspace.audit_actions() == sorted({row.action for row in rows})
    last = rows[-1]
    assert workspace.audit(service.ann, since=last.at) == [last]
    assert last not in workspace.audit(service.ann, until=last.at)
    assert not workspace.audit(service.ann, since=last.at + timedelta(seconds=1))
    assert workspace.audit(service.ann, before=last.id, n=2) == rows[-2:-4:-1]
    assert workspace.audit(service.ann, since=last.at, until=last.at) == []
    with pytest.raises(BadOption, match="since is later than until"):
        workspace.audit(service.ann, since=last.at + timedelta(seconds=1), until=last.at)


# -- over HTTP -------------------------------------------------------------------------------------------------


def test_administrators_read_and_export_it_over_http(service: Service) -> None:
    with site(service) as here:
        admin = here.bearer()
        Accounts(service.workspace.database).add_person('=1+1,"x"', Role.reader, by=service.ann)
        task = service.start()
        url = f"/api/adaptations/{task}"
        assert admin.post(f"{url}/lend", json={"n": 1}).status_code == 200
        rows = admin.get("/api/audit", params={"n": 2}).json()
        assert [(row["person"], row["action"], row["thing"]) for row in rows] == [
            ("ann", "lend", task),
            ("ann", "start", task),
        ]
        older = admin.get("/api/audit", params={"before": rows[-1]["id"], "n": 1000}).json()
        assert {row["id"] for row in older}.isdisjoint(row["id"] for row in rows)
        since = admin.get("/api/audit", params={"since": rows[0]["at"], "action": "lend", "by": service.ann.id})
        assert [row["id"] for row in since.json()] == [rows[0]["id"]]
        assert admin.get("/api/audit", params={"since": "2026-01-01T00:00:00"}).status_code == 422, (
            "whose time?"
        )
        table = admin.get("/api/audit.csv")
        assert table.headers["content-type"].startswith("text/csv")
        lines = list(csv.DictReader(io.StringIO(table.text)))
        assert [line["id"] for line in lines] == [str(row.id) for row in trail(service.workspace)[::-1]]
        assert here.token(Role.admin) not in table.text
        only = admin.get("/api/audit.csv", params={"action": "lend"}).text
        assert {line["action"] for line in csv.DictReader(io.StringIO(only))} == {"lend"}
        in_time = admin.get("/api/audit.csv", params={"since": rows[1]["at"], "until": rows[0]["at"]}).text
        assert [line["id"] for line in csv.DictReader(io.StringIO(in_time))] == [str(rows[1]["id"])]
        for path in ("/api/audit", "/api/audit.csv"):
            for wrong in ({"since": rows[0]["at"], "until": rows[1]["at"]}, {"until": "2026-01-01"}):
                assert admin.get(path, params=wrong).status_code == 422
        for role in (Role.annotator, Role.reader):
            for path in ("/api/audit", "/api/audit.csv"):
                assert here.bearer(role).get(path).status_code == 403
