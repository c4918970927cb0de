"""The report of a bench: one self-contained HTML page, tables in four formats, figures as SVG and PDF."""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cual.bench import figures, page, paper, tables
from cual.bench.formats import Table, to_csv, to_html, to_latex, to_markdown, to_text
from cual.bench.results import Group, grouped, read_folder
from cual.types import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OVER = ("budget", "increment", "wrong", "skip", "rarity")


@dataclass(frozen=True)
class Drawing:
    """A figure with the name of its file and what to say under it."""

    name: str
    caption: str
    figure: "Figure"


def report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write `report.html`, `tables.{txt,md,tex}`, a CSV per table and the figures; the path of the page.

    Parameters
    ----------
    folder
        Where `cual bench run` wrote, with its subfolders.
    out
        Where to write; `folder/report` when not given.
    """
    folder = Path(folder)
    out = Path(out) if out is not None else folder / "report"
    rows = read_folder(folder)
    groups = grouped(rows)
    made = tables.all_tables(groups)
    drawings = list(draw(groups))
    out.mkdir(parents=True, exist_ok=True)
    write_tables(made, out)
    for d in drawings:
        for suffix in (".svg", ".pdf"):
            figures.save(d.figure, out / "figures" / f"{d.name}{suffix}")
    path = out / "report.html"
    path.write_text(as_page(groups, made, drawings, runs_of(folder)), encoding="utf-8")
    return path


def terminal(folder: str | Path) -> str:
    """The report's tables as text."""
    return "\n".join(to_text(t) for t in tables.all_tables(grouped(read_folder(folder))))


def write_tables(made: list[Table], out: Path) -> None:
    for suffix, write in ((".txt", to_text), (".md", to_markdown), (".tex", to_latex)):
        (out / f"tables{suffix}").write_text("\n".join(write(t) for t in made), encoding="utf-8")
    for t in made:
        (out / f"{slug(t.title)}.csv").write_text(to_csv(t), encoding="utf-8")


def draw(groups: list[Group]) -> Iterator[Drawing]:
    """All figures that the results have something for."""
    for field in OVER:
        for alike in tables.varying(groups, field):
            name = f"{alike[0].dataset}: average accuracy over {field}"
            yield Drawing(slug(name), name, figures.accuracy_over(alike, field))
    for group, title in zip(groups, tables.titles(groups), strict=True):
        yield from draw_group(group, title)


def draw_group(group: Group, title: str) -> Iterator[Drawing]:
    def named(what: str, caption: str, figure: "Figure") -> Drawing:
        return Drawing(slug(f"{title} {what}"), f"{title}: {caption}", figure)

    yield named(
        "accuracy over tasks",
        "accuracy over all classes so far. Bands: deviation over seeds.",
        figures.accuracy_over_tasks(group),
    )
    if any(row["iterations"] for row in group.rows if row["method"] != "oracle"):
        yield named(
            "novelty",
            "how well the score tells novel from old, S⁰ dashed, S¹ solid.",
            figures.auroc_over_tasks(group),
        )
    if any(row["pseudo_labels"] for row in group.rows):
        yield named(
            "pseudo-labels",
            "precision (solid) and recall (dashed) of the pseudo-labels so far.",
            figures.pseudo_labels_over_iterations(group),
        )
    if set(group.methods) - {"oracle"}:
        yield named(
            "labels by zone", "where the paid labels lay against T_inner.", figures.labels_by_zone(group)
        )
    chosen = "cual" if "cual" in group.methods else group.methods[0]
    if any("confusion" in row for row in group.of(chosen)):
        yield named(
            f"confusion {chosen}",
            f"{chosen} after the last task, share of each true class.",
            figures.confusion_matrix(group, chosen),
        )
    yield named(
        f"forgetting {chosen}",
        f"{chosen}, accuracy of each class when introduced and after the last task; most forgotten first.",
        figures.forgetting(group, chosen),
    )


def as_page(groups: list[Group], made: list[Table], drawings: list[Drawing], runs: dict[str, Row]) -> str:
    seeds = {row["seed"] for g in groups for row in g.rows}
    names = {m for g in groups for m in g.methods}
    lead = f"{len(names)} methods, {len({g.dataset for g in groups})} datasets, {len(seeds)} seeds."
    body = "".join(page.section(t.title, to_html(t)) for t in made)
    drawn = "".join(page.figure(figures.inline(d.figure, d.name), d.caption) for d in drawings)
    body += page.section("Figures", drawn)
    source = "".join(
        f"<p class=note>{html.escape(n)}</p>" for n in [f"Paper column: {paper.source()}.", *paper.notes()]
    )
    body += page.section("The paper's figures", source)
    folds = (page.fold(n, f"<pre>{html.escape(json.dumps(r, indent=1))}</pre>") for n, r in runs.items())
    body += page.section("How it was run", "".join(folds))
    return page.page("Continual active learning: results", lead, body)


def runs_of(folder: Path) -> dict[str, Row]:
    found = sorted(folder.rglob("run.json"))
    return {str(p.parent.relative_to(folder)): json.loads(p.read_text(encoding="utf-8")) for p in found}


def slug(text: str) -> str:
    """
    >>> slug("eurosat-r50 0.5 %: accuracy over tasks")
    'eurosat-r50-0.5-accuracy-over-tasks'
    """
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")
