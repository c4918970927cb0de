"""Which tables results make, with the paper's own figures beside ours. Writing them: `formats`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from cual.acquisition.chance import Random
from cual.bench.formats import Cell, Table, count
from cual.bench.paper import paper_tables
from cual.bench.results import Group, Value, differing, of_round
from cual.bench.settings import DEFAULTS
from cual.learners import Novelty
from cual.methods import methods
from cual.types import Row

SHORT = {
    "budget": "budget",
    "increment": "+",
    "first": "first ",
    "rarity": "rare 1:",
    "wrong": "wrong ",
    "skip": "skip ",
    "synonyms": "synonyms ",
}
LONG = {
    "increment": "new classes per task",
    "rarity": "rarity of new classes",
    "imbalance": "imbalance of classes",
    "wrong": "wrong answers",
    "skip": "skipped answers",
    "synonyms": "second names of classes",
}
WORDS = {
    ("reuse", True): "reuse",
    ("reuse", False): "no reuse",
    ("natural", True): "natural mix",
    ("natural", False): "even mix",
    ("rarity", None): "usual mix",
    ("imbalance", None): "usual sizes",
    ("wrong_among_new", True): "wrong among new",
    ("wrong_among_new", False): "wrong among all",
    ("drift", None): "no drift",
    ("pools", "both"): "drift and novelty",
    ("pools", "drift"): "drift alone",
    ("pools", "novelty"): "novelty alone",
    ("looks", ()): "all looks",
}
"""Values that are no numbers, as people say them."""
DRIFT_SHARES = {
    "frozen_accuracy": "frozen (%)",
    "accuracy_before": "before (%)",
    "first_look_accuracy": "first look (%)",
    "first_look_frozen_accuracy": "first look, frozen (%)",
    "novelty_auroc_first": "first AUROC",
    "novelty_auroc_last": "last AUROC",
    "novel_share": "novel (%)",
    "novel_share_first": "called novel at first (%)",
    "novel_share_last": "called novel at the end (%)",
}
"""Columns of rows under drift that are shares, as a table heads them."""
AVERAGE = "Mean ± deviation over seeds of the accuracy averaged over tasks t ≥ 1; a class never found counts 0."
AVERAGE_FROM_0 = (
    "Mean ± deviation over seeds, averaged over tasks t ≥ 0: the first classes alone, before all tasks, count "
    "as a task, which the paper calls t = 0."
)
VARYING = ("budget", "increment", "wrong", "skip", "rarity", "imbalance", "synonyms")
"""Fields of the protocol that get a table and a figure of their own where they vary."""
NOT_IN_PAPER = ("rarity", "natural", "imbalance", "wrong", "synonyms", "skip", "drift")
"""Fields that are at their defaults wherever the paper has a figure: no rare classes, no noise, no drift."""


# -- which tables there are ------------------------------------------------------------------------------------


def all_tables(groups: Sequence[Group]) -> list[Table]:
    """Every table that the results have something for."""
    several = len(groups) > 1
    named = zip(groups, titles(groups), strict=True)
    return [*overview(groups), *(t for g, n in named for t in group_tables(g, f"{n}: " if several else ""))]


def overview(groups: Sequence[Group]) -> list[Table]:
    """The tables that compare groups; all in one where what varies does not say it already."""
    varied = [alike for field in VARYING for alike in varying(groups, field)]
    compared = {id(g) for alike in varied for g in alike}
    tables = [t for field in VARYING for t in varied_tables(groups, field)]
    if len(compared) == len(groups):
        return tables
    from_0 = accuracy_from_0_table(groups)
    return [accuracy_table(groups), *([from_0] if from_0.rows else []), *tables]


def group_tables(group: Group, before: str = "") -> list[Table]:
    """The tables of one group; `before` is put before their titles."""
    every = (learning_table(group), drift_table(group), novelty_table(group), cost_table(group))
    return [replace(t, title=before + t.title) for t in every if t.rows]


def accuracy_table(groups: Sequence[Group]) -> Table:
    """Average accuracy over tasks per method and dataset."""
    return _accuracies("Average accuracy over tasks (%)", groups, titles(groups))


def accuracy_from_0_table(groups: Sequence[Group]) -> Table:
    """The same over tasks t ≥ 0; without rows where results do not tell the accuracy before all tasks."""
    told = [m for m in ordered(groups) if any(g.accuracy_from_0(m) for g in groups)]
    rows = [(m, *(g.accuracy_from_0(m) for g in groups)) for m in told]
    title = "Average accuracy over tasks, task 0 counted (%)"
    return Table(title, ("method", *titles(groups)), tuple(rows), AVERAGE_FROM_0)


def varied_tables(groups: Sequence[Group], field: str) -> list[Table]:
    """One table per dataset in which `field` takes several values and nothing else differs."""
    return [
        _accuracies(
            f"{alike[0].dataset}: average accuracy over {LONG.get(field, field)} (%)",
            alike,
            [shown(field, g.varied[field]) for g in alike],
        )
        for alike in varying(groups, field)
    ]


def _accuracies(title: str, groups: Sequence[Group], names: Sequence[str]) -> Table:
    """A column of accuracies per group, and the paper's beside it where it has the same cell."""
    names_of_methods = ordered(groups)
    columns = ["method"]
    cells = [list[Cell](names_of_methods)]
    for group, name in zip(groups, names, strict=True):
        columns.append(name)
        cells.append([group.accuracy(m) for m in names_of_methods])
        printed: list[Cell] = [paper_value(m, group) for m in names_of_methods]
        if any(v is not None for v in printed):
            columns.append("paper")
            cells.append(printed)
    return Table(title, tuple(columns), tuple(zip(*cells, strict=True)), AVERAGE)


