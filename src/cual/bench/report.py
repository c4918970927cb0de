"""The report of a bench: one self-contained HTML page, tables in four formats, figures as SVG and PDF."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cual.bench import figures, paper, tables
from cual.bench.formats import Table, to_csv, to_latex, to_markdown, to_text
from cual.bench.results import Group, grouped, read_folder
from cual.html import page
from cual.methods import methods
from cual.types import Row

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Drawing:
    """A figure with the name of its file and what to say under it; a wide one gets a line of its own."""

    name: str
    caption: str
    figure: "Figure"
    wide: bool = False

    def svg(self) -> "Markup":
        return page.as_html(figures.inline(self.figure, self.name))


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
    names = tables.titles(groups)
    compared, own = list(compare(groups)), [list(draw(g, n)) for g, n in zip(groups, names, strict=True)]
    out.mkdir(parents=True, exist_ok=True)
    write_tables(tables.all_tables(groups), out)
    for d in [*compared, *(d for drawings in own for d in drawings)]:
        for suffix in (".svg", ".pdf"):
            figures.save(d.figure, out / "figures" / f"{d.name}{suffix}")
    path = out / "report.html"
    path.write_text(as_page(groups, compared, own, runs_of(folder)), encoding="utf-8")
    return path


def terminal(folder: str | Path) -> str:
    """The report's tables as text."""
    return "\n".join(to_text(t) for t in tables.all_tables(grouped(read_folder(folder))))


def write_tables(written: list[Table], out: Path) -> None:
    for suffix, write in ((".txt", to_text), (".md", to_markdown), (".tex", to_latex)):
        (out / f"tables{suffix}").write_text("\n".join(write(t) for t in written), encoding="utf-8")
    for t in written:
        (out / f"{slug(t.title)}.csv").write_text(to_csv(t), encoding="utf-8")


def compare(groups: list[Group]) -> Iterator[Drawing]:
    """Figures over what varies between groups."""
    for field in tables.VARYING:
        for alike in tables.varying(groups, field):
            name = f"{alike[0].dataset}: average accuracy over {tables.LONG.get(field, field)}"
            more = _more(alike)
            yield Drawing(slug(name), f"{name}.{more}", figures.accuracy_over(alike, field))


def draw(group: Group, title: str) -> Iterator[Drawing]:
    """All figures of one group that its results have something for."""

    def named(what: str, caption: str, figure: "Figure", wide: bool = False) -> Drawing:
        return Drawing(slug(f"{title} {what}"), caption, figure, wide)

    yield named(
        "accuracy over tasks",
        f"Accuracy over all classes so far. Bands: deviation over seeds.{_more([group])}",
        figures.accuracy_over_tasks(group),
    )
    if any("frozen_accuracy" in row for row in group.rows):
        yield named(
            "drift",
            "Accuracy on the present look and, of the first classes, on the first one. Dashed: the agent "
            "before all tasks.",
            figures.accuracy_under_drift(group),
            wide=True,
        )
    if any(row["labels_used"] for row in group.rows if row["method"] != "oracle"):
        yield named(
            "labels by zone",
            "Where the paid labels lay against T_inner; the number is labels per task.",
            figures.labels_by_zone(group),
        )
    if any(m in methods and tables.by_novelty(m) for m in group.methods):
        yield named(
            "novelty",
            "How well the first score S⁰ and the second, S¹, tell novel samples from old ones.",
            figures.auroc_over_tasks(group),
            wide=True,
        )
    if any(row["pseudo_labels"] for row in group.rows):
        yield named(
            "pseudo-labels",
            "Precision and recall of the pseudo-labels so far, mean over tasks and seeds.",
            figures.pseudo_labels_over_rounds(group),
            wide=True,
        )
    chosen = "cual" if "cual" in group.methods else group.methods[0]
    classes = max(len(row["per_class"]) for row in group.rows)
    if any("confusion" in row for row in group.of(chosen)):
        yield named(
            f"confusion {chosen}",
            f"{chosen} after the last task, all seeds: what each true class is taken for, in percent of it.",
            figures.confusion_matrix(group, chosen),
            wide=classes > 30,
        )
    yield named(
        f"forgetting {chosen}",
        f"{chosen}: accuracy of each class when introduced and after the last task; most forgotten first.",
        figures.forgetting(group, chosen),
        wide=classes > 30,
    )


def _more(groups: Sequence[Group]) -> str:
    left = len(tables.ordered(groups)) - min(len(figures.namers(groups)), figures.MOST)
    return f" {left} more method{'s are' if left > 1 else ' is'} in the table." if left else ""


def as_page(
    groups: list[Group], compared: list[Drawing], own: list[list[Drawing]], runs: dict[str, Row]
) -> str:
    """The page: what compares groups, then a section for each group, then where it all comes from."""
    seeds = {row["seed"] for g in groups for row in g.rows}
    names = {m for g in groups for m in g.methods}
    counts = ((len(names), "method"), (len({g.dataset for g in groups}), "dataset"), (len(seeds), "seed"))
    lead = ", ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in counts) + "."
    titles = {f"results-{i}": title for i, title in enumerate(tables.titles(groups))}
    shown = [
        {"name": name, "title": title, "tables": tables.group_tables(group), "drawings": drawings}
        for group, (name, title), drawings in zip(groups, titles.items(), own, strict=True)
    ]
    return page.render(
        "cual.bench/report.jinja",
        title="Continual active learning: results",
        lead=lead,
        titles=titles,
        overview=tables.overview(groups),
        compared=compared,
        groups=shown,
        paper=[f"Paper column: {paper.source()}.", *paper.notes()],
        runs={name: json.dumps(run, indent=1) for name, run in runs.items()},
    )


def runs_of(folder: Path) -> dict[str, Row]:
    files = sorted(folder.rglob("run.json"))
    return {str(p.parent.relative_to(folder)): json.loads(p.read_text(encoding="utf-8")) for p in files}


def slug(text: str) -> str:
    """
    >>> slug("eurosat-r50 0.5 %: accuracy over tasks")
    'eurosat-r50-0.5-accuracy-over-tasks'
    """
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")
