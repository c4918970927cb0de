"""A labelling service from afar: the `ask` and `tell` of the library, over HTTP. Needs httpx and numpy only.

What the service does is not repeated here: this is a thin, typed way to say it.
"""

import io
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cual.client.adaptation import RemoteAdaptation
from cual.client.connection import Connection, ServiceError, until
from cual.client.records import Label, RemoteAgent, RemotePool, RemoteQuery, RemoteState, id_of, read
from cual.errors import BadFeatures, TooLarge

__all__ = [
    "Client",
    "RemoteAdaptation",
    "RemoteAgent",
    "RemotePool",
    "RemoteQuery",
    "RemoteState",
    "ServiceError",
]

Array = npt.NDArray[Any]
_CHUNK = 8 * 2**20  # bytes of features in one request


class Client(Connection):
    """A service that `cual serve` runs.

    Parameters
    ----------
    url
        Its address, for example ``http://127.0.0.1:8765``.
    token
        A token for programs: ``cual invite WORKSPACE NAME --api``.
    patience
        Seconds to keep trying while the service cannot be reached, as when it is restarted.
    timeout
        Seconds that one request may take.
    verify
        False to trust any certificate; the path of a file with certificates to trust.
    """

    # -- agents ------------------------------------------------------------------------------------------------

    def agents(self) -> list[RemoteAgent]:
        return [read(RemoteAgent, row) for row in self.get("/api/agents")]

    def agent(self, agent: int | RemoteAgent) -> RemoteAgent:
        return read(RemoteAgent, self.get(f"/api/agents/{id_of(agent)}"))

    def versions(self, agent: int | RemoteAgent) -> list[dict[str, Any]]:
        """What led to each version, and how good it is by labels of people."""
        return self.get(f"/api/agents/{id_of(agent)}/versions")

    def add_agent(self, name: str, file: str | Path) -> RemoteAgent:
        """Upload an agent that `Agent.save` or `cual fit` wrote."""
        with Path(file).open("rb") as body:
            return read(RemoteAgent, self.post("/api/agents", params={"name": name}, content=body, once=True))

    def roll_back(self, agent: int | RemoteAgent, version: int) -> RemoteAgent:
        """Make another version the current one."""
        return read(RemoteAgent, self.post(f"/api/agents/{id_of(agent)}/roll-back", json={"version": version}))

    def predict(self, agent: int | RemoteAgent, X: npt.ArrayLike, version: int | None = None) -> Array:
        """The class of each sample, by name."""
        parts = self._compute(agent, "predict", X, version)
        return np.array([label for part in parts for label in part["labels"]])

    def predict_proba(self, agent: int | RemoteAgent, X: npt.ArrayLike, version: int | None = None) -> Array:
        """Class probabilities (n, classes), columns in the order of the agent's classes."""
        parts = self._compute(agent, "probabilities", X, version)
        return np.array([row for part in parts for row in part["probabilities"]], dtype=np.float32)

    def novelty(self, agent: int | RemoteAgent, X: npt.ArrayLike, version: int | None = None) -> Array:
        """How far each sample lies from everything known."""
        parts = self._compute(agent, "novelty", X, version)
        return np.array([score for part in parts for score in part["scores"]], dtype=np.float32)

    def _compute(
        self, agent: int | RemoteAgent, what: str, X: npt.ArrayLike, version: int | None
    ) -> list[dict[str, Any]]:
        features = np.asarray(X)
        if features.ndim != 2 or not features.size:
            raise BadFeatures(f"X has the shape {features.shape}; features are a table (samples, width)")
        step = max(1, _CHUNK // max(1, features[:1].nbytes))
        answers: list[dict[str, Any]] = []
        url, kind, start = f"/api/agents/{id_of(agent)}/{what}", {"Content-Type": "application/x-npy"}, 0
        while start < len(features):
            asked = {} if version is None else {"version": version}
            body = _npy(features[start : start + step])
            try:
                answers.append(self.post(url, params=asked, content=body, headers=kind))
            except TooLarge:
                # how many rows are taken at a time depends on the agent; the service knows
                if step == 1:
                    raise
                step = max(1, min(step, len(features)) // 2)
                continue
            start += step
            version = answers[0]["version"]  # the next part from the same one, whatever happens meanwhile
        return answers

    # -- pools -------------------------------------------------------------------------------------------------

    def pools(self) -> list[RemotePool]:
        return [read(RemotePool, row) for row in self.get("/api/pools")]

    def pool(self, pool: int | RemotePool) -> RemotePool:
        return read(RemotePool, self.get(f"/api/pools/{id_of(pool)}"))

    def add_pool(
        self,
        name: str,
        agent: int | RemoteAgent,
        files: Iterable[str | Path] | str | Path | None = None,
        X: npt.ArrayLike | None = None,
        ids: Iterable[Label] | None = None,
        path: str | None = None,
        wait: bool = True,
    ) -> RemotePool:
        """Make a pool: of `files` (pictures, an .npz, a CSV of texts), of features, or of a `path` over there.

        With `wait`, it is ready when this returns.
        """
        if path is not None:
            body = {"name": name, "agent": id_of(agent), "path": path}
            record = self.post("/api/pools", json=body, once=True)
        else:
            with ExitStack() as opened:
                parts = _parts(opened, files, X, ids)
                form = {"name": name, "agent": str(id_of(agent))}
                record = self.post("/api/pools", data=form, files=parts, once=True)
        pool = read(RemotePool, record)
        if not wait:
            return pool
        pool = until(lambda: self.pool(pool), lambda p: p.state != "preparing")
        if pool.state == "failed":
            raise ServiceError(f"the pool {name!r} could not be made: {pool.error}")
        return pool

    def delete_pool(self, pool: int | RemotePool) -> None:
        """Remove a pool and its files; `Conflict` while an adaptation needs it."""
        self._send("DELETE", f"/api/pools/{id_of(pool)}", once=True)

    def picture(self, pool: int | RemotePool, row: int) -> bytes:
        """A picture of a pool, as WebP."""
        return self._send("GET", f"/api/pools/{id_of(pool)}/pictures/{row}").content

    def text(self, pool: int | RemotePool, row: int) -> str:
        return self.get(f"/api/pools/{id_of(pool)}/texts/{row}")["text"]

    # -- adaptations -------------------------------------------------------------------------------------------

    def adaptations(self) -> list["RemoteAdaptation"]:
        return [RemoteAdaptation(self, row["id"]) for row in self.get("/api/adaptations")]

    def adaptation(self, id: int) -> "RemoteAdaptation":
        return RemoteAdaptation(self, int(self.get(f"/api/adaptations/{id}")["id"]))

    def start(
        self, agent: int | RemoteAgent, pool: int | RemotePool, budget: float | int
    ) -> "RemoteAdaptation":
        """Begin to adapt an agent to a pool: a float is a share of the pool, an int a number of labels."""
        body = {"agent": id_of(agent), "pool": id_of(pool), "budget": budget}
        return RemoteAdaptation(self, int(self.post("/api/adaptations", json=body, once=True)["id"]))

    # -- the service itself ------------------------------------------------------------------------------------

    def jobs(self) -> list[dict[str, Any]]:
        """What the worker has done, does and will do, the latest first."""
        return self.get("/api/jobs")

    def cancel_job(self, job: int) -> dict[str, Any]:
        """End a job that waits or runs; the pool or adaptation has failed then."""
        return self.post(f"/api/jobs/{job}/cancel", once=True)

    def retry_job(self, job: int) -> dict[str, Any]:
        """Try again what a failed job was for; the new job."""
        return self.post(f"/api/jobs/{job}/retry", once=True)

    def audit(self, **wanted: Any) -> list[dict[str, Any]]:
        """Who did what, the latest first: ``by, action, since, until, before, n`` as in ``GET /api/audit``."""
        return self.get("/api/audit", params=wanted)

    def backup(self, path: str | Path) -> None:
        """Write the whole workspace to one new file."""
        self.fetch("/api/backup", Path(path))


def _npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _parts(
    opened: ExitStack,
    files: Iterable[str | Path] | str | Path | None,
    X: npt.ArrayLike | None,
    ids: Iterable[Label] | None,
) -> list[tuple[str, tuple[str, Any]]]:
    """The files of a form; features become an .npz."""
    if (files is None) == (X is None):
        raise BadFeatures("give files, or X, or a path on the service's machine")
    if X is not None:
        buffer = io.BytesIO()
        named = {} if ids is None else {"ids": np.array(list(ids))}
        np.savez(buffer, allow_pickle=False, X=np.asarray(X), **named)  # pyright: ignore[reportArgumentType]
        return [("files", ("features.npz", buffer.getvalue()))]
    paths: Iterator[Path] = (
        iter([Path(files)]) if isinstance(files, str | Path) else (Path(p) for p in files or ())
    )
    return [("files", (path.name, opened.enter_context(path.open("rb")))) for path in paths]
