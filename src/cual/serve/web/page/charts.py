"""Options of the two charts: the map of the pool and the histogram of scores. Plain data, no elements."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from cual.serve.rules.records import PoolKind
from cual.serve.rules.sentences import Sentence, said
from cual.serve.web.page.texts import told, tr
from cual.types import Label

# Okabe and Ito's colours, told apart by most colour-blind people, and a shape each for everybody else.
LOOKS: Mapping[str, tuple[Sentence, str, str, int]] = {
    "old": (said("looks known"), "#8a9099", "circle", 6),
    "ambiguous": (said("hard to say"), "#e69f00", "diamond", 9),
    "novel": (said("looks new"), "#2a86c8", "triangle", 8),
    "pseudo": (said("labelled without asking"), "#009e73", "rect", 8),
    "asked": (
        said("asked"),
        "#d55e00",
        "path://M50 0L61 35H98L68 57L79 91L50 70L21 91L32 57L2 35H39Z",
        14,
    ),
}
SHAPES = ("circle", "triangle", "rect", "diamond", "roundRect", "pin", "arrow")
"""Of classes, in turn: neighbours in the legend differ by more than their colour."""
MOST_CLASSES = 20
"""Classes with a colour of their own on the map; the rarer ones share one."""
Colours = Literal["state", "class"]
Points = Mapping[str, Sequence[Any]]
INK = "getComputedStyle(document.body).getPropertyValue('--ink')"
SOFT = "getComputedStyle(document.body).getPropertyValue('--soft')"
LINE = "getComputedStyle(document.body).getPropertyValue('--line')"
_SURFACE = "getComputedStyle(document.body).getPropertyValue('--surface')"
# Built from nodes, not from markup: a class name is text, whatever is in it.
_TIP = """(point) => {
  const [, , row, label, state] = point.value;
  const number = %(row)s.replace("#", row);
  const tip = Object.assign(document.createElement("div"), {className: "tip"});
  if ("%(kind)s" === "pictures") {
    tip.append(Object.assign(document.createElement("img"), {src: "%(address)s" + row, alt: number}));
  }
  const said = %(states)s[state] + (label === null ? "" : ": " + label);
  tip.append(Object.assign(document.createElement("b"), {textContent: said}));
  const words = Object.assign(document.createElement("span"), {textContent: number});
  tip.append(words);
  if ("%(kind)s" === "text") {
    fetch("%(address)s" + row).then((r) => r.json()).then((r) => words.textContent = r.text.slice(0, 400));
  }
  return tip;
}"""
# The arrow keys walk from point to point, so that the map can be read without a mouse.
WALK = """(event) => {
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
  const chart = getElement(%d)?.chart;
  if (!step || !chart) return;
  event.preventDefault();
  const sizes = chart.getOption().series.map((s) => s.silent ? 0 : s.data.length);
  const all = sizes.reduce((a, b) => a + b, 0);
  if (!all) return;
  const box = event.currentTarget;
  let at = (Number(box.dataset.at ?? -1) + step + all) %% all;
  box.dataset.at = at;
  let seriesIndex = 0;
  while (at >= sizes[seriesIndex]) at -= sizes[seriesIndex++];
  chart.dispatchAction({type: "showTip", seriesIndex, dataIndex: at});
}"""
# What the lasso has gone around, in the map's own coordinates.
LASSOED = """(event) => {
  const area = event.areas?.[0];
  emit(area?.coordRange ? area.coordRange.map((p) => p.map((v) => +v.toPrecision(6))) : []);
}"""
_CURSOR = {"type": "takeGlobalCursor", "key": "brush"}
LASSO: Mapping[bool, dict[str, Any]] = {
    True: {**_CURSOR, "brushOption": {"brushType": "polygon", "brushMode": "single"}},
    False: {**_CURSOR, "brushOption": {"brushType": False}},
}
"""Actions of the chart by which a mouse or a finger draws a lasso, or does not any more."""
NO_LASSO: dict[str, Any] = {"type": "brush", "areas": []}


def map_options(
    points: Points,
    kind: PoolKind,
    address: str,
    selected: Collection[int] = (),
    classes: Mapping[Label, str] | None = None,
) -> dict[str, Any]:
    """A scatter plot of `Workspace.map`, coloured by state, or by class where their colours are given."""
    order = list(LOOKS)
    columns = (points[k] for k in ("x", "y", "row", "label", "state"))
    every = [
        [x, y, row, None if label is None else str(label), order.index(state)]
        for x, y, row, label, state in zip(*columns, strict=True)
    ]
    series = _by_state(every) if classes is None else _by_class(every, points["label"], classes)
    ringed = [point for point in every if point[2] in selected]
    ring = _series(tr("selected"), "transparent", "circle", 16, ringed)
    ring["itemStyle"] = {"color": "transparent", ":borderColor": INK, "borderWidth": 2}
    ring.update(silent=True, z=4)
    states = json.dumps([told(look[0]) for look in LOOKS.values()])
    tip = {"kind": kind, "address": address, "states": states, "row": json.dumps(tr("row {row}", row="#"))}
    return {
        "animation": False,
        "grid": {"left": 8, "right": 8, "top": 44, "bottom": 8},
        "legend": {
            "type": "scroll",
            "top": 0,
            "itemGap": 16,
            "itemWidth": 14,
            "itemHeight": 14,
            "textStyle": {":color": INK},
            ":inactiveColor": LINE,
            ":pageIconColor": INK,
            "pageTextStyle": {":color": INK},
        },
        "xAxis": {"type": "value", "scale": True, "show": False},
        "yAxis": {"type": "value", "scale": True, "show": False},
        "dataZoom": [{"type": "inside", "xAxisIndex": 0}, {"type": "inside", "yAxisIndex": 0}],
        "toolbox": {"show": False},
        "brush": {
            "toolbox": [],
            "xAxisIndex": "all",
            "yAxisIndex": "all",
            "brushMode": "single",
            "transformable": False,
            "brushStyle": {"color": "rgba(42, 134, 200, 0.12)", "borderColor": "#2a86c8", "borderWidth": 2},
            "outOfBrush": {"colorAlpha": 1},
        },
        "tooltip": {
            "trigger": "item",
            "confine": True,
            ":backgroundColor": _SURFACE,
            ":borderColor": LINE,
            "textStyle": {":color": INK},
            ":formatter": _TIP % tip,
        },
        "series": [*series, ring],
    }


def _series(name: str, colour: str, symbol: str, size: int, data: list[list[Any]]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": f"{name} ({len(data):,})",
        "symbol": symbol,
        "symbolSize": size,
        "itemStyle": {"color": colour, "opacity": 0.85},
        "emphasis": {"scale": 1.8},
        "data": data,
    }


def _by_state(every: Sequence[list[Any]]) -> list[dict[str, Any]]:
    return [
        _series(told(name), colour, symbol, size, [point for point in every if point[4] == i])
        for i, (name, colour, symbol, size) in enumerate(LOOKS.values())
    ]


def _by_class(
    every: Sequence[list[Any]], labels: Sequence[Label | None], classes: Mapping[Label, str]
) -> list[dict[str, Any]]:
    grey = LOOKS["old"][1]
    of: dict[Label | None, list[list[Any]]] = {label: [] for label in classes}
    none: list[list[Any]] = []
    rare: list[list[Any]] = []
    for point, label in zip(every, labels, strict=True):
        (none if label is None else of.get(label, rare)).append(point)
    series = [_series(tr("no class yet"), grey, "circle", 5, none)]
    series += [
        _series(str(label), classes[label], SHAPES[i % len(SHAPES)], 9, of[label])
        for i, label in enumerate(classes)
    ]
    return [*series, _series(tr("other classes"), "#b07aa1", "emptyCircle", 8, rare)] if rare else series


def frequent(points: Points) -> list[Label]:
    """The classes of points that get a colour of their own, the most frequent first.

    >>> frequent({"label": ["owl", None, "bat", "bat"]})
    ['bat', 'owl']
    """
    counts = Counter(label for label in points["label"] if label is not None)
    return [label for label, _ in counts.most_common(MOST_CLASSES)]


def inside(points: Points, corners: object) -> list[int]:
    """Rows of the points that a lasso with these corners goes around; none where it is not one.

    >>> three = {"x": [0.5, 2.0, 0.2], "y": [0.5, 0.5, 0.9], "row": [4, 5, 6]}
    >>> inside(three, [[0, 0], [1, 0], [1, 1], [0, 1]]), inside(three, [[0, 0], [1, 0], [0, 0.1]])
    ([4, 6], [])
    >>> inside(three, "x"), inside(three, [[0, 0], [1, None], [1, 1]])
    ([], [])
    """
    try:
        polygon = np.asarray(corners, dtype=np.float64)
    except (TypeError, ValueError):
        return []
    if (
        polygon.ndim != 2
        or polygon.shape[1] != 2
        or not 3 <= len(polygon) <= 10_000
        or not np.isfinite(polygon).all()
    ):
        return []
    x, y = np.asarray(points["x"], dtype=np.float64), np.asarray(points["y"], dtype=np.float64)
    within = np.zeros(len(x), dtype=bool)
    for (x1, y1), (x2, y2) in zip(polygon, np.roll(polygon, 1, axis=0), strict=True):
        if y1 != y2:
            within ^= ((y1 > y) != (y2 > y)) & (x < (x2 - x1) * (y - y1) / (y2 - y1) + x1)
    return [row for row, hit in zip(points["row"], within.tolist(), strict=True) if hit]


def shown_of(shown: int, total: int) -> str:
    """How many samples a map shows, and of how many, where that is not all.

    >>> shown_of(600, 600), shown_of(5000, 120000)
    ('600 samples', '5,000 of 120,000 samples shown')
    """
    if shown < total:
        return tr("{shown} of {total} samples shown", shown=f"{shown:,}", total=f"{total:,}")
    return tr("{n} samples", n=f"{shown:,}")


def map_summary(points: Points, total: int, colours: Colours = "state") -> str:
    """The map in words.

    >>> map_summary({"state": ["old", "novel", "old"], "label": [None, None, "owl"]}, 9, "class")
    'Map of the pool, 3 of 9 samples shown: 1 owl, 2 without a class.'
    """
    if colours == "state":
        counts = Counter(points["state"])
        parts = [f"{counts[state]:,} {told(look[0])}" for state, look in LOOKS.items()]
    else:
        labels = Counter(points["label"])
        parts = [f"{labels[label]:,} {label}" for label in frequent(points)]
        rest = sum(n for label, n in labels.items() if label is not None) - sum(
            labels[label] for label in frequent(points)
        )
        parts += [tr("{n} of other classes", n=f"{rest:,}")] if rest else []
        parts += [tr("{n} without a class", n=f"{labels[None]:,}")]
    shown = shown_of(len(points["state"]), total)
    return tr("Map of the pool, {shown}: {counts}.", shown=shown, counts=", ".join(parts))


def histogram_options(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Bars of `Workspace.scores`, with a line at its limit: novel is to its right."""
    edges, counts, limit = scores["edges"], scores["counts"], scores["t_inner"]
    bars: list[dict[str, Any]] = []
    for low, high, n in zip(edges[:-1], edges[1:], counts, strict=True):
        middle = (low + high) / 2
        novel = limit is not None and middle > limit
        bars.append({"value": [middle, n], "itemStyle": {"color": LOOKS["novel" if novel else "old"][1]}})
    line = {
        "symbol": "none",
        "silent": True,
        "lineStyle": {"width": 2, ":color": INK, "type": "dashed"},
        "label": {"formatter": tr("new →"), ":color": INK, "position": "end"},
        "data": [] if limit is None else [{"xAxis": limit}],
    }
    axis = {"axisLabel": {":color": SOFT}, "nameTextStyle": {":color": SOFT}}
    ends = {"min": edges[0], "max": edges[-1]} if len(edges) else {}
    return {
        "animation": False,
        "grid": {"left": 48, "right": 24, "top": 28, "bottom": 44},
        "xAxis": {
            "type": "value",
            "name": tr("how unlike everything known"),
            "nameLocation": "middle",
            "nameGap": 26,
            "splitLine": {"show": False},
            "axisLabel": {":color": SOFT, ":formatter": "(v) => String(+v.toPrecision(3))"},
            "nameTextStyle": {":color": SOFT},
            **ends,
        },
        "yAxis": {"type": "value", "minInterval": 1, "splitLine": {"lineStyle": {":color": LINE}}, **axis},
        "series": [{"type": "bar", "barCategoryGap": "8%", "data": bars, "markLine": line}],
    }


def histogram_summary(scores: Mapping[str, Any]) -> str:
    """The histogram in words.

    >>> print(histogram_summary({"edges": [0, 1, 2], "counts": [5, 2], "t_inner": 1.0}))
    7 samples without a label, by how unlike everything known they are, from 0 to 2. \
The line is at 1: what lies right of it is probably new.
    """
    edges, total = scores["edges"], sum(scores["counts"])
    if not len(edges):
        return tr("Nothing is known yet: the learner has not looked at the samples.")
    words = tr(
        "{n} samples without a label, by how unlike everything known they are, from {low} to {high}.",
        n=f"{total:,}",
        low=f"{edges[0]:.3g}",
        high=f"{edges[-1]:.3g}",
    )
    limit = scores["t_inner"]
    if limit is None:
        return words
    line = tr("The line is at {limit}: what lies right of it is probably new.", limit=f"{limit:.3g}")
    return f"{words} {line}"
