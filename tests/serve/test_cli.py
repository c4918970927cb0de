"""`cual serve` and `cual invite` as processes: what they print, refuse and survive."""

import fcntl
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from cual import Client
from cual.cli import app
from cual.serve.operations.supervisor import Worker, claimed, listen, where
from processes import alive, children
from running import running, until
from worlds import World


def cual(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refused(*arguments: object) -> str:
    """The one line that a command ends with that cannot do what it was told."""
    result = cual(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.attacks
def test_the_life_of_a_service(tmp_path: Path, world: World) -> None:
    """Started, used, its worker killed, itself killed, started again, ended: the work goes on all the time."""
    world.agent().save(tmp_path / "v0.agent")
    folder = tmp_path / "workspace"
    with running(folder, "--log-format", "json") as service:
        printed = "".join(service.lines)
        assert service.address.startswith("http://127.0.0.1:")
        assert printed.count(".sign-in") == 1
        token = service.token("Amy", "admin")
        client = Client(service.url, token)
        agent = client.add_agent("animals", tmp_path / "v0.agent")
        pool = client.add_pool("garden", agent, X=world.pool, ids=world.ids)
        # the same workspace is not served twice
        assert service.url in refused("serve", folder)
        # somebody is invited while it runs
        invited = cual("invite", folder, "Bob")
        assert invited.stdout.startswith(f"{service.url}/sign-in?token=")
        assert httpx.get(invited.stdout.strip()).status_code == 200  # only looked at
        said = {"token": invited.stdout.strip().partition("token=")[2]}
        assert httpx.post(f"{service.url}/sign-in", data=said).status_code == 303
        assert client.get("/api/people")[-1]["name"] == "Bob"
        # the worker dies; another takes its place
        (worker,) = children(service.process.pid)
        os.kill(worker, signal.SIGKILL)
        task = client.start(agent, pool, 12)
        query = task.ask()
        assert query is not None
        assert children(service.process.pid) != [worker]
        assert any("the worker has ended with -9" in line for line in service.log)
        # the service is killed: its worker goes as well
        (worker,) = children(service.process.pid)
        task.tell(query.id, {query.ids[0]: world.truth[query.ids[0]]})
        service.process.kill()
        service.process.wait()
        until(lambda: not alive(worker))
        held = where(folder)
        assert held is not None
        assert not held.running
    with running(folder, "--port", service.url.rpartition(":")[2]) as again:
        assert again.url == service.url  # what it printed is where it is
        assert task.state.spent == 1  # the client has waited for it
        while query := task.ask():
            task.tell(query.id, {i: world.truth[i] for i in query.ids})
        assert len(task.finish().classes) == 4
        used = httpx.post(f"{again.url}/sign-in", data={"token": service.address.partition("token=")[2]})
        assert used.status_code == 403
        (worker,) = children(again.process.pid)
        assert again.end() == 0
        assert not alive(worker)
        client.close()
    for line in service.log:
        if line.startswith("{"):
            assert {"at", "level", "message"} <= set(json.loads(line))
    log = "".join([*service.log, *again.log])
    assert '"path": "/api/people"' in log
    for secret in (token, service.address.partition("token=")[2], again.address.partition("token=")[2]):
        assert secret not in log
        assert secret.removeprefix("cual_") not in log


@pytest.mark.attacks
def test_over_tls(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost"
    command += f" -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout {key} -out {certificate}"
    made = subprocess.run(command.split(), capture_output=True)
    if made.returncode:
        pytest.skip("no openssl")
    tls = ("--tls-cert", str(certificate), "--tls-key", str(key))
    with running(tmp_path / "workspace", "--host", "0.0.0.0", "--name", "localhost", *tls) as service:
        port = service.url.rpartition(":")[2]
        trusted = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(base_url=f"https://localhost:{port}", verify=trusted) as client:
            assert client.get("/health").json()["database"] == "ok"
            answer = client.post("/sign-in", data={"token": service.address.partition("token=")[2]})
            assert answer.status_code == 303
            assert all("Secure" in cookie for cookie in answer.headers.get_list("set-cookie"))
            assert "strict-transport-security" in answer.headers
            assert client.get("/api/me").status_code == 200
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://localhost:{port}/health")
        assert service.end(signal.SIGINT) == 0


@pytest.mark.attacks
def test_the_terminal_of_a_person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backup, restore, invitations: without a service that runs, and where there is no browser."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "TERM"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "workspace"
    assert "no workspace" in refused("invite", folder, "Ada")
    assert "no workspace" in refused("serve", folder, "--backup", tmp_path / "b")
    from cual.serve.rules.accounts import Accounts
    from cual.serve.rules.workspace import Workspace

    Workspace.open(folder).close()
    invited = cual("invite", folder, "Ada", "--role", "reader")
    assert "not running" in invited.stderr
    assert "/sign-in?token=cual_" in invited.stdout
    token = cual("invite", folder, "Ada", "--api", "--days", "2").stdout.strip()
    assert "role reader" in refused("invite", folder, "Ada", "--role", "admin")
    assert "role reader" in refused("invite", folder, "ADA", "--role", "admin")
    assert "not 'boss'" in refused("invite", folder, "Eve", "--role", "boss")
    assert "characters" in refused("invite", folder, "x" * 101)
    workspace = Workspace.open(folder)
    visitor = Accounts(workspace.database).by_token(token)
    assert visitor is not None
    assert (visitor.person.name, visitor.person.role) == ("Ada", "reader")
    workspace.close()
    assert "backup" in cual("serve", folder, "--backup", tmp_path / "b.backup").stdout
    assert "exists" in refused("serve", folder, "--backup", tmp_path / "b.backup")
    with running(
        tmp_path / "elsewhere", "--restore", str(tmp_path / "b.backup"), "--keep-tokens", "--open"
    ) as service:
        assert Client(service.url, token).agents() == []
        until(lambda: any("no browser" in line for line in service.log))
    assert "not empty" in refused("serve", tmp_path / "elsewhere", "--restore", tmp_path / "b.backup")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--host", "0.0.0.0"], "unencrypted"),
        (["--host", "::"], "unencrypted"),
        (["--host", "192.0.2.1"], "unencrypted"),
        (["--tls-cert", "x"], "go together"),
        (["--tls-cert", "x", "--tls-key", "y"], "no such file"),
        (["--root", "/not/there"], "no such folder"),
        (["--behind-proxy", "label.example.org"], "takes an address"),
        (["--behind-proxy", "https://x.org/path"], "host name of its own"),
        (["--log-format", "xml"], "json or text"),
        (["--restore", "/not/there"], "/not/there"),
        (["--database", "mysql://x/y"], "postgresql://"),
        (["--database", "nonsense"], "postgresql://"),
        (["--database", "postgresql://me:geheim@127.0.0.1:1/x"], "the database cannot be used"),
        (["--host", "no.such.name.invalid", "--insecure"], "no such address"),
    ],
)
def test_what_serve_refuses(tmp_path: Path, arguments: list[str], why: str) -> None:
    told = refused("serve", tmp_path / "workspace", *arguments)
    assert why in told
    assert "geheim" not in told


def test_a_folder_of_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    assert "holds other things" in refused("serve", tmp_path)
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith(".")] == ["thesis.txt"]


