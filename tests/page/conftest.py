"""A real service (`cual serve` with its worker) on the digits example, and Debian's Chromium in front of it."""

import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nicegui")
playwright = pytest.importorskip("playwright.sync_api")

from page.waiting import PATIENCE, until  # noqa: E402
from running import address_in  # noqa: E402

CUAL = str(Path(sys.executable).with_name("cual"))
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CLASSES = 54
"""Of the zoo."""
PICTURES = Path(__file__).parents[2] / "out" / "page"


@dataclass
class Service:
    """One `cual serve` of one workspace; may be killed and started again."""

    folder: Path
    port: int
    address: str = ""
    """The one-time address that it printed."""
    token: str = ""
    process: subprocess.Popen[str] | None = None
    options: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> "Service":
        command = [CUAL, "serve", str(self.folder), "--port", str(self.port), *self.options]
        # NiceGUI behaves differently where it believes itself inside a test
        surroundings = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        with (self.folder.parent / "log.txt").open("a") as log:
            self.process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**surroundings, "OMP_NUM_THREADS": "1"},
            )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.address = address_in([line])
            if self.address:
                return self
        raise AssertionError(f"cual serve ended: {self.log()}")

    def kill(self) -> None:
        """As a power cut would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(120)

    def call(self, method: str, path: str, said: Any = None) -> Any:
        """Ask the API as an administrator."""
        if not self.token:
            command = [CUAL, "invite", str(self.folder), "robot", "--role", "admin", "--api"]
            self.token = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        body = None if said is None else json.dumps(said).encode()
        request = urllib.request.Request(f"{self.url}/api{path}", body, headers, method=method)
        with urllib.request.urlopen(request) as response:
            return json.loads(response.read() or "null")

    def person(self, name: str, role: str) -> str:
        """A sign-in address for somebody, who is added if not known yet."""
        known = {person["name"]: person for person in self.call("GET", "/people")}
        person = known.get(name) or self.call("POST", "/people", {"name": name, "role": role})
        assert person["role"] == role, f"another test has made {name} a {person['role']}: take another name"
        id = person["id"]
        return self.call("POST", f"/people/{id}/tokens", {"kind": "sign-in"})["address"]

    def begin(self, pool: int = 1, budget: int = 30) -> int:
        """A new adaptation of the first version, as soon as it asks; pool 2 has texts instead of pictures."""
        self.call("POST", "/agents/1/roll-back", {"version": 0})
        id = self.call("POST", "/adaptations", {"agent": 1, "pool": pool, "budget": budget})["id"]
        until(lambda: self.call("GET", f"/adaptations/{id}")["state"] == "asking")
        return id

    def log(self) -> str:
        return (self.folder.parent / "log.txt").read_text()


@dataclass
class Window:
    """A page in a browser, and everything that went wrong or elsewhere in it."""

    page: Any
    home: str
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    """Requests to anything but the service."""

    def open(self, path: str) -> None:
        self.page.goto(self.home + path)

    def wait(self, script: str, argument: Any = None) -> Any:
        return self.page.wait_for_function(script, arg=argument, timeout=PATIENCE).json_value()

    def picture(self, name: str) -> None:
        PICTURES.mkdir(parents=True, exist_ok=True)
        loaded = "(i) => i.loading === 'lazy' || (i.complete && i.naturalWidth > 0)"
        self.wait(f"() => [...document.images].every({loaded})")
        self.page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")

    @property
    def row(self) -> int:
        """The row of the pool whose tile has the focus."""
        return int(self.page.evaluate("document.activeElement.querySelector('img').src.split('/').pop()"))


@pytest.fixture(scope="session")
def browser() -> Generator[Any]:
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no {CHROMIUM}; apt-get install chromium")
    with playwright.sync_playwright() as p:
        running = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's workspace, made once; tests get copies."""
    from cual.data.pool import Pool
    from cual.serve.jobs.example import demo_data
    from cual.serve.jobs.worker import Worker
    from cual.serve.operations.demo import make_demo
    from cual.serve.rules.records import OPERATOR

    folder, data = tmp_path_factory.mktemp("example"), demo_data()
    workspace = make_demo(folder / "workspace")
    words = [f"This is <b>the digit</b> {data.y[i]}." for i in data.pool]
    workspace.add_pool("In words", Pool(data.X[data.pool]), 1, OPERATOR, texts=words)
    Worker(workspace).run_until_idle()
    workspace.close()
    (folder / "truth.json").write_text(json.dumps([data.y[i] for i in data.pool]))
    return folder


@pytest.fixture(scope="session")
def truth(example: Path) -> list[str]:
    """The digit of each row of the pool."""
    return json.loads((example / "truth.json").read_text())


@pytest.fixture(scope="session")
def service(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    """One service for all tests: they begin adaptations and people of their own."""
    yield from _served(example, tmp_path_factory.mktemp("served"))


@pytest.fixture
def own_service(example: Path, tmp_path: Path) -> Generator[Service]:
    """One for a test that kills it, or that needs it as it was made."""
    yield from _served(example, tmp_path)


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    """One whose agent knows many classes, with names instead of digits."""
    from many_classes import make_workspace

    folder = tmp_path_factory.mktemp("zoo") / "workspace"
    workspace, _ = make_workspace(folder, CLASSES, budget=60)
    workspace.close()
    running = Service(folder, free_port()).start()
    yield running
    running.stop()


def _served(example: Path, folder: Path) -> Generator[Service]:
    shutil.copytree(example / "workspace", folder / "workspace")
    running = Service(folder / "workspace", free_port()).start()
    yield running
    running.stop()


@pytest.fixture
def admin(service: Service, window: Callable[..., Window]) -> Window:
    """A window of an administrator of the test's own."""
    return window(service.person(f"Ada {next(_numbers)}", "admin"))


_numbers = itertools.count(1)


@pytest.fixture
def window(browser: Any) -> Generator[Callable[..., Window]]:
    """Opens windows: ``window(address, color_scheme="dark")`` signs in and waits until the page is alive."""
    contexts: list[Any] = []

    def new(address: str, **options: Any) -> Window:
        options.setdefault("viewport", {"width": 1280, "height": 860})
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        home = address.split("/sign-in")[0]
        made = Window(context.new_page(), home)
        made.page.on("pageerror", lambda error: made.errors.append(str(error)))
        made.page.on("console", lambda line: line.type == "error" and made.errors.append(line.text))
        made.page.on(
            "request", lambda request: _foreign(request.url, home) and made.strangers.append(request.url)
        )
        made.page.goto(address)
        if "token=" in address:
            with made.page.expect_navigation():
                made.page.click("form[action='/sign-in'] button")
        return made

    yield new
    for context in contexts:
        context.close()


def _foreign(url: str, home: str) -> bool:
    return not url.startswith((home, home.replace("http", "ws"), "data:", "blob:"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
