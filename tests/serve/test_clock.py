"""A clock that is set back an hour: what waits goes on at once, and nobody keeps anything an hour longer."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from cual.serve.jobs.worker import work_once
from cual.serve.rules import jobs
from cual.serve.rules.crashes import Crash
from cual.serve.rules.records import OPERATOR
from cual.serve.rules.watching import proposing, webhooks
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from serving import Service

HOUR = 3600


def set_back(workspace: Workspace, seconds: float = HOUR) -> None:
    """Let all that was written so far have been written by a clock that was ahead."""
    with workspace.database.writing() as connection:
        for table in (db.jobs, db.loans, db.deliveries):
            moments = [column for column in table.columns if isinstance(column.type, db.Moment)]
            later = {column.name: sa.type_coerce(column, sa.Double) + seconds for column in moments}
            connection.execute(sa.update(table).values(later))


def test_a_job_that_waits_is_done_at_once(service: Service) -> None:
    w = service.workspace
    adaptation = w.start(service.agent, service.pool, 8, service.ann).id
    set_back(w)
    assert w.adaptation(adaptation).doing == "advance", "nobody is told of a pause"
    assert work_once(w)
    assert w.adaptation(adaptation).state == "asking"


def test_a_job_that_was_put_off_is_not_put_off_for_longer(service: Service) -> None:
    w = service.workspace
    w.start(service.agent, service.pool, 8, service.ann)
    for _ in range(2):  # after the second crash it waits for a second
        claim = jobs.claim(w.home, jobs.identity())
        assert claim is not None
        jobs.crashed(w.home, claim, Crash("it was killed", True, None))
    with w.database.writing() as connection:  # it has been there for a day
        connection.execute(sa.update(db.jobs).values(created_at=db.now() - timedelta(days=1)))
    set_back(w)
    with w.database.writing() as connection:
        connection.execute(sa.update(db.jobs).values(created_at=db.now() - timedelta(days=1)))
    assert jobs.claim(w.home, jobs.identity()) is not None


def test_a_pause_that_is_meant_is_kept(service: Service) -> None:
    with service.workspace.database.writing() as connection:
        jobs.add(connection, "prepare", pool=service.pool, grace=HOUR)
    set_back(service.workspace, 1)  # as clocks of two machines may differ
    assert jobs.claim(service.workspace.home, jobs.identity()) is None


def test_the_job_of_a_worker_that_died_before_is_taken_over(service: Service) -> None:
    """Of another machine: whether its process is there, nobody here can see."""
    w = service.workspace
    w.start(service.agent, service.pool, 8, service.ann)
    assert jobs.claim(w.home, "elsewhere 7 7") is not None
    assert jobs.claim(w.home, jobs.identity()) is None, "it lives, as far as anybody knows"
    set_back(w)
    assert jobs.claim(w.home, jobs.identity()) is not None


def test_a_question_is_lent_for_no_longer(service: Service) -> None:
    w = service.workspace
    adaptation = service.start()
    lent = w.lend(adaptation, service.ann, 100)
    assert not w.lend(adaptation, service.bob, 100)
    set_back(w)
    assert [question.id for question in w.lend(adaptation, service.bob, 100)] == [q.id for q in lent]


@pytest.mark.parametrize("attempts", [0, 2])
def test_a_webhook_is_told_no_later(service: Service, attempts: int) -> None:
    w = service.workspace
    w.add_webhook(service.agent, "http://127.0.0.1:9/", OPERATOR)
    with w.database.writing() as connection:
        webhooks.tell(connection, service.agent, "animals", 0, "version.live", {}, db.now())
    for _ in range(attempts):
        due = webhooks.due(w.home, db.now() + timedelta(days=1))
        webhooks.failed(w.home, due[0], "nobody listens", db.now())
    assert bool(webhooks.due(w.home, db.now())) is (attempts == 0)
    set_back(w)
    assert len(webhooks.due(w.home, db.now())) == 1


def test_what_waits_is_looked_at_no_later() -> None:
    looked = {"waiting": 1, "last": 1, "at": (db.now() + timedelta(hours=1)).isoformat()}
    assert proposing._is_due(looked, 2, 2, db.now(), timedelta(minutes=5))
    looked["at"] = db.now().isoformat()
    assert not proposing._is_due(looked, 2, 2, db.now(), timedelta(minutes=5))
