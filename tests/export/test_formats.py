"""Every format, read back by somebody else's reader: nothing is lost, nothing is half written."""

import csv
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cual.errors import BadOption, Unavailable, UnknownName
from cual.export import COLUMNS, Labels, format_of, formats
from cual.loop.labels import LabelRow

AT = "2026-01-02T03:04:05.678+00:00"
NASTY = [
    "=1+1",
    "+x",
    "-x",
    "@x",
    "\tx",
    "\rx",
    "'x",
    "＝1",
    'a,"b"\nc',
    "Füchsin 🦊",
    "-",
    "'",
    "x=1",
    "\ud800",
]


def row(sample: Any, label: Any = "cat", **more: Any) -> LabelRow:
    plain = LabelRow(sample, label, "answer", True, None, "Ada", AT, 0, None, 0.5, "novel", None, 3)
    return plain._replace(**more)


def rows_of(n: int) -> Iterator[LabelRow]:
    return (row(f"img_{i:07}.jpg", doubt=i / n) for i in range(n))


def where(tmp_path: Path, name: str) -> Path:
    return tmp_path / f"labels{formats[name].suffix}"


def written(tmp_path: Path, name: str, rows: list[LabelRow], numbers: frozenset[str] = frozenset()) -> Path:
    path = where(tmp_path, name)
    assert formats[name].write(Labels(iter(rows), numbers), path) == len(rows)
    assert os.listdir(tmp_path) == [path.name], "nothing is left beside it"
    return path


def test_csv_holds_no_formula_and_nothing_is_lost(tmp_path: Path) -> None:
    rows = [row(text, text, person=text) for text in NASTY]
    with written(tmp_path, "csv", rows).open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert tuple(lines[0]) == COLUMNS
    for line, text in zip(lines, NASTY, strict=True):
        for cell in (line["sample"], line["label"], line["person"]):
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "＝"))
            plain = cell[1:] if cell.startswith("'") else cell
            assert plain == text.encode("utf-8", "backslashreplace").decode()
        assert (line["counts"], line["doubt"], line["score"], line["row"]) == ("1", "", "0.5", "3")


def test_csv_leaves_numbers_as_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, "csv", [row(-3, -1, score=-0.25)])
    (line,) = csv.DictReader(path.open(encoding="utf-8"))
    assert (line["sample"], line["label"], line["score"]) == ("-3", "-1", "-0.25")


def test_jsonl_holds_everything_as_it_is(tmp_path: Path) -> None:
    rows = [row(text, text) for text in NASTY[:-1]] + [row(7, None, counts=False)]
    lines = written(tmp_path, "jsonl", rows).read_text(encoding="utf-8").split("\n")
    assert [LabelRow(**json.loads(line)) for line in lines[:-1]] == rows


@pytest.mark.parametrize("name", ["parquet", "datasets"])
def test_columns_have_types(tmp_path: Path, name: str) -> None:
    rows = [
        row(1, 2, suggestion=-5, doubt=0.25),
        row(2**62, None, source="pseudo-label", person=None, row=None),
    ]
    table = read(name, written(tmp_path, name, rows, frozenset(("sample", "label"))))
    types = {field.name: str(field.type) for field in table.schema}
    assert tuple(types) == COLUMNS
    assert (types["sample"], types["label"], types["suggestion"], types["at"]) == (
        *("int64", "int64", "int64"),
        "timestamp[ms, tz=UTC]",
    )
    assert types["counts"] == "bool"
    back = [
        LabelRow(**{**line, "at": line["at"].isoformat(timespec="milliseconds")}) for line in table.to_pylist()
    ]
    assert back == rows


@pytest.mark.parametrize("name", ["parquet", "datasets"])
def test_names_of_all_kinds_in_columns(tmp_path: Path, name: str) -> None:
    table = read(name, written(tmp_path, name, [row(text, text) for text in NASTY] + [row(3, 4)]))
    assert table.column("sample").to_pylist() == [*NASTY[:-1], "\\ud800", "3"]
    assert str(table.schema.field("label").type) == "string"


