"""A real `cual serve` in a process of its own, for tests: started, waited for, and ended by its own id."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from cual.serve.operations.supervisor import listen
from cual.serve.rules.workspace import Workspace
from processes import children

CUAL = (sys.executable, "-c", "from cual.cli import app; app()")


@dataclass
class Running:
    """A service that runs."""

    process: subprocess.Popen[str]
    folder: Path
    database: str | None
    lines: list[str] = field(default_factory=list)
    """What it printed."""
    log: list[str] = field(default_factory=list)
    address: str = ""
    """Where to sign in."""
    browser: httpx.Client | None = None

    @property
    def url(self) -> str:
        return self.address.partition("/sign-in")[0]

    def token(self, name: str, role: str) -> str:
        """A token for a program of somebody new, made by whoever the terminal lets in."""
        if self.browser is None:
            self.browser = httpx.Client(base_url=self.url, headers={"Origin": self.url}, timeout=60)
            said = {"token": self.address.partition("token=")[2]}
            me = self.browser.post("/api/sign-in", json=said).raise_for_status().json()
            self.browser.headers["X-CSRF-Token"] = me["csrf"]
        person = self.browser.post("/api/people", json={"name": name, "role": role}).raise_for_status().json()
        made = self.browser.post(f"/api/people/{person['id']}/tokens", json={"kind": "api"})
        return made.raise_for_status().json()["token"]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end, and wait until it has."""
        self.process.send_signal(number)
        return self.process.wait(180)


def environment(database: str | None = None) -> dict[str, str]:
    held = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "400"}
    held.pop("CUAL_DATABASE", None)
    return held if database is None else {**held, "CUAL_DATABASE": database}


@contextmanager
def running(
    folder: Path, *arguments: str, database: str | None = None, program: tuple[str, ...] = (*CUAL, "serve")
) -> Iterator[Running]:
    """`cual serve FOLDER …` on a free port, from when it answers; killed at the end if it has not ended."""
    command = [*program, str(folder), *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(database)
    )
    held = Running(process, folder, database)
    readers = [
        threading.Thread(target=_collect, args=(pipe, lines), daemon=True)
        for pipe, lines in ((process.stdout, held.lines), (process.stderr, held.log))
    ]
    for reader in readers:
        reader.start()
    try:
        until(lambda: process.poll() is not None or bool(address_in(held.lines)))
        if process.poll() is not None:
            for reader in readers:
                reader.join()
            raise RuntimeError("it did not start:\n" + "".join(held.log))
        held.address = address_in(held.lines)
        yield held
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def address_in(lines: list[str]) -> str:
    """Where to sign in, by what was printed: the address itself, or the file that it is in; "" before."""
    printed = "".join(lines)
    found = re.findall(r"https?://\S+token=\S+", printed)
    if found:
        return found[0]
    files = re.findall(r"/\S*/\.sign-in(?=\s)", printed)
    return Path(files[0]).read_text(encoding="utf-8").strip() if files else ""


class Served:
    """`cual serve` on one port, started again whenever it was killed."""

    def __init__(self, workspace: Workspace, log: Path, program: tuple[str, ...] = CUAL) -> None:
        with listen("127.0.0.1", None, 18765) as held:
            self.port = held.getsockname()[1]
        self._workspace, self._log, self._program = workspace, log, program
        self.process = self._start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _start(self) -> subprocess.Popen[bytes]:
        url = self._workspace.database.url.render_as_string(hide_password=False)
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [*self._program, "serve", str(self._workspace.folder), "--port", str(self.port)],
                env=environment(url),
                stdout=log,
                stderr=log,
            )

    @property
    def worker(self) -> int | None:
        """The worker that the service has now."""
        return next(iter(children(self.process.pid)), None)

    def kill_web(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = self._start()

    def kill_worker(self) -> bool:
        """Whether there was one."""
        pid = self.worker
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def _collect(pipe: Any, lines: list[str]) -> None:
    for line in iter(pipe.readline, ""):
        lines.append(line)


def until(true: Callable[[], bool], seconds: float = 300) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise TimeoutError("it did not come to pass")
        time.sleep(0.02)


def health(url: str) -> dict[str, str]:
    return httpx.get(f"{url}/health").json()
