"""The service over HTTP, in this process, for tests: an app on a workspace, and visitors of all kinds."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.testclient import TestClient

from cual.serve.rules.accounts import Accounts
from cual.serve.rules.records import OPERATOR, Person, Role
from cual.serve.web.app import create_app
from cual.serve.web.settings import Settings
from serving import Service

URL = "http://127.0.0.1:8765"


@dataclass
class Site:
    """A service that can be visited. What the worker would do, `service.work` does."""

    service: Service
    app: FastAPI
    url: str = URL
    tokens: dict[str, str] = field(default_factory=dict)
    program: Person | None = None

    @property
    def accounts(self) -> Accounts:
        return self.app.state.accounts

    @property
    def people(self) -> dict[Role, Person]:
        if self.program is None:
            name = f"camera of {self.service.agent}"
            known = self.accounts.called(name) or self.accounts.add_person(name, Role.sender, by=OPERATOR)
            self.program = Person(known.id, known.name, known.role)
        return {p.role: p for p in (self.program, self.service.ann, self.service.bob, self.service.eve)}

    def visitor(self, client: str = "127.0.0.1", **headers: str) -> TestClient:
        """Somebody without credentials."""
        return TestClient(
            self.app,
            base_url=self.url,
            client=(client, 50000),
            headers=headers,
            raise_server_exceptions=False,
            follow_redirects=False,
        )

    def token(self, role: Role) -> str:
        if role not in self.tokens:
            self.tokens[role] = self.accounts.new_token(self.people[role].id, "api", by=OPERATOR)[1]
        return self.tokens[role]

    def bearer(self, role: Role = Role.admin) -> TestClient:
        """Somebody with a token for programs."""
        return self.visitor(Authorization=f"Bearer {self.token(role)}")

    def browser(self, role: Role = Role.admin, forge: bool = False) -> TestClient:
        """Somebody with a session in a cookie; with `forge`, without what a page of ours sends along."""
        client = self.visitor(Origin=self.origin)
        secret = self.accounts.new_token(self.people[role].id, "sign-in", by=OPERATOR)[1]
        me = client.post("/api/sign-in", json={"token": secret})
        assert me.status_code == 200, me.text
        if forge:
            del client.headers["Origin"]
        else:
            client.headers["X-CSRF-Token"] = me.json()["csrf"]
        return client

    @property
    def origin(self) -> str:
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


@contextmanager
def site(service: Service, **settings: Any) -> Iterator[Site]:
    """The service's app while it runs."""
    url = settings.pop("url", URL)
    app = create_app(service.workspace, Settings(**{"pages": False, **settings}))
    with TestClient(app):  # starts and ends what the app starts and ends
        yield Site(service, app, url)


def stream(
    app: FastAPI,
    path: str,
    chunks: Iterator[bytes],
    headers: dict[str, str],
    sent: Callable[[Any], None] = lambda message: None,
) -> tuple[int, int]:
    """POST a body piece by piece, as a server hands it over: the status, and how many pieces were taken.

    `sent` is called with each message of the answer; where it fails, the connection is gone.
    """
    taken, status, over = 0, 0, False

    async def receive() -> dict[str, Any]:
        nonlocal taken, over
        if over:
            await asyncio.Event().wait()  # nothing more comes
        taken += 1
        piece = next(chunks, None)
        over = piece is None
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)
        sent(message)

    raw = [(k.lower().encode(), v.encode()) for k, v in {"Host": urlsplit(URL).netloc, **headers}.items()]
    where, _, query = path.partition("?")
    scope = {"type": "http", "method": "POST", "path": where, "raw_path": where.encode(), "headers": raw}
    scope |= {"query_string": query.encode(), "scheme": "http", "client": ("127.0.0.1", 50000)}
    scope |= {"server": ("127.0.0.1", 8765), "http_version": "1.1", "root_path": "", "asgi": {"version": "3.0"}}
    asyncio.run(app(scope, receive, send))
    return status, taken
