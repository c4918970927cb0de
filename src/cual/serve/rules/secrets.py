"""Secrets and what whoever shows one is: made and hashed here. Where they are kept, `accounts` knows."""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from cual.serve.rules.records import Person


@dataclass(frozen=True)
class Visitor:
    """Somebody who has shown a secret that is known and alive."""

    person: Person
    session: int | None
    """None for whoever came with a token in the Authorization header."""
    csrf: str | None
    """What a page of ours sends along with changes, and no other page can know."""


def new_secret() -> str:
    """256 random bits, with a mark by which logs and secret scanners know them.

    >>> new_secret().startswith("cual_"), new_secret() == new_secret()
    (True, False)
    """
    return f"cual_{secrets.token_urlsafe(32)}"


def is_secret(text: str) -> bool:
    """Whether a text could be a secret of ours: anything else need not be looked up or repeated.

    >>> is_secret(new_secret()), is_secret('cual_"><script>'), is_secret("")
    (True, False, False)
    """
    return re.fullmatch(r"cual_[A-Za-z0-9_-]{43}", text) is not None


def hashed(secret: str) -> str:
    """What is kept of a secret. It is random and long, so that a plain hash cannot be turned back.

    >>> hashed("cual_…")[:12], hashed("cual_…") == hashed("cual_another")
    ('441ebba43764', False)
    """
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def csrf_for(secret: str) -> str:
    """Bound to the session, computed from its secret, useless without it.

    >>> csrf_for("cual_one") == csrf_for("cual_one"), csrf_for("cual_one") == csrf_for("cual_two")
    (True, False)
    """
    return hmac.new(secret.encode("utf-8", "replace"), b"csrf", hashlib.sha256).hexdigest()
