"""Watching for Prometheus: what the database knows of each agent's predictions, read when it is asked for.

The label is an agent's number, and only so many agents have their own: names may change, and may be many.
"""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cual.serve.rules.watching import keeping, looking
from cual.serve.storage import tables as db
from cual.serve.storage.database import Database

MOST_AGENTS = 100
"""Agents with figures of their own; in counters, the others share one label."""
OTHERS = "other"
_GAUGES = {
    "cual_unlike_share": "Share of the last samples that are unlike anything known.",
    "cual_unlike_share_low": "Lower end of its 95 % interval.",
    "cual_unlike_share_high": "Upper end of its 95 % interval.",
    "cual_false_alarms_most": "Share of known samples that may be called unlike anything known, at most.",
    "cual_novelty_alert": "1 while more is unlike anything known than false alarms explain.",
    "cual_drift_alert": "1 while known classes have drifted.",
    "cual_known_shift": "How far known-looking samples have moved off their classes, in deviations.",
    "cual_class_mix_change": "Share of known-looking samples that has changed class.",
    "cual_unlike_groups": "Groups that waiting samples form which are unlike anything known.",
    "cual_waiting_samples": "Samples that wait to become a pool.",
    "cual_adaptation_proposed": "1 while an adaptation is proposed.",
}


class Watched(Collector):
    """Gauges of all agents that are ready."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not ask the database."""
        return ()

    def collect(self) -> Iterable[Metric]:
        families = {name: GaugeMetricFamily(name, text, labels=["agent"]) for name, text in _GAUGES.items()}
        with self._database.reading() as connection:
            rows = connection.execute(_states().limit(MOST_AGENTS)).all()
            waiting = {row[0]: row[1] for row in connection.execute(_waiting())}
            d = db.deliveries.c
            untold = connection.execute(sa.select(sa.func.count()).where(d.next_at.is_not(None))).scalar_one()
        for row in rows:
            for name, value in {**_figures(row), "cual_waiting_samples": waiting.get(row.id, 0)}.items():
                families[name].add_metric([str(row.id)], float(value))
        yield from families.values()
        yield GaugeMetricFamily("cual_webhooks_waiting", "Events that webhooks are still to be told.", untold)


def _states() -> sa.Select[Any]:
    a, s = db.agents.c, db.watch_states.c
    columns: list[sa.Column[Any]] = [a.id, a.current, s.version, s.course, s.unlike_groups, s.proposal]
    joined = sa.select(*columns).outerjoin_from(db.agents, db.watch_states, s.agent == a.id)
    return joined.where(a.state == "ready").order_by(a.id)


def _waiting() -> sa.Select[int, int]:
    i, m = db.inboxes.c, db.inbox_samples.c
    counted = sa.select(i.agent, sa.func.count()).join_from(db.inboxes, db.inbox_samples, m.inbox == i.id)
    return counted.where(i.closed_at.is_(None)).group_by(i.agent)


def _figures(row: Any) -> dict[str, float]:
    if row.course is None or row.version != row.current:
        return {}
    course, groups = keeping.from_json(row.course), looking.groups_of(row.unlike_groups)
    figures: dict[str, float] = {
        "cual_novelty_alert": course.novelty is not None,
        "cual_drift_alert": course.drift is not None,
        "cual_unlike_groups": 0 if groups is None else len(groups.new),
        "cual_adaptation_proposed": row.proposal is not None,
    }
    if course.seen:
        share = course.recent.share
        figures |= {
            "cual_unlike_share": share.value,
            "cual_unlike_share_low": share.low,
            "cual_unlike_share_high": share.high,
            "cual_false_alarms_most": course.baseline.most,
        }
    if course.shift is not None:
        figures["cual_known_shift"] = course.shift.value
    if course.change is not None:
        figures["cual_class_mix_change"] = course.change.value
    return figures
