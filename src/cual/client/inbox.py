"""Samples on their way into an agent's inbox: judged and kept over there, each once, also when sent twice."""

import uuid
from collections.abc import Sequence
from typing import Any

from cual.client.connection import Connection
from cual.client.records import RemoteAgent, RemoteInbox, RemotePool, RemoteVerdict, id_of, read
from cual.client.samples import Samples, in_parts, told_of
from cual.errors import BadFeatures

_MOST_NAMED = 64  # samples whose names are sent in an address


class Inbox(Connection):
    """What a client sends to be kept, and makes a pool of."""

    def send(
        self,
        agent: int | RemoteAgent,
        samples: Samples,
        key: str | None = None,
        names: Sequence[str] | None = None,
        false_alarms: float | None = None,
    ) -> list[RemoteVerdict]:
        """Have samples judged, as `verdicts` does, and kept until somebody makes a pool of them.

        What is answered is kept. Where the connection breaks it is sent again, and nothing is kept twice.

        Parameters
        ----------
        samples
            Features (n, width); or a list of pictures, each a `pathlib.Path` or the bytes of a file; or texts.
        key
            What this call calls itself, if it may be made again: with the same samples and the same key within
            a day, by this or another process, it is answered the same and kept once. A new one by default.
        names
            What the samples are called, one each.
        """
        if names is not None and len(names) != len(samples):  # pyright: ignore[reportArgumentType]
            raise BadFeatures(f"the samples came with {len(names)} names; each has one")
        key = uuid.uuid4().hex if key is None else key
        asked: dict[str, Any] = {} if false_alarms is None else {"false_alarms": false_alarms}

        def post(body: dict[str, Any], rows: slice) -> dict[str, Any]:
            headers = {**body.pop("headers", {}), "Idempotency-Key": f"{key}-{rows.start}"}
            params = dict(asked)
            if names is not None:
                body, params = _named(body, params, names[rows])
            return self.post(f"/api/agents/{id_of(agent)}/send", params=params, headers=headers, **body)

        most = {} if names is None else {"most": _MOST_NAMED}
        return [verdict for part in in_parts(samples, post, **most) for verdict in told_of(part)]

    def inbox(self, agent: int | RemoteAgent) -> RemoteInbox:
        """What waits for an agent."""
        return read(RemoteInbox, self.get(f"/api/agents/{id_of(agent)}/inbox"))

    def set_inbox_policy(self, agent: int | RemoteAgent, **changes: Any) -> RemoteInbox:
        """Say what is kept: originals, known_share, near, most_samples, most_megabytes, most_days."""
        told = self._send("PATCH", f"/api/agents/{id_of(agent)}/inbox", json=changes)
        return read(RemoteInbox, told.json())

    def close_inbox(self, agent: int | RemoteAgent, name: str) -> RemotePool:
        """Make a pool of all that waits; it is being prepared when this returns."""
        record = self.post(f"/api/agents/{id_of(agent)}/inbox/close", json={"name": name}, once=True)
        return read(RemotePool, record)


def _named(
    body: dict[str, Any], params: dict[str, Any], names: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A body with names: in the form where there is one, else in the address."""
    if "files" not in body:
        return body, {**params, "name": [str(name)[-200:] for name in names]}
    files = [(field, (str(name), data)) for (field, (_, data)), name in zip(body["files"], names, strict=True)]
    return {**body, "files": files}, params
