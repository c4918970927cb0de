"""The leaderboard: which results stand together, in which order, and which folders are refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cual.bench import PROTOCOL
from cual.bench.folder import read_rows, summarise
from cual.bench.leaderboard import boards, leaderboard, to_html, to_markdown
from cual.bench.submissions import read_submissions
from cual.cli import app
from cual.errors import BadFile
from cual.types import Row

FEATURES = "ab" * 32
ACCURACIES = {
    ("cual", 0): (0.9, 0.8),
    ("cual", 1): (1.0, 0.7),
    ("cual", 2): (0.8, 0.6),
    ("er-random", 0): (0.5, 0.7),
}


@pytest.fixture
def handed_in(tmp_path: Path, make_row: Callable[..., Row]) -> Callable[..., Path]:
    """Writes a folder as somebody else's bench would: made-up rows, and the summary that follows from them."""

    def write(
        name: str = "theirs",
        protocol: int | None = 1,
        run: Row | None = None,
        summary: Callable[[Row], Row] = lambda row: row,
        rows: Callable[[list[Row]], list[Row]] = lambda rows: rows,
        accuracies: dict[tuple[str, int], tuple[float, ...]] = ACCURACIES,
        **changes: Any,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        said = {} if protocol is None else {"protocol": protocol}
        written = rows(
            [
                {k: v for k, v in make_row(method, seed, task, value, **changes).items() if k != "confusion"}
                | said
                for (method, seed), values in accuracies.items()
                for task, value in enumerate(values, 1)
            ]
        )
        setting = {"name": "eurosat-r50", "options": {"rounds": 3}, "first": 2, "increment": 1, "budget": 0.005}
        body = {"setting": setting | changes, "features_sha256": FEATURES, "versions": {"cual": "0.2.0"}}
        (folder / "run.json").write_text(json.dumps(body | said | (run or {})))
        (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in written))
        (folder / "summary.json").write_text(json.dumps(summary(summarise(written, 2))))
        return folder

    return write


def test_figures_of_an_entry_against_naive_sums(handed_in: Callable[..., Path]) -> None:
    (board,) = boards(read_submissions([handed_in()]))
    best, last = board.entries
    means = [0.85, 0.85, 0.7]
    assert (best.method, last.method) == ("cual", "er-random")
    assert best.accuracy.mean == pytest.approx(sum(means) / 3)
    assert best.accuracy.std == pytest.approx(np.std(means, ddof=1))
    assert (best.accuracy.n, best.few, last.accuracy.n, last.few) == (3, False, 1, True)
    assert (best.labels.mean, best.label_share, best.missed.mean) == (8, 8 / 200, 0)
    assert best.cells(1)[0] == "1. cual"
    assert last.cells(2)[0] == "2. er-random †"
    assert "rounds=3" in best.cells(1)
    assert board.title == "eurosat-r50: 2 classes first, 1 new per task, budget 0.5 %"


def test_what_cannot_be_compared_stands_apart(handed_in: Callable[..., Path]) -> None:
    handed_in("a")
    handed_in("b", accuracies={("mine", 0): (0.99, 0.99)})
    handed_in("newer", protocol=2)
    handed_in("older", protocol=None)
    handed_in("features", run={"features_sha256": "cd" * 32})
    handed_in("budget", budget=0.05)
    handed_in("one label", budget=1)
    handed_in("whole pool", budget=1.0)
    handed_in("increment", increment=3)
    handed_in("wrong", wrong=0.2)
    made = boards(read_submissions([handed_in("last", first=4).parent]))
    together = {tuple(sorted({entry.folder.rpartition("/")[2] for entry in board.entries})) for board in made}
    apart = ("newer", "older", "features", "budget", "one label", "whole pool", "increment", "wrong", "last")
    assert together == {("a", "b"), *((name,) for name in apart)}
    (both,) = [board for board in made if len(board.entries) == 3]
    assert [entry.method for entry in both.entries] == ["mine", "cual", "er-random"]
    page, text = to_html(made), to_markdown(made)
    for shown in ("Protocol 1.", "Protocol 2.", "Protocol 1 (not recorded)."):
        assert shown in page
        assert shown in text
    assert "budget 1 labels" in page
    assert "budget 100 %" in page
    assert "wrong 20 %" in page


def test_an_old_folder_that_a_later_bench_went_on_with(handed_in: Callable[..., Path]) -> None:
    folder = handed_in(protocol=None, rows=lambda rows: [*rows[:-1], rows[-1] | {"protocol": 1}])
    (board,) = boards(read_submissions([folder]))
    assert board.protocol == "1 (not recorded)"


def test_the_same_folder_counts_once(handed_in: Callable[..., Path]) -> None:
    folder = handed_in()
    assert len(read_submissions([folder, folder.parent, folder / ".." / folder.name])) == 1


def test_unfinished_streams_do_not_count(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "cut")
    lines = (whole / "results.jsonl").read_text().splitlines(keepends=True)
    kept = lines[: len(lines) - 2]
    (tmp_path / "cut" / "results.jsonl").write_text("".join(kept))
    rows = read_rows(tmp_path / "cut" / "results.jsonl")
    (tmp_path / "cut" / "summary.json").write_text(json.dumps(summarise(rows, 5)))
    (board,) = boards(read_submissions([tmp_path / "cut"]))
    assert sorted((entry.method, entry.accuracy.n) for entry in board.entries) == [
        ("cual", 2),
        ("er-random", 1),
    ]


