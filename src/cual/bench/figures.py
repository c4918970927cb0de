"""Figures of results, one function each, with matplotlib (loaded when drawing). `report` arranges them."""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cual.bench.colours import colours
from cual.bench.results import Group, Value, of_round
from cual.bench.rows import ZONES
from cual.bench.tables import LONG, by_novelty, ordered, shown
from cual.methods import methods
from cual.types import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#222426"
"""Text, axes and grid; becomes the page's own colour when a figure is put into HTML, light or dark."""
LEADING = (
    "oracle", "cual", "cual-plus", "er-entropy", "er-random", "pseudo-er-entropy", "al-random", "ccic",
    "incdfm", "pseudo-er-margin", "al-oneshot",
)  # fmt: skip
"""Who is drawn first where there are more methods than lines that an eye can follow."""
MOST = 8
ZONE_COLOURS = {"novel": "#d1495b", "ambiguous": "#e0a030", "old": "#2b83c6"}


def leading(names: Sequence[str], most: int = MOST) -> list[str]:
    """At most so many of the methods: the ones people look for first.

    >>> leading(["only-al", "er-entropy", "cual"], 2)
    ['cual', 'er-entropy']
    """
    return sorted(names, key=lambda m: LEADING.index(m) if m in LEADING else len(LEADING))[:most]


def namers(groups: Sequence[Group]) -> list[str]:
    """Methods that learn the names of new classes, so that their accuracy says something (incdfm does not)."""
    return [m for m in ordered(groups) if m not in methods or not methods[m].learner.unnamed]


def accuracy_over_tasks(group: Group) -> "Figure":
    """Accuracy over all classes so far, task by task (the paper's figure 1, left)."""
    figure, axes = blank("task", "accuracy (%)")
    shades = colours(group.methods)
    for m in leading(namers([group])):
        band(axes, group.per_task(m, lambda row: row["accuracy"]), m, shades[m])
    return done(figure, axes)


def accuracy_under_drift(group: Group) -> "Figure":
    """Accuracy on the present look (left) and on the first one (right); dashed, of the agent before tasks."""
    figure, both = side_by_side("task", ("present look, accuracy (%)", "first look, accuracy (%)"))
    shades = colours(group.methods)
    for axes, name in zip(both, ("", "first_look_"), strict=True):
        for m in leading(namers([group]), 4):
            followed = group.per_task(m, lambda row, name=name: row.get(f"{name}accuracy"))
            frozen = group.per_task(m, lambda row, name=name: row.get(f"{name}frozen_accuracy"))
            band(axes, followed, m, shades[m])
            band(axes, frozen, f"{m}, frozen", shades[m], "--")
    return done(figure, *both)


def accuracy_over(groups: Sequence[Group], field: str) -> "Figure":
    """Average accuracy over a field of the protocol: budgets (figure 1, right), increments, wrong answers."""
    figure, axes = blank(LONG.get(field, field), "average accuracy (%)")
    places = {g.varied[field]: i for i, g in enumerate(groups)}
    shades = colours(ordered(groups))
    for m in leading(namers(groups)):
        points = {places[g.varied[field]]: g.accuracy(m) for g in groups}
        band(axes, {x: v for x, v in points.items() if v is not None}, m, shades[m])
    axes.set_xticks(list(places.values()), [shown(field, v).removeprefix(field).strip() for v in places])
    return done(figure, axes)


def auroc_over_tasks(group: Group) -> "Figure":
    """Novelty AUROC of S⁰ (left) and of S¹ (right) per task."""
    figure, both = side_by_side("task", ("novelty AUROC of S⁰ (%)", "novelty AUROC of S¹ (%)"))
    both[1].sharey(both[0])
    shades = colours(group.methods)
    names = [m for m in ordered([group]) if m in methods and by_novelty(m)]
    for i, axes in enumerate(both):
        for m in leading(names, 4):
            band(axes, group.per_task(m, of_round("auroc", i)), m, shades[m])
    return done(figure, *both)


def pseudo_labels_over_rounds(group: Group) -> "Figure":
    """Precision (left) and recall (right) of the pseudo-labels so far, mean over tasks and seeds."""
    figure, both = side_by_side("round", ("precision (%)", "recall (%)"))
    shades = colours(group.methods)
    names = [m for m in ordered([group]) if any(row["pseudo_labels"] for row in group.of(m))]
    for m in leading(names):
        rows = group.of(m)
        longest = max(len(row["iterations"]) for row in rows)
        for axes, name in zip(both, ("precision", "recall"), strict=True):
            points = {i: _at_round(rows, name, i) for i in range(longest)}
            band(axes, {i: v for i, v in points.items() if v}, m, shades[m])
    return done(figure, *both)


