"""Ray clusters of two nodes on this machine: on loopback, on free ports, and gone at their end."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from processes import alive, children

QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
"""So that a lost node is found in seconds."""


@contextlib.contextmanager
def surroundings() -> Generator[Path]:
    """A folder for all that Ray writes, and a token that only these tests know. Before Ray is imported."""
    folder = Path(tempfile.mkdtemp(prefix="cr", dir="/tmp"))  # short: names of sockets have a limit
    given = {
        "RAY_TMPDIR": str(folder),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # loopback
        "GRPC_ENABLE_FORK_SUPPORT": "0",  # docs/ray.md, limits: the server of Ray's client crashes without it
    }
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield folder
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        shutil.rmtree(folder, ignore_errors=True)


class TwoNodes:
    """A cluster of two nodes with a core each."""

    def __init__(self, **head: Any) -> None:
        from ray.cluster_utils import Cluster

        self.began = set(descendants())
        local = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "include_dashboard": False}
        self._cluster = Cluster(True, head_node_args={**local, "_system_config": QUICK, **head})
        self._raylet = self._cluster.add_node(**local).all_processes["raylet"][0].process
        self.second: int = self._raylet.pid
        self.address = str(self._cluster.address)
        self.client_port = head.get("ray_client_server_port")

    def kill_second(self) -> None:
        """Kill the second node, without warning, and wait until its workers are gone too."""
        workers = children(self.second)
        os.kill(self.second, signal.SIGKILL)
        self._raylet.wait()  # to its workers, a process that nobody waited for is still there
        until(lambda: not any(alive(worker) for worker in workers))

    def works(self, function: str) -> bool:
        """Whether the second node runs a function just now."""
        return any(function in title(pid) for pid in children(self.second))

    def end(self) -> None:
        started = set(descendants()) - self.began
        self._cluster.shutdown()
        until(lambda: not any(alive(pid) for pid in started))


@contextlib.contextmanager
def two_nodes(**head: Any) -> Generator[TwoNodes]:
    cluster = TwoNodes(**head)
    try:
        yield cluster
    finally:
        cluster.end()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def descendants(pid: int | None = None) -> list[int]:
    """Processes that one has begun, and those that they have begun."""
    mine = children(pid)
    return [*mine, *(each for child in mine for each in descendants(child))]


def title(pid: int) -> str:
    """What a process calls itself; a worker says what it runs."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def until(happened: Callable[[], Any], seconds: float = 240) -> None:
    """Wait for something that must come."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)
