"""A board of tiles in groups, and the keyboard on it. What the keys mean, each page says."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui.element import Element
from nicegui.events import GenericEventArguments, Handler

from cual.serve.rules.sentences import said
from cual.serve.web.page.elements import El
from cual.serve.web.page.keymap import LOOK
from cual.serve.web.page.looking import Looking
from cual.serve.web.page.samples import Cells
from cual.serve.web.page.texts import told, trn

FEW = 3
"""Columns that a tile has room for."""
_TEXTS = {
    "selected": said("{n} selected"),
    "several": said("{n} selected: {what}? Enter does it for all of them, Escape for none."),
    "severalByFinger": said("{n} selected: {what} for all of them?"),
}
"""What keys.js says; it fills in the rest."""


@dataclass(frozen=True)
class Tile:
    """What one tile shows; `words` stand where there is no picture."""

    id: int
    group: str
    name: str
    """What a screen reader says."""
    picture: str | None
    words: str
    caption: str = ""
    strong: str = ""
    """Part of the caption that stands out."""
    columns: Cells = ()
    """What a table says of a sample without a picture: the first few here, all when it is looked at."""


@dataclass(frozen=True)
class Act:
    """What a person did, for which tiles; `index` or `name` of a class where one was chosen."""

    verb: str
    ids: tuple[int, ...]
    index: int | None = None
    name: str | None = None

    @classmethod
    def read(cls, args: Any) -> "Act | None":
        """None for what no page of ours would send.

        >>> Act.read({"verb": "answer", "ids": ["4", "7"], "class": 2})
        Act(verb='answer', ids=(4, 7), index=2, name=None)
        >>> Act.read({"verb": "answer", "ids": ["; drop"]}), Act.read(["x"])
        (None, None)
        """
        if not isinstance(args, dict):
            return None
        verb, ids, index, name = (args.get(key) for key in ("verb", "ids", "class", "name"))
        if not isinstance(verb, str) or not isinstance(ids, list) or len(ids) > 1000:
            return None
        if not all(isinstance(id, str) and id.isascii() and id.isdigit() and len(id) < 19 for id in ids):
            return None
        if not isinstance(index, int | None) or not isinstance(name, str | None):
            return None
        return cls(verb, tuple(int(id) for id in ids), index, name)


@dataclass(frozen=True)
class Search:
    """What somebody has typed so far, for which tiles."""

    serial: int
    text: str
    ids: tuple[int, ...]

    @classmethod
    def read(cls, args: Any) -> "Search | None":
        """None for what no page of ours would send.

        >>> Search.read({"serial": 3, "text": "ow", "ids": ["4"]}), Search.read({"serial": "x"})
        (Search(serial=3, text='ow', ids=(4,)), None)
        """
        act = Act.read({**args, "verb": "search"}) if isinstance(args, dict) else None
        if act is None:
            return None
        serial, text = args.get("serial"), args.get("text")
        if not isinstance(serial, int) or not isinstance(text, str) or len(text) > 100:
            return None
        return cls(serial, text, act.ids)


class Keys(Element, component="keys.js"):
    """The keyboard: see keys.js, which runs in the browser.

    Parameters
    ----------
    verbs
        Key, or Control+ and a key, to the verb it stands for; the verb comes back in the event "act". F4 looks
        at a tile on every board, and nothing comes back.
    leaving
        Verbs that take a tile off the board.
    onward
        Verbs that leave it there, and after which the next tile has the focus.
    asking
        Verbs that ask for Enter when they are meant for several tiles.
    """

    def __init__(
        self,
        verbs: Mapping[str, str],
        leaving: Sequence[str] = (),
        onward: Sequence[str] = (),
        asking: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.props["texts"] = {name: told(text) for name, text in _TEXTS.items()}
        self.props.update(
            {
                "verbs": {**LOOK, **verbs},
                "leaving": list(leaving),
                "onward": list(onward),
                "asking": list(asking),
            }
        )

    def on_act(self, handler: Handler[GenericEventArguments]) -> None:
        self.on("act", handler)

    def on_search(self, handler: Handler[GenericEventArguments]) -> None:
        """Somebody types a class's name: `Search.read` says what; `found` answers."""
        self.on("search", handler)

    def found(self, serial: int, matches: Sequence[tuple[int, bool]]) -> None:
        """Which classes what was typed may mean, the best first: index, and whether Enter may take it."""
        self.run_method("found", serial, [list(match) for match in matches])

    def proposed(self) -> None:
        """The question which class is meant, or whether it is a new one, is on the page."""
        self.run_method("proposed")

    def set_classes(self, keys: Mapping[str, int]) -> None:
        """Which key stands for the class of which index."""
        if self.props.get("classes") != dict(keys):
            self.props["classes"] = dict(keys)

    def focus(self, tile: int) -> None:
        self.run_method("focusTile", str(tile))

    def restore(self, ids: Sequence[int]) -> None:
        """Bring back tiles that were dimmed for something that then failed."""
        self.run_method("restore", [str(id) for id in ids])


