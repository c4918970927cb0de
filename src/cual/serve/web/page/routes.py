"""How a page is put on an address: errors that were meant for people become a page that says them."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from nicegui import ui
from starlette.requests import Request

from cual.errors import CualError, NotAllowed, NotFound
from cual.serve.web.page.elements import El, link
from cual.serve.web.page.texts import tr
from cual.serve.web.page.viewer import theme_of

P = ParamSpec("P")
Page = Callable[Concatenate[Request, P], Awaitable[None]]


def page(path: str) -> Callable[[Page[P]], Page[P]]:
    """Register an async function of the request, and of what the path names, as the page at `path`."""

    def register(build: Page[P]) -> Page[P]:
        @ui.page(path, response_timeout=20)
        @wraps(build)
        async def built(request: Request, *args: P.args, **kwargs: P.kwargs) -> None:
            try:
                if any(isinstance(value, int) and not 0 <= value < 2**31 for value in kwargs.values()):
                    raise NotFound("there is nothing with such a number")
                await build(request, *args, **kwargs)
            except CualError as error:
                sorry(error, theme_of(request))

        return built

    return register


def sorry(error: Exception, theme: bool | None = None) -> None:
    """The page in place of one that cannot be built."""
    ui.dark_mode(theme)
    ui.context.client.content.clear()
    expected = isinstance(error, CualError)
    missing = isinstance(error, NotFound)
    ui.status_code(404 if missing else 403 if isinstance(error, NotAllowed) else 422 if expected else 500)
    with ui.context.client.content, El("div", classes="content empty stack"):
        El("h1", tr("Not here") if missing else tr("Not possible") if expected else tr("Something went wrong"))
        El("p", str(error) if expected else tr("The log says what."), "wrap")
        with El("div"):
            link(tr("Start page"), "/", "button")
