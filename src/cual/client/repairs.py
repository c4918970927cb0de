"""Repairs of an agent over HTTP: classes renamed, merged, removed and split, samples and answers taken back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, overload

from cual.client.connection import Connection, ServiceError, until
from cual.client.records import Label, RemoteAgent, RemotePool, RemoteRepair, id_of, read


class Repairs(Connection):
    """What a client says to change an agent without an adaptation; `Client.teach` sends files."""

    def rename_class(
        self, agent: int | RemoteAgent, label: Label, to: Label, why: str = "", meant: bool = False
    ) -> RemoteAgent:
        """Give a class another name, in a version of its own. `Conflict` while an adaptation is under way."""
        said = {"label": label, "to": to, "why": why, "meant": meant}
        return read(RemoteAgent, self.post(f"/api/agents/{id_of(agent)}/classes/rename", json=said, once=True))

    @overload
    def merge_classes(
        self, agent: int | RemoteAgent, into: Label, *others: Label, why: str = "", wait: Literal[True] = True
    ) -> RemoteAgent: ...
    @overload
    def merge_classes(
        self, agent: int | RemoteAgent, into: Label, *others: Label, why: str = "", wait: bool
    ) -> RemoteAgent | RemoteRepair: ...
    def merge_classes(
        self, agent: int | RemoteAgent, into: Label, *others: Label, why: str = "", wait: bool = True
    ) -> RemoteAgent | RemoteRepair:
        """Make other classes part of one, in a version of its own; the agent as it is then.

        In closed form that is done at once. A head that trains is trained again from what is kept, by a worker:
        without `wait`, the repair comes back as it was begun, for `repair` to follow.
        """
        return self._changed(agent, "merge", {"into": into, "others": list(others), "why": why}, wait)

    @overload
    def remove_class(
        self,
        agent: int | RemoteAgent,
        label: Label,
        leave_spread: bool = False,
        why: str = "",
        wait: Literal[True] = True,
    ) -> RemoteAgent: ...
    @overload
    def remove_class(
        self, agent: int | RemoteAgent, label: Label, leave_spread: bool = False, why: str = "", *, wait: bool
    ) -> RemoteAgent | RemoteRepair: ...
    def remove_class(
        self,
        agent: int | RemoteAgent,
        label: Label,
        leave_spread: bool = False,
        why: str = "",
        wait: bool = True,
    ) -> RemoteAgent | RemoteRepair:
        """Remove a class, in a version of its own; at once or by a worker, as in `merge_classes`.

        Where not all its samples are in the agent's memory, `leave_spread` leaves what they said of how classes
        spread; else that is refused, but where the head is trained again.
        """
        return self._changed(agent, "remove", {"label": label, "leave_spread": leave_spread, "why": why}, wait)

    def _changed(
        self, agent: int | RemoteAgent, what: str, said: dict[str, Any], wait: bool
    ) -> RemoteAgent | RemoteRepair:
        """The agent, if it is changed already or with `wait`; else the repair that was begun."""
        answer = self._send("POST", f"/api/agents/{id_of(agent)}/classes/{what}", json=said, once=True)
        if answer.status_code != 202:
            return read(RemoteAgent, answer.json())
        repair = self._over(read(RemoteRepair, answer.json()), wait)
        return read(RemoteAgent, self.get(f"/api/agents/{id_of(agent)}")) if wait else repair

    def repairs(self, agent: int | RemoteAgent) -> list[RemoteRepair]:
        """What a worker has changed, from teaching to removing, and what is under way; the latest first."""
        return [read(RemoteRepair, row) for row in self.get(f"/api/agents/{id_of(agent)}/repairs")]

    def repair(self, agent: int | RemoteAgent, repair: int) -> RemoteRepair:
        return read(RemoteRepair, self.get(f"/api/agents/{id_of(agent)}/repairs/{repair}"))

    def forget(
        self,
        agent: int | RemoteAgent,
        pool: int | RemotePool,
        samples: Iterable[Label],
        earlier: bool = False,
        originals: bool = False,
        why: str = "",
        wait: bool = True,
    ) -> RemoteRepair:
        """Take samples of a pool back, by their ids, as if the agent had never seen them.

        Parameters
        ----------
        earlier
            Also in the files of all other versions.
        originals
            Also remove their pictures, texts and columns from the pool.
        """
        said = {"pool": id_of(pool), "samples": list(samples), "earlier": earlier, "originals": originals}
        return self._begun(agent, "forget", {**said, "why": why}, wait)

    def forget_answers(
        self,
        agent: int | RemoteAgent,
        person: int | None = None,
        adaptation: int | None = None,
        earlier: bool = False,
        why: str = "",
        wait: bool = True,
    ) -> RemoteRepair:
        """Take back what a person answered, by their id; in one adaptation, or of everybody in one."""
        said = {"person": person, "adaptation": adaptation, "earlier": earlier, "why": why}
        return self._begun(agent, "forget", said, wait)

    def split_class(
        self,
        agent: int | RemoteAgent,
        label: Label,
        parts: int = 2,
        questions: int = 10,
        why: str = "",
        wait: bool = True,
    ) -> RemoteRepair:
        """Have the samples of a class grouped. With `wait`, `split` of what comes back says what is asked."""
        said = {"label": label, "parts": parts, "questions": questions, "why": why}
        return self._begun(agent, "classes/split", said, wait)

    def answer_split(
        self,
        repair: RemoteRepair,
        names: Sequence[Label],
        answers: Mapping[int, Label] | None = None,
        leave_rest: bool = False,
        wait: bool = True,
    ) -> RemoteRepair:
        """Say what the groups of a split are, and doubtful samples by their numbers."""
        told = [{"sample": sample, "label": label} for sample, label in (answers or {}).items()]
        said = {"names": list(names), "answers": told, "leave_rest": leave_rest}
        return self._begun(repair.agent, f"repairs/{repair.id}/answers", said, wait)

    def drop_repair(self, repair: RemoteRepair) -> RemoteRepair:
        """Leave a split that asks, or a repair that failed."""
        address = f"/api/agents/{repair.agent}/repairs/{repair.id}/drop"
        return read(RemoteRepair, self.post(address, once=True))

    def _begun(self, agent: int | RemoteAgent, what: str, said: dict[str, Any], wait: bool) -> RemoteRepair:
        record = self.post(f"/api/agents/{id_of(agent)}/{what}", json=said, once=True)
        return self._over(read(RemoteRepair, record), wait)

    def _over(self, repair: RemoteRepair, wait: bool) -> RemoteRepair:
        """The repair as it is when the worker is done with it."""
        if not wait:
            return repair
        repair = until(lambda: self.repair(repair.agent, repair.id), lambda r: r.state != "preparing")
        if repair.state == "failed":
            raise ServiceError(f"repair {repair.id} ({repair.kind}) failed: {repair.error}")
        return repair
