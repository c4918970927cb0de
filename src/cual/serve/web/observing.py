"""What operators see: a log line and a measurement per request, and the counts behind `/metrics`."""

import itertools
import logging
import secrets
import shutil
import time
from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cual.loop.events import ANSWERS
from cual.serve.rules.secrets import Visitor
from cual.serve.storage import tables as db
from cual.serve.storage.database import Database
from cual.serve.storage.home import Home
from cual.serve.web.security.middleware import CLIENT
from cual.serve.web.security.visitors import VISITOR
from cual.serve.web.watching.measuring import MOST_AGENTS, OTHERS, Watched

REQUESTS = logging.getLogger("cual.serve.requests")
_RUN, _NUMBERS = secrets.token_hex(4), itertools.count(1)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Metrics:
    """Counters of one running service; no two share theirs."""

    def __init__(self, home: Home, worker_alive: Callable[[], bool]) -> None:
        self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self.requests = Counter("cual_requests", "Requests answered.", labels, registry=self._registry)
        self.seconds = Histogram(
            "cual_request_seconds",
            "Time from a request to the end of its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.predicted = Counter("cual_predicted_rows", "Samples predicted or scored.", registry=self._registry)
        self.batches = Counter("cual_predict_batches", "Batches they were put into.", registry=self._registry)
        self.predictions_stopped = Counter(
            "cual_predictions_stopped", "Times that their thread has died.", registry=self._registry
        )
        self.encoded = Counter(
            "cual_encoded_rows", "Pictures and texts encoded while somebody waited.", registry=self._registry
        )
        self.encoder_stopped = Counter(
            "cual_encoder_stopped", "Times that the process which encodes has died.", registry=self._registry
        )
        self._judged = [
            Counter(f"cual_{kind}_samples", text, ("agent",), registry=self._registry)
            for kind, text in (
                ("judged", "Samples that were judged by what is known."),
                ("unlike", "Those of them that are unlike anything known."),
                ("unsure", "Those of them that are known, but of an uncertain class."),
            )
        ]
        self._agents: set[str] = set()
        self._registry.register(_Room(home))
        self._registry.register(_Counts(home.database, worker_alive))
        self._registry.register(Watched(home.database))

    def judged(self, agent: int, seen: int, unlike: int, unsure: int) -> None:
        """Count what an agent's samples were judged to be."""
        label = str(agent)
        if label not in self._agents:
            if len(self._agents) < MOST_AGENTS:
                self._agents.add(label)
            else:
                label = OTHERS
        for counter, n in zip(self._judged, (seen, unlike, unsure), strict=True):
            counter.labels(label).inc(n)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Room(Collector):
    """How much room is left for files."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        room = shutil.disk_usage(self._home.folder)
        yield GaugeMetricFamily("cual_disk_free_bytes", "Free where the workspace lies.", float(room.free))
        yield GaugeMetricFamily("cual_disk_bytes", "Size of where the workspace lies.", float(room.total))


class _Counts(Collector):
    """What the database knows, counted when it is asked for."""

    def __init__(self, database: Database, worker_alive: Callable[[], bool]) -> None:
        self._database, self._worker_alive = database, worker_alive

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not ask the database."""
        return ()

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "cual_worker_alive", "1 while the worker runs and says so.", float(self._worker_alive())
        )
        q, a = db.questions.c, db.adaptations.c
        waiting = sa.select(sa.func.count()).select_from(
            db.questions.join(db.adaptations, q.adaptation == a.id)
        )
        with self._database.reading() as connection:
            jobs = connection.execute(
                sa.select(db.jobs.c.state, sa.func.count()).group_by(db.jobs.c.state)
            ).all()
            tasks = connection.execute(sa.select(a.state, sa.func.count()).group_by(a.state)).all()
            open_ = connection.execute(waiting.where(a.state == "asking", sa.not_(q.answered))).scalar_one()
            answers = connection.execute(
                sa.select(sa.func.count()).where(db.events.c.kind.in_(ANSWERS))
            ).scalar_one()
        yield _by_state("cual_jobs", "Jobs by state.", jobs, ("waiting", "running", "done", "failed"))
        states = ("thinking", "asking", "review", "finished", "failed", "dropped")
        yield _by_state("cual_adaptations", "Adaptations by state.", tasks, states)
        yield GaugeMetricFamily("cual_questions_open", "Questions that wait for an answer.", float(open_))
        yield CounterMetricFamily("cual_answers", "Answers given by people.", float(answers))


def _by_state(name: str, help: str, rows: Iterable[Any], states: tuple[str, ...]) -> Metric:
    family, counted = GaugeMetricFamily(name, help, labels=["state"]), {row[0]: row[1] for row in rows}
    for state in states:
        family.add_metric([state], float(counted.get(state, 0)))
    return family


class Observe:
    """Logs and counts each request: its route, never its query string or its body."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, id, status = time.perf_counter(), f"{_RUN}-{next(_NUMBERS):x}", 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = id
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception:
            status = status or 500
            raise
        finally:
            self._note(scope, status, time.perf_counter() - began, id)

    def _note(self, scope: Scope, status: int, seconds: float, id: str) -> None:
        route = str(getattr(scope.get("route"), "path", "") or "other")
        method = scope["method"] if scope["method"] in _METHODS else "other"  # whoever asks can make up any
        self._metrics.requests.labels(method, route, str(status)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        visitor: Visitor | None = scope.get(VISITOR)
        fields = {
            "request": id,
            "method": scope["method"][:20],
            "path": scope["path"][:200],
            "status": status,
            "ms": round(1000 * seconds, 1),
            "person": None if visitor is None else visitor.person.id,
            "client": scope.get(CLIENT),
        }
        quiet = status < 400 and scope["path"].startswith(("/_nicegui", "/health", "/live", "/metrics"))
        REQUESTS.log(10 if quiet else 20, "request", extra={"fields": fields})
