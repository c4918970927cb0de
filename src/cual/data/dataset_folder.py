"""Hugging Face datasets as tables of features: folders that `save_to_disk` wrote, and Arrow tables in memory.

The package `datasets` is not needed. What is text or images in them is made into features by the encoders.
"""

import json
from pathlib import Path
from typing import Any, cast

import numpy as np

from cual.data import columns
from cual.data.parquet import feature_columns, vectors
from cual.data.table import Table
from cual.errors import BadFeatures, BadFile, DamagedFile, WrongEncoder
from cual.types import AnyArray, Row

ENCODER = "encoder"
"""The column of the encoder's fingerprint, the same in every row: so it survives whatever is done to rows."""


def is_dataset_folder(path: Path) -> bool:
    """Whether a folder is one that `save_to_disk` wrote."""
    return (path / "state.json").is_file() and (path / "dataset_info.json").is_file()


def open_dataset(path: Path) -> tuple[Any, Row]:
    """The Arrow table of a folder, memory-mapped, and what is told of its columns."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise BadFile(f"{path}: reading a dataset needs pyarrow (pip install 'cual[parquet]')") from error
    try:
        info = json.loads((path / "dataset_info.json").read_text(encoding="utf-8"))
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        files = [str(f["filename"]) for f in state["_data_files"]]
        tables: list[Any] = []
        for name in files:
            if Path(name).name != name:
                raise DamagedFile(f"{path} names a file outside of it: {name}")
            tables.append(pa.ipc.open_stream(pa.memory_map(str(path / name))).read_all())
        return pa.concat_tables(tables), info.get("features") or {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowInvalid) as error:
        if isinstance(error, BadFile):
            raise
        raise DamagedFile(f"{path} is not a whole Hugging Face dataset: {error!r}") from error


def class_names(told: Row, name: str) -> list[Any] | None:
    """What the numbers of a column of classes mean; None for any other column."""
    feature = told.get(name)
    names = cast(Row, feature).get("names") if isinstance(feature, dict) else None
    return cast(list[Any], names) if isinstance(names, list) else None


def holds_features(schema: Any, text: str | None = None) -> bool:
    """Whether the rows of a dataset are features already: a column of lists of numbers that is called so.

    Any column of such lists, or of numbers, will do where there is neither text nor an image beside it.
    """
    if text is not None:
        return False
    if _called_features(schema) is not None:
        return True
    names: list[str] = schema.names
    if any(name in names for name in (*columns.TEXTS, *columns.IMAGES)):
        return False
    try:
        return bool(feature_columns(Path(), schema, _others(names)))
    except BadFeatures:
        return False


def read_dataset(path: Path, ids: str | None = None, labels: str | None = None) -> Table:
    """The features in a folder; ids and labels are looked for under their usual names if not given."""
    arrow, told = open_dataset(path)
    return table_of(path, arrow, told, ids, labels)


def table_of(
    path: Path,
    arrow: Any,
    told: Row,
    ids: str | None = None,
    labels: str | None = None,
    features: str | None = None,
) -> Table:
    """Features, ids, labels and encoder of an Arrow table.

    Parameters
    ----------
    path
        What errors call it.
    told
        What is known of its columns, as `dataset_info.json` has it: names of classes.
    ids, labels, features
        Columns, where they are not called as usual.
    """
    names: list[str] = arrow.column_names
    id_column = columns.column(path, names, ids, columns.IDS)
    label_column = columns.column(path, names, labels, columns.LABELS)
    chosen = features or _called_features(arrow.schema)
    if chosen is not None and chosen not in names:
        raise BadFile(f"{path} has no column {chosen!r}; it has {', '.join(names)}")
    rest = [chosen] if chosen else [n for n in _others(names) if n not in (id_column, label_column)]
    y, unlabelled = _labels(path, arrow, told, label_column)
    return Table(
        vectors(path, arrow, rest),
        y,
        None if id_column is None else _plain(arrow.column(id_column).to_pylist(), path, id_column),
        encoder=_encoder(path, arrow),
        unlabelled=unlabelled,
        source=str(path),
    )


def _others(names: list[str]) -> list[str]:
    own = (*columns.IDS, *columns.LABELS, ENCODER)
    return [name for name in names if name not in own]


def _called_features(schema: Any) -> str | None:
    """The column of lists of numbers that has one of the usual names."""
    import pyarrow as pa

    for name in columns.FEATURES:
        if name in schema.names and pa.types.is_nested(schema.field(name).type):
            return name
    return None


def _labels(path: Path, arrow: Any, told: Row, name: str | None) -> tuple[AnyArray | None, str | None]:
    """A label for every row, or why there is none; −1 is no class, as such datasets have it."""
    if name is None:
        return None, None
    values: list[Any] = arrow.column(name).to_pylist()
    known = class_names(told, name)
    if known is not None:
        for row, value in enumerate(values):
            if value is not None and not (isinstance(value, int) and -1 <= value < len(known)):
                raise DamagedFile(f"{path}: row {row} is of class {value!r}, there are {len(known)} classes")
        values = [None if value in (None, -1) else known[value] for value in values]
    missing = sum(value is None for value in values)
    if missing:
        return None, f"{missing} of {len(values)} rows have no {name}"
    return _plain(values, path, name), None


def _plain(values: list[Any], path: Path, name: str) -> AnyArray:
    """Whole numbers or names."""
    if any(value is None for value in values):
        raise BadFile(f"{path}: column {name!r} is empty in some rows")
    array = np.array(values)
    return array if array.dtype.kind in "iu" else array.astype(np.str_)


def _encoder(path: Path, arrow: Any) -> str | None:
    """The fingerprint that every row has; rows of several encoders cannot be compared."""
    import pyarrow as pa

    if ENCODER not in arrow.column_names or not pa.types.is_string(arrow.schema.field(ENCODER).type):
        return None
    found: list[str] = [value for value in arrow.column(ENCODER).unique().to_pylist() if value is not None]
    if len(found) > 1:
        raise WrongEncoder(f"{path} has rows of several encoders ({', '.join(found[:3])}); keep those of one")
    return found[0] if found else None
