"""Columns and ids that take few bytes behave like the tuples that they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cual.data.compact import Blank, Column, Consecutive, Mixed, Numbers, Texts, store
from cual.data.ids import Ids
from cual.data.pool import Pool

TEXTS = st.lists(
    st.text(st.characters(codec=None), max_size=6)
)  # lone surrogates, too: names of files hold them
WHOLE = st.integers(-(2**63), 2**63 - 1)
ANY = st.one_of(st.none(), WHOLE, st.integers(), st.text(max_size=3))
COLUMNS = st.one_of(
    TEXTS, st.lists(WHOLE), st.lists(st.none()), st.integers(0, 9).map(range).map(list), st.lists(ANY)
)


@given(COLUMNS, st.data())
def test_a_column_behaves_like_a_tuple(values: list, data: st.DataObject):
    column = Column(values)
    assert (column == values, column == tuple(values), len(column)) == (True, True, len(values))
    assert [type(value) for value in column] == [type(value) for value in values]
    assert column != [*values, 0]
    assert repr(column) == repr(tuple(values))
    part = data.draw(st.slices(len(values)))
    assert column[part] == values[part]
    for row in range(-len(values), len(values)):
        assert column[row] == values[row]
    with pytest.raises(IndexError):
        column[len(values)]
    rows = data.draw(st.lists(st.integers(0, max(0, len(values) - 1)), max_size=len(values)))
    assert column.take(np.array(rows, np.int64)) == [values[row] for row in rows]


@given(st.lists(COLUMNS))
def test_columns_are_joined(parts: list[list]):
    assert Column.joined([store(part) for part in parts]) == [value for part in parts for value in part]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 1, 2], Consecutive),
        ([0, 2, 1], Numbers),
        ([1, 2, 3], Numbers),
        (["a", "é"], Texts),
        ([None, None], Blank),
        ([1, "a"], Mixed),
        ([1, True], Mixed),
        ([2**63], Mixed),
    ],
)
def test_each_kind_of_values_has_its_store(values: list, kind: type):
    assert isinstance(store(values), kind)
    assert isinstance(Column.joined([store(values)]).store, kind)


@given(st.lists(ANY.filter(lambda value: value is not None), unique=True), st.data())
def test_rows_are_found_by_id(ids: list, data: st.DataObject):
    compact = Ids(ids)
    wanted = data.draw(st.lists(st.sampled_from(ids))) if ids else []
    assert compact.rows_of(wanted).tolist() == [ids.index(sample) for sample in wanted]
    other = data.draw(ANY)
    assert (other in compact) == (other in ids)
    if other not in ids:
        with pytest.raises((KeyError, TypeError)):
            compact.rows_of([other])


@given(st.lists(st.integers(0, 9) | st.sampled_from("abc")) | st.lists(st.integers(0, 5)) | TEXTS)
def test_the_last_of_each_id_counts(ids: list):
    last = {sample: row for row, sample in enumerate(ids)}
    rows = Ids(ids).last_of_each()
    assert (list(range(len(ids))) if rows is None else rows.tolist()) == sorted(last.values())
    repeated = Ids(ids).repeated()
    assert (repeated is None) == (len(last) == len(ids))
    if repeated is not None:
        sample, first, again = repeated
        assert ids.index(sample) == first
        assert len({*ids[:again]}) == again
        assert ids[again] == sample


def test_ids_with_the_same_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cual.data.ids.hash", lambda sample: len(sample), raising=False)
    ids = Ids(["bb", "aa", "c", "dd"])
    assert ids.rows_of(["dd", "aa", "bb", "c"]).tolist() == [3, 1, 0, 2]
    assert "ee" not in ids
    assert ids.repeated() is None
    assert Ids(["bb", "aa", "bb"]).repeated() == ("bb", 0, 2)


@pytest.mark.parametrize("ids", [None, ["é", "b"], [7, 3], [7, "b"], [2**70, 1]])
def test_a_saved_pool_has_its_ids(tmp_path, ids):
    pool = Pool(np.eye(2), ids=ids)
    pool.save(tmp_path / "pool")
    assert Pool.load(tmp_path / "pool").ids == ((0, 1) if ids is None else tuple(ids))


@pytest.mark.parametrize("values", [["a", "bc", "d"], [5, 3, 9], [0, 1, 2]])
def test_a_column_is_indexed_by_arrays_as_an_array_is(values: list):
    column, array = Column(values), np.array(values)
    for index in (np.array([2, 0, -1]), np.array([True, False, True]), np.array([], dtype=np.int64)):
        found = column[index]
        assert isinstance(found, np.ndarray)
        assert found.tolist() == array[index].tolist()
    assert column[np.int64(1)] == values[1]
    assert column[np.array(2)] == values[2]
    with pytest.raises(IndexError):
        column[np.array([3])]
