"""The demo's page: accuracy, all questions, and for each task its scores, zones and pictures; the ledger."""

import base64
import html
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cual.bench import figures
from cual.bench.formats import to_html
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
    body = _cards(group)
    curve = figures.inline(figures.accuracy_over_tasks(group), "demo accuracy")
    caption = "Accuracy over all digits so far. Bands: deviation over seeds."
    body += page.grid(page.figure(curve, caption) + (_all_questions(shown, data) if shown else ""))
    body += page.section("What it cost", to_html(learning_table(group)))
    tasks = "".join(_task(step, data, opened=step.task.number == 1) for step in shown)
    body += page.section(
        "What cual asked, task by task", f"<p class=note>{html.escape(READ_SCORES)}</p>{tasks}"
    )
    count = sum(len(step.adaptation.ledger) for step in shown)
    body += page.section(
        "The ledger", page.fold(f"All {count} questions with score, zone and answer", _ledger(shown, data))
    )
    return page.page("CUAL on handwritten digits", WHAT, body)


def _cards(group: Group) -> str:
    """What each method reached, and from how many labels."""
    cards = ""
    for m in ordered([group]):
        accuracy, labels = group.accuracy(m), group.per_stream(m, lambda row: row["labels_used"])
        if accuracy is None or labels is None:
            continue
        spread = f" <small>± {100 * accuracy.std:.1f}</small>" if accuracy.n > 1 else ""
        cards += (
            f'<div style="border-left-color: {figures.colour(m)}">{html.escape(m)}'
            f"<b>{100 * accuracy.mean:.1f}{spread}</b>{labels.mean * len(group.tasks):,.0f} labels</div>"
        )
    return f"<div class=cards>{cards}</div><p class=note>{AVERAGE}</p>"


def _all_questions(shown: Sequence[Step], data: Data) -> str:
    """Every picture that a person was asked about, task by task."""
    lines = ""
    for step in shown:
        pictures = "".join(_picture(entry["sample"], data, entry["zone"]) for entry in step.adaptation.ledger)
        lines += f"<tr><td>task {step.task.number}<td>new: {_new(step, data)}<td>{pictures}"
    first = " and ".join(str(c) for c in data.truth.classes(shown[0].task.old))
    row = shown[0].row
    caption = (
        f"All that a person was asked by {row['method']}, seed {row['seed']}, which began with {first}. "
        "Frames: the sample's zone (red novel, yellow ambiguous)."
    )
    table = f"<table class=asked-all><tbody>{lines}</tbody></table>"
    return page.figure(table, caption)


def _new(step: Step, data: Data) -> str:
    return html.escape(", ".join(str(c) for c in data.truth.classes(step.task.new)))


def _task(step: Step, data: Data, opened: bool) -> str:
    row = step.row
    summary = (
        f"Task {step.task.number}, new: {_new(step, data)} · {row['labels_used']} labels for "
        f"{row['pool_size']} samples, {row['pseudo_labels']} pseudo-labels, "
        f"accuracy {100 * row['accuracy']:.1f} %"
    )
    before = set(data.truth.classes(step.task.old))
    novel = ~np.isin(data.truth.labels[step.task.rows], list(before))
    drawn = figures.inline(score_histograms(step.adaptation.rounds, novel), f"demo task {step.task.number}")
    asked = "".join(_question(entry, data) for entry in step.adaptation.ledger)
    return page.fold(summary, f"{drawn}<div class=asked>{asked}</div>", opened)


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


def _question(entry: Row, data: Data) -> str:
    return (
        f"<div>{_picture(entry['sample'], data)}<b>{html.escape(str(entry['answer']))}</b><br>"
        f"i = {entry['iteration']}<br>{_zone(entry)}</div>"
    )


def _ledger(shown: Sequence[Step], data: Data) -> str:
    names = ("task", "round", "sample", "", "score", "T_inner", "zone", "suggestion", "answer", "charged")
    head = "".join(f"<th>{name}</th>" for name in names)
    lines: list[str] = []
    for step in shown:
        for e in step.adaptation.ledger:
            cells = (
                str(step.task.number),
                str(e["iteration"]),
                str(e["sample"]),
                _picture(e["sample"], data),
                f"{e['score']:.3f}",
                f"{e['threshold']:.3f}",
                _zone(e),
                html.escape("–" if e["suggestion"] is None else str(e["suggestion"])),
                html.escape(str(e["answer"])),
                "yes" if e["charged"] else "no",
            )
            lines.append("<tr>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>")
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"


def _zone(entry: Row) -> str:
    return f'<span class="zone {entry["zone"]}">{entry["zone"]}</span>'


def _picture(sample: int, data: Data, zone: str = "") -> str:
    pixels = (255 * (1 - data.features.X[sample].reshape(8, 8))).astype(np.uint8)
    code = base64.b64encode(png(pixels)).decode()
    kind = f' class="{zone}"' if zone else ""
    return f'<img alt="sample {sample}"{kind} src="data:image/png;base64,{code}">'


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
