import json
import re
from html.parser import HTMLParser

import pytest

from cual.bench.demo import run_demo
from cual.bench.figures import accuracy_over_tasks, introduced_and_final
from cual.bench.report import compare, draw, report, terminal
from cual.bench.results import grouped
from cual.bench.settings import DIGITS, Setting
from cual.errors import BadFile
from cual.methods import methods

pytestmark = pytest.mark.more


class Links(HTMLParser):
    """Everything a browser would load or follow, and whether tags are balanced."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.tags: dict[str, int] = {}
        self.ids: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "action", "data"):
                self.targets.append(value)
            if name == "id":
                self.ids.append(value)
            self.targets += re.findall(r"url\(['\"]?([^'\")]+)", value or "")


def check_self_contained(text: str) -> Links:
    links = Links()
    links.feed(text)
    foreign = [t for t in links.targets if not t.startswith(("#", "data:"))]
    assert not foreign
    assert {t[1:] for t in links.targets if t.startswith("#")} <= set(links.ids), "a figure lost its parts"
    assert not re.search(r"@import|<script|<link", text)
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    styles = "".join(re.findall(r"<style.*?</style>", text, flags=re.DOTALL))
    assert "url(" not in styles
    assert "prefers-color-scheme: dark" in styles
    assert len(set(links.ids)) == len(links.ids), "two figures share an id"
    return links


def test_report_of_a_run(whole, tmp_path):
    path = report(whole, tmp_path)
    links = check_self_contained(path.read_text(encoding="utf-8"))
    assert links.tags["svg"] == links.tags["figure"] == 6
    assert {p.suffix for p in (tmp_path / "figures").iterdir()} == {".svg", ".pdf"}
    assert len(list((tmp_path / "figures").iterdir())) == 12
    assert {p.name for p in tmp_path.glob("tables.*")} == {"tables.txt", "tables.md", "tables.tex"}
    assert (tmp_path / "tables.txt").read_text() == terminal(whole)


def test_figures_are_the_same_bytes_again(whole, tmp_path):
    for out in ("one", "two"):
        report(whole, tmp_path / out)
    for one in (tmp_path / "one").rglob("*.*"):
        two = tmp_path / "two" / one.relative_to(tmp_path / "one")
        assert two.read_bytes() == one.read_bytes(), one.name


def test_figures_over_budgets_and_noise(make_row):
    rows = [make_row("cual", 0, 1, a, budget=b) for b, a in [(0.005, 0.8), (0.05, 0.9)]]
    rows += [make_row("cual", 0, 1, 0.6, wrong=0.2)]
    drawn = {d.name: d.figure for d in compare(grouped(rows))}
    budgets = drawn["eurosat-r50-average-accuracy-over-budget"].axes[0].lines[0]
    assert budgets.get_ydata() == pytest.approx([80, 90])
    noise = drawn["eurosat-r50-average-accuracy-over-wrong-answers"].axes[0].lines[0]
    assert noise.get_ydata() == pytest.approx([80, 60])


def test_no_figure_has_more_lines_than_an_eye_can_follow(make_row):
    (group,) = grouped([make_row(m, seed, t, 0.5) for m in methods for seed in (0, 1) for t in (1, 2)])
    drawn = {d.name.removeprefix("all-"): d for d in draw(group, "all")}
    for d in drawn.values():
        for axes in d.figure.axes:
            assert len(axes.lines) <= 8
    accuracy = drawn["accuracy-over-tasks"]
    names = [text.get_text() for text in accuracy.figure.axes[0].get_legend().get_texts()]
    assert {"oracle", "cual", "er-entropy"} < set(names)
    assert "incdfm" not in names, "it learns no names"
    assert f"{len(methods.names()) - 8} more methods are in the table" in accuracy.caption
    (zones,) = drawn["labels-by-zone"].figure.axes
    assert len(zones.get_yticks()) == len(methods.names()) - 1, "all but the Oracle"


def test_legends_follow_the_lines(make_row):
    rows = [make_row(m, 0, t, a) for m, a in [("cual", 0.2), ("er-random", 0.9)] for t in (1, 2)]
    figure = accuracy_over_tasks(grouped(rows)[0])
    assert [t.get_text() for t in figure.axes[0].get_legend().get_texts()] == ["er-random", "cual"]


def test_sections_of_several_datasets_are_linked(make_row, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    rows = [make_row("cual", 0, 1, 0.5, dataset=d) for d in ("sea", "wood")]
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    links = check_self_contained(report(folder).read_text(encoding="utf-8"))
    assert [t for t in links.targets if t.startswith("#results")] == ["#results-0", "#results-1"]


def test_no_results_is_said(tmp_path):
    with pytest.raises(BadFile, match=r"holds no results\.jsonl"):
        report(tmp_path)


def test_forgetting_compares_a_class_with_its_introduction(make_row):
    rows = [
        make_row("cual", 0, 1, 0.9, per_class={"a": 0.9, "b": 0.8}, per_class_before={"a": 1.0}),
        make_row("cual", 0, 2, 0.9, per_class={"a": 0.7, "b": 0.6, "c": 0.5}),
        make_row("cual", 1, 1, 0.9, per_class={"b": 0.2, "c": 0.4}, per_class_before={"b": 0.6}),
        make_row("cual", 1, 2, 0.9, per_class={"b": 0.2, "c": 0.0, "a": 0.8}),
    ]
    began, ended = introduced_and_final(rows)
    assert began == pytest.approx({"a": 0.9, "b": 0.7, "c": 0.45})
    assert ended == pytest.approx({"a": 0.75, "b": 0.4, "c": 0.25})


def test_demo(tmp_path):
    small = {"head_options": {"hidden": 64, "epochs": 4}}
    setting = Setting(DIGITS, ("cual", "oracle"), first=6, increment=2, budget=0.02, buffer=300, options=small)
    told = []
    demo = run_demo(tmp_path, told.append, setting)
    assert (told[-1].done, told[-1].total) == (4, 4)
    assert {row[0] for row in demo.table.rows} == {"oracle", "cual"}
    links = check_self_contained(demo.page.read_text(encoding="utf-8"))
    asked = sum(row["labels_used"] for row in demo.rows if row["method"] == "cual")
    assert links.tags["img"] == 3 * asked, "each question at the top, with its task and in the ledger"
    assert links.tags["details"] == 3
    assert links.tags["svg"] == 3


def test_what_comes_from_files_is_text_and_never_markup(make_row, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    evil = "<img src=x onerror=alert(1)>"
    rows = [make_row("cual", 0, t, 0.5, dataset=evil) for t in (1, 2)]
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "run.json").write_text(json.dumps({"setting": evil}))
    text = report(folder).read_text(encoding="utf-8")
    assert "<img" not in text
    assert "&lt;img src=x" in text
