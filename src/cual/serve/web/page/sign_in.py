"""Where people sign in: a page without scripts, in the look and the language of the others.

Nothing is looked up here: what a token is good for is known when the form comes back.
"""

from collections.abc import Mapping
from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse

from cual.serve.rules.sentences import Sentence, said
from cual.serve.web.page.look import ALONE
from cual.serve.web.page.texts import language_of, speaking, told, tr
from cual.serve.web.security.visitors import person_of

_PAGE = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8"><title>{title} · cual</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{style}</style></head><body class="{theme}"><main class="sign-in">{body}</main></body></html>
"""
_FORM = """<div class="card"><h1>cual</h1><p role="{role}"{bad}>{text}</p>
<form method="post" action="/sign-in" class="stack">{field}
<button class="button main" type="submit">{button}</button></form>{else_}</div>
"""
_PASTED = """<label for="token">{label}</label>
<input class="find" id="token" name="token" type="password" autocomplete="off" required
 maxlength="500" autofocus>"""
_GIVEN = '<input type="hidden" name="token" value="{token}">'
_SIGNED_IN = '<p role="status">{text} <a href="/">{link}</a></p>'
_HOW = said("Open the address that the terminal printed, or ask an administrator for one: each works once.")
_PRESS = said("This address signs you in, once. Press the button.")


def sign_in_page(
    request: Request,
    wrong: Sentence | str = "",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    token: str = "",
) -> HTMLResponse:
    """The form, and what went wrong with the last attempt.

    Parameters
    ----------
    token
        Of the address that was opened: then there is nothing to paste, only a button to press.
    """
    with speaking(language_of(request)):
        how = _PRESS if token else _HOW
        text = (
            wrong if isinstance(wrong, str) and wrong else told(wrong if isinstance(wrong, Sentence) else how)
        )
        pasted = _PASTED.format(label=escape(tr("Token, or the whole address")))
        body = _FORM.format(
            role="alert" if wrong else "status",
            bad=' class="bad"' if wrong else "",
            text=escape(text),
            field=_GIVEN.format(token=escape(token)) if token else pasted,
            button=escape(tr("Sign in")),
            else_=_signed_in(request),
        )
        return HTMLResponse(_drawn(request, body), status, headers)


def _signed_in(request: Request) -> str:
    """For whoever opens an address again that has let them in."""
    person = person_of(request)
    if person is None:
        return ""
    text = tr("You are signed in as {name}.", name=person.name)
    return _SIGNED_IN.format(text=escape(text), link=escape(tr("Go on")))


def _drawn(request: Request, body: str) -> str:
    theme = request.cookies.get("cual_theme", "")
    return _PAGE.format(
        language=language_of(request),
        title=escape(tr("Sign in")),
        style=ALONE,
        theme=theme if theme in ("light", "dark") else "auto",
        body=body,
    )