class Holding(Element, component="holding.js"):
    """A finger held on a tile: see holding.js, which runs in the browser and needs no server."""


class Board:
    """Tiles by group. `show` changes only what differs, so that the focus stays where it is."""

    def __init__(self, texts: bool = False) -> None:
        self._texts = texts
        self._groups: dict[str, _Group] = {}
        self._tiles: dict[int, _TileElement] = {}
        Looking()
        Holding()
        self.element = El("div", classes="board", data_board="", data_keys="")

    def __contains__(self, id: int) -> bool:
        return id in self._tiles

    def __len__(self) -> int:
        return len(self._tiles)

    @property
    def ids(self) -> list[int]:
        return list(self._tiles)

    def show(self, tiles: Sequence[Tile]) -> None:
        """Have these tiles and no others."""
        wanted = {tile.id: tile for tile in tiles}
        for id, element in list(self._tiles.items()):
            if id not in wanted or wanted[id].group != element.tile.group:
                self.remove([id])
        for tile in tiles:
            self.add(tile)

    def add(self, tile: Tile) -> None:
        if tile.id in self._tiles:
            self._tiles[tile.id].show(tile)
            return
        if tile.group not in self._groups:
            with self.element:
                self._groups[tile.group] = _Group(tile.group, self._texts)
        group = self._groups[tile.group]
        with group.grid:
            self._tiles[tile.id] = _TileElement(tile)
        group.count(1)

    def remove(self, ids: Sequence[int]) -> None:
        for id in ids:
            element = self._tiles.pop(id, None)
            if element is None:
                continue
            element.delete()
            group = self._groups[element.tile.group]
            if not group.count(-1):
                group.delete()
                del self._groups[element.tile.group]


class _Group(El):
    def __init__(self, title: str, texts: bool) -> None:
        super().__init__("section", classes="group", data_group="")
        self._n = 0
        with self:
            with El("div", classes="line"):
                El("h2", title)
                self._count = El("span")
            self.grid = El("div", classes="grid texts" if texts else "grid", role="listbox", aria_label=title)
            self.grid.set(aria_multiselectable="true")

    def count(self, change: int) -> int:
        self._n += change
        self._count.say(str(self._n))
        return self._n


class _TileElement(El):
    def __init__(self, tile: Tile) -> None:
        super().__init__("div", classes="tile", role="option", tabindex="-1", aria_selected="false")
        self.set(data_tile=str(tile.id))
        # Of a tile that lies here already, a page need not read again what stands for its sample.
        self._words = "\n".join([tile.words, *(f"{name}: {value}" for name, value in tile.columns[:FEW])])
        if tile.columns and tile.picture is None:
            self.set(data_columns=json.dumps(tile.columns))
        with self:
            if tile.picture is not None:
                self._picture = El("img", src=tile.picture, alt=tile.name, draggable="false")
            else:
                self._picture = None
                El("div", tile.words, "words")
                _show_columns(tile.columns)
            self._caption = El("div", classes="caption")
            with self._caption:
                self._strong, self._weak = El("b"), El("span")
        self.show(tile)

    def show(self, tile: Tile) -> None:
        self.tile = tile
        self.set(aria_label=tile.name if tile.picture else f"{tile.name}: {self._words}", data_called=tile.name)
        if self._picture is not None:
            self._picture.set(alt=tile.name)
        self._caption.set_visibility(bool(tile.caption or tile.strong))
        self._strong.say(f"{tile.strong} " if tile.strong and tile.caption else tile.strong)
        self._weak.say(tile.caption)


def _show_columns(columns: Cells) -> None:
    """The first few columns of a sample, and how many more there are."""
    if not columns:
        return
    with El("dl", classes="columns"):
        for name, value in columns[:FEW]:
            with El("div"):
                El("dt", name)
                El("dd", value)
    more = len(columns) - FEW
    if more > 0:
        El("p", trn("and {n} more column: F4", "and {n} more columns: F4", more), "more-columns")
