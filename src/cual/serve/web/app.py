"""The web application: puts routes, pages and what stands before them together. No logic of its own."""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa
from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Mount

import cual
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.agents import ready
from cual.serve.rules.watching import proposing
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from cual.serve.storage.home import one_row
from cual.serve.web.api import (
    adaptations,
    agents,
    audit,
    classes,
    exports,
    inbox,
    operations,
    people,
    pools,
    predictions,
    questions,
    repairs,
    rollout,
    sessions,
    storage,
    teamwork,
    watching,
)
from cual.serve.web.api.common import add_error_handlers
from cual.serve.web.observing import Metrics, Observe
from cual.serve.web.predictions.encoding import Encodings
from cual.serve.web.predictions.places import Places
from cual.serve.web.predictions.predicting import Predictor, Shape
from cual.serve.web.predictions.shadow import Shadow
from cual.serve.web.readiness import Readiness
from cual.serve.web.security.attempts import Attempts
from cual.serve.web.security.headers import SafeHeaders
from cual.serve.web.security.middleware import BodyLimit, Gate, cookie_names
from cual.serve.web.settings import Limits, Settings
from cual.serve.web.watching.delivering import Delivering
from cual.serve.web.watching.gathering import Gathering
from cual.serve.web.watching.thumbnails import Thumbnails

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_FRAMEWORK_UPLOADS = 256 * 2**20
_TEACH = re.compile(r"/api/agents/\d+/teach")


def create_app(
    workspace: Workspace,
    settings: Settings | None = None,
    worker_alive: Callable[[], bool] = lambda: True,
    worker_silent: Callable[[], bool] = lambda: False,
) -> FastAPI:
    """The application for one workspace.

    Parameters
    ----------
    worker_alive
        Whether the worker process lives, for `/health` and `/metrics`.
    worker_silent
        Whether it lives but gives no sign of that.
    """
    settings = settings or Settings()
    workspace.database.hurry(settings.limits.database_seconds)
    metrics = Metrics(workspace.home, lambda: worker_alive() and not worker_silent())

    def computed(rows: int) -> None:
        if rows:
            metrics.predicted.inc(rows)
            metrics.batches.inc()

    def look() -> None:
        proposing.look(workspace.home, workspace.load_agent, workspace.close_inbox, db.now())

    gathering = Gathering(workspace.home, metrics.judged, look)
    thumbnails = Thumbnails()
    delivering = Delivering(workspace.home, settings.webhook_hosts)
    predictor = Predictor(
        lambda agent, version: _shape(workspace, agent, version),
        workspace.load_agent,
        computed,
        metrics.predictions_stopped.inc,
        settings.limits,
        judged=gathering.note,
    )

    encodings = Encodings(metrics.encoded.inc, metrics.encoder_stopped.inc)
    shadow = Shadow(workspace.home)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        gathering.start()
        delivering.start()
        yield
        shadow.close()
        encodings.close()
        predictor.close()
        gathering.close()
        delivering.close()
        thumbnails.close()

    app = FastAPI(
        title="cual",
        version=cual.__version__,
        summary="Find what is novel, ask about little of it, learn all of it.",
        docs_url=None,  # they would fetch scripts from elsewhere
        redoc_url=None,
        openapi_url=None,  # /api/openapi.json, for whoever is signed in
        lifespan=lifespan,
    )
    app.openapi = lambda: _described(app)
    accounts, attempts = Accounts(workspace.database), Attempts()
    cookies = cookie_names(workspace.home.id)
    app.state.workspace, app.state.settings, app.state.accounts = workspace, settings, accounts
    app.state.attempts, app.state.cookies, app.state.metrics = attempts, cookies, metrics
    app.state.predictor, app.state.places = predictor, Places(settings.limits)
    app.state.encodings, app.state.shadow = encodings, shadow
    app.state.gathering, app.state.delivering, app.state.thumbnails = gathering, delivering, thumbnails
    app.state.exports = exports.UnderWay()
    app.state.worker_alive, app.state.worker_silent = worker_alive, worker_silent
    app.state.readiness = Readiness(workspace.home, lambda: app.state.predictor)
    app.state.background = (gathering.background, delivering.background)
    add_error_handlers(app)
    # the busiest first
    parts = (
        predictions,
        inbox,
        agents,
        questions,
        adaptations,
        classes,
        exports,
        pools,
        sessions,
        people,
        audit,
    )
    for part in (*parts, repairs, teamwork, rollout, watching, storage, operations):
        app.include_router(part.router)
    app.add_api_route("/api/{path:path}", _no_such_route, methods=list(_METHODS), include_in_schema=False)
    if settings.pages:
        from cual.serve.web.page import add_pages

        add_pages(app, workspace)
    # The one that is added last comes first.
    app.add_middleware(BodyLimit, limit=lambda path: limit_of(path, settings.limits))
    app.add_middleware(Gate, accounts=accounts, settings=settings, attempts=attempts, cookie=cookies[0])
    app.add_middleware(SafeHeaders, secure=settings.secure)
    app.add_middleware(Observe, metrics=metrics)
    return app


