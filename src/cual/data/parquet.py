"""Parquet files of features: a column of lists of numbers, or a numeric column per dimension. Read only.

The encoder's fingerprint is the entry `encoder` of the schema's metadata, where there is one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from cual.data import columns
from cual.data.table import Table
from cual.errors import BadFeatures, BadFile, DamagedFile, ForeignFile
from cual.types import AnyArray


def read_parquet(path: Path, ids: str | None = None, labels: str | None = None) -> Table:
    """The table in a parquet file; its ids and labels are looked for under their usual names if not given."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise BadFile(f"{path}: reading parquet needs pyarrow (pip install 'cual[parquet]')") from error
    try:
        arrow = cast(Any, pq).read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        with path.open("rb") as file:
            ours = file.read(4) == b"PAR1"
        raise (DamagedFile if ours else ForeignFile)(f"{path} is not a whole parquet file: {error}") from error
    names: list[str] = arrow.column_names
    id_column = columns.column(path, names, ids, columns.IDS)
    label_column = columns.column(path, names, labels, columns.LABELS)
    rest = [name for name in names if name not in (id_column, label_column)]
    encoder: bytes | None = (arrow.schema.metadata or {}).get(b"encoder")
    return Table(
        vectors(path, arrow, rest),
        _names_or_numbers(path, arrow, label_column),
        _names_or_numbers(path, arrow, id_column),
        encoder=None if encoder is None else encoder.decode(errors="replace"),
        source=str(path),
    )


def feature_columns(path: Path, schema: Any, names: Sequence[str]) -> list[str]:
    """Which of some columns of a parquet file are the features: the one of lists, or else all numeric ones.

    >>> import pyarrow as pa
    >>> schema = pa.schema({"id": pa.string(), "width": pa.int32(), "vector": pa.list_(pa.float32())})
    >>> feature_columns(Path("x.parquet"), schema, ["width", "vector"])
    ['vector']
    >>> feature_columns(Path("x.parquet"), schema, ["width"])
    ['width']
    """
    import pyarrow as pa

    def is_list(kind: Any) -> bool:
        return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)

    def is_number(kind: Any) -> bool:
        return pa.types.is_floating(kind) or pa.types.is_integer(kind)

    types = {name: schema.field(name).type for name in names}
    lists = [name for name in names if is_list(types[name]) and is_number(types[name].value_type)]
    if len(lists) > 1:
        raise BadFeatures(f"{path} has several columns of lists ({', '.join(lists)}); keep one")
    features = lists or [name for name in names if is_number(types[name])]
    if not features:
        raise BadFeatures(f"{path} has no column of lists of numbers and no numeric columns")
    return features


def vectors(path: Path, arrow: Any, names: Sequence[str]) -> AnyArray:
    """X from the one list column of an Arrow table, or from its numeric columns side by side."""
    import pyarrow as pa

    features = feature_columns(path, arrow.schema, names)
    if not pa.types.is_nested(arrow.schema.field(features[0]).type):
        return np.column_stack([_filled(path, arrow, name) for name in features])
    column = arrow.column(features[0]).combine_chunks()
    values = column.flatten()
    rows = len(column)
    width = len(values) // rows if rows else 0
    if column.null_count or values.null_count or {len(v) for v in column} != {width}:
        raise BadFeatures(f"{path}: column {features[0]!r} must hold lists of one length, without gaps")
    return cast(AnyArray, values.to_numpy(zero_copy_only=False)).reshape(rows, width)


def _names_or_numbers(path: Path, arrow: Any, name: str | None) -> AnyArray | None:
    if name is None:
        return None
    values = _filled(path, arrow, name)
    return values.astype(np.str_) if values.dtype.hasobject else values


def _filled(path: Path, arrow: Any, name: str) -> AnyArray:
    column = arrow.column(name).combine_chunks()
    if column.null_count:
        raise BadFile(f"{path}: column {name!r} is empty in {column.null_count} of {len(column)} rows")
    return cast(AnyArray, column.to_numpy(zero_copy_only=False))
