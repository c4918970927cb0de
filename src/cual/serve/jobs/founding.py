"""Making an agent of labelled data: read, encode, learn. A worker's job; killed, it goes on the next time."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from cual.agent import Agent
from cual.data.files import read
from cual.data.folder import FeaturesFolder, is_features_folder
from cual.data.labels import tidy, unreadable
from cual.data.table import Table
from cual.errors import BadLabels, TooFewSamples
from cual.serve.jobs import encoding, example
from cual.serve.jobs.decoding import Decoders
from cual.serve.rules import agents, founding, jobs, pools
from cual.serve.rules.checks import LONGEST_NAME
from cual.serve.rules.jobs import Claim
from cual.serve.rules.sources import SOURCE
from cual.serve.storage import sums
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.storage import write_bytes
from cual.types import Label, Progress

if TYPE_CHECKING:
    from cual.encoders.sources import Item, Source

FEWEST = 3
"""Samples of a class: one of them is held out, to set the line between known and novel."""
_NAMED = 5


def fit(home: Home, claim: Claim, progress: Progress) -> None:
    """Make one agent."""
    assert claim.agent is not None
    folder = home.agent_folder(claim.agent)
    with home.database.reading() as connection:
        row = connection.execute(sa.select(db.agents).where(db.agents.c.id == claim.agent)).one()
    skipped = list[dict[str, str]]()
    if row.source.get("example"):
        agent = example.demo_agent(example.demo_data(), row.method, progress)
    else:
        table, skipped = labelled(folder, row.source, progress)
        agent = _learned(table, row.method, progress)
    write_bytes(folder / founding.SKIPPED, json.dumps(skipped).encode())
    sums.put(folder, {founding.SKIPPED: sums.sha256(folder / founding.SKIPPED)})
    if _commit(home, claim, agent, len(skipped), bool(row.source.get("example"))):
        shutil.rmtree(folder / SOURCE, ignore_errors=True)
        shutil.rmtree(folder / founding.FEATURES, ignore_errors=True)
    agents.clear_unfinished(home, claim.job)


def _learned(table: Table, method: str, progress: Progress) -> Agent:
    labels = [tidy(label) if isinstance(label, str) else label for label in table.labels().tolist()]
    _check_classes(Counter(labels))
    agent = Agent.fit(table.X, labels, method, progress=progress, encoder=table.encoder)
    if len(agent.validation) < 2:
        raise TooFewSamples("there is one class of few samples; give two classes or more")
    return agent


def _commit(home: Home, claim: Claim, agent: Agent, skipped: int, with_pool: bool) -> bool:
    """Make it the first version, if this attempt still counts; the example's pool comes with it."""
    assert claim.agent is not None
    file = agents.unfinished(home, agent, f"{claim.job}-{claim.attempt}")
    try:
        with home.database.writing() as connection:
            if not jobs.holds(connection, claim):
                return False
            agents.put(home, connection, claim.agent, 0, file, agents.values_of(agent))
            values = {"encoder": agent.encoder, "width": agent.width, "skipped": skipped}
            ready = {"state": "ready", "error": None}
            mine = sa.update(db.agents).where(db.agents.c.id == claim.agent)
            connection.execute(mine.values(**values, **ready))
            if with_pool:
                pools.add_example(connection, example.POOL, claim.agent, len(example.demo_data().pool))
            jobs.finished(connection, claim)
            return True
    finally:
        file.unlink(missing_ok=True)


# -- labelled data ---------------------------------------------------------------------------------------------


def labelled(
    folder: Path,
    source: dict[str, Any],
    progress: Progress,
    fingerprint: str | None = None,
    fewest: int = FEWEST,
) -> tuple[Table, list[dict[str, str]]]:
    """Features with their labels, and what could not be read.

    Parameters
    ----------
    folder
        Where what was sent lies, and what comes of it is put.
    fingerprint
        Of the encoder of an agent that is there already.
    fewest
        Samples that a class takes.
    """
    from cual.encoders.anything import is_features
    from cual.encoders.embedding import current

    at = encoding.place(folder, source, progress)
    encoding.check_unpacked(at.path)
    if is_features(at.path):
        if is_features_folder(at.path):
            encoding.refuse_links_out(at)
        table = read(at.path, unpack=folder)
        encoding.check_labelled(table.X.shape)
        return table, []
    items, skipped = encoding.open_items(at, source.get("columns", {}))
    items = replace(items, items=[_tidied(item) for item in items.items])
    _check_labels(items, fewest)
    if fingerprint is not None:
        encoder = encoding.encoder_of(fingerprint, progress)
    else:
        encoder = encoding.chosen_encoder(source.get("encoder"), items.kind, progress)
    features = folder / founding.FEATURES
    with Decoders() as decoders:
        skipped += encoding.encode(items, encoder, features, at, decoders, progress)
    return current(items, FeaturesFolder.open(features)).table(), skipped


def _tidied(item: "Item") -> "Item":
    """With a label in the form that names of classes have: two systems write one letter as one or as two."""
    name = tidy(item.label) if isinstance(item.label, str) else item.label
    return item if name == item.label else replace(item, label=name)


def _check_labels(items: "Source", fewest: int) -> None:
    """Say what is wrong with labels before hours are spent on encoding."""
    bare = [item for item in items.items if item.label is None]
    image = items.kind == "image"
    if len(bare) == len(items):
        where = "no picture lies in a folder: put those of each class into a folder of its name"
        raise BadLabels(where if image else "the table has no column of labels; say which it is")
    if bare:
        lacks = "lie in no folder of a class" if image else "have no label"
        raise BadLabels(f"{len(bare)} of {len(items)} {items.kind}s {lacks}, the first is {bare[0].id!r}")
    counts = Counter(item.label for item in items.items if item.label is not None)
    for label in counts:
        why = unreadable(str(label), LONGEST_NAME)
        if why:
            raise BadLabels(f"the name of the class {str(label)[:LONGEST_NAME]!r} {why}")
    _check_classes(counts, fewest)


def _check_classes(counts: Counter[Label], fewest: int = FEWEST) -> None:
    few = [f"{label} ({n})" for label, n in counts.items() if n < fewest]
    if few:
        more = f" and {len(few) - _NAMED} more" if len(few) > _NAMED else ""
        raise TooFewSamples(
            f"a class takes at least {fewest} samples that can be read; too few are of "
            f"{', '.join(few[:_NAMED])}{more}"
        )
