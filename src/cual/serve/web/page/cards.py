"""Cards of the start page: an adaptation, an agent, a pool. Shown again in place: the focus stays."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from cual.data.plain import Why
from cual.serve.rules import standing
from cual.serve.rules.records import AdaptationRecord, AgentRecord, PoolRecord
from cual.serve.rules.sentences import Sentence, said
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.managing import Managing
from cual.serve.web.page.status import Meter, stage_text
from cual.serve.web.page.texts import told, tr, trn
from cual.serve.web.page.words import STATES, some

_NOTES: Mapping[Why, Sentence] = {
    "labels": said("not shown, they seem to be labels"),
    "many": said("not shown, there are too many"),
    "shape": said("not shown, not one number or text for each sample"),
    "name": said("not shown, the name cannot be read"),
    "cut": said("too long values are cut"),
}
"""What became of columns."""
R = TypeVar("R", AdaptationRecord, AgentRecord, PoolRecord)
Shown = TypeVar("Shown", AdaptationRecord, AgentRecord, PoolRecord, contravariant=True)


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
                self._meter = Meter(tr("Labels spent"))
            self._next = El("p", classes="wrap")
            with El("div", classes="line"):
                self._open = link("", "", "button main")
                if drop is not None:
                    self._drop = button(tr("Drop"), "plain").on("click", lambda: drop(self._id))

    def show(self, record: AdaptationRecord) -> None:
        agent, pool = self._names(record)
        self._id = record.id
        about = tr(
            "Adaptation {id} of {agent}, version {version}",
            id=record.id,
            agent=agent,
            version=record.base_version,
        )
        self.head(pool, told(STATES[record.state]), about, record.state == "failed")
        self._spent.say(told(standing.status(record)))
        self._meter.show(record.spent, record.budget)
        self._next.say(told(standing.following(record)))
        self._open.say(tr("Answer questions") if record.open else tr("Open"))
        self._open.set(href=f"/adaptations/{record.id}")


class _Managed(_Titled):
    """A card of something that administrators rename and delete, and whose making can be ended."""

    def __init__(self, managing: Managing | None) -> None:
        super().__init__()
        self._record: AgentRecord | PoolRecord | None = None
        self._managing = managing
        self._buttons: dict[str, El] = {}
        with self:
            self._meter = Meter(tr("Preparing"))
            self._line = El("div", classes="line")
        if managing is None:
            return
        with self._line:
            for name, words in (
                ("retry", tr("Try again")),
                ("cancel", tr("Cancel")),
                ("rename", tr("Rename")),
                ("delete", tr("Delete")),
            ):
                self._buttons[name] = button(words, "plain").on("click", getattr(self, f"_{name}"))

    async def _retry(self) -> None:
        if self._managing is not None and self._record is not None:
            await self._managing.retry(self._record)

    async def _cancel(self) -> None:
        if self._managing is not None and self._record is not None:
            await self._managing.cancel(self._record)

    async def _rename(self) -> None:
        if self._managing is not None and self._record is not None:
            await self._managing.rename(self._record)

    async def _delete(self) -> None:
        if self._managing is not None and self._record is not None:
            await self._managing.delete(self._record)

    def manage(self, record: AgentRecord | PoolRecord) -> None:
        """Show what can be done to it now."""
        self._record = record
        self._meter.set_visibility(record.state == "preparing")
        if record.state == "preparing":
            self._meter.follow(record.progress)
        shown = {"retry": record.state == "failed", "cancel": record.state == "preparing"}
        for name, button_ in self._buttons.items():
            button_.set_visibility(shown.get(name, True))
            button_.set(aria_label=f"{button_.text}: {record.name}")


class AgentCard(_Managed):
    def __init__(self, managing: Managing | None) -> None:
        super().__init__(managing)
        with self._line:
            self._history = link(tr("History"), "", "button")

    def show(self, record: AgentRecord) -> None:
        self.manage(record)
        self._history.set_visibility(record.state == "ready")
        self._history.set(href=f"/agents/{record.id}", aria_label=tr("History of {name}", name=record.name))
        badge = told(STATES[record.state])
        if record.state == "ready":
            badge = tr("version {version}", version=record.version)
            about = trn(
                "{n} class: {names}",
                "{n} classes: {names}",
                len(record.classes),
                names=some(record.classes, 12),
            )
            if record.skipped:
                about += " " + trn(
                    "{n} sample could not be read.", "{n} samples could not be read.", record.skipped
                )
        else:
            about = _unready(record)
        self.head(record.name, badge, about, record.state == "failed")


class PoolCard(_Managed):
    def show(self, record: PoolRecord) -> None:
        self.manage(record)
        about = _unready(record)
        if record.state == "ready":
            about = _samples(record)
            if record.skipped:
                about += ", " + trn("{n} left out", "{n} left out", record.skipped)
            about = "; ".join([about, *_columns(record)])
        self.head(record.name, told(STATES[record.state]), about, record.state == "failed")


def _samples(record: PoolRecord) -> str:
    if record.kind == "pictures":
        return trn("{n} picture", "{n} pictures", record.size)
    if record.kind == "text":
        return trn("{n} text", "{n} texts", record.size)
    return trn("{n} sample without a picture", "{n} samples without pictures", record.size)


def _columns(record: PoolRecord) -> Iterator[str]:
    """Which columns came with the samples, and which are not shown as they were."""
    if record.columns:
        yield tr("columns: {names}", names=some(record.columns, 8))
    for why, words in _NOTES.items():
        names = [note.column for note in record.column_notes if note.why == why]
        if names:
            yield f"{told(words)}: {some(names, 4)}"


def _unready(record: AgentRecord | PoolRecord) -> str:
    if record.state == "preparing":
        return tr("Being prepared {stage}", stage=stage_text(record.progress))
    return record.error or ""
