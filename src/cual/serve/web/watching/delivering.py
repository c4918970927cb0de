"""Delivers webhooks: signed, one after the other, again where it fails. The database knows what is to be told.

Order is kept for each webhook while nothing fails. What is tried when, `rules.watching.webhooks` says.
"""

import logging
import threading
from collections.abc import Collection

from cual.errors import NotAllowed
from cual.serve.rules.watching import webhooks
from cual.serve.rules.watching.records import Due
from cual.serve.rules.watching.signing import signature
from cual.serve.storage import tables as db
from cual.serve.storage.home import Home
from cual.serve.web.background import Background
from cual.serve.web.watching import posting

log = logging.getLogger(__name__)
SECONDS = 2.0
"""Between two looks for what is due."""
GONE = 410
"""The status by which a receiver says that it wants no more."""


class Delivering:
    """A thread that delivers what is due.

    Parameters
    ----------
    hosts
        Names that may be reached although they are private or not encrypted.
    """

    def __init__(self, home: Home, hosts: Collection[str] = (), seconds: float = SECONDS) -> None:
        self._home, self._hosts, self._seconds = home, hosts, seconds
        self._ending = threading.Event()
        self.background = Background("webhooks", self._run, self._ending)

    def start(self) -> None:
        self.background.start()

    def close(self) -> None:
        """End; what is being sent is sent again by the next service unless it ends within a moment."""
        self._ending.set()
        self.background.join(posting.SECONDS)

    def deliver(self) -> int:
        """Deliver all that is due now; how many were tried."""
        tried = 0
        while (due := webhooks.due(self._home, db.now())) and not self._ending.is_set():
            for delivery in due:
                self._deliver(delivery)
                tried += 1
        return tried

    def _deliver(self, delivery: Due) -> None:
        body = delivery.body.encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "cual",
            "Cual-Event": delivery.event,
            "Cual-Delivery": str(delivery.id),
            "Cual-Signature": signature(delivery.secret, body, db.now()),
        }
        try:
            status = posting.post(delivery.url, body, headers, self._hosts)
        except (NotAllowed, OSError) as error:
            webhooks.failed(self._home, delivery, _worded(error), db.now())
            return
        if 200 <= status < 300:
            webhooks.made(self._home, delivery.id, db.now())
        else:
            webhooks.failed(self._home, delivery, f"the receiver answers {status}", db.now(), status == GONE)

    def _run(self) -> None:
        while not self._ending.wait(self._seconds):
            try:
                self.deliver()
            except Exception:
                log.exception("webhooks could not be delivered; it is tried again")


def _worded(error: Exception) -> str:
    """Without anything that the other side has said: it may be long, or meant for somebody else."""
    if isinstance(error, NotAllowed) or (type(error) is OSError and error.errno is None):
        return str(error)
    return f"it cannot be reached: {type(error).__name__}"