def learning_table(group: Group) -> Table:
    """What each method reached, asked and believed; where seeds differ, also on those that all have."""
    last, common = max(group.tasks), group.common_seeds()
    shared = bool(common) and any(set(group.streams(m)) != set(common) for m in group.methods)
    told_from_0 = any(group.accuracy_from_0(m) for m in group.methods)

    def row(m: str) -> tuple[Cell, ...]:
        accuracy = group.accuracy(m)
        missed = [r["classes_missed"] for r in group.of(m, last)]
        believes = methods[m].believe is not None
        return (
            accuracy,
            str(accuracy.n) if accuracy else None,
            *((group.accuracy(m, common),) if shared else ()),
            *((group.accuracy_from_0(m),) if told_from_0 else ()),
            count(group.per_stream(m, lambda r: r["labels_used"])),
            group.per_stream(m, lambda r: r["novel_queried"] / r["labels_used"] if r["labels_used"] else None),
            count(Value.of(missed)) if missed else None,
            count(group.per_stream(m, lambda r: r["pseudo_labels"])) if believes else None,
            group.per_stream(m, lambda r: r["pseudo_label_accuracy"]),
            group.per_stream(m, _recall) if believes else None,
        )

    columns = (
        "accuracy (%)",
        "seeds",
        *((f"seeds {', '.join(map(str, common))} (%)",) if shared else ()),
        *(("with task 0 (%)",) if told_from_0 else ()),
        "labels",
        "of them novel (%)",
        "classes missed",
        "pseudo-labels",
        "precision (%)",
        "recall (%)",
    )
    return _per_method(
        "Methods",
        columns,
        group,
        row,
        note="With task 0: the first classes alone, before all tasks, count as a task. "
        "Labels and pseudo-labels per task. Novel: the agent did not know the class. Classes missed: "
        "unknown after the last task. Precision: pseudo-labels that are right (for incdfm: novel). "
        "Recall: novel samples that got a right one.",
    )


def _recall(row: Row) -> float | None:
    return row["iterations"][-1]["recall"] if row["iterations"] else None


def drift_table(group: Group) -> Table:
    """Present and first look, novel against drifted; without drift it has no rows."""

    def row(m: str) -> tuple[Cell, ...]:
        shares = ("accuracy", *DRIFT_SHARES)
        return (
            *(group.per_stream(m, lambda r, name=name: r.get(name)) for name in shares),
            count(group.per_stream(m, lambda r: r.get("drifted_queried"))),
        )

    return _per_method(
        "Drift",
        ("present look (%)", *DRIFT_SHARES.values(), "questions on drifted old"),
        group,
        row,
        wanted=lambda m: any("frozen_accuracy" in r for r in group.of(m)),
        note="Mean over tasks. Frozen: the agent before all tasks. Before: the one before the task. First "
        "look: of the first classes. AUROC (%): novel against old samples of the pool. Called novel: which "
        "share of the pool, by the first scores and at the end.",
    )


