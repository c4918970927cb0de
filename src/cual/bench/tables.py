"""Which tables results make, with the paper's own figures beside ours. Writing them: `formats`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cual.bench.formats import Cell, Table, count
from cual.bench.paper import paper_tables
from cual.bench.results import Group, Value, differing, of_iteration
from cual.methods import methods

SHORT = {
    "budget": "budget",
    "increment": "+",
    "first": "first ",
    "rarity": "rare 1:",
    "wrong": "wrong ",
    "skip": "skip ",
}


# -- which tables there are ------------------------------------------------------------------------------------


def all_tables(groups: Sequence[Group]) -> list[Table]:
    """Every table that the results have something for."""
    tables = [accuracy_table(groups)]
    for field in ("budget", "increment", "wrong", "skip", "rarity"):
        tables += varied_tables(groups, field)
    tables += [learning_table(groups), novelty_table(groups), cost_table(groups)]
    return [t for t in tables if t.rows]


def accuracy_table(groups: Sequence[Group]) -> Table:
    """Average accuracy over tasks per method and dataset, and the paper's where it has the same cell."""
    names = titles(groups)
    columns, cells = ["method"], [[m] for m in ordered(groups)]
    grid: list[list[Cell]] = [list(row) for row in cells]
    for group, name in zip(groups, names, strict=True):
        columns.append(name)
        printed = [paper_value(str(row[0]), group) for row in grid]
        for row in grid:
            row.append(group.accuracy(str(row[0])))
        if any(v is not None for v in printed):
            columns.append("paper")
            for row, v in zip(grid, printed, strict=True):
                row.append(v)
    return Table(
        "Average accuracy over tasks (%)",
        tuple(columns),
        tuple(tuple(row) for row in grid),
        "Mean ± deviation over seeds of the accuracy averaged over tasks t ≥ 1; a class never found counts 0.",
    )


def varied_tables(groups: Sequence[Group], field: str) -> list[Table]:
    """One table per dataset in which `field` takes several values and nothing else differs."""
    tables: list[Table] = []
    for alike in varying(groups, field):
        columns = tuple(shown(field, g.varied[field]) for g in alike)
        rows = [(m, *(g.accuracy(m) for g in alike)) for m in ordered(alike)]
        tables.append(
            Table(f"{alike[0].dataset}: accuracy over {field} (%)", ("method", *columns), tuple(rows))
        )
    return tables


def learning_table(groups: Sequence[Group]) -> Table:
    """What was asked and believed, per task."""

    def row(group: Group, m: str) -> tuple[Cell, ...]:
        last = max(group.tasks)
        missed = [r["classes_missed"] for r in group.of(m, last)]
        return (
            count(group.per_stream(m, lambda r: r["labels_used"])),
            group.per_stream(m, lambda r: r["novel_queried"] / r["labels_used"] if r["labels_used"] else None),
            count(group.per_stream(m, lambda r: r["pseudo_labels"])),
            group.per_stream(m, lambda r: r["pseudo_label_accuracy"]),
            count(Value.of(missed)) if missed else None,
        )

    columns = (
        "labels per task",
        "of them novel (%)",
        "pseudo-labels per task",
        "right (%)",
        "classes missed",
    )
    return _per_method("Labels and pseudo-labels", columns, groups, row)


def novelty_table(groups: Sequence[Group]) -> Table:
    """AUROC and AUPR of novelty: the first score, the second, and the last, over what is still in the pool."""
    reads = [(of_iteration(name, i)) for name in ("auroc", "aupr") for i in (0, 1, -1)]

    def row(group: Group, m: str) -> tuple[Cell, ...]:
        return tuple(group.per_stream(m, read) for read in reads)

    columns = ("AUROC S⁰", "S¹", "last Sⁱ", "AUPR S⁰", "S¹", "last Sⁱ")
    table = _per_method("Novelty (%)", columns, groups, row, wanted=lambda m: methods[m].score == "novelty")
    return Table(table.title, table.columns, table.rows, "Sⁱ is measured on the samples still in the pool.")


def cost_table(groups: Sequence[Group]) -> Table:
    """Seconds per task, and where they go."""
    stages = tuple(dict.fromkeys(s for g in groups for r in g.rows for s in r.get("timings", {})))

    def row(group: Group, m: str) -> tuple[Cell, ...]:
        total = group.per_stream(m, lambda r: r["seconds"])

        def share(stage: str) -> Value | None:
            return group.per_stream(m, lambda r: r["timings"].get(stage, 0.0) / r["seconds"])

        return (count(total), *(share(stage) for stage in stages))

    return _per_method("Time", ("seconds per task", *(f"{s} (%)" for s in stages)), groups, row)


def _per_method(
    title: str,
    columns: tuple[str, ...],
    groups: Sequence[Group],
    row: Callable[[Group, str], tuple[Cell, ...]],
    wanted: Callable[[str], bool] = lambda _: True,
) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for group, name in zip(groups, titles(groups), strict=True):
        for m in ordered([group]):
            if m in methods and wanted(m):
                rows.append((f"{name}: {m}" if len(groups) > 1 else m, *row(group, m)))
    return Table(title, ("method", *columns), tuple(rows))


# -- helpers over groups ---------------------------------------------------------------------------------------


def ordered(groups: Iterable[Group]) -> list[str]:
    """Methods of the groups: the Oracle first, then in the library's order, then others."""
    there = dict.fromkeys(m for g in groups for m in g.methods)
    order = ("oracle", *methods.names())
    return sorted(there, key=lambda m: order.index(m) if m in order else len(order))


def titles(groups: Sequence[Group]) -> list[str]:
    """A short name per group: the dataset, and what tells it from others of the same dataset."""
    fields = differing(groups)
    return [" ".join([g.dataset, *(shown(f, g.varied[f]) for f in fields)]) for g in groups]


def shown(field: str, value: Any) -> str:
    """A value of the protocol as people write it.

    >>> shown("budget", 0.005), shown("increment", 3), shown("rarity", None)
    ('0.5 %', '+3', 'usual mix')
    """
    if field == "reuse":
        return "reuse" if value else "no reuse"
    if field == "rarity" and value is None:
        return "usual mix"
    if field == "budget":
        return (
            f"{value:g} %"
            if False
            else (f"{100 * value:g} %" if isinstance(value, float) else f"{value} labels")
        )
    if field in ("wrong", "skip") and isinstance(value, float | int):
        return f"{SHORT[field]}{100 * value:g} %"
    return f"{SHORT.get(field, field + ' ')}{value:g}" if isinstance(value, float | int) else f"{field} {value}"


def varying(groups: Sequence[Group], field: str) -> list[list[Group]]:
    """Groups of one dataset that differ in `field` alone, sorted by it; only where there are several."""
    families: dict[tuple[object, ...], list[Group]] = {}
    for g in groups:
        key = (g.dataset, *(v for f, v in g.varied.items() if f != field))
        families.setdefault(key, []).append(g)
    several = [f for f in families.values() if len(f) > 1]
    return [sorted(f, key=lambda g: float(g.varied[field] or 0)) for f in several]


def paper_value(method: str, group: Group) -> float | None:
    """The paper's figure for a method under the group's dataset, increment and budget, as a share."""
    for table in paper_tables().values():
        for column, value in zip(table.columns, table.rows.get(method, ()), strict=False):
            if value is not None and column.matches(
                group.dataset, group.varied["increment"], group.varied["budget"]
            ):
                return value / 100
    return None
