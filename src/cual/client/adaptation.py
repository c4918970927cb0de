"""An adaptation that runs on a service, driven as the library's own is."""

import time
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
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

    def tell(self, query_id: str, answers: Mapping[Any, Any], meant: bool = False) -> None:
        """Answer: a label, known or new, for each sample, or `SKIP` for "cannot tell".

        Telling the same again changes nothing, so that it is safe to try again; telling else corrects.

        Parameters
        ----------
        meant
            Whether new names are meant that differ from known ones only by case or the like; else they are
            refused, with the name that was probably meant.
        """
        known = self._known(query_id, answers)
        labels = {str(known[sample]): _plain(label) for sample, label in answers.items()}
        self._client.post(f"{self._url}/answers", json={"answers": labels, "meant": meant})

    def undo(self, reopen: bool = False) -> Label:
        """Take back the last answer that this client's person gave; the sample that it was about.

        Parameters
        ----------
        reopen
            Also if the learner has used it: its round is opened again. Without it the error says what it costs.
        """
        return self._client.post(f"{self._url}/undo", once=True, params={"reopen": reopen})["sample"]

    def raise_budget(self, budget: float | int) -> None:
        """Allow more labels in all, a share of the pool (float) or a number; questions that ended go on."""
        self._client.post(f"{self._url}/budget", json={"budget": budget}, once=True)

    def disputes(self) -> list[dict[str, Any]]:
        """Questions on which people disagree, with what each said."""
        return self._client.get(f"{self._url}/questions", params={"disagreement": True})

    def settle(self, question: int, label: Any) -> None:
        """Decide what counts where people disagree, by the question's id; not of one's own disagreements."""
        self._client.post(f"{self._url}/settle", json={"question": question, "label": _plain(label)})

    def agreement(self) -> dict[str, Any]:
        """How far people agree and how each gets on; of others only administrators are told."""
        return self._client.get(f"{self._url}/agreement")

    def share_work(
        self, overlap: int | None = None, own_disputes: bool | None = None, gold_share: float | None = None
    ) -> None:
        """Change how many people questions are put to, who settles disagreements, how many are gold."""
        body = {"overlap": overlap, "own_disputes": own_disputes, "gold_share": gold_share}
        self._client.post(f"{self._url}/sharing", json=body)

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

    def export(
        self, path: str | Path, format: str | None = None, everything: bool = False, columns: bool = False
    ) -> None:
        """Write the labels to a new file: answers and pseudo-labels, with people, times and doubts.

        Parameters
        ----------
        format
            csv, jsonl, parquet, or datasets (a zip of its folder); what the file's name ends in by default.
        everything
            Also what does not count: what was corrected, overruled or rejected, and "cannot tell".
        columns
            Also what the pool's table says of the samples, as ``columns.NAME``.
        """
        export(self._client, f"{self._url}/labels", Path(path), format, everything, columns)

    def review(self, verdicts: Mapping[int, Literal["confirm", "reject"] | None]) -> None:
        """Confirm or reject pseudo-labels, by the row of the sample; None takes it back."""
        reviews = {str(row): verdict for row, verdict in verdicts.items()}
        self._client.post(f"{self._url}/reviews", json={"reviews": reviews})

    def name_classes(self, classes: Mapping[int, Label]) -> dict[str, int]:
        """Say what samples are that something else is believed of: how many were charged, noted, confirmed.

        Each is an answer and charged; where the budget has no room, the belief is rejected and the class noted.
        """
        named = {str(row): label for row, label in classes.items()}
        return self._client.post(f"{self._url}/classes", json={"classes": named})

    def withdraw_classes(self, rows: Sequence[int]) -> None:
        """Take back what `name_classes` charged, while the learner has not used it."""
        self._client.post(f"{self._url}/classes/withdraw", json={"rows": list(rows)})

    def _query(self, lent: list[dict[str, Any]]) -> RemoteQuery:
        first = lent[0]["query"]
        rows = [row for row in lent if row["query"] == first]
        self._questions.setdefault(first, {}).update({row["sample"]: row["id"] for row in rows})
        names = ("sample", "score", "zone", "suggestion", "row")
        values = (tuple(row[name] for row in rows) for name in names)
        columns = tuple(row.get("columns", {}) for row in rows)  # an older service tells of none
        return RemoteQuery(first, rows[0]["round"], *values, columns=columns)

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


def export(
    client: Connection, url: str, path: Path, format: str | None, everything: bool, columns: bool
) -> None:
    """Fetch labels into a new file."""
    wanted: dict[str, Any] = {"format": format or path.suffix.removeprefix("."), "everything": everything}
    if columns:  # an older service knows nothing of it
        wanted["columns"] = True
    client.fetch(url, path, "GET", params=wanted)


def _plain(label: Any) -> Label | None:
    """A label as JSON has it; `SKIP` is null, and known by its name: importing it would import torch."""
    if label is None or (isinstance(label, Enum) and label.name == "SKIP"):
        return None
    return cast(Label, label.item() if isinstance(label, np.generic) else label)
