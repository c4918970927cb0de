"""A labelling service from afar: the `ask` and `tell` of the library, over HTTP. Needs httpx and numpy only.

What the service does is not repeated here: this is a thin, typed way to say it.
"""

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cual.client.adaptation import RemoteAdaptation, export
from cual.client.connection import ServiceError, until
from cual.client.inbox import Inbox
from cual.client.records import (
    Label,
    RemoteAgent,
    RemoteInbox,
    RemotePool,
    RemoteQuery,
    RemoteRepair,
    RemoteState,
    RemoteVerdict,
    id_of,
    read,
)
from cual.client.repairs import Repairs
from cual.client.rollout import OfRollout
from cual.client.samples import Samples, in_parts, told_of, whole
from cual.client.watching import OfWatching
from cual.client.webhooks import check_webhook
from cual.errors import BadFeatures

__all__ = [
    "Client",
    "RemoteAdaptation",
    "RemoteAgent",
    "RemoteInbox",
    "RemotePool",
    "RemoteQuery",
    "RemoteRepair",
    "RemoteState",
    "RemoteVerdict",
    "ServiceError",
    "check_webhook",
]

Array = npt.NDArray[Any]


class Client(OfRollout, Repairs, Inbox, OfWatching):
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

    def make_agent(
        self,
        name: str,
        files: str | Path | None = None,
        path: str | None = None,
        X: npt.ArrayLike | None = None,
        y: Iterable[Label] | None = None,
        encoder: str | None = None,
        text: str | None = None,
        label: str | None = None,
        id: str | None = None,
        wait: bool = True,
    ) -> RemoteAgent:
        """Have an agent made of labelled data: a zip with a folder per class, a table of text, features.

        With `wait`, it is ready when this returns.

        Parameters
        ----------
        files
            The zip, or a table (CSV, TSV, JSON lines), or an .npz with X and y.
        path
            The same, or a folder with a folder per class, on the service's machine.
        X, y
            Features and their labels.
        encoder
            A built-in one; by default the usual one for pictures or for text.
        text, label, id
            Columns of a table, where they are not called as usual.
        """
        said = {"encoder": encoder, "text": text, "label": label, "id": id}
        sent = {"name": name} | {key: value for key, value in said.items() if value is not None}
        record = self._make("/api/agents/from-data", sent, path, files, X, {"y": y})
        return self._made(read(RemoteAgent, record), wait)

    def make_example(self, wait: bool = True) -> RemoteAgent:
        """Have the built-in example made: an agent that knows five digits, then a pool of all ten.

        With `wait`, both are ready when this returns.
        """
        agent = self._made(read(RemoteAgent, self.post("/api/agents/example", once=True)), wait)
        if wait:
            until(
                lambda: [row["state"] for row in self.get("/api/pools") if row["agent"] == agent.id],
                lambda states: "preparing" not in states,
            )
        return agent

    def _made(self, agent: RemoteAgent, wait: bool) -> RemoteAgent:
        if not wait:
            return agent
        agent = until(lambda: self.agent(agent), lambda a: a.state != "preparing")
        if agent.state == "failed":
            raise ServiceError(f"the agent {agent.name!r} could not be made: {agent.error}")
        return agent

    def rename_agent(self, agent: int | RemoteAgent, name: str) -> RemoteAgent:
        return read(RemoteAgent, self._send("PATCH", f"/api/agents/{id_of(agent)}", json={"name": name}).json())

    def delete_agent(self, agent: int | RemoteAgent) -> None:
        """Remove an agent with all its versions; answers stay. `Conflict` while something is made with it."""
        self._send("DELETE", f"/api/agents/{id_of(agent)}", once=True)

    def set_false_alarms(self, agent: int | RemoteAgent, share: float | None) -> RemoteAgent:
        """Say which share of known samples may be called unlike anything known; None for the method's own."""
        told = self._send("PUT", f"/api/agents/{id_of(agent)}/false-alarms", json={"share": share})
        return read(RemoteAgent, told.json())

    def teach(
        self,
        agent: int | RemoteAgent,
        files: str | Path | None = None,
        path: str | None = None,
        X: npt.ArrayLike | None = None,
        y: Iterable[Label] | None = None,
        why: str = "",
        wait: bool = True,
        text: str | None = None,
        label: str | None = None,
        id: str | None = None,
    ) -> RemoteRepair:
        """Teach an agent labelled data, without questions: more of known classes, or new ones.

        Parameters
        ----------
        files, path, X, y, text, label, id
            The data, as in `make_agent`; pictures and texts are encoded by the agent's encoder, over there.
        why
            For the history.
        """
        said = {"why": why, "text": text, "label": label, "id": id}
        sent = {key: value for key, value in said.items() if value}
        record = self._make(f"/api/agents/{id_of(agent)}/teach", sent, path, files, X, {"y": y})
        return self._over(read(RemoteRepair, record), wait)

    def predict(self, agent: int | RemoteAgent, X: Samples, version: int | None = None) -> Array:
        """The class of each sample, by name.

        Parameters
        ----------
        X
            Features (n, width); or a list of pictures, each a `pathlib.Path` or the bytes of a file; or a list
            of texts. Pictures and texts are encoded by the agent's encoder, over there.
        """
        parts = self._compute(agent, "predict", X, version, verdicts=False)
        return np.array(whole(parts, "labels"))

    def predict_proba(self, agent: int | RemoteAgent, X: Samples, version: int | None = None) -> Array:
        """Class probabilities (n, classes), columns in the order of the agent's classes."""
        parts = self._compute(agent, "probabilities", X, version)
        return np.array(whole(parts, "probabilities"), dtype=np.float32)

    def novelty(self, agent: int | RemoteAgent, X: Samples, version: int | None = None) -> Array:
        """How far each sample lies from everything known."""
        parts = self._compute(agent, "novelty", X, version)
        return np.array(whole(parts, "scores"), dtype=np.float32)

    def verdicts(
        self,
        agent: int | RemoteAgent,
        X: Samples,
        version: int | None = None,
        false_alarms: float | None = None,
    ) -> list[RemoteVerdict]:
        """All that is said of each sample: class, probabilities, and whether it is like anything known.

        A picture or text that cannot be encoded has only an `error`, where `predict` and `novelty` raise it.

        Parameters
        ----------
        false_alarms
            Share of known samples that may be called unlike anything known, if not the agent's.
        """
        asked = {} if false_alarms is None else {"false_alarms": false_alarms}
        return [
            verdict
            for part in self._compute(agent, "predict", X, version, **asked)
            for verdict in told_of(part)
        ]

    def _compute(
        self, agent: int | RemoteAgent, what: str, X: Samples, version: int | None, **asked: Any
    ) -> list[dict[str, Any]]:
        url = f"/api/agents/{id_of(agent)}/{what}"

        def send(body: dict[str, Any], _rows: slice) -> dict[str, Any]:
            # all parts from the same version, whatever happens meanwhile
            at = answers[0]["version"] if answers else version
            return self.post(url, params=asked if at is None else {**asked, "version": at}, **body)

        answers: list[dict[str, Any]] = []
        for answer in in_parts(X, send):
            answers.append(answer)
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
        text: str | None = None,
        id: str | None = None,
        columns: Mapping[str, Iterable[Any]] | Iterable[str] | None = None,
    ) -> RemotePool:
        """Make a pool: of `files` (pictures, a zip, an .npz, a table), of features, or of a `path` over there.

        With `wait`, it is ready when this returns.

        Parameters
        ----------
        text, id
            Columns of a table, where they are not called as usual.
        columns
            Columns for people to read beside each sample, which no learner sees. With `X` their values by name;
            of files and paths the names of those to keep, by default all plain ones but those of labels.
        """
        if isinstance(columns, Mapping) != (X is not None) and columns is not None:
            raise BadFeatures("columns come with their values for X, and as names for files and paths")
        said = {"text": text, "id": id}
        arrays: dict[str, Iterable[Any] | None] = {"ids": ids}
        if isinstance(columns, Mapping):
            arrays |= _plain_arrays(columns)
            columns = list(columns)
        sent: dict[str, Any] = {"name": name, "agent": id_of(agent)}
        sent |= {k: v for k, v in said.items() if v is not None}
        if columns is not None:
            sent["columns"] = list(columns)
        pool = read(RemotePool, self._make("/api/pools", sent, path, files, X, arrays))
        if not wait:
            return pool
        pool = until(lambda: self.pool(pool), lambda p: p.state != "preparing")
        if pool.state == "failed":
            raise ServiceError(f"the pool {name!r} could not be made: {pool.error}")
        return pool

    def _make(
        self,
        address: str,
        said: dict[str, Any],
        path: str | None,
        files: Iterable[str | Path] | str | Path | None,
        X: npt.ArrayLike | None,
        arrays: Mapping[str, Iterable[Any] | None],
    ) -> dict[str, Any]:
        """Send what an agent or a pool is made of."""
        if path is not None:
            return self.post(address, json={**said, "path": path}, once=True)
        with ExitStack() as opened:
            parts = _parts(opened, files, X, arrays)
            form = {k: json.dumps(v) if isinstance(v, list) else str(v) for k, v in said.items()}
            return self.post(address, data=form, files=parts, once=True)

    def rename_pool(self, pool: int | RemotePool, name: str) -> RemotePool:
        return read(RemotePool, self._send("PATCH", f"/api/pools/{id_of(pool)}", json={"name": name}).json())

    def delete_pool(self, pool: int | RemotePool) -> None:
        """Remove a pool's files; answers stay. `Conflict` while an adaptation is under way on it."""
        self._send("DELETE", f"/api/pools/{id_of(pool)}", once=True)

    def picture(self, pool: int | RemotePool, row: int) -> bytes:
        """A picture of a pool, as WebP."""
        return self._send("GET", f"/api/pools/{id_of(pool)}/pictures/{row}").content

    def text(self, pool: int | RemotePool, row: int) -> str:
        return self.get(f"/api/pools/{id_of(pool)}/texts/{row}")["text"]

    def columns(self, pool: int | RemotePool, row: int) -> dict[str, Any]:
        """What the pool's table says of a sample beside its features or its text."""
        return self.get(f"/api/pools/{id_of(pool)}/columns/{row}")["columns"]

    # -- adaptations -------------------------------------------------------------------------------------------

    def adaptations(self) -> list["RemoteAdaptation"]:
        return [RemoteAdaptation(self, row["id"]) for row in self.get("/api/adaptations")]

    def adaptation(self, id: int) -> "RemoteAdaptation":
        return RemoteAdaptation(self, int(self.get(f"/api/adaptations/{id}")["id"]))

    def start(
        self,
        agent: int | RemoteAgent,
        pool: int | RemotePool,
        budget: float | int,
        overlap: int = 1,
        version: int | None = None,
    ) -> "RemoteAdaptation":
        """Begin to adapt an agent to a pool: a float is a share of the pool, an int a number of labels.

        Each question is put to `overlap` people, and every opinion is charged. The answers build on the live
        version, unless another is named.
        """
        body = {"agent": id_of(agent), "pool": id_of(pool), "budget": budget, "overlap": overlap}
        body |= {} if version is None else {"version": version}
        return RemoteAdaptation(self, int(self.post("/api/adaptations", json=body, once=True)["id"]))

    def mark_gold(self, pool: int | RemotePool, labels: Mapping[int, Label | None]) -> list[dict[str, Any]]:
        """Say what samples of a pool are, by row, to see how well people do; None makes one ordinary again."""
        rows = {str(row): label for row, label in labels.items()}
        return self.post(f"/api/pools/{id_of(pool)}/gold", json={"labels": rows})

    def export(
        self,
        agent: int | RemoteAgent,
        path: str | Path,
        format: str | None = None,
        everything: bool = False,
        columns: bool = False,
    ) -> None:
        """Write the labels of all adaptations of an agent to a new file; see `RemoteAdaptation.export`."""
        export(self, f"/api/agents/{id_of(agent)}/labels", Path(path), format, everything, columns)

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

    def storage(self, **rule: int) -> dict[str, Any]:
        """Bytes that are taken, and what would go by the rule that was set, or by ``pools_days, versions``."""
        return self.get("/api/storage", params=rule)

    def set_retention(self, pools_days: int | None = None, versions: int | None = None) -> dict[str, Any]:
        """Say how long pools and retired versions are kept; None keeps all. `storage` says what would go."""
        rule = {"pools_days": pools_days, "versions": versions}
        return self._send("PUT", "/api/storage/retention", json=rule).json()

    def clean_up(self) -> list[dict[str, Any]]:
        """Let go at once what goes by the rule that was set; what went."""
        return self.post("/api/storage/clean", once=True)

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


