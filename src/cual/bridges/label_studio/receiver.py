"""A small receiver of Label Studio's webhooks, on the loopback. What comes is a reason to look, no more.

Nothing in a message is used, not even read: who could send one could at most make the bridge look once more.
"""

import hmac
import logging
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

log = logging.getLogger(__name__)
PATH: Final = "/label-studio"
SECRET: Final = "X-Cual-Secret"
LARGEST = 64 * 1024
"""Bytes of a message; without the payload that it is asked to leave out, Label Studio sends some fifty."""
ACTIONS = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_DELETED")


class Receiver:
    """Listens until it is closed, and sets an event for every message that carries the secret.

    Parameters
    ----------
    wake
        Set when something came.
    port
        On 127.0.0.1; 0 for any that is free. Other machines reach it through a proxy, which adds TLS.
    """

    def __init__(self, wake: threading.Event, port: int = 0) -> None:
        self.secret: Final = secrets.token_urlsafe(32)
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.wake, self._server.secret = wake, self.secret.encode()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{PATH}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> "Receiver":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    wake: threading.Event
    secret: bytes

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a webhook's connection broke", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    timeout = 5  # whoever sends slowly is not waited for
    server_version, sys_version = "cual", ""

    def do_POST(self) -> None:
        self.close_connection = True
        if self.path != PATH:
            return self._answer(404)
        assert isinstance(self.server, _Server)
        given = self.headers.get(SECRET, "").encode(errors="replace")
        if not hmac.compare_digest(given, self.server.secret):
            return self._answer(403)
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            return self._answer(411)
        if len(length) > 9 or int(length) > LARGEST:
            return self._answer(413)
        self.rfile.read(int(length))
        self.server.wake.set()
        return self._answer(204)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)
