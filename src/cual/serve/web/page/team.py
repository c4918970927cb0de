"""The people page of an adaptation: how far they agree, how each gets on, and how they share the work."""

from collections.abc import Sequence

from nicegui import ui
from starlette.requests import Request

from cual.serve.rules.agreement import AgreementRecord, PersonProgress
from cual.serve.rules.records import AdaptationRecord, Role
from cual.serve.web.page.adaptation_frame import AdaptationPage, adaptation_frame
from cual.serve.web.page.elements import El, button, link
from cual.serve.web.page.routes import page
from cual.serve.web.page.texts import tr, trn
from cual.serve.web.page.viewer import Viewer, asked, tried


def add_page() -> None:
    @page("/adaptations/{id}/people")
    async def team_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        async with adaptation_frame(Viewer.of(request), id, "/people") as adaptation_page:
            adaptation_page.poll(Team(adaptation_page).refresh)


class Team:
    """Tables that follow the answers; the form is not redrawn while somebody types."""

    def __init__(self, page: AdaptationPage) -> None:
        self._page, self._viewer = page, page.viewer
        self._seen: tuple[object, ...] = ()
        with El("div", classes="stack"):
            self._tables = El("div", classes="stack")
            if self._viewer.may(Role.admin):
                self._form(page.record)

    async def refresh(self, record: AdaptationRecord) -> None:
        now = (record.state, record.spent, record.answered_in_round, record.overlap, record.gold_share)
        if now == self._seen:
            return
        self._seen = now
        measured = await asked(self._viewer.workspace.agreement, record.id, self._viewer.person)
        self._tables.clear()
        with self._tables:
            self._summary(record, measured)
            self._people(measured)
            if measured.pairs:
                self._pairs(measured)
            if measured.classes:
                self._classes(measured)

    def _summary(self, record: AdaptationRecord, measured: AgreementRecord) -> None:
        with El("section", classes="card", aria_label=tr("Agreement")):
            El("h2", tr("Agreement"))
            El(
                "p",
                trn("Each question goes to {n} person.", "Each question goes to {n} people.", record.overlap),
            )
            if measured.annotators < record.overlap:
                text = trn(
                    "Only {n} person can answer, so questions stay open: invite more, or ask fewer.",
                    "Only {n} people can answer, so questions stay open: invite more, or ask fewer.",
                    measured.annotators,
                )
                El("p", text, "bad", role="alert")
            El("p", _measured(measured.alpha, measured.common, measured.least))
            text = trn("{n} question in dispute", "{n} questions in dispute", measured.disagreements)
            link(text, f"/adaptations/{record.id}/disputes")

    def _people(self, measured: AgreementRecord) -> None:
        title = tr("How each gets on") if self._viewer.may(Role.admin) else tr("How I get on")
        columns = (
            *(tr("Name"), tr("Answers"), tr("Today"), tr("Seconds between answers")),
            *(tr("Same as the others"), tr("Right on known samples")),
        )
        rows = [_person(person) for person in measured.people]
        _table(title, columns, rows, tr("Nobody has answered yet."))

    def _pairs(self, measured: AgreementRecord) -> None:
        rows = [
            (
                " · ".join(pair.people),
                tr("{same} of {common}", same=pair.same, common=pair.common),
                tr("not enough common answers") if pair.kappa is None else f"{pair.kappa:.2f}",
            )
            for pair in measured.pairs
        ]
        columns = (tr("People"), tr("Same answer"), tr("Agreement beyond chance (Cohen's kappa)"))
        _table(tr("Two by two"), columns, rows, "")

    def _classes(self, measured: AgreementRecord) -> None:
        rows = [
            (str(about.label), str(about.samples), tr("{n} all agreed on", n=about.agreed))
            for about in measured.classes
        ]
        _table(tr("By class"), (tr("Class"), tr("Samples"), tr("Agreement")), rows, "")

    def _form(self, record: AdaptationRecord) -> None:
        with El("section", classes="card", aria_label=tr("How the work is shared")):
            El("h2", tr("How the work is shared"))
            with El("div", classes="line"):
                overlap = ui.number(
                    tr("People per question"), value=record.overlap, min=1, max=100, precision=0
                )
                share = ui.number(tr("Known samples, % of the questions"), value=100 * record.gold_share, min=0)
                for field in (overlap, share):
                    field.props("outlined dense").style("width: 260px; max-width: 100%")
            own = ui.checkbox(tr("People may settle their own disagreements"), value=record.own_disputes)
            El("p", tr("Every opinion costs a label. Known samples cost nothing and teach nothing."), "soft")

            async def save() -> None:
                person = await tried(self._viewer.now, Role.admin)
                if person is None:
                    return
                values = (int(overlap.value or 1), bool(own.value), float(share.value or 0) / 100)
                if await tried(self._viewer.workspace.share_work, record.id, person, *values) is not None:
                    ui.notify(tr("Saved."))

            async def make_gold() -> None:
                person = await tried(self._viewer.now, Role.admin)
                if person is None:
                    return
                n = await tried(self._viewer.workspace.mark_settled_gold, record.id, person)
                if n is not None:
                    ui.notify(trn("{n} sample is known now.", "{n} samples are known now.", n))

            with El("div", classes="line"):
                button(tr("Save"), "main").on("click", save)
                button(tr("Take settled answers as known samples")).on("click", make_gold)


def _measured(alpha: float | None, common: int, least: int) -> str:
    if alpha is None:
        return trn(
            "{n} sample has answers of several people: not enough to measure agreement ({least} are needed).",
            "{n} samples have answers of several people: not enough to measure agreement ({least} are needed).",
            common,
            least=least,
        )
    return tr(
        "Agreement beyond chance (Krippendorff's alpha): {alpha}, on {common} samples. "
        "1 is full agreement, 0 is what chance would give.",
        alpha=f"{alpha:.2f}",
        common=common,
    )


def _person(person: PersonProgress) -> tuple[str, ...]:
    gold = "–"
    if person.gold is not None:
        gold = tr(
            "{right} of {n} ({low} to {high} %)",
            right=person.gold.right,
            n=person.gold.answered,
            low=f"{100 * person.gold.low:.0f}",
            high=f"{100 * person.gold.high:.0f}",
        )
    seconds = "–" if person.seconds is None else f"{person.seconds:.0f}"
    same = tr("{same} of {common}", same=person.agreed, common=person.common) if person.common else "–"
    return person.person, str(person.answers), str(person.today), seconds, same, gold


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
    with El("section", classes="card", aria_label=title):
        El("h2", title)
        if not rows:
            El("p", empty, "soft")
            return
        box = El("div", classes="scroll", tabindex="0", role="region", aria_label=title)
        with box, El("table", classes="table"):
            with El("thead"), El("tr"):
                for name in columns:
                    El("th", name, scope="col")
            with El("tbody"):
                for row in rows:
                    with El("tr"):
                        for cell in row:
                            El("td", cell, "wrap")
