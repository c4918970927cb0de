"""Puts the pages under a FastAPI app. NiceGUI has one app per process; of ours there may be several."""

import logging
import warnings
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import ui
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from cual.errors import CualError
from cual.serve.web.page import (
    answers,
    audit,
    classes_page,
    disputes,
    export,
    history,
    people,
    person,
    questions,
    repairs,
    review,
    start,
    team,
    watching,
)
from cual.serve.web.page import map as map_page
from cual.serve.web.page.look import STYLE
from cual.serve.web.page.routes import sorry
from cual.serve.web.page.viewer import STATE

if TYPE_CHECKING:
    from cual.serve.rules.workspace import Workspace

# A page whose session has ended cannot connect any more: it goes to where one signs in.
_LEAVE = """setInterval(() => {
  if (!window.socket || window.socket.connected) return;
  fetch("/api/me").then((answer) => answer.status === 401 && location.assign("/sign-in")).catch(() => {});
}, 3000);"""
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" '
    'fill="#1d5bb8"/><circle cx="12" cy="16" r="6" fill="none" stroke="#fff" stroke-width="3"/>'
    '<circle cx="23" cy="11" r="3" fill="#ffd166"/></svg>'
)


def add_pages(app: FastAPI, workspace: "Workspace") -> None:
    """Mount the pages under `app`, behind all of its own routes; `app.state` holds what they need."""
    app.state.workspace = workspace
    shell = _prepared()

    async def with_state(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/api/"):
            raise HTTPException(404, "there is no such address")  # for programs, not a page
        scope[STATE] = app.state
        await nicegui_app(scope, receive, send)

    app.mount("/", with_state)
    own = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(started: FastAPI) -> AsyncGenerator[Any]:
        framework = shell.router.lifespan_context(shell)
        with (
            warnings.catch_warnings()
        ):  # NiceGUI looks at every object there is, and torch warns of being looked at
            warnings.simplefilter("ignore", FutureWarning)
            await framework.__aenter__()
        try:
            async with own(started) as state:
                yield state
        finally:
            await framework.__aexit__(None, None, None)

    app.router.lifespan_context = lifespan


@cache
def _prepared() -> FastAPI:
    """NiceGUI set up, once per process; the app returned is only there for its lifespan."""
    shell = FastAPI(openapi_url=None)
    ui.add_head_html(f"<style>{STYLE}</style><script>{_LEAVE}</script>", shared=True)
    for module in (
        start,
        questions,
        map_page,
        review,
        answers,
        disputes,
        team,
        export,
        history,
        classes_page,
        repairs,
        people,
        person,
        audit,
        watching,
    ):
        module.add_page()
    nicegui_app.on_page_exception(sorry)
    nicegui_app.on_exception(_log)
    ui.run_with(
        shell,
        title="cual",
        favicon=_ICON,
        dark=None,
        language="en-US",
        tailwind=False,
        reconnect_timeout=5,
        show_welcome_message=False,
        binding_refresh_interval=None,
    )
    return shell


def _log(error: Exception) -> None:
    if not isinstance(error, CualError):
        logging.getLogger(__name__).error("page", exc_info=error)