def test_ports(tmp_path: Path) -> None:
    with listen("127.0.0.1", None) as first, listen("127.0.0.1", None) as second:
        taken = first.getsockname()[1]
        assert second.getsockname()[1] > taken >= 8765
        assert "in use" in refused("serve", tmp_path / "w", "--port", taken)
    with listen("::1", None) as six:
        assert six.getsockname()[1] >= 8765


WINDOW = "timeout 2 tail -qf /dev/null"
"""A browser that stays open for a while: one that has ended when it is looked at counts as none."""


@pytest.mark.parametrize(("browser", "display"), [("", ""), ("true %s", ""), (f"{WINDOW} %s &", ":0")])
def test_a_browser_is_opened_where_there_is_one(browser: str, display: str) -> None:
    """One that would take the terminal from the service is none."""
    code = "from cual.cli.serve import _opened; print(_opened('http://127.0.0.1'))"
    surroundings = {"BROWSER": browser, "DISPLAY": display, "PATH": "/bin" if browser else "/nowhere"}
    told = subprocess.run([sys.executable, "-c", code], env=surroundings, capture_output=True, text=True)
    assert told.stdout.strip() == str(bool(display)), told.stderr


def test_a_worker_that_is_being_begun_is_ended_as_well(tmp_path: Path) -> None:
    ends: list[threading.Thread] = []

    class Dying(Worker):
        """Ends at once; the second lives, and is begun while somebody ends all of it."""

        def _begin(self) -> subprocess.Popen[bytes]:
            if not ends:
                ends.append(threading.Thread(target=self.end))
                return subprocess.Popen(["true"])
            ends[0].start()
            ends[0].join(0.2)
            return subprocess.Popen(["sleep", "600"])

    worker = Dying(tmp_path)
    worker.start()
    until(lambda: ends[0].ident is not None)
    ends[0].join(60)
    assert not ends[0].is_alive()
    assert not worker.alive()


def test_one_service_per_workspace(tmp_path: Path) -> None:
    assert where(tmp_path) is None
    with claimed(tmp_path) as told:
        told("http://127.0.0.1:1")
        held = where(tmp_path)
        assert held is not None
        assert (held.url, held.running) == ("http://127.0.0.1:1", True)
    held = where(tmp_path)
    assert held is not None
    assert not held.running


def test_whoever_only_looks_is_not_taken_for_a_service(tmp_path: Path) -> None:
    with claimed(tmp_path) as told:
        told("http://127.0.0.1:1")
    with (tmp_path / ".serving.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        looked = threading.Timer(0.1, fcntl.flock, (lock, fcntl.LOCK_UN))
        looked.start()
        with claimed(tmp_path):
            looked.join()


def test_help_comes_without_the_service() -> None:
    for word in ("--behind-proxy", "--restore", "--insecure", "CUAL_DATABASE"):
        assert word in cual("serve", "--help").output
