"""The demo's page: accuracy, all questions, and for each task its scores, zones and pictures; the ledger."""

import base64
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cual.bench import figures
from cual.bench.colours import colours
from cual.bench.results import Group
from cual.bench.runner import Data, Step
from cual.bench.tables import learning_table, ordered
from cual.html import page
from cual.types import AnyArray, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from cual.loop.rounds import Round

WHAT = (
    "An agent that knows two digits receives unlabelled pools in which a new digit is mixed with old ones. "
    "It may ask for the labels of 2 % of a pool; the rest it labels itself where it is certain."
)
AVERAGE = "Accuracy in percent, averaged over tasks; mean ± deviation over seeds."
READ_SCORES = (
    "Bars: scores of the samples still unlabelled, red if the digit is really new, blue if it is known. "
    "Background: the zone of a score (blue old, yellow ambiguous, red novel); the line is T_inner. "
    "Triangles: the samples asked about."
)


def as_page(group: Group, shown: Sequence[Step], data: Data) -> str:
    """The whole document. `shown` are the tasks of one stream whose questions are shown."""

    def picture_of(sample: int) -> str:
        return data_uri(data.features.X[sample])

    return page.render(
        "cual.bench/demo.jinja",
        title="CUAL on handwritten digits",
        lead=WHAT,
        average=AVERAGE,
        read_scores=READ_SCORES,
        cards=list(_cards(group)),
        curve=page.as_html(figures.inline(figures.accuracy_over_tasks(group), "demo accuracy")),
        learning=learning_table(group),
        asked_caption=_asked_caption(shown[0], data) if shown else "",
        tasks=[_task(step, data) for step in shown],
        picture_of=picture_of,
    )


def _cards(group: Group) -> Iterator[Row]:
    """What each method reached, and from how many labels."""
    shades = colours(group.methods)
    for method in ordered([group]):
        accuracy = group.accuracy(method)
        labels = group.per_stream(method, lambda row: row["labels_used"])
        if accuracy is not None and labels is not None:
            yield {
                "method": method,
                "colour": shades[method],
                "accuracy": f"{100 * accuracy.mean:.1f}",
                "spread": f"± {100 * accuracy.std:.1f}" if accuracy.n > 1 else "",
                "labels": f"{labels.mean * len(group.tasks):,.0f}",
            }


def _asked_caption(step: Step, data: Data) -> str:
    first = " and ".join(str(name) for name in data.truth.classes(step.task.old))
    row = step.row
    return (
        f"All that a person was asked by {row['method']}, seed {row['seed']}, which began with {first}. "
        "Frames: the sample's zone (red novel, yellow ambiguous)."
    )


def _task(step: Step, data: Data) -> Row:
    """What the page shows of one task."""
    row = step.row
    number = step.task.number
    new = ", ".join(str(name) for name in data.truth.classes(step.task.new))
    before = set(data.truth.classes(step.task.old))
    novel = ~np.isin(data.truth.labels[step.task.rows], list(before))
    drawn = figures.inline(score_histograms(step.adaptation.rounds, novel), f"demo task {number}")
    return {
        "number": number,
        "new": new,
        "summary": f"Task {number}, new: {new} · {row['labels_used']} labels for {row['pool_size']} samples, "
        f"{row['pseudo_labels']} pseudo-labels, accuracy {100 * row['accuracy']:.1f} %",
        "ledger": step.adaptation.ledger,
        "asked": len(step.adaptation.ledger),
        "histograms": page.as_html(drawn),
    }


def score_histograms(rounds: Sequence["Round"], novel: AnyArray) -> "Figure":
    """One small histogram per round: the scores, what the samples really are, T_inner and the zones."""
    from matplotlib.figure import Figure

    columns = min(len(rounds), 5)
    lines = -(-len(rounds) // columns)
    figure = Figure(figsize=(11.4, 1.9 * lines), layout="constrained")
    figure.patch.set_alpha(0)
    for place, round_ in enumerate(rounds, 1):
        axes = figure.add_subplot(lines, columns, place)
        figures.plain(axes)
        score = "Sⁱ" if round_.round else "S⁰"
        axes.set_title(f"{score}, i = {round_.round}", fontsize=8, color=figures.INK)
        axes.tick_params(labelsize=7)
        _histogram(axes, round_, novel)
    return figure


def _histogram(axes: "Axes", round_: "Round", novel: AnyArray) -> None:
    middle = round_.threshold.value
    width = round_.threshold.std
    top = max(float(np.quantile(round_.scores, 0.99)), middle + 2 * width)
    scores = np.minimum(round_.scores, top)  # the few far ones are counted in the last bar
    low = float(scores.min())
    for zone, start, end in (
        ("old", low, middle - width),
        ("ambiguous", middle - width, middle + width),
        ("novel", middle + width, top),
    ):
        axes.axvspan(max(start, low), max(end, low), color=figures.ZONE_COLOURS[zone], alpha=0.12, linewidth=0)
    really = novel[round_.rows]
    shades = [figures.ZONE_COLOURS["old"], figures.ZONE_COLOURS["novel"]]
    axes.hist(
        [scores[~really], scores[really]],
        bins=24,
        range=(low, top),
        histtype="stepfilled",
        stacked=True,
        color=shades,
    )
    axes.axvline(middle, color=figures.INK, linewidth=1)
    asked = scores[np.isin(round_.rows, round_.asked)]
    if len(asked):
        axes.plot(asked, np.zeros(len(asked)), "^", color=figures.INK, markersize=5, clip_on=False, zorder=5)
    axes.set_xlim(low, top)
    axes.grid(axis="x", visible=False)


def data_uri(features: AnyArray) -> str:
    """The picture that 64 features between 0 and 1 are of, dark on light.

    >>> data_uri(np.zeros(64))[:22]
    'data:image/png;base64,'
    """
    pixels = (255 * (1 - features.reshape(8, 8))).astype(np.uint8)
    return f"data:image/png;base64,{base64.b64encode(png(pixels)).decode()}"


def png(pixels: AnyArray) -> bytes:
    """A grey 8-bit PNG of a (height, width) array.

    >>> png(np.zeros((2, 3), np.uint8))[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    )
