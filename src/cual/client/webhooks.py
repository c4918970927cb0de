"""The receiving side of webhooks: whether a body was signed by the service. Needs nothing but Python."""

import hashlib
import hmac
import json
import re
import time
from typing import Any

from cual.errors import BadSignature

MAX_AGE = 300.0
"""Seconds after which a signature is not believed any more: somebody may have kept it."""
_HEADER = re.compile(r"t=([0-9]{1,12}),v1=([0-9a-f]{64})")


def check_webhook(
    secret: str, body: bytes, signature: str, max_age: float = MAX_AGE, now: float | None = None
) -> dict[str, Any]:
    """The event that a webhook's body tells, once it is certain who says so; `BadSignature` if it is not.

    Parameters
    ----------
    secret
        What `Client.add_webhook` returned.
    body
        As it came, byte by byte.
    signature
        The header ``Cual-Signature``.
    max_age
        Seconds that it may be old, or ahead of this machine's clock.
    now
        Seconds since 1970, for tests.

    The same event may come more than once; its ``id`` is the same then.
    """
    read = _HEADER.fullmatch(signature)
    if read is None:
        raise BadSignature("the header Cual-Signature is missing, or is not one of ours")
    moment, digest = read.groups()
    wanted = hmac.new(secret.encode(), moment.encode() + b"." + body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(wanted, digest):
        raise BadSignature("the body was not signed with this secret")
    if abs((time.time() if now is None else now) - int(moment)) > max_age:
        raise BadSignature(
            f"the body was signed more than {max_age:g} seconds ago, or by a clock that is wrong"
        )
    return json.loads(body)
