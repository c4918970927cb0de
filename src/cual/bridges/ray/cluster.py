"""A Ray cluster as cual uses it: connecting, how much fits at once, work that is begun again when it is lost.

What the work is, is beside this file. Ray is imported here, and only once somebody connects.
"""

import importlib
import logging
import os
import re
import socket
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from cual import __version__, extensions
from cual.errors import BadOption, CualError, Unavailable, WorkersLost

LOCAL = "local"
AUTO = "auto"
ADDRESS = re.compile(r"(ray://)?(?P<host>[\w.-]+|\[[\da-fA-F:]+\]):(?P<port>\d{1,5})")
FOR_LOCAL = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # whatever the system: listen to this machine only
    "RAY_AUTH_MODE": "token",  # and on it, only to those who may read the user's files
    "RAY_USAGE_STATS_ENABLED": "0",  # tell nobody that a command was given
}
"""Surroundings of a Ray that a command starts, where the user has not said otherwise. Ray reads them first."""
BEGUN_AGAIN = 10
"""Times that a piece of work is begun again after its worker or node was lost; then its own fault is likely."""
PATIENCE = 10.0
"""Seconds that a cluster has to answer at all."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Need:
    """What one piece of work takes of a node."""

    cpus: int = 1
    gpus: float = 0.0

    @classmethod
    def of(cls, device: str, cpus: int = 1, share: int = 1) -> "Need":
        """For work on a device; `share` pieces share a GPU. Ray chooses which GPU, so it has no number."""
        if device not in ("cpu", "cuda"):
            raise BadOption(f"with Ray the device is cpu or cuda, not {device!r}: Ray says which GPU is used")
        if share < 1:
            raise BadOption(f"jobs must be at least 1, not {share}")
        if device == "cpu" and share > 1:
            raise BadOption(
                "with Ray, how much runs at once is up to the cluster; --jobs is for GPUs that are shared"
            )
        return cls(cpus, 0.0 if device == "cpu" else 1 / share)


@dataclass(frozen=True)
class Place:
    """Where a command was given, for workers: what is relative there is relative to the same folder here."""

    folder: str
    version: str
    modules: tuple[str, ...] = ()
    """Modules with parts of the user's own, which a worker must be able to import, too."""

    @classmethod
    def here(cls) -> "Place":
        return cls(os.getcwd(), __version__, extensions.used())

    def enter(self, cpus: int) -> None:
        """Called by whatever a worker runs, before all else."""
        if self.version != __version__:
            raise Unavailable(
                f"{node()} has cual {__version__}, where the command was given it is {self.version}: "
                "install the same on every node"
            )
        if os.path.isdir(self.folder):
            os.chdir(self.folder)
        torch.set_num_threads(cpus)
        extensions.load_all(self.modules)


