import numpy as np
import pytest

from cual.data import files
from cual.data.table import Table
from cual.errors import BadFeatures, BadFile, BadLabels, DamagedFile, DuplicateIds, ForeignFile

X = np.arange(24, dtype=np.float16).reshape(6, 4) / 7
Y = np.array([0, 1, 1, 0, 2, 2])
NAMES = ("Meer", "Stadt am Fluß", "森")


@pytest.fixture
def table() -> Table:
    return Table(X, Y, np.array([f"img_{i}.jpg" for i in range(6)]), NAMES)


def test_npz_comes_back_as_it_was_written(table, tmp_path):
    files.write(tmp_path / "deep" / "f.npz", table)
    back = files.read(tmp_path / "deep" / "f.npz")
    assert back.X.dtype == np.float16
    np.testing.assert_array_equal(back.X, X)
    np.testing.assert_array_equal(back.ids, table.ids)
    assert back.class_names == NAMES
    assert back.labels().tolist() == ["Meer", "Stadt am Fluß", "Stadt am Fluß", "Meer", "森", "森"]
    assert list((tmp_path / "deep").iterdir()) == [tmp_path / "deep" / "f.npz"]


def test_npz_with_x_alone(tmp_path):
    files.write(tmp_path / "f.npz", Table(X))
    back = files.read(tmp_path / "f.npz")
    assert (back.y, back.ids, back.class_names) == (None, None, None)
    with pytest.raises(BadLabels, match="no labels"):
        back.labels()


def test_npy_is_mapped_not_read(tmp_path):
    np.save(tmp_path / "f.npy", X)
    back = files.read(tmp_path / "f.npy")
    assert isinstance(back.X, np.memmap)
    np.testing.assert_array_equal(back.X, X)


@pytest.mark.parametrize("kind", ["list", "fixed", "columns"])
def test_parquet(tmp_path, kind):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    wide = X.astype(np.float32)
    columns = {"id": [f"a{i}" for i in range(6)], "label": ["x", "y", "y", "x", "x", "y"]}
    if kind == "columns":
        columns |= {f"f{i}": wide[:, i] for i in range(4)}
    elif kind == "list":
        columns["embedding"] = wide.tolist()
    else:
        columns["embedding"] = pa.FixedSizeListArray.from_arrays(wide.ravel(), 4)
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    back = files.read(tmp_path / "f.parquet")
    np.testing.assert_allclose(back.X, wide)
    assert back.labels().tolist() == columns["label"]
    assert back.ids.tolist() == columns["id"]


def test_parquet_columns_by_name_and_their_errors(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"v": [[1.0, 2.0], [3.0, 4.0]], "intent": ["a", "b"], "text": ["p", "q"]}), path)
    assert files.read(path, labels="intent", ids="text").labels().tolist() == ["a", "b"]
    with pytest.raises(BadFile, match="no column 'nope'"):
        files.read(path, labels="nope")
    pq.write_table(pa.table({"v": [[1.0, 2.0], [3.0]]}), path)
    with pytest.raises(BadFeatures, match="one length"):
        files.read(path)
    pq.write_table(pa.table({"v": [[1.0, 2.0], [3.0, 4.0]], "label": ["a", None]}), path)
    with pytest.raises(BadFile, match="empty in 1 of 2"):
        files.read(path)
    pq.write_table(pa.table({"text": ["p", "q"]}), path)
    with pytest.raises(BadFeatures, match="no numeric columns"):
        files.read(path)


def test_damaged_and_foreign_files(table, tmp_path):
    whole = tmp_path / "f.npz"
    files.write(whole, table)
    data = whole.read_bytes()
    (tmp_path / "cut.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(DamagedFile, match="cut short"):
        files.read(tmp_path / "cut.npz")
    spoiled = bytearray(data)
    spoiled[data.index(X.tobytes()) + 5] ^= 255
    (tmp_path / "spoiled.npz").write_bytes(spoiled)
    with pytest.raises(DamagedFile):
        files.read(tmp_path / "spoiled.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(ForeignFile):
        files.read(tmp_path / "text.npz")
    np.savez(tmp_path / "other.npz", weights=X)
    with pytest.raises(ForeignFile, match="no array X; it holds weights"):
        files.read(tmp_path / "other.npz")
    np.savez(tmp_path / "pickle.npz", X=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ForeignFile, match="not a plain array"):
        files.read(tmp_path / "pickle.npz")
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY\x01")
    with pytest.raises(DamagedFile):
        files.read(tmp_path / "cut.npy")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DamagedFile):
        files.read(tmp_path / "cut.parquet")
    with pytest.raises(ForeignFile):
        files.read(tmp_path)
    with pytest.raises(BadFile, match="no such file"):
        files.read(tmp_path / "nothing.npz")


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"X": X[0]}, BadFeatures, "features are a table"),
        ({"X": X.astype(str)}, BadFeatures, "not real numbers"),
        ({"X": X, "y": Y[:3]}, BadLabels, "6 rows but labels of shape"),
        ({"X": X, "y": Y.astype(float)}, BadLabels, "whole numbers or names"),
        ({"X": X, "y": Y, "class_names": ("a", "b")}, BadLabels, "labels run from 0 to 2, but there are 2"),
        ({"X": X, "ids": np.array(list("aabcde"))}, DuplicateIds, "'a' stands in X rows 0 and 1"),
        ({"X": X, "ids": np.arange(5)}, BadFeatures, "6 X samples came with 5 ids"),
    ],
)
def test_what_does_not_fit_together(fields, error, says):
    with pytest.raises(error, match=says):
        Table(**fields)


def test_hash_depends_on_features_and_labels_only(table, tmp_path):
    files.write(tmp_path / "f.npz", table)
    assert files.read(tmp_path / "f.npz").sha256() == table.sha256()
    other = X.copy()
    other[5, 3] += 1
    changed = [
        Table(other, Y, class_names=NAMES),
        Table(X, Y[::-1].copy(), class_names=NAMES),
        Table(X),
    ]
    assert len({f.sha256() for f in [table, *changed]}) == 4
    assert Table(X, Y, class_names=NAMES).sha256() == table.sha256()


def test_a_table_says_where_it_came_from(tmp_path):
    files.write(tmp_path / "f.npz", Table(X))
    np.save(tmp_path / "f.npy", X)
    for path in (tmp_path / "f.npz", tmp_path / "f.npy"):
        back = files.read(path)
        assert back.source == str(path)
        with pytest.raises(BadLabels, match=f"{path} has no labels"):
            back.labels()
    np.savez(tmp_path / "f.npz", X=X, ids=list("aabcde"))
    with pytest.raises(DuplicateIds, match=rf"the id 'a' stands in {tmp_path}/f\.npz rows 0 and 1"):
        files.read(tmp_path / "f.npz")
