"""Labels as columns: parquet, and the folder of a Hugging Face dataset. Needs packages that are optional."""

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from cual.errors import Unavailable
from cual.export.base import Labels, formats, new_folder
from cual.storage import replacing

_NO_PYARROW = "writing parquet needs pyarrow: pip install 'cual[parquet]'"
_NO_DATASETS = (
    "writing a Hugging Face dataset needs the package datasets: pip install 'cual[datasets]'; "
    "or take parquet, which datasets.load_dataset reads as well"
)
AT_ONCE = 10_000
"""Rows that are written together."""


class _Parquet:
    suffix = ".parquet"
    media_type = "application/vnd.apache.parquet"
    about = "Parquet: typed columns, for pandas, Polars, DuckDB and Spark"

    def check(self) -> None:
        if not _is_there("pyarrow"):
            raise Unavailable(_NO_PYARROW)

    def write(self, labels: Labels, path: Path) -> int:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            return _write(labels, file, _pyarrow()[1].ParquetWriter)


class _HuggingFace:
    suffix = ""
    media_type = "application/zip"
    about = "Hugging Face datasets: a folder for datasets.load_from_disk"

    def check(self) -> None:
        _Parquet().check()
        if not _is_there("datasets"):
            raise Unavailable(_NO_DATASETS)

    def write(self, labels: Labels, path: Path) -> int:
        """Through an Arrow file, for `datasets` takes rows in parts only from a file or by pickling."""
        datasets = _datasets()
        with new_folder(path) as folder, tempfile.TemporaryDirectory(dir=folder.parent) as beside:
            arrow = Path(beside) / "labels.arrow"
            written = _write(labels, arrow, _pyarrow()[0].ipc.new_stream)
            bars = datasets.is_progress_bar_enabled()
            datasets.disable_progress_bars()
            try:
                dataset = _opened(datasets, arrow, written)
                dataset.save_to_disk(str(folder), num_shards=None if written else 1)
            finally:
                if bars:
                    datasets.enable_progress_bars()
        return written


formats.add("parquet")(_Parquet())
formats.add("datasets")(_HuggingFace())


def _write(labels: Labels, target: Any, writer_of: Callable[..., Any]) -> int:
    pyarrow, _ = _pyarrow()
    schema = _schema(pyarrow, labels)
    written = 0
    with writer_of(target, schema) as writer:
        for part in labels.parts(AT_ONCE):
            writer.write_batch(_batch(pyarrow, schema, labels.cells(part)))
            written += len(part)
    return written


def _opened(datasets: Any, arrow: Path, rows: int) -> Any:
    """The dataset of an Arrow file; `datasets` cannot open one that holds nothing."""
    if rows:
        return datasets.Dataset.from_file(str(arrow))
    with _pyarrow()[0].ipc.open_stream(arrow) as reader:
        features = datasets.Features.from_arrow_schema(reader.schema)
    return datasets.Dataset.from_dict({name: [] for name in features}, features=features)


def _schema(pyarrow: Any, labels: Labels) -> Any:
    """Types of the columns; what came with the samples is text, for nobody knows what the next row holds."""
    sample = pyarrow.int64() if "sample" in labels.numbers else pyarrow.string()
    label = pyarrow.int64() if "label" in labels.numbers else pyarrow.string()
    types = {"sample": sample, "counts": pyarrow.bool_()} | dict.fromkeys(
        ("label", "suggestion", "instead"), label
    )
    types |= {"at": pyarrow.timestamp("ms", tz="UTC"), "doubt": pyarrow.float64(), "score": pyarrow.float64()}
    types |= dict.fromkeys(("round", "row", "adaptation", "agent", "pool", "version"), pyarrow.int64())
    return pyarrow.schema([(name, types.get(name, pyarrow.string())) for name in labels.names])


def _batch(pyarrow: Any, schema: Any, rows: Sequence[Sequence[Any]]) -> Any:
    columns: dict[str, Sequence[Any]] = {}
    for place, name in enumerate(schema.names):
        values: list[Any] = [row[place] for row in rows]
        if name == "at":
            values = [datetime.fromisoformat(value) for value in values]
        elif schema.field(name).type == pyarrow.string():
            values = [None if value is None else _text(value) for value in values]
        columns[name] = values
    return pyarrow.RecordBatch.from_pydict(columns, schema=schema)


def _text(value: Any) -> str:
    """Text that can be encoded: half a surrogate pair cannot."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _is_there(package: str) -> bool:
    """Whether it could be imported, which takes its time and memory only when something is written."""
    return importlib.util.find_spec(package) is not None


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise Unavailable(_NO_PYARROW) from error
    return cast(Any, pyarrow), cast(Any, parquet)


def _datasets() -> Any:
    try:
        import datasets  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise Unavailable(_NO_DATASETS) from error
    return cast(Any, datasets)
