"""Where people sign in: a page without scripts, in the look and the language of the others."""

from collections.abc import Mapping
from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse

from cual.serve.rules.sentences import Sentence, said
from cual.serve.web.page.look import ALONE
from cual.serve.web.page.texts import language_of, speaking, told, tr

_PAGE = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8"><title>{title} · cual</title>
<meta name="viewport" content="width=device-width, initial-scale=1">{head}
<style>{style}</style></head><body class="{theme}"><main class="sign-in">{body}</main></body></html>
"""
_FORM = """<div class="card"><h1>cual</h1><p role="{role}"{bad}>{text}</p>
<form method="post" action="/sign-in" class="stack"><label for="token">{label}</label>
<input class="find" id="token" name="token" type="password" autocomplete="off" required
 maxlength="500" autofocus>
<button class="button main" type="submit">{button}</button></form></div>
"""
_HOW = said("Open the address that the terminal printed, or ask an administrator for one: each works once.")
_TO_START = '<meta http-equiv="refresh" content="0;url=/">'


def sign_in_page(
    request: Request, wrong: Sentence | str = "", status: int = 200, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """The form, and what went wrong with the last attempt."""
    with speaking(language_of(request)):
        text = (
            wrong if isinstance(wrong, str) and wrong else told(wrong if isinstance(wrong, Sentence) else _HOW)
        )
        body = _FORM.format(
            role="alert" if wrong else "status",
            bad=' class="bad"' if wrong else "",
            text=escape(text),
            label=escape(tr("Token, or the whole address")),
            button=escape(tr("Sign in")),
        )
        return HTMLResponse(_drawn(request, body), status, headers)


def going_on(request: Request) -> HTMLResponse:
    """For whoever came from elsewhere, and is let in."""
    with speaking(language_of(request)):
        return HTMLResponse(_drawn(request, f'<p><a href="/">{escape(tr("Go on"))}</a></p>', _TO_START))


def _drawn(request: Request, body: str, head: str = "") -> str:
    theme = request.cookies.get("cual_theme", "")
    return _PAGE.format(
        language=language_of(request),
        title=escape(tr("Sign in")),
        head=head,
        style=ALONE,
        theme=theme if theme in ("light", "dark") else "auto",
        body=body,
    )
