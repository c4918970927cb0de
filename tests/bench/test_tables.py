import csv
import io
import json
import re
from pathlib import Path

import pytest

from cual.bench import formats
from cual.bench.folder import summarise
from cual.bench.paper import paper_tables
from cual.bench.results import Amount, Value, differing, grouped
from cual.bench.tables import (
    accuracy_table,
    all_tables,
    cost_table,
    learning_table,
    novelty_table,
    overview,
    titles,
    varied_tables,
)

PAPER = Path(__file__).parents[2].parent / "shared" / "paper" / "cual.tex"


@pytest.fixture
def rows(make_row):
    """cual: seeds 0 and 1 average 0.85 and 0.95; er-entropy has finished one seed, the second is under way."""
    return [
        make_row("cual", 0, 1, 0.9),
        make_row("cual", 0, 2, 0.8),
        make_row("cual", 1, 1, 1.0),
        make_row("cual", 1, 2, 0.9),
        make_row("er-entropy", 0, 1, 0.7),
        make_row("er-entropy", 0, 2, 0.5),
        make_row("er-entropy", 1, 1, 0.1),
    ]


def test_accuracy_is_the_mean_over_tasks_then_over_finished_seeds(rows):
    table = accuracy_table(grouped(rows))
    assert table.columns == ("method", "eurosat-r50", "paper")
    (cual, er) = table.rows
    assert cual[0] == "cual"
    assert cual[1] == Value(pytest.approx(0.9), pytest.approx(0.1 / 2**0.5), 2)
    assert cual[2] == pytest.approx(0.958)
    assert er == ("er-entropy", Value(pytest.approx(0.6), 0.0, 1), pytest.approx(0.910))


def test_averages_are_told_with_and_without_task_0(make_row):
    """Before all tasks, 0.9 on average: seed 0 has (0.9 + 0.6 + 0.3) / 3 with it, (0.6 + 0.3) / 2 without."""
    before = {"per_class_before": {"sea": 1.0, "wood": 0.8}}
    rows = [
        make_row("cual", 0, 1, 0.6, **before),
        make_row("cual", 0, 2, 0.3),
        make_row("cual", 1, 1, 0.9, **before),
        make_row("cual", 1, 2, 0.9),
    ]
    (group,) = grouped(rows)
    assert group.accuracy("cual").mean == pytest.approx((0.45 + 0.9) / 2)
    assert group.accuracy_from_0("cual").mean == pytest.approx((0.6 + 0.9) / 2)
    _, counted = overview([group])
    assert "task 0 counted" in counted.title
    assert counted.rows[0][1] == group.accuracy_from_0("cual")
    methods = learning_table(group)
    assert methods.rows[0][methods.columns.index("with task 0 (%)")] == group.accuracy_from_0("cual")
    summary = summarise(rows, expected=2)["cual"]
    assert set(summary) == {"mean", "std", "seeds", "with_task_0"}
    assert summary["mean"] == pytest.approx(group.accuracy("cual").mean)
    assert summary["with_task_0"]["mean"] == pytest.approx(0.75)
    assert summary["with_task_0"]["seeds"] == pytest.approx({"0": 0.6, "1": 0.9})


def test_without_an_accuracy_before_all_tasks_there_is_one_average(rows):
    (table,) = overview(grouped(rows))
    assert table == accuracy_table(grouped(rows))
    assert "with task 0 (%)" not in learning_table(*grouped(rows)).columns
    assert "with_task_0" not in summarise(rows, expected=2)["cual"]


def test_formats_say_the_same(rows):
    table = accuracy_table(grouped(rows))
    assert "\ncual         90.0 ± 7.1   95.8\n" in formats.to_text(table)
    assert "| cual | 90.0 ± 7.1 | 95.8 |\n" in formats.to_markdown(table)
    assert r"cual & 90.0 $\pm$ 7.1 & 95.8 \\" in formats.to_latex(table)
    assert "<td>90.0 ± 7.1</td><td>95.8</td>" in formats.to_html(table)
    read = list(csv.DictReader(io.StringIO(formats.to_csv(table))))
    assert float(read[0]["eurosat-r50"]) == pytest.approx(90)
    assert float(read[0]["eurosat-r50 std"]) == pytest.approx(100 * 0.1 / 2**0.5)
    assert read[0]["eurosat-r50 seeds"] == "2"
    assert float(read[0]["paper"]) == pytest.approx(95.8)


def test_latex_is_balanced_and_has_no_bare_specials(rows):
    for table in all_tables(grouped(rows)):
        text = formats.to_latex(table)
        assert not re.search(r"(?<!\\)%(?!\n)", text)
        assert all(ord(letter) < 128 for letter in text)
        body = text[text.index("\\midrule") : text.index("\\bottomrule")]
        cells = {line.count("&") for line in body.splitlines() if "&" in line}
        assert cells == {len(table.columns) - 1}


def test_html_escapes_names(make_row):
    table = accuracy_table(grouped([make_row("cual", 0, 1, 0.5, dataset="<b>&")]))
    assert "<th>&lt;b&gt;&amp;</th>" in formats.to_html(table)


def test_what_differs_is_named_and_varied_fields_get_their_table(make_row):
    rows = [make_row(m, 0, 1, a, budget=b) for m, b, a in [("cual", 0.05, 0.9), ("cual", 0.005, 0.8)]]
    groups = grouped(rows)
    assert differing(groups) == ("budget",)
    assert titles(groups) == ["eurosat-r50 5 %", "eurosat-r50 0.5 %"]
    (table,) = varied_tables(groups, "budget")
    assert table.columns == ("method", "0.5 %", "paper", "5 %")
    assert [table.rows[0][i].mean for i in (1, 3)] == [pytest.approx(0.8), pytest.approx(0.9)]
    assert overview(groups) == [table], "it says all that a table of all groups would say"
    assert varied_tables(groups, "increment") == []
    wider = accuracy_table(groups)
    assert wider.columns == ("method", "eurosat-r50 5 %", "eurosat-r50 0.5 %", "paper"), (
        "the paper's is at 0.5 %"
    )