class Cluster:
    """A cluster that this process is connected to; `connected` gives it."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def at_once(self, need: Need) -> int:
        """Pieces of work to have under way: twice those that fit, so that none waits and a cluster may grow."""
        alive = (node["Resources"] for node in self._ray.nodes() if node["Alive"])
        fit = sum(_fitting(resources, need) for resources in alive)
        if not fit:
            log.warning("no node of the cluster has %s now; waiting for one", need)
        return 2 * max(1, fit)

    def most_cores(self) -> int:
        """Of any node; 0 while there is none."""
        alive = (node["Resources"] for node in self._ray.nodes() if node["Alive"])
        return max((int(resources.get("CPU", 0)) for resources in alive), default=0)

    def has_gpus(self) -> bool:
        return self._ray.cluster_resources().get("GPU", 0) > 0

    def task(self, function: Callable[..., Any], need: Need) -> Callable[..., Any]:
        """Starts a function of a module on some node; gives what `get` takes.

        The worker stays for the next call, so that what it loaded is there. Lost with its worker or node, the
        call is begun again elsewhere; an error that it raises is final.
        """
        remote = self._ray.remote(
            num_cpus=need.cpus, num_gpus=need.gpus, max_retries=BEGUN_AGAIN, max_calls=0, retry_exceptions=False
        )
        return remote(function).remote

    def put(self, value: Any) -> Any:
        """Send a value to the cluster once, for many calls; arrays are not copied for each worker of a node."""
        return self._ray.put(value)

    def any_of(self, calls: Iterable[Any]) -> list[Any]:
        """Calls that are over, at least one; waits for it."""
        ready, _ = self._ray.wait(list(calls), num_returns=1)
        return ready

    def get(self, call: Any) -> Any:
        """What a call gave. Errors of ours are raised as they are, caused by what Ray tells of the worker."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(call)
        except errors.RayTaskError as error:
            if isinstance(error.cause, CualError):
                raise error.cause from error
            raise
        except errors.RayError as error:
            raise WorkersLost(
                f"Ray lost its workers {BEGUN_AGAIN + 1} times over the same work, or could not go on "
                f"({type(error).__name__}: {_in_short(error)}). What was done is kept: "
                "the same command goes on"
            ) from error


@contextmanager
def connected(address: str) -> Generator[Cluster]:
    """Connect to a cluster, or start a Ray on this machine, until the end of the block.

    Parameters
    ----------
    address
        "local" starts a Ray for this machine only, which ends with the block; "auto" is the cluster
        that this machine is a node of, as ``HOST:PORT`` of its head is; ``ray://HOST:PORT`` is any other.
    """
    _check(address)
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address == LOCAL:
        quiet["include_dashboard"] = False
        for name, value in FOR_LOCAL.items():
            os.environ.setdefault(name, value)
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise Unavailable(f"--ray needs Ray ({error}): pip install 'cual[ray]'") from error
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, ImportError) as error:
        ray.shutdown()  # half a connection would stand in the way of the next
        raise Unavailable(f"no Ray to work with at {address}: {_in_short(error)}") from error
    try:
        yield Cluster(ray)
    finally:
        ray.shutdown()


def fetched(sent: Any) -> Any:
    """On a node: the value that `Cluster.put` sent."""
    return importlib.import_module("ray").get(sent)


def node() -> str:
    """What errors call the node that this worker runs on."""
    return f"the Ray node {socket.gethostname()}"


def check_address(address: str) -> re.Match[str] | None:
    """Refuse what is no address; the parts of one that has any."""
    parts = ADDRESS.fullmatch(address)
    if parts is None and address not in (LOCAL, AUTO):
        raise BadOption(f"--ray is local, auto, HOST:PORT or ray://HOST:PORT, not {address!r}")
    return parts


def _check(address: str) -> None:
    """Refuse what is no address, and one where nobody listens, which Ray itself would try for long."""
    parts = check_address(address)
    if parts is None:
        return
    try:
        socket.create_connection((parts["host"].strip("[]"), int(parts["port"])), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise Unavailable(f"nobody listens at {address}: {error}") from error


def _fitting(resources: dict[str, float], need: Need) -> int:
    """
    >>> _fitting({"CPU": 8.0, "GPU": 2.0}, Need(cpus=3)), _fitting({"CPU": 8.0, "GPU": 2.0}, Need(gpus=0.5))
    (2, 4)
    """
    fit = int(resources.get("CPU", 0) // need.cpus)
    return min(fit, int(resources.get("GPU", 0) / need.gpus + 1e-9)) if need.gpus else fit


def _in_short(error: Exception) -> str:
    """The first and last line of what Ray says: in between is the traceback of another process.

    >>> _in_short(ValueError("no server:\\n  line 3\\nRuntimeError: it ended"))
    'no server: RuntimeError: it ended'
    """
    lines = str(error).strip().splitlines() or [""]
    return " ".join(line.strip()[:300] for line in (lines[:1] + lines[1:][-1:]))
