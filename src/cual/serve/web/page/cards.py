"""Cards of the start page: an adaptation, an agent, a pool. Shown again in place: the focus stays."""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from cual.serve.rules.records import AdaptationRecord, AgentRecord, PoolRecord
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.status import Meter, stage_text
from cual.serve.web.page.words import some

R = TypeVar("R", AdaptationRecord, AgentRecord, PoolRecord)
Shown = TypeVar("Shown", AdaptationRecord, AgentRecord, PoolRecord, contravariant=True)
_KINDS = {"pictures": "pictures", "text": "texts", "features": "samples without pictures"}


class Card(Protocol[Shown]):
    def show(self, record: Shown) -> None: ...
    def delete(self) -> None: ...


class Cards(Generic[R]):
    """One card for each record, in the records' order at first sight."""

    def __init__(self, title: str, nothing: str, make: Callable[[], Card[R]]) -> None:
        self._make, self._cards = make, dict[int, Card[R]]()
        with El("section", classes="stack", aria_label=title):
            El("h2", title)
            self._nothing = El("p", nothing, "soft")
            self._box = El("div", classes="cards")

    def show(self, records: Sequence[R], nothing: str | None = None) -> None:
        """Have a card for each of these and for no others."""
        wanted = {record.id for record in records}
        for id in [id for id in self._cards if id not in wanted]:
            self._cards.pop(id).delete()
        for record in records:
            if record.id not in self._cards:
                with self._box:
                    self._cards[record.id] = self._make()
            self._cards[record.id].show(record)
        self._nothing.set_visibility(not records)
        if nothing is not None:
            self._nothing.say(nothing)


class _Titled(El):
    """A card with a name, a badge and a line of soft text."""

    def __init__(self) -> None:
        super().__init__("article", classes="card")
        with self:
            with El("div", classes="line apart"):
                self._title = El("h3", classes="wrap")
                self._badge = El("span", classes="badge")
            self._about = El("p", classes="soft wrap")

    def head(self, title: str, badge: str, about: str, alarm: bool = False) -> None:
        self.set(aria_label=title)
        self._title.say(title)
        self._badge.say(badge)
        self._badge.classes(**({"add": "bad"} if alarm else {"remove": "bad"}))
        self._about.say(about)


class AdaptationCard(_Titled):
    def __init__(
        self, names: Callable[[AdaptationRecord], tuple[str, str]], drop: Callable[[int], object] | None
    ):
        super().__init__()
        self._names, self._id = names, 0
        self._badge.classes("lit")
        with self:
            with El("div"):
                self._spent = El("div")
                self._meter = Meter("Labels spent")
            self._next = El("p", classes="wrap")
            with El("div", classes="line"):
                self._open = link("", "", "button main")
                if drop is not None:
                    self._drop = button("Drop", "plain").on("click", lambda: drop(self._id))

    def show(self, record: AdaptationRecord) -> None:
        agent, pool = self._names(record)
        self._id = record.id
        self.head(
            pool,
            record.state,
            f"Adaptation {record.id} of {agent}, version {record.base_version}",
            record.state == "failed",
        )
        self._spent.say(f"{record.spent} of {record.budget} labels spent, {record.budget - record.spent} left")
        self._meter.show(record.spent, record.budget)
        self._next.say(record.next)
        self._open.say("Answer questions" if record.open else "Open")
        self._open.set(href=f"/adaptations/{record.id}")


class AgentCard(_Titled):
    def __init__(self) -> None:
        super().__init__()
        with self, El("div", classes="line"):
            self._history = link("History", "", "button")

    def show(self, record: AgentRecord) -> None:
        classes = f"{len(record.classes)} classes: {some(record.classes, 12)}"
        self.head(record.name, f"version {record.version}", classes)
        self._history.set(href=f"/agents/{record.id}", aria_label=f"History of {record.name}")


class PoolCard(_Titled):
    def __init__(self) -> None:
        super().__init__()
        with self:
            self._meter = Meter("Preparing")

    def show(self, record: PoolRecord) -> None:
        self._meter.set_visibility(record.state == "preparing")
        left_out = f", {record.skipped} left out" if record.skipped else ""
        about = f"{record.size} {_KINDS[record.kind]}{left_out}"
        if record.state == "preparing":
            self._meter.follow(record.progress)
            about = f"Being prepared {stage_text(record.progress)}"
        failed = record.state == "failed"
        self.head(record.name, record.state, (record.error or "") if failed else about, failed)
