"""An adaptation that runs on a service, driven as the library's own is."""

import time
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal, cast

import numpy as np

from cual.client.connection import Connection, ServiceError, pauses, until
from cual.client.records import Label, RemoteAgent, RemoteQuery, RemoteState, read
from cual.errors import UnknownQuery, UnknownSample


class RemoteAdaptation:
    """An adaptation that runs on a service; `ask` and `tell` are those of the library."""

    def __init__(self, client: Connection, id: int) -> None:
        self.id: Final = id
        self._client, self._url = client, f"/api/adaptations/{id}"
        self._questions: dict[str, dict[Label, int]] = {}

    @property
    def state(self) -> RemoteState:
        """How it stands now."""
        return read(RemoteState, self._client.get(self._url))

    def ask(self, wait: bool = True, n: int = 100) -> RemoteQuery | None:
        """Up to `n` questions that are lent to this client for a while; None when the loop is over.

        While the learner computes, or others hold all questions, it waits; without `wait` None is returned then
        too, and `state` tells the difference.
        """
        for pause in pauses():
            now = self.state
            if now.state == "failed":
                raise ServiceError(f"adaptation {self.id} has failed: {now.error}")
            if now.state not in ("thinking", "asking"):
                return None
            if now.state == "asking":
                lent = self._client.post(f"{self._url}/lend", json={"n": n})
                if lent:
                    return self._query(lent)
            if not wait:
                return None
            time.sleep(pause)
        return None

    def tell(self, query_id: str, answers: Mapping[Any, Any]) -> None:
        """Answer: a label, known or new, for each sample, or `SKIP` for "cannot tell".

        Telling the same again changes nothing, so that it is safe to try again; telling else corrects.
        """
        known = self._known(query_id, answers)
        labels = {str(known[sample]): _plain(label) for sample, label in answers.items()}
        self._client.post(f"{self._url}/answers", json={"answers": labels})

    def undo(self) -> Label:
        """Take back the last answer that this client's person gave; the sample that it was about."""
        return self._client.post(f"{self._url}/undo", once=True)["sample"]

    def stop(self) -> None:
        """Ask no more questions."""
        self._client.post(f"{self._url}/stop")

    def drop(self) -> None:
        """Give it up."""
        self._client.post(f"{self._url}/drop")

    def retry(self) -> None:
        """Try again what has failed."""
        self._client.post(f"{self._url}/retry")

    def finish(self, wait: bool = True) -> RemoteAgent:
        """Have the next version made; with `wait`, the agent as it is then."""
        if wait:
            until(lambda: self.state, lambda now: now.state != "thinking")
        now = read(RemoteState, self._client.post(f"{self._url}/finish"))
        if wait:
            now = until(lambda: self.state, lambda now: now.state != "thinking")
        if now.state == "failed":
            raise ServiceError(f"adaptation {self.id} has failed: {now.error}")
        return read(RemoteAgent, self._client.get(f"/api/agents/{now.agent}"))

    def ledger(self) -> list[dict[str, Any]]:
        """What was asked, when, with which score, and what was answered."""
        return self._client.get(f"{self._url}/ledger")

    def history(self) -> list[dict[str, Any]]:
        """One row per round."""
        return self._client.get(f"{self._url}/history")

    def pseudo_labels(self) -> list[dict[str, Any]]:
        """What is believed without asking, most doubtful first."""
        rows: list[dict[str, Any]] = []
        while True:
            part = self._client.get(f"{self._url}/pseudo-labels", params={"start": len(rows), "n": 10_000})
            rows += part
            if len(part) < 10_000:
                return rows

    def review(self, verdicts: Mapping[int, Literal["confirm", "reject"]]) -> None:
        """Confirm or reject pseudo-labels, by the row of the sample."""
        reviews = {str(row): verdict for row, verdict in verdicts.items()}
        self._client.post(f"{self._url}/reviews", json={"reviews": reviews})

    def _query(self, lent: list[dict[str, Any]]) -> RemoteQuery:
        first = lent[0]["query"]
        rows = [row for row in lent if row["query"] == first]
        self._questions.setdefault(first, {}).update({row["sample"]: row["id"] for row in rows})
        names = ("sample", "score", "zone", "suggestion", "row")
        columns = (tuple(row[name] for row in rows) for name in names)
        return RemoteQuery(first, rows[0]["round"], *columns)

    def _known(self, query_id: str, answers: Mapping[Any, Any]) -> dict[Label, int]:
        """The questions of a query by sample; asked for again where somebody else was lent them."""
        known = self._questions.get(query_id, {})
        if any(sample not in known for sample in answers):
            self._questions = {}
            for row in self._client.get(f"{self._url}/questions"):
                self._questions.setdefault(row["query"], {})[row["sample"]] = row["id"]
            known = self._questions.get(query_id, {})
        if not known:
            raise UnknownQuery(f"there is no query {query_id!r}")
        for sample in answers:
            if sample not in known:
                raise UnknownSample(f"query {query_id!r} did not ask about {sample!r}")
        return known


def _plain(label: Any) -> Label | None:
    """A label as JSON has it; `SKIP` is null, and known by its name: importing it would import torch."""
    if label is None or (isinstance(label, Enum) and label.name == "SKIP"):
        return None
    return cast(Label, label.item() if isinstance(label, np.generic) else label)
