"""A real Label Studio for tests, from its own environment: a temporary folder, SQLite, a free port."""

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

PROGRAM = Path(__file__).parent.parent / ".venv-label-studio" / "bin" / "label-studio"
USER = "ann@example.org"
START_SECONDS = 600
"""It makes its database first; on a busy machine that takes minutes."""


@dataclass
class Server:
    """A Label Studio that runs; it can be stopped and started again."""

    folder: Path
    port: int
    token: str = field(default_factory=lambda: secrets.token_hex(20))
    """A legacy token."""
    personal: str = ""
    """A personal access token of the same account."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        own = {
            "HOME": str(self.folder),
            "LABEL_STUDIO_BASE_DATA_DIR": str(self.folder / "data"),
            "LABEL_STUDIO_USERNAME": USER,
            "LABEL_STUDIO_PASSWORD": secrets.token_hex(8),
            "LABEL_STUDIO_USER_TOKEN": self.token,
            "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
            "SSRF_PROTECTION_ENABLED": "false",  # or it calls no webhook on the loopback
            "COLLECT_ANALYTICS": "false",
            "LATEST_VERSION_CHECK": "false",
            "SENTRY_DSN": "",
            "FRONTEND_SENTRY_DSN": "",
        }
        where = ["--internal-host", "127.0.0.1", "--port", str(self.port)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "start", "--no-browser", *where],
                env={**os.environ, **own},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._wait()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def api(self) -> httpx.Client:
        headers = {"Authorization": f"Token {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=120)

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process is not None and self.process.poll() is None:
            try:
                if httpx.get(f"{self.url}/health").json() == {"status": "UP"}:
                    return
            except (httpx.TransportError, ValueError):
                pass
            time.sleep(0.2)
        raise RuntimeError("Label Studio does not start:\n" + (self.folder / "log").read_text()[-5000:])


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    """A server with one account; stopped at the end by its own id."""
    if not PROGRAM.exists():
        pytest.skip(f"no Label Studio in {PROGRAM.parent.parent}; make test-label-studio installs it")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    made = Server(folder, port)
    try:
        made.start()
        with made.api() as api:
            made.personal = api.post("/api/token/").raise_for_status().json()["token"]
        yield made
    finally:
        made.stop()


@dataclass
class Annotator:
    """Somebody who annotates through Label Studio's own API."""

    api: httpx.Client
    project: int

    def tasks(self) -> list[dict[str, Any]]:
        """All tasks with everything in them, in the order in which they came."""
        wanted = {"project": self.project, "fields": "all", "page_size": 1000}
        found = self.api.get("/api/tasks/", params=wanted).raise_for_status().json()["tasks"]
        return sorted(found, key=lambda task: task["id"])

    def open(self) -> list[dict[str, Any]]:
        return [task for task in self.tasks() if not task["annotations"]]

    def choices(self) -> list[str]:
        """The label set."""
        held = self.api.get(f"/api/projects/{self.project}/").raise_for_status().json()
        return held["parsed_label_config"]["class"]["labels"]

    def result(self, label: str) -> list[dict[str, Any]]:
        """A choice where it is one, else the name of a new class."""
        if label in self.choices():
            return [region("class", "choices", label)]
        return [region("new_class", "textarea", label)]

    def annotate(self, task: dict[str, Any], label: str, **more: Any) -> int:
        body = {"result": self.result(label), **more}
        return self._post(f"/api/tasks/{task['id']}/annotations/", body)

    def skip(self, task: dict[str, Any]) -> int:
        return self._post(f"/api/tasks/{task['id']}/annotations/?was_cancelled=1", {"result": []})

    def correct(self, annotation: int, label: str) -> None:
        body = {"result": self.result(label)}
        self.api.patch(f"/api/annotations/{annotation}/", json=body).raise_for_status()

    def delete(self, annotation: int) -> None:
        self.api.delete(f"/api/annotations/{annotation}/").raise_for_status()

    def _post(self, url: str, body: dict[str, Any]) -> int:
        return self.api.post(url, json=body).raise_for_status().json()["id"]


def region(name: str, kind: str, text: str) -> dict[str, Any]:
    key = "text" if kind == "textarea" else kind
    return {"from_name": name, "to_name": "sample", "type": kind, "value": {key: [text]}}
