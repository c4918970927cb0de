"""Pools of a workspace: rows in the database, a folder each, and how to get at what lies there.

Adding one only puts down what came; everything that takes time is a job (`cual.serve.jobs.preparing`).
"""

import io
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection, Row

from cual.agent import Agent
from cual.data.folder import FeaturesFolder, is_features_folder
from cual.data.lines import write_lines
from cual.data.plain import PlainColumns
from cual.data.pool import Pool, check_width
from cual.errors import BadOption, Conflict, DamagedFile, NotFound
from cual.serve.rules import agents, audit, jobs, lost, pool_columns, sources
from cual.serve.rules.checks import check_name, check_text, needs
from cual.serve.rules.records import Person, PoolKind, PoolRecord, Role
from cual.serve.rules.sources import SOURCE, TableColumns
from cual.serve.storage import sums
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home, one_row
from cual.storage import write_bytes
from cual.types import AnyArray, LazyRows

FEATURES_FILE, FEATURES_FOLDER = "features.safetensors", "features"
PICTURES = "pictures"
LARGE = "{row}-large.webp"
TEXTS = "texts.jsonl"
SKIPPED = "skipped.json"
LONGEST_GUIDELINES = 10_000

Pictures = AnyArray | Sequence[Any]
"""(n, height, width) or (n, height, width, 3) bytes, or one PIL image or encoded file (bytes) per row."""


def every(home: Home) -> list[PoolRecord]:
    """All of them, the latest first."""
    with home.database.reading() as connection:
        rows = connection.execute(sa.select(db.pools).order_by(db.pools.c.id.desc())).all()
        return [_record(connection, row) for row in rows]


def one(home: Home, pool: int) -> PoolRecord:
    with home.database.reading() as connection:
        return _record(connection, get(connection, pool))


def get(connection: Connection, pool: int) -> Row[Any]:
    return one_row(connection, sa.select(db.pools).where(db.pools.c.id == pool), f"pool {pool}")


def add(
    home: Home,
    name: str,
    source: Path | Pool,
    agent: int,
    loaded: Agent,
    person: Person,
    pictures: Pictures | None = None,
    texts: Sequence[str] | None = None,
    columns: TableColumns | None = None,
    shown: pool_columns.Given | Sequence[str] | None = None,
) -> PoolRecord:
    """Put down a new pool and have it prepared.

    Parameters
    ----------
    source
        A `Pool`, or where its samples lie: images, text or features, under an allowed root or in `uploads`.
    agent, loaded
        Whose encoder makes, or made, the features.
    pictures, texts
        What to show of each row, for a `Pool`.
    columns
        Columns of a table of text.
    shown
        Columns for people to read: for a `Pool` their values, one per row; for files their names, by default
        all that are plain and hold no labels.
    """
    needs(person, Role.admin)
    name = check_name(name, "a pool's name")
    size, where = 0, dict[str, Any](given=True)
    if isinstance(source, Pool):
        kind, size = _check_given(source, loaded, pictures, texts), len(source)
        given = _given_columns(shown, size)
    else:
        given = None
        where = sources.checked(home, source, columns, shown=_named_columns(shown))
        kind = _kind_of(Path(where["path"]))
    values = {"name": name, "agent": agent, "kind": kind, "size": size, "source": where, "state": "preparing"}
    with home.database.writing() as connection:
        agents.ready(connection, agent, stays=True)
        inserted = connection.execute(sa.insert(db.pools).values(**values))
        number: int = inserted.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]
        folder = home.pool_folder(number)
        shutil.rmtree(folder, ignore_errors=True)  # of one that was never committed
        folder.mkdir(parents=True)
        if isinstance(source, Pool):
            put_down(folder, source, pictures, texts)
            if given is not None:
                kept = pool_columns.keep(folder, given, range(size), size)
                connection.execute(sa.update(db.pools).where(db.pools.c.id == number).values(shown=kept))
        elif where["upload"]:
            moved = {**where, "path": sources.take_over(Path(where["path"]), folder / SOURCE)}
            connection.execute(sa.update(db.pools).where(db.pools.c.id == number).values(source=moved))
        jobs.add(connection, "prepare", pool=number)
        audit.write(connection, person, "add pool", "pool", number, name=name, agent=agent, kind=kind)
        return _record(connection, get(connection, number))