def _npz(arrays: Mapping[str, Array]) -> bytes:
    """As `np.savez`, which takes some names of arrays for its own parameters."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, array in arrays.items():
            packed.writestr(f"{name}.npy", _npy(array))
    return buffer.getvalue()


def _plain_arrays(columns: Mapping[str, Iterable[Any]]) -> dict[str, Any]:
    """Columns as further arrays of an .npz; where a value is missing, all are text."""
    for name in columns:
        if name in ("X", "y", "ids", "class_names", "encoder"):
            raise BadFeatures(f"a column cannot be called {name!r}; give it another name")
    arrays = {name: list(values) for name, values in columns.items()}
    return {
        name: ["" if value is None else str(value) for value in values] if None in values else values
        for name, values in arrays.items()
    }


def _parts(
    opened: ExitStack,
    files: Iterable[str | Path] | str | Path | None,
    X: npt.ArrayLike | None,
    arrays: Mapping[str, Iterable[Any] | None],
) -> list[tuple[str, tuple[str, Any]]]:
    """The files of a form; features become an .npz."""
    if (files is None) == (X is None):
        raise BadFeatures("give files, or X, or a path on the service's machine")
    if X is not None:
        named = {name: np.array(list(values)) for name, values in arrays.items() if values is not None}
        return [("files", ("features.npz", _npz({"X": np.asarray(X), **named})))]
    paths: Iterator[Path] = (
        iter([Path(files)]) if isinstance(files, str | Path) else (Path(p) for p in files or ())
    )
    return [("files", (path.name, opened.enter_context(path.open("rb")))) for path in paths]