def _at_round(rows: Sequence[Row], name: str, i: int) -> Value | None:
    """A running measure at round i; a task that ended earlier keeps its last value."""
    every = [row["iterations"] for row in rows if row["iterations"]]
    values = [rounds[min(i, len(rounds) - 1)][name] for rounds in every]
    known = [v for v in values if v is not None]
    return Value(float(np.mean(known)), 0.0, 1) if known else None


def labels_by_zone(group: Group) -> "Figure":
    """Where the paid labels lay against T_inner, in shares; at the end of a bar, labels per task."""
    used = {m: float(np.mean([row["labels_used"] for row in group.of(m)])) for m in ordered([group])}
    names = [m for m, labels in used.items() if labels and m != "oracle"]
    figure, axes = blank("share of the labels (%)", "", height=0.8 + 0.27 * len(names))
    left = np.zeros(len(names))
    for zone in ZONES:
        counts = [sum(row["labels_by_zone"][zone] for row in group.of(m)) for m in names]
        paid = [sum(row["labels_used"] for row in group.of(m)) for m in names]
        shares = 100 * np.array(counts) / paid
        axes.barh(names, shares, left=left, color=ZONE_COLOURS[zone], label=zone, height=0.72)
        left += shares
    for y, m in enumerate(names):
        axes.text(101.5, y, f"{used[m]:.1f}", va="center", fontsize=8, color=INK)
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    return done(figure, axes)


def confusion_matrix(group: Group, method: str) -> "Figure":
    """Predictions of the last task's agent per true class, in percent of it, all seeds together."""
    rows = [row for row in group.of(method) if "confusion" in row]
    classes = sorted({c for row in rows for c in row["per_class"]})
    counts = np.zeros((len(classes), len(classes)))
    for row in rows:
        place = [classes.index(c) for c in row["per_class"]]
        counts[np.ix_(place, place)] += np.array(row["confusion"])
    side = 2.2 + 0.22 * len(classes)
    figure, axes = blank("predicted", "true", width=side + 0.6, height=side)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(np.dstack([np.broadcast_to(c, shares.shape) for c in (0.82, 0.29, 0.36)] + [shares]))
    axes.set_xticks(range(len(classes)), classes, rotation=90, fontsize=7)
    axes.set_yticks(range(len(classes)), classes, fontsize=7)
    axes.grid(visible=False)
    for row, column in np.argwhere(counts > 0).tolist():
        ink = "white" if shares[row, column] > 0.6 else INK
        text = f"{100 * shares[row, column]:.0f}"
        axes.text(column, row, text, ha="center", va="center", fontsize=6, color=ink)
    return figure


def forgetting(group: Group, method: str) -> "Figure":
    """Per class: accuracy when it was introduced (ring) and after the last task (dot), mean over seeds."""
    began, ended = introduced_and_final(group.of(method))
    shade = colours(group.methods)[method]
    classes = sorted(began, key=lambda c: ended[c] - began[c])
    figure, axes = blank("accuracy (%)", "", height=0.8 + 0.2 * len(classes))
    y = np.arange(len(classes))
    start, end = (100 * np.array([accuracy[c] for c in classes]) for accuracy in (began, ended))
    axes.hlines(y, start, end, color=INK, alpha=0.35)
    axes.scatter(start, y, facecolors="none", edgecolors=shade, label="when introduced", zorder=3)
    axes.scatter(end, y, color=shade, label="after the last task", zorder=3)
    axes.set_yticks(y, classes, fontsize=8)
    axes.invert_yaxis()
    return done(figure, axes)