def test_rows_from_before_a_field_was_there_are_at_its_default(make_row):
    earlier = make_row("cual", 0, 1, 0.5)
    assert "imbalance" not in earlier
    today = make_row("cual", 1, 1, 0.7, natural=False, imbalance=None)
    (group,) = grouped([earlier, today])
    assert group.accuracy("cual").mean == pytest.approx(0.6)
    groups = grouped([earlier, make_row("cual", 0, 1, 0.4, imbalance=10.0)])
    assert titles(groups) == ["eurosat-r50 usual sizes", "eurosat-r50 imbalance 10"]
    (table,) = overview(groups)
    assert table.columns == ("method", "usual sizes", "paper", "imbalance 10")
    natural = grouped([earlier, make_row("cual", 0, 1, 0.4, natural=True)])
    assert titles(natural) == ["eurosat-r50 even mix", "eurosat-r50 natural mix"]


def test_learning_novelty_and_cost(rows):
    (group,) = grouped(rows)
    learning = learning_table(group)
    assert learning.columns[:4] == ("method", "accuracy (%)", "seeds", "seeds 0 (%)")
    assert learning.rows[0] == (
        "cual",
        Value(pytest.approx(0.9), pytest.approx(0.1 / 2**0.5), 2),
        "2",
        Value(pytest.approx(0.85), 0.0, 1),
        Amount(4.0, 0.0, 2),
        Value(0.25, 0.0, 2),
        Amount(0.0, 0.0, 2),
        Amount(10.0, 0.0, 2),
        Value(pytest.approx(0.9), 0.0, 2),
        Value(pytest.approx(0.5), 0.0, 2),
    )
    assert learning.rows[1][-3] is None, "er-entropy believes nothing"
    novelty = novelty_table(group)
    assert [row[0] for row in novelty.rows] == ["cual"], "er-entropy has no novelty score"
    assert [pytest.approx(c.mean) for c in novelty.rows[0][1:]] == [0.8, 0.9, 0.9, 0.7, 0.8, 0.8]
    cost = cost_table(group)
    assert cost.columns == ("method", "seconds per task", "scoring (%)", "long head (%)")
    assert [c.mean for c in cost.rows[0][2:]] == [0.25, 0.5]


def test_the_paper_has_no_noise_and_no_rare_classes(make_row):
    for change in (
        {"wrong": 0.1},
        {"skip": 0.1},
        {"rarity": 10.0},
        {"natural": True},
        {"imbalance": 10.0},
        {"synonyms": 0.1},
    ):
        (group,) = grouped([make_row("cual", 0, 1, 0.5, **change)])
        assert "paper" not in accuracy_table([group]).columns


def test_seeds_are_compared_only_where_they_differ(make_row):
    (group,) = grouped([make_row(m, seed, 1, 0.5) for m in ("cual", "oracle") for seed in (0, 1)])
    assert learning_table(group).columns[:4] == ("method", "accuracy (%)", "seeds", "labels")


def test_csv_columns_have_names_of_their_own_and_amounts_are_numbers(make_row):
    groups = grouped([make_row("cual", 0, 1, 0.5, dataset=d) for d in ("eurosat-r50", "cifar100-super-r50")])
    tables = all_tables([*groups, *grouped([make_row("cual", 0, 1, 0.5, dataset="places50-r50")])])
    assert len(tables) == 10, "one for all, three for each dataset"
    for table in tables:
        head, *lines = csv.reader(io.StringIO(formats.to_csv(table)))
        assert len(set(head)) == len(head)
        assert all(float(cell) >= 0 for line in lines for cell in line[1:] if cell)


def test_rows_survive_json(rows):
    assert grouped(json.loads(json.dumps(rows)))[0].accuracy("cual") == grouped(rows)[0].accuracy("cual")


NAMES = {
    "oracle": "oracle",
    "cual(ours)": "cual",
    "cual(default)": "cual",
    "er-ent": "er-entropy",
    "er-rand": "er-random",
    "er-ent-oneshot": "er-entropy-oneshot",
    "pseudoer-ent": "pseudo-er-entropy",
    "ccic": "ccic",
    "al-top": "al-top",
    "al-rand": "al-random",
    "al-oneshot": "al-oneshot",
    "only-al": "only-al",
    "only-al-rand$^*$": "only-al-random",
    "only-al(8x-budget)": "only-al-8x",
}


@pytest.mark.skipif(not PAPER.exists(), reason=f"the paper is not at {PAPER}")
def test_paper_json_holds_the_papers_numbers():
    text = re.sub(r"\\textbf\{([^}]*)\}", r"\1", PAPER.read_text(encoding="utf-8"))
    bodies = re.findall(r"\\toprule(.*?)\\end\{tabular\}", text, flags=re.DOTALL)
    assert len(bodies) == 3
    for body, table in zip(bodies, paper_tables().values(), strict=True):
        printed = {}
        for line in body.split(r"\\"):
            name, *cells = (cell.strip() for cell in line.split("&"))
            key = NAMES.get(name.split("rule")[-1].split("hline")[-1].strip().lower())
            if key:
                printed[key] = tuple(None if cell == "-" else float(cell) for cell in cells)
        assert printed == table.rows
        assert all(len(row) == len(table.columns) for row in table.rows.values())
