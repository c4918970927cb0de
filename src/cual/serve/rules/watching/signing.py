"""The signature of a webhook's body. `cual.client.check_webhook` is the other side of it."""

import hashlib
import hmac
from datetime import datetime


def signature(secret: str, body: bytes, at: datetime) -> str:
    """The header `Cual-Signature`: when it was signed, and the HMAC-SHA256 of that moment, a dot, and the body.

    >>> signature("0123456789abcdef", b"{}", datetime.fromtimestamp(1700000000))[:30]
    't=1700000000,v1=e4f8e2ecae2295'
    """
    moment = str(int(at.timestamp()))
    digest = hmac.new(secret.encode(), moment.encode() + b"." + body, hashlib.sha256).hexdigest()
    return f"t={moment},v1={digest}"
