"""The database: transactions of both kinds, schema version and migrations, and its address."""

import contextlib
import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.exc import IntegrityError

from cual.errors import BadOption, NewerFormat
from cual.serve.storage import migrations
from cual.serve.storage import tables as db
from cual.serve.storage.database import Database, as_url
from cual.serve.storage.migrations import migrate, newest


@pytest.fixture
def database(tmp_path: Path, database_url: str | None) -> Database:
    return Database(database_url or f"sqlite:///{tmp_path / 'test.sqlite3'}")


def test_tables_are_made_once(database: Database) -> None:
    assert migrate(database) == migrate(database) == newest()
    with database.reading() as connection:
        assert versions(connection) == (newest(), [newest()])
        there = set(sa.inspect(connection).get_table_names())
        assert there == {*db.metadata.tables, "alembic_version"}


def versions(connection: sa.Connection) -> tuple[int | None, list[int]]:
    """What alembic has written down, and what release 0.1.0 looks at."""
    return migrations.current(connection), list(connection.execute(sa.select(db.schema.c.version)).scalars())


def test_two_that_start_at_once_migrate_once(tmp_path: Path, database_url: str | None) -> None:
    url = database_url or f"sqlite:///{tmp_path / 'test.sqlite3'}"
    failures: list[BaseException] = []

    def start() -> None:
        try:
            migrate(Database(url))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    with Database(url).reading() as connection:
        assert versions(connection) == (newest(), [newest()])


def test_who_opens_a_new_file_waits_for_another_who_does(tmp_path: Path) -> None:
    """SQLite refuses at once, however long one would wait, while the file is not yet written as a log."""
    file, failures = tmp_path / "test.sqlite3", list[BaseException]()
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("CREATE TABLE others (a)")
        other.execute("BEGIN IMMEDIATE")

        def start() -> None:
            try:
                migrate(Database(f"sqlite:///{file}"))
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=start)
        thread.start()
        thread.join(0.5)
        other.execute("ROLLBACK")
        thread.join()
    assert not failures


def test_revisions_are_numbered_one_after_the_other() -> None:
    names = [script.revision for script in migrations.scripts().walk_revisions()]
    assert names == [f"{n:04}" for n in range(newest(), 0, -1)]


@pytest.mark.parametrize("first", range(1, newest()))
def test_tables_of_every_schema_become_those_of_today(database: Database, first: int) -> None:
    assert migrate(database, first) == first
    assert migrate(database) == newest()
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": ours})
        assert not compare_metadata(context, db.metadata)
        for table in db.metadata.sorted_tables:
            connection.execute(sa.select(table))


def test_questions_lose_columns_and_nothing_else(database: Database) -> None:
    migrate(database, 11)
    a_question = "(7, 1, 'q', 0, 0, '\"x\"', 3, 0.5, 0.4, 'novel', 1, 4e9, 2, 1, TRUE, FALSE, 0)"
    columns = "id, adaptation, query, round, position, sample, row, score, threshold, zone, lent_to, lent_until"
    with database.writing() as connection:
        connection.execute(sa.insert(db.people).values(name="ann", role="admin"))
        connection.execute(sa.insert(db.agents).values(name="a", current=0, method="cual", width=2))
        pool = {"kind": "texts", "size": 9, "state": "ready", "source": {}}
        connection.execute(sa.insert(db.pools).values(name="p", agent=1, **pool))
        task = {"agent": 1, "base_version": 0, "pool": 1, "person": 1, "budget": 5, "state": "asking"}
        connection.execute(sa.insert(db.adaptations).values(**task))
        for question in (a_question, a_question.replace("(7", "(9").replace(", 3,", ", 4,")):
            more = f"{columns}, missing, cost, answered, disagreement, created_at"
            connection.execute(sa.text(f"INSERT INTO questions ({more}) VALUES {question}"))
        connection.execute(sa.text("DELETE FROM questions WHERE id = 9"))
        event = {"adaptation": 1, "kind": "told", "at": db.now(), "person": 1, "question": 7, "body": {}}
        connection.execute(sa.insert(db.events).values(**event))
    assert migrate(database) == newest()
    with database.writing() as connection:
        (row,) = connection.execute(sa.select(db.questions)).mappings()
        assert {"lent_to", "lent_until"}.isdisjoint(row)
        assert (row["id"], row["sample"], row["row"], row["missing"], row["answered"]) == (7, "x", 3, 2, True)
        assert connection.execute(sa.select(db.events.c.question)).scalars().all() == [7]
        values = {name: row[name] for name in row if name not in ("id", "row")}
        if database.is_sqlite:  # where the ids above did not come from a sequence, there is none to be kept
            made = connection.execute(sa.insert(db.questions).values(**values, row=5)).inserted_primary_key
            assert made is not None
            assert made[0] == 10, "ids are given once, also those of questions that are gone"

    def orphan() -> None:
        with database.writing() as connection:
            connection.execute(sa.delete(db.questions).where(db.questions.c.id == 7))

    with pytest.raises(IntegrityError):
        orphan()