def introduced_and_final(rows: Sequence[Row]) -> tuple[dict[str, float], dict[str, float]]:
    """Accuracy of each class in the first row that has it, and in the last, averaged over seeds.

    >>> rows = [
    ...     {"seed": 0, "task": 1, "per_class": {"cat": 0.9}, "per_class_before": {"cat": 1.0}},
    ...     {"seed": 0, "task": 2, "per_class": {"cat": 0.7, "fox": 0.8}},
    ... ]
    >>> introduced_and_final(rows)
    ({'cat': 1.0, 'fox': 0.8}, {'cat': 0.7, 'fox': 0.8})
    """
    began: dict[str, list[float]] = {}
    ended: dict[str, list[float]] = {}
    for seed in {row["seed"] for row in rows}:
        mine = sorted((row for row in rows if row["seed"] == seed), key=lambda row: row["task"])
        accuracies = [mine[0].get("per_class_before", {}), *(row["per_class"] for row in mine)]
        for c, final in accuracies[-1].items():
            began.setdefault(c, []).append(next(a[c] for a in accuracies if c in a))
            ended.setdefault(c, []).append(final)
    first, last = ({c: float(np.mean(v)) for c, v in values.items()} for values in (began, ended))
    return first, last


# -- drawing ---------------------------------------------------------------------------------------------------


def blank(x: str, y: str, width: float = 6.4, height: float = 3.6) -> tuple["Figure", "Axes"]:
    """An empty figure in the house style; no global state of matplotlib is touched."""
    figure, (axes,) = side_by_side(x, (y,), width, height)
    return figure, axes


def side_by_side(
    x: str, ys: Sequence[str], width: float = 9.6, height: float = 3.4
) -> tuple["Figure", tuple["Axes", ...]]:
    """An empty figure with one panel per label of `ys`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.patch.set_alpha(0)
    panels = tuple(figure.add_subplot(1, len(ys), place) for place in range(1, len(ys) + 1))
    for axes, y in zip(panels, ys, strict=True):
        plain(axes)
        axes.set_xlabel(x, color=INK)
        axes.set_ylabel(y, color=INK)
    return figure, panels


def plain(axes: "Axes") -> None:
    axes.patch.set_alpha(0)
    axes.grid(color=INK, alpha=0.13, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0, labelsize=9)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(INK)


def band(axes: "Axes", points: dict[Any, Value], label: str, shade: str, style: str = "-") -> None:
    """A line of means in percent with its deviation as a band."""
    if not points:
        return
    x = list(points)
    mean, std = (100 * np.array([getattr(v, name) for v in points.values()]) for name in ("mean", "std"))
    axes.plot(x, mean, style, color=shade, label=label, marker="o", markersize=3.5, linewidth=1.6)
    if any(v.n > 1 for v in points.values()):
        low, high = (np.clip(edge, 0, 100) for edge in (mean - std, mean + std))
        axes.fill_between(x, low, high, color=shade, alpha=0.11, linewidth=0)


def done(figure: "Figure", *panels: "Axes") -> "Figure":
    """Add the legend, from the line that ends highest down; tasks and rounds are whole numbers."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    last = panels[-1]
    entries = list(zip(*last.get_legend_handles_labels(), strict=True))
    if entries and all(isinstance(handle, Line2D) for handle, _ in entries):
        entries.sort(key=lambda entry: -np.asarray(entry[0].get_ydata())[-1])  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    if entries:
        handles, labels = zip(*entries, strict=True)
        place: Any = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
        last.legend(handles, labels, frameon=False, fontsize=9, labelcolor=INK, **place)
    for axes in panels:
        if axes.get_xlabel() in ("task", "round"):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def save(figure: "Figure", path: Path) -> None:
    """Write a figure; the suffix (.svg, .pdf, .png) decides the format. Same figure, same bytes.

    On white, but for PDF: it may be shown on a dark page.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    ground = "none" if path.suffix == ".pdf" else "white"
    path.write_bytes(_drawn(figure, path.suffix[1:], path.stem, ground))


def inline(figure: "Figure", salt: str) -> str:
    """A figure as SVG for an HTML page: in the page's ink, without links and with names of its own."""
    text = _drawn(figure, "svg", salt).decode()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(\sid="|url\(#|href="#)', rf"\g<1>{re.sub(r'[^a-z0-9]+', '-', salt.lower())}-", text)
    return text.replace(INK, "currentColor")


def _drawn(figure: "Figure", kind: str, salt: str, ground: str = "none") -> bytes:
    from matplotlib import rc_context

    out = io.BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with rc_context({"svg.hashsalt": salt, "svg.fonttype": "none", "pdf.fonttype": 42}):
        figure.savefig(out, format=kind, metadata=undated.get(kind), facecolor=ground)
    return out.getvalue()
