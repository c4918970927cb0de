"""Whose questions they are: an adaptation of the library in a folder, or one that a service runs.

Both say the same things to the bridge, and remember what it told them before it was restarted.
"""

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cual.bridges.label_studio.labelling import Kind, Question
from cual.bridges.label_studio.showing import Show, data_uri, no_picture
from cual.client import Client, RemoteAdaptation
from cual.data.labels import SKIP, Answer
from cual.errors import CualError, DamagedFile
from cual.locks import claim
from cual.types import Label

if TYPE_CHECKING:
    from cual.loop.adaptation import Adaptation

MOST_AT_ONCE = 1000


class Source(Protocol):
    """An adaptation, as the bridge sees it."""

    @property
    def key(self) -> str:
        """Names the adaptation, and no other, for as long as it lives."""
        ...

    @property
    def kind(self) -> Kind: ...

    @property
    def over(self) -> bool:
        """Whether it will ask nothing more."""
        ...

    def classes(self) -> list[Label]:
        """Known classes, and new ones so far."""
        ...

    def ask(self) -> list[Question]:
        """What is open now."""
        ...

    def tell(self, query: str, answers: Mapping[Label, Answer]) -> None: ...

    def answers(self) -> Mapping[Label, Answer]:
        """What was told through the bridge, in this run and before it."""
        ...

    def show(self, question: Question) -> str: ...


class FolderSource:
    """An adaptation of the library, saved into a folder after every step.

    Parameters
    ----------
    task, folder
        The adaptation, and where to save it. One process at a time may use the folder.
    kind, show
        What annotators see; the ids of samples as text if nothing is given.
    """

    def __init__(self, task: "Adaptation", folder: Path, kind: Kind = "text", show: Show = str) -> None:
        self.task, self._show, self._folder = task, show, folder
        self.kind: Kind = kind
        self._lock = claim(folder / ".label-studio.lock", "asked about in Label Studio")
        self._file, self._saved = folder / "label-studio.json", (-1, "")
        self._key, self._answers = self._read()

    def close(self) -> None:
        """Let another process have the folder."""
        self._lock.release()

    @property
    def key(self) -> str:
        return self._key

    @property
    def over(self) -> bool:
        return self.task.ended is not None

    def classes(self) -> list[Label]:
        answers = [row["answer"] for row in self.task.ledger if row["answer"] is not None]
        return list(dict.fromkeys([*self.task.agent.names.names, *answers]))

    def ask(self) -> list[Question]:
        query = self.task.ask()
        self._save()
        if query is None:
            return []
        columns = zip(query.ids, query.scores, query.zones, query.suggestions, strict=True)
        return [Question(query.id, query.round, *row) for row in columns]

    def tell(self, query: str, answers: Mapping[Label, Answer]) -> None:
        self.task.tell(query, answers)
        self._save()
        self._answers |= answers  # afterwards: what is written here must not be told again, what is not may be
        self._write()

    def answers(self) -> Mapping[Label, Answer]:
        there = self.task.answers  # fewer, where the adaptation was put back to an earlier state
        return {sample: answer for sample, answer in self._answers.items() if sample in there}

    def show(self, question: Question) -> str:
        try:
            return self._show(question.sample)
        except (CualError, LookupError) as error:
            return no_picture(question.sample, error) if self.kind == "image" else str(question.sample)

    def _save(self) -> None:
        state = (len(self.task.journal), self.task.ended or "")
        if state != self._saved:
            self.task.save(self._folder)
            self._saved = state

    def _read(self) -> tuple[str, dict[Label, Answer]]:
        try:
            body = json.loads(self._file.read_bytes())
            answers = {sample: SKIP if answer is None else answer for sample, answer in body["said"]}
            return str(body["key"]), answers
        except FileNotFoundError:
            self._key, self._answers = f"folder {uuid.uuid4().hex[:16]}", {}
            self._write()
            return self._key, self._answers
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedFile(f"{self._file} is damaged: {error!r}") from error

    def _write(self) -> None:
        from cual.storage import write_bytes

        rows = [[sample, None if answer is SKIP else answer] for sample, answer in self._answers.items()]
        write_bytes(self._file, json.dumps({"key": self._key, "said": rows}, ensure_ascii=False).encode())


class ServiceSource:
    """An adaptation that a service runs.

    The questions are lent to the account that the client's token is of, for as long as the bridge asks: give
    the bridge an account of its own.
    """

    def __init__(self, client: Client, adaptation: int) -> None:
        self._client, self._url = client, f"/api/adaptations/{adaptation}"
        self.task: RemoteAdaptation = client.adaptation(adaptation)
        body = client.get(self._url)
        self._pool = client.pool(int(body["pool"]))
        self._key = f"service {adaptation} {body['created_at']}"
        self.kind: Kind = "image" if self._pool.kind == "pictures" else "text"
        self._answers = self._mine(str(client.get("/api/me")["name"]))

    @property
    def key(self) -> str:
        return self._key

    @property
    def over(self) -> bool:
        return self.task.state.state not in ("thinking", "asking")

    def classes(self) -> list[Label]:
        return list(self._client.get(self._url)["suggested_classes"])

    def ask(self) -> list[Question]:
        query = self.task.ask(wait=False, n=MOST_AT_ONCE)
        if query is None:
            return []
        columns = zip(query.ids, query.scores, query.zones, query.suggestions, query.rows, strict=True)
        return [Question(query.id, query.iteration, *row) for row in columns]

    def tell(self, query: str, answers: Mapping[Label, Answer]) -> None:
        self.task.tell(query, answers)
        self._answers |= answers

    def answers(self) -> Mapping[Label, Answer]:
        return self._answers

    def show(self, question: Question) -> str:
        row = question.row
        if row is None or self._pool.kind == "features":
            return str(question.sample)
        if self._pool.kind == "text":
            return self._client.text(self._pool, row)
        try:
            return data_uri(self._client.picture(self._pool, row))
        except LookupError as error:
            return no_picture(question.sample, error)

    def _mine(self, name: str) -> dict[Label, Answer]:
        """The latest answers of one person."""
        answers: dict[Label, Answer] = {}
        for question in self._client.get(f"{self._url}/questions"):
            given: list[dict[str, Any]] = question["answers"]
            mine = [a["label"] for a in given if a["person"] == name and not a["undone"]]
            if mine:
                answers[question["sample"]] = SKIP if mine[-1] is None else mine[-1]
        return answers
