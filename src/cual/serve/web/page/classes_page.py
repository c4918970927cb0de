"""The classes of an agent: what people are told of each while they label, and where it is written.

Administrators say what a class is, rename, merge and remove classes; whoever answers chooses their own keys.
"""

from collections.abc import Sequence

from nicegui import ui
from nicegui.events import GenericEventArguments
from starlette.requests import Request

from cual.serve.rules.class_keys import KEYS
from cual.serve.rules.classes import LONGEST_DESCRIPTION, MOST_CHOSEN
from cual.serve.rules.finding import find
from cual.serve.rules.records import ClassRecord, ExampleRecord, Role
from cual.serve.web.page.class_repair import ClassRepair
from cual.serve.web.page.elements import El, button, key_cap, link
from cual.serve.web.page.frame import frame
from cual.serve.web.page.own_keys import OwnKeys
from cual.serve.web.page.routes import page
from cual.serve.web.page.texts import tr
from cual.serve.web.page.viewer import Viewer, asked, tried
from cual.types import Label

PER_PAGE = 60
_PICTURES = 4


def add_page() -> None:
    @page("/agents/{id}/classes")
    async def classes_page(request: Request, id: int) -> None:  # pyright: ignore[reportUnusedFunction]
        viewer = Viewer.of(request)
        agent = await asked(viewer.workspace.agent, id)
        with frame(viewer, tr("Classes · {name}", name=agent.name)), El("div", classes="stack tight"):
            El("h1", tr("Classes of {name}", name=agent.name), "wrap")
            link(tr("History"), f"/agents/{id}")
            await Classes(viewer, id).load()


