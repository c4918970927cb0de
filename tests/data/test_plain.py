"""Plain columns of features files: what is kept of them, what is not and why, and never a label."""

import tracemalloc
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cual.data.columns import LABELS
from cual.data.lines import Lines, write_lines
from cual.data.plain import LONGEST, MOST, MOST_NOTES, PlainColumns, chosen, plain
from cual.data.plain_files import plain_columns
from cual.errors import BadFile, BadOption, DamagedFile

X = np.eye(3, dtype=np.float32)


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path / "x.npz", X=X, **arrays)
    return path / "x.npz"


def parquet(path: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), path / "x.parquet")
    return path / "x.parquet"


def dicts(columns: PlainColumns) -> list[dict[str, Any]]:
    return [dict(zip(columns.names, row, strict=True)) for row in columns]


def test_npz_further_arrays_of_one_value_per_row(tmp_path: Path) -> None:
    file = npz(
        tmp_path,
        ids=np.array(["a", "b", "c"]),
        colour=np.array(["red", "blue", "grün"]),
        price=np.array([1.5, np.nan, np.inf], np.float32),
        count=np.array([1, 2, 2**63 - 1]),
        old=np.array([True, False, True]),
        code=np.array([b"x1", b"\xff", b""]),
        day=np.array(["2026-01-02", "2026-01-03", "NaT"], "datetime64[D]"),
    )
    columns = plain_columns(file, 3)
    assert columns.names == ("colour", "price", "count", "old", "code", "day")
    assert dicts(columns) == [
        {"colour": "red", "price": 1.5, "count": 1, "old": True, "code": "x1", "day": "2026-01-02"},
        {"colour": "blue", "price": None, "count": 2, "old": False, "code": "�", "day": "2026-01-03"},
        {"colour": "grün", "price": "inf", "count": 2**63 - 1, "old": True, "code": "", "day": "NaT"},
    ]
    assert columns.notes == []


def test_npz_what_is_no_column_is_said(tmp_path: Path) -> None:
    file = npz(
        tmp_path,
        y=np.array([0, 1, 0]),
        class_names=np.array(["cat", "dog", "owl"]),
        encoder=np.array("e@0123456789ab"),
        Label=np.array(["cat", "dog", "cat"]),
        box=np.zeros((3, 4)),
        few=np.array([1, 2]),
        pair=np.zeros(3, complex),
        objects=np.array([{}, [], None], object),
    )
    columns = plain_columns(file, 3)
    assert columns.names == ()
    assert [tuple(note) for note in columns.notes] == [
        ("Label", "labels"),
        ("box", "shape"),
        ("few", "shape"),
        ("pair", "shape"),
        ("objects", "shape"),
    ]
    assert list(columns) == [[], [], []]


@pytest.mark.parametrize("name", [*LABELS, "LABEL", " Class "])
def test_labels_are_never_shown(tmp_path: Path, name: str) -> None:
    for file in (npz(tmp_path, **{name: np.arange(3)}), parquet(tmp_path, {"v": X.tolist(), name: ["a"] * 3})):
        assert plain_columns(file, 3).names == ()
        with pytest.raises(BadOption, match=r"features, text or ids|seems to hold labels"):
            plain_columns(file, 3, [name])


def test_parquet_columns_beside_a_list_of_numbers(tmp_path: Path) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    file = parquet(
        tmp_path,
        {
            "id": ["a", "b", "c"],
            "v": X.tolist(),
            "label": ["cat", "dog", "cat"],
            "colour": pa.array(["red", None, "blue"]).dictionary_encode(),
            "price": [1.5, None, 2.0],
            "at": pa.array([at, at, None], pa.timestamp("ns", "UTC")),
            "day": [date(2026, 1, 2)] * 3,
            "cost": [Decimal("1.20")] * 3,
            "raw": [b"\0", b"", None],
            "tags": [["a"], [], None],
            "a.b": ["dotted"] * 3,
            "__index_level_0__": [0, 1, 2],
        },
    )
    columns = plain_columns(file, 3)
    assert columns.names == ("colour", "price", "at", "day", "cost", "a.b")
    first, second, third = dicts(columns)
    assert (first["colour"], first["price"], first["day"], first["cost"]) == ("red", 1.5, "2026-01-02", "1.20")
    assert str(first["at"]).startswith("2026-01-02 03:04:05")
    assert (second["colour"], second["price"], third["at"], third["a.b"]) == (None, None, None, "dotted")
    assert [tuple(note) for note in columns.notes] == [
        ("label", "labels"),
        ("raw", "shape"),
        ("tags", "shape"),
    ]