def ours(_thing: object, name: str | None, *_: object) -> bool:
    return name != "alembic_version"


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_database_from_before_alembic_is_taken_over(database: Database, number: int) -> None:
    migrate(database, number)
    with database.writing() as connection:
        connection.execute(sa.text("DROP TABLE alembic_version"))
        connection.execute(sa.insert(db.people).values(name="ann", role="admin"))
    assert migrate(database) == newest()
    with database.reading() as connection:
        assert versions(connection) == (newest(), [newest()])
        assert connection.execute(sa.select(db.people.c.name)).scalars().all() == ["ann"]


def test_errors_do_not_repeat_what_was_written(database: Database) -> None:
    migrate(database)

    def twice() -> None:
        with database.writing() as c:
            for _ in range(2):
                c.execute(sa.insert(db.people).values(name="hush", role="admin"))

    with pytest.raises(IntegrityError) as caught:
        twice()
    told = str(caught.value).replace("DETAIL:  Key (name)=(hush)", "")  # which PostgreSQL itself says
    assert "hush" not in told


def test_a_revision_that_fails_leaves_everything_as_it_was(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(database, 3)
    last = migrations.scripts().get_revision("head")
    assert last is not None

    def broken() -> None:
        raise RuntimeError

    monkeypatch.setattr(last.module, "upgrade", broken)
    with pytest.raises(RuntimeError):
        migrate(database)
    with database.reading() as connection:
        assert versions(connection) == (3, [3])
        assert not sa.inspect(connection).has_table("events")


@pytest.mark.parametrize("alembic", [True, False])
def test_a_newer_database_is_refused_and_left_alone(database: Database, alembic: bool) -> None:
    migrate(database)
    with database.writing() as connection:
        if alembic:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = '0099'"))
        else:
            connection.execute(sa.text("DROP TABLE alembic_version"))
            connection.execute(sa.update(db.schema).values(version=99))
    with pytest.raises(NewerFormat, match="schema version 99"):
        migrate(database)


def test_values_come_back_as_they_went_in(database: Database) -> None:
    migrate(database)
    moment = datetime(2026, 2, 3, 4, 5, 6, 789000, tzinfo=UTC)
    strange = ["cat", "Füchsin", 'a"b', 3, "3", "x\x00y", "\ud800", 2**62]
    with database.writing() as c:
        c.execute(sa.insert(db.agents).values(name="a", current=0, method="m", width=1, created_at=moment))
        c.execute(
            sa.insert(db.versions).values(
                agent=1, number=0, classes=strange, new_classes=[], labels_used=0, pseudo_labels=0, held_out=0
            )
        )
    with database.reading() as c:
        assert c.execute(sa.select(db.versions.c.classes)).scalar_one() == strange
        back = c.execute(sa.select(db.agents.c.created_at)).scalar_one()
        assert abs(back - moment) < timedelta(microseconds=10)
        assert back.tzinfo is UTC


def test_writers_of_one_process_lose_nothing(database: Database) -> None:
    migrate(database)
    with database.writing() as c:
        c.execute(sa.insert(db.agents).values(name="a", current=0, method="m", width=1))

    def count() -> None:
        for _ in range(25):
            with database.writing() as c:
                row = c.execute(sa.select(db.agents.c.current).with_for_update()).scalar_one()
                c.execute(sa.update(db.agents).values(current=row + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.reading() as c:
        assert c.execute(sa.select(db.agents.c.current)).scalar_one() == 100


def test_a_block_that_fails_writes_nothing(database: Database) -> None:
    migrate(database)

    def fail() -> None:
        with database.writing() as c:
            c.execute(sa.insert(db.people).values(name="x", role="admin"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with database.reading() as c:
        assert not c.execute(sa.select(db.people)).all()


def test_a_reader_sees_one_moment(database: Database) -> None:
    migrate(database)
    with database.reading() as reader:
        before = reader.execute(sa.select(db.people)).all()
        with database.writing() as writer:
            writer.execute(sa.insert(db.people).values(name="x", role="admin"))
        assert reader.execute(sa.select(db.people)).all() == before


def test_ids_are_never_used_again(database: Database) -> None:
    migrate(database)
    with database.writing() as c:
        first = c.execute(sa.insert(db.people).values(name="x", role="admin")).inserted_primary_key
    with database.writing() as c:
        c.execute(sa.delete(db.people))
        second = c.execute(sa.insert(db.people).values(name="x", role="admin")).inserted_primary_key
    assert first != second


@pytest.mark.parametrize("url", ["mysql://a/b", "nonsense", "oracle://x"])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(BadOption, match="--database takes"):
        as_url(url)
