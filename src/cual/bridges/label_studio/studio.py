"""Label Studio over HTTP: projects, tasks with annotations, webhooks. What they mean here, others decide.

Written against the source of Label Studio 1.23; only what that documents as public is called.
"""

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, TypeVar

try:
    import httpx
except ModuleNotFoundError as error:
    from cual.errors import MissingPackage

    raise MissingPackage("the bridge to Label Studio needs httpx: pip install 'cual[client]'") from error

from cual.client import ServiceError
from cual.errors import NotAllowed, NotFound, Unavailable

PAGE = 200
"""Tasks or projects that are asked for at once."""
Json = dict[str, Any]
T = TypeVar("T")


class LabelStudio:
    """A Label Studio that runs somewhere.

    Parameters
    ----------
    url
        Its address, for example ``http://127.0.0.1:8080``.
    token
        Of an account that may change the project: a personal access token, or a legacy token where the
        organization still allows them.
    timeout
        Seconds that one request may take.
    """

    def __init__(self, url: str, token: str, timeout: float = 60) -> None:
        self.url = url.rstrip("/")
        auth = PersonalToken(self.url, token) if token.count(".") == 2 else LegacyToken(token)
        self._http = httpx.Client(base_url=self.url, auth=auth, timeout=timeout)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> "LabelStudio":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def whoami(self) -> Json:
        """The account that the token is of."""
        return self._send("GET", "/api/current-user/whoami")

    # -- projects ----------------------------------------------------------------------------------------------

    def project(self, project: int) -> Json:
        answer = self._send("GET", f"/api/projects/{project}/")
        field(answer, "id", int)
        return answer

    def projects(self) -> Iterator[Json]:
        """Id and description of all projects."""
        page, more = 1, True
        while more:
            wanted = {"page": page, "page_size": PAGE, "include": "id,description"}
            answer = self._send("GET", "/api/projects/", params=wanted)
            yield from rows(field(answer, "results", list))
            page, more = page + 1, bool(answer.get("next"))

    def add_project(self, **fields: Any) -> Json:
        return self._send("POST", "/api/projects/", json=fields)

    def change_project(self, project: int, **fields: Any) -> Json:
        return self._send("PATCH", f"/api/projects/{project}/", json=fields)

    # -- tasks -------------------------------------------------------------------------------------------------

    def tasks(self, project: int, column: str, value: str) -> Iterator[Json]:
        """Id, meta and annotations of tasks whose data say `value` in a column; the data itself is large."""
        item = {"filter": f"filter:tasks:data.{column}", "operator": "equal", "type": "String", "value": value}
        fields = "id,meta,annotations,result,was_cancelled,ground_truth,updated_at"
        wanted = {
            "project": project,
            "fields": "all",
            "include": fields,
            "query": json.dumps({"filters": {"conjunction": "and", "items": [item]}}),
            "page_size": PAGE,
        }
        page, seen, total = 1, 0, 1
        while seen < total:
            answer = self._send("GET", "/api/tasks/", params={**wanted, "page": page})
            tasks = rows(field(answer, "tasks", list))
            yield from tasks
            page, seen, total = page + 1, seen + len(tasks), field(answer, "total", int)
            if not tasks:
                return

    def import_tasks(self, project: int, tasks: Sequence[Mapping[str, Any]]) -> None:
        """Add tasks; in the Enterprise edition they come a little later."""
        self._send("POST", f"/api/projects/{project}/import", json=tasks)

    # -- webhooks ----------------------------------------------------------------------------------------------

    def webhooks(self, project: int) -> list[Json]:
        return rows(self._send("GET", "/api/webhooks/", params={"project": project}))

    def add_webhook(self, **fields: Any) -> Json:
        return self._send("POST", "/api/webhooks/", json=fields)

    def remove_webhook(self, webhook: int) -> None:
        self._send("DELETE", f"/api/webhooks/{webhook}/")

    def _send(self, method: str, url: str, **how: Any) -> Any:
        try:
            response = self._http.request(method, url, **how)
        except httpx.InvalidURL as error:
            raise Unavailable(f"{self.url!r} is no address: {error}") from error
        except httpx.HTTPError as error:
            raise Unavailable(
                f"no Label Studio answers at {self.url}: {error or type(error).__name__}"
            ) from error
        status = response.status_code
        if status >= 500:  # restarted, or its SQLite is busy
            raise Unavailable(f"the Label Studio at {self.url} cannot answer now ({status})")
        if not response.is_success:
            raise _error(status)(f"Label Studio refused {method} {url} ({status}): {_why(response)}")
        if not response.content:
            return None
        try:
            return response.json()
        except ValueError:
            raise ServiceError(f"what answers at {self.url}{url} is no Label Studio") from None


def field(body: Any, name: str, kind: type[T]) -> T:
    """A field of what was answered; `ServiceError` where there is none, or something else in it."""
    value: Any = dict[str, Any](body).get(name) if isinstance(body, dict) else None
    if not isinstance(value, kind):
        raise ServiceError(
            f"what answers is no Label Studio: {name} should be {kind.__name__}, not {value!r:.100}"
        )
    return value


def rows(body: Any) -> list[Json]:
    """A list of objects that was answered; `ServiceError` where it is none."""
    listed: list[Any] = list(body) if isinstance(body, list) else [body]
    if not isinstance(body, list) or not all(isinstance(row, dict) for row in listed):
        raise ServiceError(f"what answers is no Label Studio: {body!r:.100} should be a list of objects")
    return listed


class LegacyToken(httpx.Auth):
    """A token as Label Studio had them before 1.20; an organization must allow it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Token {self._token}"
        yield request


class PersonalToken(httpx.Auth):
    """A personal access token: it buys access for some minutes, again and again."""

    requires_response_body = True

    def __init__(self, url: str, token: str) -> None:
        self._refresh, self._token, self._access = f"{url}/api/token/refresh/", token, ""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._access:
            request.headers["Authorization"] = f"Bearer {self._access}"
            response = yield request
            if response.status_code != 401:
                return
        bought = yield httpx.Request("POST", self._refresh, json={"refresh": self._token})
        if bought.is_success:  # else what it answered is the answer
            self._access = field(bought.json(), "access", str)
            request.headers["Authorization"] = f"Bearer {self._access}"
            yield request


def _error(status: int) -> type[Exception]:
    if status in (401, 403):
        return NotAllowed
    return NotFound if status == 404 else ServiceError


def _why(response: httpx.Response) -> str:
    """What Label Studio says, shortened."""
    try:
        body: Any = response.json()
    except ValueError:
        return response.reason_phrase
    if isinstance(body, dict):
        fields: Json = body
        body = fields.get("validation_errors") or fields.get("detail") or fields
    return str(body)[:500]
