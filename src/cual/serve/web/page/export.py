"""The export of labels: a plain sentence, the format, and a link from which the browser downloads it."""

from functools import partial
from urllib.parse import urlencode

from nicegui import ui
from nicegui.events import GenericEventArguments, ValueChangeEventArguments
from starlette.requests import Request

from cual.errors import Unavailable
from cual.export import formats
from cual.serve.rules.sentences import said
from cual.serve.web.page.adaptation_frame import adaptation_frame
from cual.serve.web.page.elements import El, link
from cual.serve.web.page.routes import page
from cual.serve.web.page.texts import told, tr
from cual.serve.web.page.viewer import Viewer

_WHAT = said(
    "What people answered, and what the learner believes without asking: one row per sample, with who said it, "
    "when, in which round, and how doubtful it is. Every export is written down in the audit trail."
)
_EVERYTHING = said(
    "Also what does not count: answers that were corrected or overruled, what was rejected, “cannot tell”"
)
_FORMULAS = said("In CSV, text that a spreadsheet would take for a formula begins with an apostrophe.")


def add_page() -> None:
    @page("/adaptations/{id}/export")
    async def export_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        async with adaptation_frame(Viewer.of(request), id, "/export") as adaptation_page:
            with El("div", classes="stack"):
                columns = bool(adaptation_page.pool.columns)
                export_card(f"/api/adaptations/{id}/labels", available_formats(), columns)
            adaptation_page.poll()


def available_formats() -> dict[str, str]:
    """What the service can write, in words; what needs a package that is not there is left out."""
    return {name: formats[name].about for name in formats if _can(name)}


def _can(name: str) -> bool:
    try:
        formats[name].check()
    except Unavailable:
        return False
    return True


def export_card(url: str, available: dict[str, str], columns: bool = False) -> None:
    """Choices, and the link that follows them; `columns` came with the samples and can be had as well."""
    with El("section", classes="card stack tight", aria_label=tr("Export of labels")):
        El("h2", tr("Take the labels elsewhere"))
        El("p", told(_WHAT))
        with El("div", classes="line"):
            format = ui.select(available, label=tr("Format"), value=next(iter(available)))
            format.props("outlined dense")
        boxes = {"everything": _box(told(_EVERYTHING))}
        if columns:
            boxes["columns"] = _box(tr("Also the columns that came with the samples"))
        El("p", told(_FORMULAS), "soft")
        with El("div", classes="line"):
            download = link(tr("Download"), "", "button main", download="", data_export="")

        chosen = {"format": str(format.value), **dict.fromkeys(boxes, "false")}

        def follow() -> None:
            download.set(href=f"{url}?{urlencode(chosen)}")

        def choose(event: ValueChangeEventArguments[str | None]) -> None:
            chosen["format"] = str(event.value)
            follow()

        def tick(name: str, event: GenericEventArguments) -> None:
            chosen[name] = "true" if event.args is True else "false"
            follow()

        format.on_value_change(choose)
        for name, box in boxes.items():
            box.on("change", partial(tick, name), js_handler="(event) => emit(event.target.checked)")
        follow()


def _box(words: str) -> El:
    """A choice to tick."""
    with El("label", classes="line"):
        box = El("input", type_="checkbox")
        El("span", words)
    return box