def add_example(connection: Connection, name: str, agent: int, size: int) -> None:
    """Put down the pool of the built-in example, which its job fills; within a transaction."""
    where = {"given": True, "example": "digits"}
    values = {"name": name, "agent": agent, "kind": "pictures", "size": size, "source": where}
    inserted = connection.execute(sa.insert(db.pools).values(**values, state="preparing"))
    jobs.add(connection, "prepare", pool=inserted.inserted_primary_key[0])  # pyright: ignore[reportOptionalSubscript]


def _check_given(pool: Pool, agent: Agent, pictures: Pictures | None, texts: Sequence[str] | None) -> PoolKind:
    """What kind of pool it is, once everything fits."""
    agent.check_encoder(pool.encoder, "pool")
    check_width(pool.width, agent.width, "pool")
    for what, shown in (("pictures", pictures), ("texts", texts)):
        if shown is not None and len(shown) != len(pool):
            raise BadOption(f"{len(pool)} samples came with {len(shown)} {what}")
    return "pictures" if pictures is not None else "text" if texts is not None else "features"


def _given_columns(shown: pool_columns.Given | Sequence[str] | None, n: int) -> PlainColumns | None:
    if shown is None or isinstance(shown, Mapping):
        return None if not shown else pool_columns.given(shown, n)
    raise BadOption("columns of a pool in memory come with their values, not as names alone")


def _named_columns(shown: pool_columns.Given | Sequence[str] | None) -> list[str] | None:
    if shown is None:
        return None
    if isinstance(shown, Mapping | str):
        raise BadOption("columns of a file are given as a list of names: it has their values")
    return [str(name) for name in shown]


def put_down(folder: Path, pool: Pool, pictures: Pictures | None, texts: Sequence[str] | None) -> None:
    """Keep what was given in memory, as it came; turning it into small pictures is the job's work."""
    whole = Pool(np.asarray(pool.data), pool.ids, pool.encoder) if isinstance(pool.data, LazyRows) else pool
    whole.save(folder / FEATURES_FILE)
    if texts is not None:
        write_texts(folder, texts)
    if isinstance(pictures, np.ndarray):
        if pictures.dtype != np.uint8 or pictures.ndim not in (3, 4):
            raise BadOption(
                f"pictures are (n, height, width[, 3]) of uint8, not {pictures.dtype} {pictures.shape}"
            )
        buffer = io.BytesIO()
        np.save(buffer, pictures, allow_pickle=False)
        write_bytes(folder / SOURCE / "pictures.npy", buffer.getvalue())
    elif pictures is not None:
        (folder / SOURCE).mkdir()
        for row, picture in enumerate(pictures):
            data = picture if isinstance(picture, bytes) else _png(picture)
            (folder / SOURCE / str(row)).write_bytes(data)


