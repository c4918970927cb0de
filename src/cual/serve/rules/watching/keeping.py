"""A `Course` as JSON and back, and the row that keeps it between two flushes. No meaning here."""

import math
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from cual.serve.rules.watching.course import Course, Tally, Yardstick
from cual.serve.rules.watching.evidence import ODDS, Evidence, Moments
from cual.serve.storage import tables as db

FORMAT = 1


def to_json(course: Course) -> dict[str, Any]:
    stick = course.yardstick
    return {
        "format": FORMAT,
        "version": course.version,
        "yardstick": None
        if stick is None
        else {"rate": stick.rate, "above": stick.above, "n": stick.n, "known": _moments(stick.known)},
        "seen": course.seen,
        "evidence": [None if log == -math.inf else log for log in course.evidence.logs],
        "first": _tally(course.first),
        "blocks": [_tally(block) for block in course.blocks],
        "filling": _tally(course.filling),
        "novelty": course.novelty,
        "drift": course.drift,
    }


def from_json(body: dict[str, Any]) -> Course:
    """What `to_json` wrote; a fresh course of the same version where another cual wrote it otherwise.

    >>> course = Course(3, Yardstick(0.05, 1, 20, Moments(19, 3.0, 1.0)), seen=7)
    >>> from_json(to_json(course)) == course
    True
    """
    if body.get("format") != FORMAT or len(body["evidence"]) != len(ODDS):
        return Course(int(body["version"]))
    stick = body["yardstick"]
    return Course(
        body["version"],
        None
        if stick is None
        else Yardstick(stick["rate"], stick["above"], stick["n"], Moments(*stick["known"])),
        body["seen"],
        Evidence(tuple(-math.inf if log is None else log for log in body["evidence"])),
        _read(body["first"]),
        tuple(_read(block) for block in body["blocks"]),
        _read(body["filling"]),
        body["novelty"],
        body["drift"],
    )


def _moments(moments: Moments) -> list[float]:
    return [moments.n, moments.total, moments.squares]


def _tally(tally: Tally) -> dict[str, Any]:
    mix = {str(number): n for number, n in tally.mix.items()}
    return {"seen": tally.seen, "unlike": tally.unlike, "known": _moments(tally.known), "mix": mix}


def _read(body: dict[str, Any]) -> Tally:
    mix = {int(number): n for number, n in body["mix"].items()}
    return Tally(body["seen"], body["unlike"], Moments(*body["known"]), mix)


def ensure(connection: Connection, agent: int, version: int) -> None:
    """Let there be a row for the agent's course; within a transaction."""
    s = db.watch_states.c
    there = sa.select(s.agent).where(s.agent == agent).with_for_update()
    if connection.execute(there).one_or_none() is None:
        fresh = to_json(Course(version))
        with suppress(IntegrityError), connection.begin_nested():  # somebody else has just been quicker
            connection.execute(sa.insert(db.watch_states).values(agent=agent, version=version, course=fresh))
