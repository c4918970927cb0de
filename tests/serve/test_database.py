"""The database: transactions of both kinds, schema version and migrations, and its address."""

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from cual.errors import BadOption, NewerFormat
from cual.serve.storage import tables as db
from cual.serve.storage.database import MIGRATIONS, Database, as_url, migrate


@pytest.fixture
def database(tmp_path: Path, database_url: str | None) -> Database:
    return Database(database_url or f"sqlite:///{tmp_path / 'test.sqlite3'}")


def test_tables_are_made_once(database: Database) -> None:
    newest = 1 + len(MIGRATIONS)
    assert migrate(database) == migrate(database) == newest
    with database.reading() as c:
        assert c.execute(sa.select(db.schema.c.version)).scalars().all() == [newest]
        assert set(sa.inspect(c).get_table_names()) == set(db.metadata.tables)


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
    with Database(url).reading() as c:
        assert c.execute(sa.select(db.schema.c.version)).scalars().all() == [1 + len(MIGRATIONS)]


def test_migrations_run_in_order_from_the_version_that_is_there(database: Database) -> None:
    migrate(database, [])

    def second(c: sa.Connection) -> None:
        c.execute(sa.text("CREATE TABLE added (n INTEGER)"))

    def third(c: sa.Connection) -> None:
        c.execute(sa.text("INSERT INTO added VALUES (3)"))

    assert migrate(database, [second]) == 2
    assert migrate(database, [second, third]) == 3
    with database.reading() as c:
        assert c.execute(sa.text("SELECT n FROM added")).scalars().all() == [3]


def test_tables_of_the_first_version_become_those_of_today(database: Database) -> None:
    migrate(database, [])
    with database.writing() as c:
        c.execute(sa.text("ALTER TABLE adaptations DROP COLUMN outlook"))
        c.execute(sa.text("DROP TABLE events"))
        for name in ("crashes", "mark"):
            c.execute(sa.text(f"ALTER TABLE jobs DROP COLUMN {name}"))
    assert migrate(database) == 1 + len(MIGRATIONS)
    with database.reading() as c:
        for table in db.metadata.sorted_tables:
            there = {column["name"] for column in sa.inspect(c).get_columns(table.name)}
            assert there == set(table.columns.keys())
            c.execute(sa.select(table))


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


def test_a_migration_that_fails_leaves_everything_as_it_was(database: Database) -> None:
    migrate(database, [])

    def broken(c: sa.Connection) -> None:
        c.execute(sa.text("CREATE TABLE half (n INTEGER)"))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        migrate(database, [broken])
    with database.reading() as c:
        assert c.execute(sa.select(db.schema.c.version)).scalar_one() == 1
        assert not sa.inspect(c).has_table("half")


def test_a_newer_database_is_refused_and_left_alone(database: Database) -> None:
    migrate(database)
    with database.writing() as c:
        c.execute(sa.update(db.schema).values(version=7))
    with pytest.raises(NewerFormat, match="schema version 7"):
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