def changed(key: str, value: Any) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [rows[0] | {key: value}, *rows[1:]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"summary": lambda s: {**s, "cual": s["cual"] | {"mean": 0.9}}},
            "mean of cual is 0.9 there, but the rows",
        ),
        ({"summary": lambda s: {**s, "cual": s["cual"] | {"std": None}}}, "std of cual is None"),
        ({"summary": lambda s: {"cual": s["cual"]}}, "not both have er-random"),
        ({"summary": lambda s: {**s, "cual": s["cual"] | {"seeds": {"0": 0.85}}}}, "other seeds"),
        ({"rows": changed("accuracy", 1.5)}, "has the accuracy 1.5"),
        ({"rows": changed("accuracy", float("nan"))}, "has the accuracy nan"),
        ({"rows": changed("accuracy", True)}, "has the accuracy True"),
        ({"rows": changed("labels_used", 101)}, "used 101 labels in a pool of 100"),
        ({"rows": changed("labels_used", -1)}, "has -1 for labels_used"),
        ({"rows": changed("method", "a\nb")}, "no readable text"),
        ({"rows": changed("budget", 0.5)}, "has 0.5 for budget, but run.json says 0.005"),
        ({"rows": changed("protocol", 2)}, "has 2 for protocol, but run.json says 1"),
        ({"rows": changed("dataset", "another")}, "has 'another' for dataset"),
        ({"rows": lambda rows: [*rows, rows[0]]}, "task 2 of cual, seed 0, not once"),
        ({"run": {"protocol": "one"}, "protocol": None}, "'one'"),
        ({"run": {"features_sha256": "x"}}, "no SHA-256 of the features"),
        ({"run": {"methods": {"cual": {"packages": {"a\x1b": "1"}, "options": {}}}}}, "no readable text"),
        ({"run": {"setting": {"name": "eurosat-r50", "budget": None}}}, "None for budget"),
    ],
)
def test_folders_that_contradict_themselves_are_refused_by_name(
    handed_in: Callable[..., Path], given: Row, message: str
) -> None:
    sound, folder = handed_in("sound"), handed_in("odd", **given)
    with pytest.raises(BadFile) as refused:
        read_submissions([sound, folder])
    assert str(refused.value).startswith(f"{folder} is refused: ")
    assert message in str(refused.value)
    assert "sound" not in str(refused.value)


def test_files_that_are_missing_or_no_json_are_refused(handed_in: Callable[..., Path], tmp_path: Path) -> None:
    for name in ("run.json", "summary.json"):
        (handed_in(f"without {name}") / name).unlink()
        (handed_in(f"damaged {name}") / name).write_text("{")
        (handed_in(f"deep {name}") / name).write_text("[" * 100_000)
    (handed_in("rows") / "results.jsonl").write_text("[" * 100_000 + "\n")
    with pytest.raises(BadFile) as refused:
        read_submissions([tmp_path])
    assert str(refused.value).count("is refused: ") == 7
    with pytest.raises(BadFile, match=r"holds no results\.jsonl"):
        read_submissions([tmp_path / "nowhere"])


def test_what_strangers_write_is_shown_and_not_run(handed_in: Callable[..., Path], tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>|[x](javascript:1)"
    accuracies = {(evil, seed): (0.5, 0.5) for seed in range(3)}
    run = {"methods": {evil: {"packages": {evil: evil}, "options": {"name": evil, "head": {"x": evil}}}}}
    handed_in("evil", accuracies=accuracies, run=run)
    path = leaderboard([tmp_path / "evil"], tmp_path / "board")
    page, text = path.read_text(encoding="utf-8"), (path.parent / "leaderboard.md").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<" not in text
    assert "\\|\\[x\\](javascript:1)" in text


def test_the_bench_says_protocol_and_packages(whole: Path, tmp_path: Path) -> None:
    """What `cual bench run` wrote is what the page shows of it."""
    told = json.loads((whole / "run.json").read_text())
    rows = read_rows(whole / "results.jsonl")
    summary = json.loads((whole / "summary.json").read_text())
    assert {told["protocol"], *(row["protocol"] for row in rows)} == {PROTOCOL}
    assert {entry["protocol"] for entry in summary.values()} == {PROTOCOL}
    assert all({"mean", "std", "seeds"} <= set(entry) for entry in summary.values())
    done = CliRunner().invoke(app, ["bench", "leaderboard", str(whole), "-o", str(tmp_path / "board")])
    assert done.exit_code == 0, done.output
    (board,) = boards(read_submissions([whole]))
    for entry in board.entries:
        assert entry.accuracy.mean == pytest.approx(summary[entry.method]["mean"])
        assert list(entry.packages) == ["cual"]
        assert entry.options is not None
        assert entry.options["head"]["epochs"] == 3
        assert entry.few
    page = (tmp_path / "board" / "index.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert page.count("<caption") == page.count("<table") == 1
    assert page.count("scope=row") == 2


def test_a_changed_summary_is_refused_on_the_command_line(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "better")
    summary = json.loads((whole / "summary.json").read_text())
    summary["cual"]["mean"] = 0.999
    (tmp_path / "better" / "summary.json").write_text(json.dumps(summary))
    done = CliRunner().invoke(app, ["bench", "leaderboard", str(tmp_path), "-o", str(tmp_path / "board")])
    assert done.exit_code == 2
    assert "better is refused: summary.json does not follow" in done.output.replace("\n", " ")
    assert not (tmp_path / "board").exists()


def test_a_method_in_a_file_goes_by_the_files_hash_wherever_it_lies(tmp_path: Path) -> None:
    import hashlib

    from cual import extensions

    text = "class Part: ...\n"
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(text)
    said = {
        extensions.package_of(extensions.load(str(tmp_path / folder / "mine.py")).__name__)
        for folder in ("here", "there")
    }
    assert said == {("mine.py", hashlib.sha256(text.encode()).hexdigest()[:12])}
