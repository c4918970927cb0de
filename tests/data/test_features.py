import numpy as np
import pytest

from cual.data import features
from cual.data.features import Features
from cual.errors import BadFeatures, BadFile, BadLabels, DamagedFile, DuplicateIds, ForeignFile

X = np.arange(24, dtype=np.float16).reshape(6, 4) / 7
Y = np.array([0, 1, 1, 0, 2, 2])
NAMES = ("Meer", "Stadt am Fluß", "森")


@pytest.fixture
def held() -> Features:
    return Features(X, Y, np.array([f"img_{i}.jpg" for i in range(6)]), NAMES)


def test_npz_comes_back_as_it_was_written(held, tmp_path):
    features.write(tmp_path / "deep" / "f.npz", held)
    back = features.read(tmp_path / "deep" / "f.npz")
    assert back.X.dtype == np.float16
    np.testing.assert_array_equal(back.X, X)
    np.testing.assert_array_equal(back.ids, held.ids)
    assert back.class_names == NAMES
    assert back.labels().tolist() == ["Meer", "Stadt am Fluß", "Stadt am Fluß", "Meer", "森", "森"]
    assert list((tmp_path / "deep").iterdir()) == [tmp_path / "deep" / "f.npz"]


def test_npz_with_x_alone(tmp_path):
    features.write(tmp_path / "f.npz", Features(X))
    back = features.read(tmp_path / "f.npz")
    assert (back.y, back.ids, back.class_names) == (None, None, None)
    with pytest.raises(BadLabels, match="no labels"):
        back.labels()


def test_npy_is_mapped_not_read(tmp_path):
    np.save(tmp_path / "f.npy", X)
    back = features.read(tmp_path / "f.npy")
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
    back = features.read(tmp_path / "f.parquet")
    np.testing.assert_allclose(back.X, wide)
    assert back.labels().tolist() == columns["label"]
    assert back.ids.tolist() == columns["id"]


def test_parquet_columns_by_name_and_their_errors(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"v": [[1.0, 2.0], [3.0, 4.0]], "intent": ["a", "b"], "text": ["p", "q"]}), path)
    assert features.read(path, labels="intent", ids="text").labels().tolist() == ["a", "b"]
    with pytest.raises(BadFile, match="no column 'nope'"):
        features.read(path, labels="nope")
    pq.write_table(pa.table({"v": [[1.0, 2.0], [3.0]]}), path)
    with pytest.raises(BadFeatures, match="one length"):
        features.read(path)
    pq.write_table(pa.table({"v": [[1.0, 2.0], [3.0, 4.0]], "label": ["a", None]}), path)
    with pytest.raises(BadFile, match="empty in 1 of 2"):
        features.read(path)
    pq.write_table(pa.table({"text": ["p", "q"]}), path)
    with pytest.raises(BadFeatures, match="no numeric columns"):
        features.read(path)


def test_damaged_and_foreign_files(held, tmp_path):
    whole = tmp_path / "f.npz"
    features.write(whole, held)
    data = whole.read_bytes()
    (tmp_path / "cut.npz").write_bytes(data[: len(data) // 2])
    with pytest.raises(DamagedFile, match="cut short"):
        features.read(tmp_path / "cut.npz")
    spoiled = bytearray(data)
    spoiled[data.index(X.tobytes()) + 5] ^= 255
    (tmp_path / "spoiled.npz").write_bytes(spoiled)
    with pytest.raises(DamagedFile):
        features.read(tmp_path / "spoiled.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(ForeignFile):
        features.read(tmp_path / "text.npz")
    np.savez(tmp_path / "other.npz", weights=X)
    with pytest.raises(ForeignFile, match="no array X; it holds weights"):
        features.read(tmp_path / "other.npz")
    np.savez(tmp_path / "pickle.npz", X=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ForeignFile, match="not a plain array"):
        features.read(tmp_path / "pickle.npz")
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY\x01")
    with pytest.raises(DamagedFile):
        features.read(tmp_path / "cut.npy")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DamagedFile):
        features.read(tmp_path / "cut.parquet")
    with pytest.raises(ForeignFile):
        features.read(tmp_path)
    with pytest.raises(BadFile, match="no such file"):
        features.read(tmp_path / "nothing.npz")


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"X": X[0]}, BadFeatures, "one row per sample"),
        ({"X": X.astype(str)}, BadFeatures, "table of numbers"),
        ({"X": X, "y": Y[:3]}, BadLabels, "6 rows of features but labels of shape"),
        ({"X": X, "y": Y.astype(float)}, BadLabels, "whole numbers or names"),
        ({"X": X, "y": Y, "class_names": ("a", "b")}, BadLabels, "labels run from 0 to 2, but there are 2"),
        ({"X": X, "ids": np.array(list("aabcde"))}, DuplicateIds, "'a' occurs 2 times"),
        ({"X": X, "ids": np.arange(5)}, BadFeatures, "ids of shape"),
    ],
)
def test_what_does_not_fit_together(fields, error, says):
    with pytest.raises(error, match=says):
        Features(**fields)


def test_hash_depends_on_features_and_labels_only(held, tmp_path):
    features.write(tmp_path / "f.npz", held)
    assert features.read(tmp_path / "f.npz").sha256() == held.sha256()
    other = X.copy()
    other[5, 3] += 1
    changed = [
        Features(other, Y, class_names=NAMES),
        Features(X, Y[::-1].copy(), class_names=NAMES),
        Features(X),
    ]
    assert len({f.sha256() for f in [held, *changed]}) == 4
    assert Features(X, Y, class_names=NAMES).sha256() == held.sha256()
