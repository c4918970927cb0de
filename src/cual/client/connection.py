"""Requests to a service: sent again where that is safe, and answered with the library's own errors."""

import errno
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

try:
    import httpx
except ModuleNotFoundError as error:
    from cual.errors import MissingPackage

    raise MissingPackage("cual.Client needs httpx: pip install 'cual[client]'") from error

from cual import errors
from cual.errors import CualError, NotAllowed, Unavailable

T = TypeVar("T")
_QUICK, _SLOW = 0.05, 1.0
_NOT_NOW = (502, 503, 504)
"""What a service, or a proxy before it, answers while it cannot: later it may."""


class ServiceError(CualError, RuntimeError):
    """The service refused, and none of the library's errors says why."""


class Connection:
    """A service at an address, for whoever has the token."""

    def __init__(
        self, url: str, token: str, patience: float = 30, timeout: float = 60, verify: bool | str = True
    ) -> None:
        self._patience = patience
        self._http = httpx.Client(
            base_url=url.rstrip("/"),
            headers={"Authorization": f"Bearer {token}"},
            timeout=timeout,
            verify=verify,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def get(self, url: str, **how: Any) -> Any:
        """The JSON that a GET request gives."""
        return self._send("GET", url, **how).json()

    def post(self, url: str, **how: Any) -> Any:
        """The JSON that a POST request gives; with ``once=True`` it is never sent twice."""
        response = self._send("POST", url, **how)
        return response.json() if response.content else None

    def fetch(self, url: str, file: Path, method: str = "POST", **how: Any) -> None:
        """Write what a request gives to a new file, however long it takes and however large it is.

        The file is there once it is whole.
        """
        if file.exists():
            raise FileExistsError(errno.EEXIST, "the file is there already", str(file))
        patient = httpx.Timeout(self._http.timeout.connect, read=None)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with (
                os.fdopen(handle, "wb") as target,
                self._http.stream(method, url, timeout=patient, **how) as response,
            ):
                if not response.is_success:
                    response.read()
                _checked(response)
                for part in response.iter_bytes():
                    target.write(part)
            os.replace(name, file)
        except httpx.TransportError as error:
            raise Unavailable(f"no service answers at {self._http.base_url}: {error}") from error
        finally:
            Path(name).unlink(missing_ok=True)

    def _send(self, method: str, url: str, once: bool = False, **how: Any) -> httpx.Response:
        """Send until there is an answer. What must not be done twice is sent again only if it never arrived."""
        again = (httpx.ConnectError, httpx.ConnectTimeout) if once else httpx.TransportError
        end = time.monotonic() + self._patience
        for pause in pauses():
            try:
                response = self._http.request(method, url, **how)
                if response.status_code not in _NOT_NOW or once or time.monotonic() > end:
                    return _checked(response)
            except again as error:
                if time.monotonic() > end:
                    at = f"{self._http.base_url}"
                    raise Unavailable(f"no service answers at {at}: {error or type(error).__name__}") from error
            except httpx.TransportError as error:
                raise Unavailable(
                    f"the connection broke ({error or type(error).__name__}); look whether it was done"
                ) from error
            time.sleep(pause)
        raise AssertionError("pauses do not end")


def pauses() -> Iterator[float]:
    """Seconds to wait between two looks at something that takes its time: short ones first."""
    pause = _QUICK
    while True:
        yield pause
        pause = min(2 * pause, _SLOW)


def until(look: Callable[[], T], done: Callable[[T], bool]) -> T:
    """Look until it is so."""
    for pause in pauses():
        if done(now := look()):
            return now
        time.sleep(pause)
    raise AssertionError("pauses do not end")


def _checked(response: httpx.Response) -> httpx.Response:
    """The response, or the error that it is."""
    if response.is_success:
        return response
    try:
        problem = response.json()
        name, detail = str(problem["error"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        name, detail = "", f"the service answered {response.status_code} {response.reason_phrase}"
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, CualError):
        raise kind(detail)
    if response.status_code in _NOT_NOW:
        raise Unavailable(detail)
    raise (NotAllowed if response.status_code in (401, 403) else ServiceError)(detail)