class Classes:
    """All classes of one agent, or those that fit what is typed."""

    def __init__(self, viewer: Viewer, agent: int) -> None:
        self._viewer, self._agent = viewer, agent
        self._records: dict[Label, ClassRecord] = {}
        self._known: list[Label] = []
        """Those that the current version knows; answers may have named more since."""
        self._keys: dict[Label, str] = {}
        self._pictured: set[int] = set()
        self._typed = ""
        self._shown = PER_PAGE
        with El("div", classes="stack"):
            self._own = OwnKeys(viewer, agent, self.load)
            find_box = El(
                "input", classes="find", type_="search", placeholder=tr("Find a class"), maxlength="100"
            )
            find_box.set(aria_label=tr("Find a class"), autocomplete="off")
            find_box.on("input", self._find, js_handler="(event) => emit(event.target.value)")
            self._box = El("div", classes="cards", data_classes="")
            self._more = button(tr("Show more")).on("click", self._show_more)

    async def load(self) -> None:
        workspace = self._viewer.workspace
        self._records = {record.label: record for record in await asked(workspace.classes, self._agent)}
        self._known = (await asked(workspace.agent, self._agent)).classes
        keys = await asked(workspace.kept_keys, self._agent, self._viewer.person)
        self._keys = {label: key for key, label in keys.items()}
        self._own.show(keys)
        self._pictured = {pool.id for pool in await asked(workspace.pools) if pool.kind == "pictures"}
        self._draw()

    def _find(self, event: GenericEventArguments) -> None:
        self._typed = str(event.args)[:100]
        self._shown = PER_PAGE
        self._draw()

    def _show_more(self) -> None:
        self._shown += PER_PAGE
        self._draw()

    def _draw(self) -> None:
        labels = sorted(self._records, key=str)
        if self._typed.strip():
            labels = [match.label for match in find(self._typed, labels)]
        self._box.clear()
        with self._box:
            for label in labels[: self._shown]:
                self._card(self._records[label])
        self._more.set_visibility(len(labels) > self._shown)

    def _card(self, record: ClassRecord) -> None:
        name = str(record.label)
        with El("article", classes="card", aria_label=name):
            with El("div", classes="line"):
                El("span", classes="colour", style=f"background: {record.colour}")
                El("h2", name, "wrap")
                if record.label in self._keys:
                    key_cap(self._keys[record.label])
            El("p", record.description or tr("Nobody has said what it is."), "wrap about-whole soft")
            self._pictures(record.examples[:_PICTURES], name)
            with El("div", classes="line"):
                if self._viewer.may(Role.annotator):
                    button(tr("Edit"), aria_label=tr("Edit {name}", name=name)).on(
                        "click", lambda: self._edit(record)
                    )
                if self._viewer.may(Role.admin) and record.label in self._known:
                    button(tr("Change"), aria_label=tr("Change {name}", name=name)).on(
                        "click", lambda: self._change(record.label)
                    )

    def _pictures(self, examples: Sequence[ExampleRecord], name: str) -> None:
        with El("div", classes="line examples"):
            for example in examples:
                if example.pool in self._pictured:
                    El("img", src=_address(example), alt=tr("Example of {name}", name=name), loading="lazy")

    async def _change(self, label: Label) -> None:
        """Rename, merge or remove a class."""
        if await ClassRepair(self._viewer, self._agent).change(label, self._known):
            await self.load()

    async def _edit(self, record: ClassRecord) -> None:
        may, name = self._viewer.may(Role.admin), str(record.label)
        chosen = {(example.pool, example.row): example.chosen for example in record.examples}
        with ui.dialog() as dialog, El("div", classes="card"):
            El("h2", name, "wrap")
            text = ui.textarea(tr("What it is"), value=record.description).props("outlined autogrow")
            text.props["maxlength"] = LONGEST_DESCRIPTION
            colour = ui.input(tr("Colour, as #rrggbb"), value=record.colour).props("outlined dense")
            if may:
                self._choices(record, chosen)
            else:
                text.delete()
                colour.delete()
            before = self._keys.get(record.label, "")
            key = ui.select(self._key_choices(record.label), label=tr("My key"), value=before)
            key.props("outlined dense")
            with El("div", classes="line"):
                button(tr("Save"), "main").on("click", lambda: dialog.submit(True))
                button(tr("Cancel")).on("click", lambda: dialog.submit(False))
        dialog.props["aria-label"] = tr("Edit {name}", name=name)
        if await dialog:
            if may:
                examples = [place for place, on in chosen.items() if on][:MOST_CHOSEN]
                given = colour.value if colour.value != record.colour else None
                await self._describe(record.label, text.value or "", given, examples)
            if key.value != before:
                await (self._own.give(key.value, record.label) if key.value else self._own.take(before))
            await self.load()
        dialog.clear()

    def _key_choices(self, label: Label) -> dict[str, str]:
        """The nine digits, each with the class that would lose it."""
        others = {key: other for other, key in self._keys.items() if other != label}
        taken = {key: tr("{key} (now: {label})", key=key, label=other) for key, other in others.items()}
        return {"": tr("no key"), **{key: taken.get(key, key) for key in KEYS}}

    def _choices(self, record: ClassRecord, chosen: dict[tuple[int, int], bool]) -> None:
        """Pictures that people gave this class; those that are pressed are its examples for good."""
        pictured = [example for example in record.examples if example.pool in self._pictured]
        if not pictured:
            return
        El("p", tr("Examples: choose up to {n}.", n=MOST_CHOSEN), "soft")
        with El("div", classes="line examples", role="group", aria_label=tr("Examples")):
            for example in pictured:
                self._choice(example, str(record.label), chosen)

    def _choice(self, example: ExampleRecord, name: str, chosen: dict[tuple[int, int], bool]) -> None:
        place = (example.pool, example.row)

        def press() -> None:
            chosen[place] = not chosen[place]
            choice.set(aria_pressed=str(chosen[place]).lower())

        with button("", "choice", aria_pressed=str(chosen[place]).lower()) as choice:
            El("img", src=_address(example), alt=tr("Example of {name}, row {row}", name=name, row=example.row))
        choice.on("click", press)

    async def _describe(
        self, label: Label, text: str, colour: str | None, examples: Sequence[tuple[int, int]]
    ) -> None:
        person = await tried(self._viewer.now, Role.admin)
        if person is not None:
            await tried(
                self._viewer.workspace.describe_class, self._agent, label, person, text, colour, examples
            )


def _address(example: ExampleRecord) -> str:
    return f"/api/pools/{example.pool}/pictures/{example.row}"