def test_parquet_numbers_side_by_side_are_features_not_columns(tmp_path: Path) -> None:
    file = parquet(tmp_path, {"f0": [1.0, 2.0], "f1": [3.0, 4.0], "colour": ["red", "blue"]})
    assert dicts(plain_columns(file, 2)) == [{"colour": "red"}, {"colour": "blue"}]
    with pytest.raises(BadOption, match="'f0' holds features"):
        plain_columns(file, 2, ["f0"])


def test_columns_are_chosen_by_name_and_in_that_order(tmp_path: Path) -> None:
    file = npz(tmp_path, a=np.arange(3), b=np.arange(3), c=np.zeros((3, 2)))
    assert dicts(plain_columns(file, 3, ["b", "a"]))[2] == {"b": 2, "a": 2}
    assert plain_columns(file, 3, []).names == ()
    with pytest.raises(BadFile, match="no column 'nope'; it has a, b"):
        plain_columns(file, 3, ["nope"])
    with pytest.raises(BadOption, match="'c' cannot be shown"):
        plain_columns(file, 3, ["c"])
    with pytest.raises(BadOption, match="twice"):
        plain_columns(file, 3, ["a", "a"])
    with pytest.raises(BadOption, match="at most 20"):
        plain_columns(file, 3, [str(i) for i in range(21)])


def test_a_file_of_x_alone_has_none(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    assert plain_columns(tmp_path / "x.npy", 3).names == ()
    with pytest.raises(BadFile, match=r"x.npy has no column 'a'; it has none to show"):
        plain_columns(tmp_path / "x.npy", 3, ["a"])


def test_limits_are_said_and_kept(tmp_path: Path) -> None:
    names = [f"c{i:03}" for i in range(500)]
    columns = plain_columns(
        npz(tmp_path, **{name: np.array(["x" * LONGEST, "x" * (LONGEST + 1), ""]) for name in names}), 3
    )
    assert columns.names == tuple(names[:MOST])
    assert len(columns.notes) == MOST_NOTES
    assert {note.why for note in columns.notes} == {"many"}
    rows = list(columns)
    assert rows[0][0] == "x" * LONGEST
    assert rows[1][0] == "x" * (LONGEST - 1) + "…"
    assert ("c000", "cut") in columns.notes
    assert columns.notes[MOST_NOTES] == ("c000", "cut"), "each is told of once, however many rows"


def test_names_that_cannot_be_read() -> None:
    names = {"a\nb": True, "turn\u202e": True, "": True, "x" * 101: True, "fine": True}
    kept, notes = chosen("t", names)
    assert kept == ["fine"]
    assert [note.why for note in notes] == ["name"] * 4
    assert all(note.column.isprintable() or note.column == "" for note in notes)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (10**30, str(10**30)),
        ("\ud800 half", "? half"),
        (b"x" * 3000, "x" * (LONGEST - 1) + "…"),
        (float("-inf"), "-inf"),
        (np.timedelta64(3, "s"), "3 seconds"),
        ([1], None),
    ],
)
def test_odd_values(value: Any, shown: Any) -> None:
    assert plain(value)[0] == shown


def test_an_array_that_is_cut_short(tmp_path: Path) -> None:
    import zipfile

    header = npz(tmp_path, a=np.arange(3))
    with zipfile.ZipFile(header) as whole:
        members = {name: whole.read(name) for name in whole.namelist()}
    with zipfile.ZipFile(header, "w") as packed:
        for name, data in members.items():
            packed.writestr(name, data[:-8] if name == "a.npy" else data)
    with pytest.raises(DamagedFile, match="cut short"):
        list(plain_columns(header, 3))


def test_wide_text_is_not_in_memory_as_a_whole(tmp_path: Path) -> None:
    """An array of text takes four bytes a character for its longest value in every row."""
    n = 20_000
    file = tmp_path / "x.npz"
    with open(file, "wb") as opened:
        np.savez_compressed(opened, X=np.zeros((n, 1), np.float16), said=np.full(n, "x" * 1000))
    tracemalloc.start()
    try:
        assert sum(len(str(row[0])) for row in plain_columns(file, n)) == n * LONGEST
        assert tracemalloc.get_traced_memory()[1] < n * 1000, "of 80 MB"
    finally:
        tracemalloc.stop()


def test_lines_are_read_by_row_and_damage_is_named(tmp_path: Path) -> None:
    file = tmp_path / "said.jsonl"
    write_lines(file, [(2, "two\nlines"), (0, {"a": 1})], 4)
    with Lines(file) as lines:
        assert [lines.get(row) for row in range(5)] == [{"a": 1}, None, "two\nlines", None, None]
    file.write_bytes(b"{")
    with Lines(file) as lines, pytest.raises(DamagedFile, match="row 0"):
        lines.get(0)
    (tmp_path / "said.npy").write_bytes(b"no array")
    with pytest.raises(DamagedFile):
        Lines(file)
    with pytest.raises(FileNotFoundError):
        Lines(tmp_path / "none.jsonl")
