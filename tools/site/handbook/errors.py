"""The reference of errors: every name of `cual.errors`, its HTTP status, and what it means."""

import inspect
from collections.abc import Iterator

from handbook.tables import NOTE, code, first_sentence, table


def errors() -> Iterator[type[Exception]]:
    """Every error that cual raises on purpose, in the order of the file; the base of all comes first."""
    from cual import errors as module

    found = [e for _, e in inspect.getmembers(module, inspect.isclass) if issubclass(e, module.CualError)]
    yield from sorted(found, key=lambda error: inspect.getsourcelines(error)[1])


def page() -> str:
    """All errors in one table."""
    from cual.serve.web.api.common import status_of

    rows = (
        [
            code(error.__name__),
            ", ".join(code(base.__name__) for base in error.__bases__),
            status_of(error()),  # type: ignore[arg-type]
            first_sentence(error.__doc__),
        ]
        for error in errors()
    )
    return "\n".join(
        [
            "# Errors\n",
            NOTE,
            "What cual raises on purpose is in `cual.errors`. A message says what was wrong, where, "
            "and what to do. "
            "`except cual.errors.CualError` catches all of them; each is an ordinary Python error as well. "
            "On the command line it is one red line, and the exit code is 2. The service answers with the "
            "status below and\n",
            '```json\n{"error": "NotFound", "detail": "there is no agent 3"}\n```\n',
            table(["error", "is a", "HTTP", "means"], rows),
            "With 429 and 503 comes `Retry-After`. Statuses without an error of cual: 400, not understood, or "
            "sent to a name that is not ours; 401, not signed in; 405, no such method; 415, a type that is "
            "not taken.\n",
        ]
    )