def novelty_table(group: Group) -> Table:
    """AUROC and AUPR of novelty: the first score, the second, and the last, over what is still in the pool."""
    reads = [of_round(name, i) for name in ("auroc", "aupr") for i in (0, 1, -1)]

    def row(m: str) -> tuple[Cell, ...]:
        return tuple(group.per_stream(m, read) for read in reads)

    return _per_method(
        "Novelty",
        tuple(f"{name} {score}" for name in ("AUROC", "AUPR") for score in ("S⁰", "S¹", "last Sⁱ")),
        group,
        row,
        wanted=by_novelty,
        note="In percent. Sⁱ is measured on the samples still in the pool, from which the clearest are gone.",
    )


def by_novelty(method: str) -> bool:
    """Whether a method chooses by S⁰ and Sⁱ whom to ask or what to believe.

    >>> by_novelty("cual"), by_novelty("er-entropy")
    (True, False)
    """
    m = methods[method]
    chooses = m.believe is not None or not isinstance(m.first, Random)
    return isinstance(m.learner, Novelty) and chooses


def cost_table(group: Group) -> Table:
    """Seconds per task, and where they go."""
    stages = tuple(dict.fromkeys(s for r in group.rows for s in r.get("timings", {})))

    def row(m: str) -> tuple[Cell, ...]:
        def share(stage: str) -> Value | None:
            return group.per_stream(m, lambda r: r["timings"].get(stage, 0.0) / r["seconds"])

        return (count(group.per_stream(m, lambda r: r["seconds"])), *(share(stage) for stage in stages))

    return _per_method(
        "Time",
        ("seconds per task", *(f"{s} (%)" for s in stages)),
        group,
        row,
        note="Wall-clock time, with as many streams side by side as the run had; short head includes the novel "
        "classes' models within the loop.",
    )


def _per_method(
    title: str,
    columns: tuple[str, ...],
    group: Group,
    row: Callable[[str], tuple[Cell, ...]],
    note: str,
    wanted: Callable[[str], bool] = lambda _: True,
) -> Table:
    rows = [(m, *row(m)) for m in ordered([group]) if m in methods and wanted(m)]
    return Table(title, ("method", *columns), tuple(rows), note)


# -- helpers over groups ---------------------------------------------------------------------------------------


def ordered(groups: Iterable[Group]) -> list[str]:
    """Methods of the groups: the Oracle first, then in the library's order, then others.

    >>> ordered([Group("digits", {}, tuple({"method": m} for m in ("mine", "cual", "oracle")))])
    ['oracle', 'cual', 'mine']
    """
    there = dict.fromkeys(m for g in groups for m in g.methods)
    order = ("oracle", *methods.names())
    return sorted(there, key=lambda m: order.index(m) if m in order else len(order))


def titles(groups: Sequence[Group]) -> list[str]:
    """A short name per group: the dataset, and what tells it from others of the same dataset.

    >>> from cual.bench.results import grouped
    >>> titles(grouped([{"dataset": "digits", "budget": b} for b in (0.005, 0.02)]))
    ['digits 0.5 %', 'digits 2 %']
    """
    fields = differing(groups)
    return [" ".join([g.dataset, *(shown(f, g.varied[f]) for f in fields)]) for g in groups]


def shown(field: str, value: Any) -> str:
    """A value of the protocol as people write it.

    >>> shown("budget", 0.005), shown("increment", 3), shown("rarity", None), shown("imbalance", 10.0)
    ('0.5 %', '+3', 'usual mix', 'imbalance 10')
    """
    if (field, value) in WORDS:
        return WORDS[field, value]
    if field == "budget":
        return f"{100 * value:g} %" if isinstance(value, float) else f"{value} labels"
    if field in ("wrong", "skip", "synonyms") and isinstance(value, float | int):
        return f"{SHORT[field]}{100 * value:g} %"
    if isinstance(value, float | int):
        return f"{SHORT.get(field, field + ' ')}{value:g}"
    return f"{field} {', '.join(value) if isinstance(value, tuple) else value}"  # pyright: ignore[reportUnknownArgumentType]


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
    given = group.varied
    if any(given[field] != DEFAULTS[field] for field in NOT_IN_PAPER):
        return None
    for table in paper_tables().values():
        for column, value in zip(table.columns, table.rows.get(method, ()), strict=False):
            if value is not None and column.matches(group.dataset, given["increment"], given["budget"]):
                return value / 100
    return None