def _shape(workspace: Workspace, agent: int, version: int | None) -> Shape:
    """Of a version of an agent, of the current one by default; without loading it."""
    a, v = db.agents.c, db.versions.c
    columns: list[sa.Column[Any]] = [v.number, a.width, v.classes, a.false_alarms]
    asked = sa.select(*columns).join_from(db.versions, db.agents, v.agent == a.id)
    asked = asked.where(a.id == agent, v.number == (a.current if version is None else version))
    asked = asked.where(v.stage != "discarded")
    name = f"agent {agent}" if version is None else f"version {version} of agent {agent}"
    with workspace.database.reading() as link:
        ready(link, agent)
        row = one_row(link, asked, name)
    return Shape(row.number, row.width, len(row.classes), row.false_alarms)


def _no_such_route(request: Request) -> None:
    """What is not there: said in JSON, before the pages say it in HTML."""
    others = [r for r in request.app.routes if not isinstance(r, Mount) and _endpoint(r) is not _no_such_route]
    asked = {method: {**request.scope, "method": method} for method in _METHODS}
    allowed = [m for m, scope in asked.items() if any(r.matches(scope)[0] is Match.FULL for r in others)]
    if allowed:
        raise HTTPException(405, "Method Not Allowed", {"Allow": ", ".join(allowed)})
    raise HTTPException(404, "there is no such thing")


def _endpoint(route: BaseRoute) -> Any:
    return getattr(route, "endpoint", None)


def limit_of(path: str, limits: Limits) -> int:
    """How large the body of a request may be.

    >>> limit_of("/api/agents/1/predict", Limits(json=1, predict=2)), limit_of("/api/me", Limits(json=1))
    (2, 1)
    """
    if path == "/api/agents":
        return limits.agent
    if path in ("/api/pools", "/api/agents/from-data") or _TEACH.fullmatch(path):
        return limits.upload + 1024 * limits.files  # the form around the files; they are counted as they arrive
    if path.startswith("/api/agents/") and path.endswith(("/predict", "/probabilities", "/novelty", "/send")):
        return limits.predict
    return _FRAMEWORK_UPLOADS if path.startswith("/_nicegui/") else limits.json


def _described(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        description = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        description["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "session": {"type": "apiKey", "in": "cookie", "name": app.state.cookies[0]},
        }
        description["security"] = [{"token": []}, {"session": []}]
        for operation in (one for path in description["paths"].values() for one in path.values()):
            for code, answer in operation["responses"].items():
                if code >= "400":  # errors are JSON also where the answer is not, which FastAPI does not know
                    answer["content"] = {"application/json": next(iter(answer["content"].values()))}
        for path, method in (("/api/sign-in", "post"), ("/health", "get"), ("/live", "get")):
            description["paths"][path][method]["security"] = []
        app.openapi_schema = description
    return app.openapi_schema
