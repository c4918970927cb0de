"""Options of the two charts: the map of the pool and the histogram of scores. Plain data, no elements."""

from collections.abc import Mapping, Sequence
from typing import Any

from cual.serve.rules.records import PoolKind

# Okabe and Ito's colours, told apart by most colour-blind people, and a shape each for everybody else.
LOOKS: Mapping[str, tuple[str, str, str, int]] = {
    "old": ("old", "#8a9099", "circle", 6),
    "ambiguous": ("ambiguous", "#e69f00", "diamond", 9),
    "novel": ("novel", "#2a86c8", "triangle", 8),
    "pseudo": ("labelled without asking", "#009e73", "rect", 8),
    "asked": ("asked", "#d55e00", "path://M50 0L61 35H98L68 57L79 91L50 70L21 91L32 57L2 35H39Z", 14),
}
_INK = "getComputedStyle(document.body).getPropertyValue('--ink')"
_SOFT = "getComputedStyle(document.body).getPropertyValue('--soft')"
_LINE = "getComputedStyle(document.body).getPropertyValue('--line')"
_SURFACE = "getComputedStyle(document.body).getPropertyValue('--surface')"
# Built from nodes, not from markup: a class name is text, whatever is in it.
_TIP = """(point) => {
  const [, , row, label] = point.value;
  const tip = Object.assign(document.createElement("div"), {className: "tip"});
  if ("%(kind)s" === "pictures") {
    tip.append(Object.assign(document.createElement("img"), {src: "%(address)s" + row, alt: "row " + row}));
  }
  const said = point.seriesName.replace(/ \\(.*/, "") + (label === null ? "" : ": " + label);
  tip.append(Object.assign(document.createElement("b"), {textContent: said}));
  const words = Object.assign(document.createElement("span"), {textContent: "row " + row});
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
  const sizes = chart.getOption().series.map((s) => s.data.length);
  const all = sizes.reduce((a, b) => a + b, 0);
  if (!all) return;
  const box = event.currentTarget;
  let at = (Number(box.dataset.at ?? -1) + step + all) %% all;
  box.dataset.at = at;
  let seriesIndex = 0;
  while (at >= sizes[seriesIndex]) at -= sizes[seriesIndex++];
  chart.dispatchAction({type: "showTip", seriesIndex, dataIndex: at});
}"""


def map_options(points: Mapping[str, Sequence[Any]], kind: PoolKind, address: str) -> dict[str, Any]:
    """A scatter plot of `Workspace.map`."""
    by_state: dict[str, list[list[Any]]] = {state: [] for state in LOOKS}
    for x, y, row, state, label in zip(*(points[k] for k in ("x", "y", "row", "state", "label")), strict=True):
        by_state[state].append([x, y, row, None if label is None else str(label)])
    series: list[dict[str, Any]] = []
    for state, (name, colour, symbol, size) in LOOKS.items():
        series.append(
            {
                "type": "scatter",
                "name": f"{name} ({len(by_state[state])})",
                "symbol": symbol,
                "symbolSize": size,
                "itemStyle": {"color": colour, "opacity": 0.85},
                "emphasis": {"scale": 1.8},
                "data": by_state[state],
            }
        )
    return {
        "animation": False,
        "grid": {"left": 8, "right": 8, "top": 44, "bottom": 8},
        "legend": {
            "top": 0,
            "itemGap": 16,
            "itemWidth": 14,
            "itemHeight": 14,
            "textStyle": {":color": _INK},
            ":inactiveColor": _LINE,
        },
        "xAxis": {"type": "value", "scale": True, "show": False},
        "yAxis": {"type": "value", "scale": True, "show": False},
        "dataZoom": [{"type": "inside", "xAxisIndex": 0}, {"type": "inside", "yAxisIndex": 0}],
        "tooltip": {
            "trigger": "item",
            "confine": True,
            ":backgroundColor": _SURFACE,
            ":borderColor": _LINE,
            "textStyle": {":color": _INK},
            ":formatter": _TIP % {"kind": kind, "address": address},
        },
        "series": series,
    }


def map_summary(points: Mapping[str, Sequence[Any]]) -> str:
    """The map in words.

    >>> map_summary({"state": ["old", "novel", "old"]})
    'Map of 3 samples: 2 old, 0 ambiguous, 1 novel, 0 labelled without asking, 0 asked.'
    """
    states = list(points["state"])
    counts = ", ".join(f"{states.count(state)} {look[0]}" for state, look in LOOKS.items())
    return f"Map of {len(states)} samples: {counts}."


def histogram_options(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Bars of `Workspace.scores`, with a line at T_inner: novel is to its right."""
    edges, counts, limit = scores["edges"], scores["counts"], scores["t_inner"]
    bars: list[dict[str, Any]] = []
    for low, high, n in zip(edges[:-1], edges[1:], counts, strict=True):
        middle = (low + high) / 2
        novel = limit is not None and middle > limit
        bars.append({"value": [middle, n], "itemStyle": {"color": LOOKS["novel" if novel else "old"][1]}})
    line = {
        "symbol": "none",
        "silent": True,
        "lineStyle": {"width": 2, ":color": _INK, "type": "dashed"},
        "label": {"formatter": "T_inner", ":color": _INK, "position": "end"},
        "data": [] if limit is None else [{"xAxis": limit}],
    }
    axis = {"axisLabel": {":color": _SOFT}, "nameTextStyle": {":color": _SOFT}}
    ends = {"min": edges[0], "max": edges[-1]} if len(edges) else {}
    return {
        "animation": False,
        "grid": {"left": 48, "right": 24, "top": 28, "bottom": 44},
        "xAxis": {
            "type": "value",
            "name": "score",
            "nameLocation": "middle",
            "nameGap": 26,
            "splitLine": {"show": False},
            "axisLabel": {":color": _SOFT, ":formatter": "(v) => String(+v.toPrecision(3))"},
            "nameTextStyle": {":color": _SOFT},
            **ends,
        },
        "yAxis": {"type": "value", "minInterval": 1, "splitLine": {"lineStyle": {":color": _LINE}}, **axis},
        "series": [{"type": "bar", "barCategoryGap": "8%", "data": bars, "markLine": line}],
    }


def histogram_summary(scores: Mapping[str, Any]) -> str:
    """The histogram in words.

    >>> histogram_summary({"edges": [0, 1, 2], "counts": [5, 2], "t_inner": 1.0})
    'Histogram of 7 scores between 0 and 2; T_inner is 1.'
    """
    edges, total = scores["edges"], sum(scores["counts"])
    if not len(edges):
        return "No scores yet."
    limit = scores["t_inner"]
    end = "" if limit is None else f"; T_inner is {limit:.3g}"
    return f"Histogram of {total} scores between {edges[0]:.3g} and {edges[-1]:.3g}{end}."