@pytest.mark.parametrize("name", formats.names())
def test_no_labels_are_an_empty_table(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name, [])
    if name in ("parquet", "datasets"):
        assert read(name, path).num_rows == 0
    else:
        assert path.read_text().splitlines() == ([",".join(COLUMNS)] if name == "csv" else [])


def read(name: str, path: Path) -> Any:
    if name == "parquet":
        import pyarrow.parquet as parquet

        return parquet.read_table(path)
    import datasets

    return datasets.load_from_disk(str(path)).data.table


class Counted(str):
    """Text that knows how many of its kind there are."""

    alive = 0
    most = 0

    def __new__(cls, text: str) -> "Counted":
        cls.alive += 1
        cls.most = max(cls.most, cls.alive)
        return super().__new__(cls, text)

    def __del__(self) -> None:
        Counted.alive -= 1


@pytest.mark.parametrize("name", formats.names())
def test_many_rows_are_not_in_memory_together(tmp_path: Path, name: str) -> None:
    n, Counted.most = 50_000, 0
    rows = (row(Counted(f"img_{i:07}.jpg")) for i in range(n))
    assert formats[name].write(Labels(rows), where(tmp_path, name)) == n
    assert 0 < Counted.most < n / 2


@pytest.mark.parametrize("name", formats.names())
def test_what_fails_halfway_leaves_nothing(tmp_path: Path, name: str) -> None:
    def broken() -> Iterator[LabelRow]:
        yield from rows_of(20_000)
        raise ConnectionError("the database is gone")

    path = where(tmp_path, name)
    if formats[name].suffix:
        path.write_text("as it was")
    with pytest.raises(ConnectionError):
        formats[name].write(Labels(broken()), path)
    assert os.listdir(tmp_path) == ([path.name] if formats[name].suffix else [])
    assert not path.is_file() or path.read_text() == "as it was"


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "thesis.txt").write_text("years of work")
    with pytest.raises(BadOption, match="not empty"):
        formats["datasets"].write(Labels(rows_of(1)), tmp_path / "labels")
    assert os.listdir(tmp_path / "labels") == ["thesis.txt"]


@pytest.mark.parametrize(("name", "package"), [("parquet", "pyarrow"), ("datasets", "datasets")])
def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(Unavailable, match="pip install"):
        formats[name].check()


def test_the_format_follows_from_the_name() -> None:
    assert [format_of(Path(name)) for name in ("a.csv", "b.JSONL", "c.parquet")] == ["csv", "jsonl", "parquet"]
    with pytest.raises(BadOption, match=r"\.csv, \.jsonl, \.parquet"):
        format_of(Path("labels"))
    with pytest.raises(UnknownName, match="export format"):
        _ = formats["xml"]


@pytest.mark.parametrize("name", formats.names())
def test_further_columns_stand_behind_those_of_every_label(tmp_path: Path, name: str) -> None:
    names, values = ("said", "n", "old"), [("=1+1", 3, True), (None, None, None)]
    path = where(tmp_path, name)
    labels = Labels(iter([row("a"), row("b")]), more=names, beside=lambda rows: values[: len(rows)])
    assert formats[name].write(labels, path) == 2
    if name == "csv":
        first, second = csv.DictReader(path.open(encoding="utf-8"))
        assert [first[f"columns.{key}"] for key in names] == ["'=1+1", "3", "1"]
        assert [second[f"columns.{key}"] for key in names] == ["", "", ""]
    elif name == "jsonl":
        first, second = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
        assert [first[f"columns.{key}"] for key in names] == ["=1+1", 3, True]
        assert list(first) == [*COLUMNS, *(f"columns.{key}" for key in names)]
        assert second["columns.said"] is None
    else:
        first, second = read(name, path).to_pylist()
        assert [first[f"columns.{key}"] for key in names] == ["=1+1", "3", "True"]
        assert second["columns.old"] is None
