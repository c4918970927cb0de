"""The report of an adaptation: one HTML page that needs nothing else. Everything in it is escaped."""

import html
from collections.abc import Sequence

from cual.html import page
from cual.serve.rules.records import AdaptationRecord, AgentRecord, PoolRecord
from cual.types import Row

WIDTH, HEIGHT, FOOT = 320, 120, 14
"""Of a histogram; the scale has the foot."""


def report(
    adaptation: AdaptationRecord,
    agent: AgentRecord,
    pool: PoolRecord,
    history: Sequence[Row],
    ledger: Sequence[Row],
) -> str:
    """The whole document."""
    lead = (
        f"{agent.name}, version {adaptation.base_version}, adapted to the pool {pool.name} "
        f"({pool.size} samples) with a budget of {adaptation.budget} labels. {adaptation.next}"
    )
    body = _cards(adaptation, history)
    if adaptation.merges:
        names = "".join(f"<li>{_text(merge.text)}</li>" for merge in adaptation.merges)
        body += page.section("Probably one class", f"<ul>{names}</ul>")
    body += page.section("Rounds", _rounds(history))
    drawn = "".join(
        page.figure(histogram(row), f"Round {row['iteration'] + 1}: {_zones(row)}") for row in history
    )
    if drawn:
        note = (
            "How unlike everything known the samples without a label are; what lies right of the line "
            "(T_inner in the paper) is probably novel."
        )
        body += page.section("Scores", f"<p class=note>{note}</p>{page.grid(drawn)}")
    many = f"All {len(ledger)} questions with score, zone and answer"
    body += page.section("The ledger", page.fold(many, _ledger(ledger), opened=len(ledger) <= 50))
    return page.page(f"Adaptation {adaptation.id} of {agent.name}", lead, body)


def _cards(adaptation: AdaptationRecord, history: Sequence[Row]) -> str:
    new = ", ".join(str(name) for name in adaptation.new_classes) or "none"
    believed = sum(row["pseudo_labels"] for row in history)
    cards = (
        ("Labels used", f"{adaptation.spent} of {adaptation.budget}", "ambiguous"),
        ("New classes", str(len(adaptation.new_classes)), "novel"),
        ("Labelled without asking", str(believed), "old"),
    )
    drawn = "".join(
        f'<div style="border-left-color: var(--{colour})">{_text(what)}<b>{_text(value)}</b></div>'
        for what, value, colour in cards
    )
    ended = f" {_text(adaptation.status)}" if adaptation.ended else ""
    ahead = f" {_text(adaptation.outlook)}" if adaptation.outlook else ""
    return f"<div class=cards>{drawn}</div><p class=note>New classes: {_text(new)}.{ended}{ahead}</p>"


def _rounds(history: Sequence[Row]) -> str:
    names = ("round", "T_inner", "scored", "novel", "ambiguous", "old", "asked", "labelled without asking")
    rows = [
        (
            row["iteration"] + 1,
            f"{row['t_inner']:.3f}",
            row["scored"],
            *(row["zones"][zone] for zone in ("novel", "ambiguous", "old")),
            row["asked"],
            row["pseudo_labels"],
        )
        for row in history
    ]
    return _table(names, [[_text(cell) for cell in row] for row in rows])


def _ledger(ledger: Sequence[Row]) -> str:
    names = ("round", "sample", "score", "T_inner", "zone", "suggestion", "answer", "by", "at", "charged")
    rows: list[list[str]] = []
    for row in ledger:
        answer = "cannot tell" if row["skipped"] else "–" if row["answer"] is None else row["answer"]
        zone = _text(row["zone"])
        cells: list[str] = [_text(row["iteration"] + 1), _text(row["sample"])]
        cells += [f"{row['score']:.3f}", f"{row['threshold']:.3f}", f'<span class="zone {zone}">{zone}</span>']
        cells += [_text("–" if row["suggestion"] is None else row["suggestion"]), _text(answer)]
        cells += [_text(row["person"] or "–"), _text((row["told_at"] or "–")[:19].replace("T", " "))]
        rows.append([*cells, "yes" if row["charged"] else "no"])
    return _table(names, rows)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"


def histogram(row: Row) -> str:
    """The scores of one round as an SVG, with T_inner."""
    counts, edges = row["histogram"]["counts"], row["histogram"]["edges"]
    low, high = edges[0], max(edges[-1], row["t_inner"])
    scale = WIDTH / ((high - low) or 1)
    tallest = max(*counts, 1)
    bars = ""
    for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True):
        tall = HEIGHT * count / tallest
        side = "novel" if left >= row["t_inner"] else "old"
        bars += (
            f'<rect x="{(left - low) * scale:.1f}" y="{HEIGHT - tall:.1f}" height="{tall:.1f}" '
            f'width="{max((right - left) * scale - 0.5, 0.5):.1f}" fill="var(--{side})"/>'
        )
    line = max(0.0, (row["t_inner"] - low) * scale)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + FOOT}" role="img" '
        f'aria-label="Scores of round {row["iteration"] + 1}, T_inner {row["t_inner"]:.3f}">{bars}'
        f'<line x1="{line:.1f}" x2="{line:.1f}" y1="0" y2="{HEIGHT}" stroke="var(--ink)"/>'
        f'<text x="0" y="{HEIGHT + FOOT - 2}" font-size="10" fill="var(--soft)">{low:.2f}</text>'
        f'<text x="{WIDTH}" y="{HEIGHT + FOOT - 2}" font-size="10" fill="var(--soft)" text-anchor="end">'
        f"{high:.2f}</text></svg>"
    )


def _zones(row: Row) -> str:
    return ", ".join(f"{row['zones'][zone]} {zone}" for zone in ("novel", "ambiguous", "old"))


def _text(value: object) -> str:
    return html.escape(str(value))