def _png(picture: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def _kind_of(source: Path) -> PoolKind:
    """What a path seems to hold; the job knows better."""
    if is_features_folder(source) or source.suffix in (".npz", ".npy"):
        return "features"
    return "pictures" if source.is_dir() or source.suffix == ".zip" else "text"


def set_guidelines(home: Home, pool: int, text: str, person: Person) -> PoolRecord:
    """Write down what people should know who label the pool; an empty text takes it away."""
    needs(person, Role.admin)
    text = check_text(text, "the guidelines", LONGEST_GUIDELINES)
    with home.database.writing() as connection:
        row = one_row(connection, _locked(pool), f"pool {pool}")
        if (row.guidelines or "") != text:
            connection.execute(sa.update(db.pools).where(db.pools.c.id == pool).values(guidelines=text or None))
            audit.write(connection, person, "set guidelines", "pool", pool, characters=len(text))
        return _record(connection, get(connection, pool))


# -- tried again -----------------------------------------------------------------------------------------------


def retry(home: Home, pool: int, person: Person) -> int:
    """Have a pool prepared that could not be; the number of the job."""
    needs(person, Role.admin)
    with home.database.writing() as connection:
        row = one_row(connection, _locked(pool), f"pool {pool}")
        if row.state != "failed":
            raise Conflict(f"the pool {row.name!r} has not failed: it is {row.state}")
        audit.write(connection, person, "retry", "pool", pool)
        anew = {"state": "preparing", "error": None}
        connection.execute(sa.update(db.pools).where(db.pools.c.id == pool).values(**anew))
        return jobs.add(connection, "prepare", pool=pool)


def _locked(pool: int) -> sa.Select[Any]:
    return sa.select(db.pools).where(db.pools.c.id == pool).with_for_update()


# -- what lies in the folder -----------------------------------------------------------------------------------


def open_pool(home: Home, pool: int) -> Pool:
    """The features of a pool that is ready."""
    folder = home.pool_folder(pool)
    with lost.reading(home):
        if (folder / FEATURES_FILE).exists():
            return Pool.load(folder / FEATURES_FILE)
        sums.check(folder, f"{FEATURES_FOLDER}/manifest.json")
        features = FeaturesFolder.open(folder / FEATURES_FOLDER)
        features.verify(once=True)
        return Pool(features.X, features.ids)


def picture(home: Home, pool: int, row: int, large: bool = False) -> Path:
    """The file of a row's picture; the large one where there is one and it is wanted."""
    folder = home.pool_folder(pool)
    names = [f"{PICTURES}/{int(row)}.webp"]
    if large:
        names.insert(0, f"{PICTURES}/{LARGE.format(row=int(row))}")
    for name in names if row >= 0 else ():
        if (folder / name).is_file():
            with lost.reading(home):
                sums.check(folder, name)
            return folder / name
    raise NotFound(f"row {row} of pool {pool} has no picture")


def text(home: Home, pool: int, row: int) -> str:
    """The text of a row."""
    lines = pool_columns.lines(home, pool, TEXTS)
    if lines is None:
        raise NotFound(f"pool {pool} has no texts")
    with lines, lost.reading(home):
        words = lines.get(row)
    if words is None:
        raise NotFound(f"row {row} of pool {pool} has no text")
    return str(words)


def write_texts(folder: Path, texts: Sequence[str]) -> None:
    """Keep the texts of all rows."""
    write_lines(folder / TEXTS, ((row, str(text)) for row, text in enumerate(texts)), len(texts))


def skipped(home: Home, pool: int) -> list[dict[str, str]]:
    """Items that could not be read, and why."""
    one(home, pool)
    return read_skipped(home, home.pool_folder(pool))


def read_skipped(home: Home, folder: Path) -> list[dict[str, str]]:
    """What the folder of a pool or an agent says of items that could not be read."""
    file = folder / SKIPPED
    if not file.exists():
        return []
    with lost.reading(home):
        sums.check(folder, SKIPPED)
        try:
            return json.loads(file.read_bytes())
        except ValueError as error:
            raise DamagedFile(f"{file} is damaged: {error}") from error


def _record(connection: Connection, row: Row[Any]) -> PoolRecord:
    progress = jobs.progress_for(connection, db.jobs.c.pool == row.id) if row.state == "preparing" else None
    same = ("id", "name", "kind", "size", "state", "error", "created_at", "agent", "skipped")
    return PoolRecord(
        **{k: getattr(row, k) for k in same},
        progress=progress,
        guidelines=row.guidelines or "",
        columns=pool_columns.names(row.shown),
        column_notes=pool_columns.notes(row.shown),
    )
