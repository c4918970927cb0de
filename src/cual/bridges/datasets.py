"""Hugging Face datasets in and out: features, texts or images as a table; pools and labels as a `Dataset`.

Folders of datasets are read by every command without this, and without the package `datasets`.
"""

import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from cual.data import dataset_folder
from cual.data.pool import Pool, read_rows
from cual.data.table import Table
from cual.errors import BadOption, Unavailable
from cual.export import formats
from cual.export.saved import task_labels
from cual.loop.adaptation import Adaptation
from cual.types import AnyArray, Row

AT_ONCE = 1000
"""Rows of a dataset that are written together."""


def table_of(
    dataset: Any,
    *,
    features: str | None = None,
    text: str | None = None,
    label: str | None = None,
    id: str | None = None,
    encoder: Any = None,
    setup: Any = None,
) -> Table:
    """What is in a `datasets.Dataset`, as a table of features with its ids, labels and encoder.

    Parameters
    ----------
    dataset
        One split, with a column of features (lists of one length), or else of text or of images.
    features, text, label, id
        Its columns, where they are not called as usual (``features``, ``text``, ``image``, ``label``, ``id``).
    encoder, setup
        For text and images: an encoder or its name, and where to compute; as for `cual.encoders.features_of`.

    Examples
    --------
    >>> import datasets
    >>> rows = {"features": [[0.0, 1.0], [1.0, 0.0]], "label": ["cat", "dog"], "id": ["a", "b"]}
    >>> table = table_of(datasets.Dataset.from_dict(rows))
    >>> table.X.shape, table.labels().tolist(), table.ids.tolist()
    ((2, 2), ['cat', 'dog'], ['a', 'b'])
    """
    library = _datasets()
    if not isinstance(dataset, library.Dataset):
        raise BadOption(f"{type(dataset).__name__} is no datasets.Dataset; of several splits, give one")
    if features is not None or dataset_folder.holds_features(dataset.features.arrow_schema, text):
        arrow = dataset.with_format("arrow")[:]
        return dataset_folder.table_of(Path("the dataset"), arrow, _told(dataset), id, label, features)
    from cual.encoders import features_of
    from cual.encoders.sources import Columns

    with tempfile.TemporaryDirectory(prefix="cual-dataset-") as folder:  # read from there as any other is
        place = Path(folder)
        with _without_bars(library):
            dataset.save_to_disk(str(place / "rows"))
        table = features_of(place / "rows", encoder, place / "cache", setup, Columns(text, label, id))
        return replace(table, X=np.array(table.X), source="the dataset")


def dataset_of(data: Table | Pool) -> Any:
    """A table or a pool as a `datasets.Dataset`: ``id``, ``features``, and ``label`` and ``encoder`` if known.

    >>> dataset_of(Pool(np.eye(2, dtype=np.float32), ids=["a", "b"])).column_names
    ['id', 'features']
    """
    library = _datasets()
    pool = data if isinstance(data, Pool) else Pool.of(data)
    labels: AnyArray | None = None
    if isinstance(data, Table) and data.y is not None:
        labels = data.labels()
    ids = list(pool.ids)
    numbers = all(isinstance(sample, int) for sample in ids)
    schema: Row = {
        "id": library.Value("int64" if numbers else "string"),
        "features": library.Sequence(library.Value("float32"), length=pool.width),
    }
    columns: Row = {"id": ids if numbers else [str(sample) for sample in ids], "features": [*_rows(pool)]}
    if labels is not None:
        schema["label"] = library.Value("int64" if labels.dtype.kind in "iu" else "string")
        columns["label"] = labels.tolist()
    if pool.encoder is not None:
        schema[dataset_folder.ENCODER] = library.Value("string")
        columns[dataset_folder.ENCODER] = [pool.encoder] * len(pool)
    return library.Dataset.from_dict(columns, features=library.Features(schema))


def labels_of(task: Adaptation, everything: bool = False) -> Any:
    """Answers and pseudo-labels of an adaptation as a `datasets.Dataset`, with the columns of `cual export`.

    Parameters
    ----------
    everything
        Also what does not count: corrected answers, rejected pseudo-labels, "cannot tell".
    """
    library = _datasets()
    with tempfile.TemporaryDirectory(prefix="cual-labels-") as folder:
        place = Path(folder) / "labels"
        formats["datasets"].write(task_labels(task, everything), place)
        return library.load_from_disk(str(place), keep_in_memory=True)


def _rows(pool: Pool) -> Iterator[AnyArray]:
    for start in range(0, len(pool), AT_ONCE):
        yield from read_rows(pool.data, slice(start, start + AT_ONCE)).cpu().numpy()


def _told(dataset: Any) -> Row:
    """What is known of its columns, as `dataset_info.json` has it."""
    return {
        name: {"names": list(feature.names)}
        for name, feature in dataset.features.items()
        if isinstance(getattr(feature, "names", None), list)
    }


@contextmanager
def _without_bars(library: Any) -> Generator[None]:
    """Without bars of the package's own."""
    bars = library.is_progress_bar_enabled()
    library.disable_progress_bars()
    try:
        yield
    finally:
        if bars:
            library.enable_progress_bars()


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise Unavailable(
            "Hugging Face datasets need the package datasets: pip install 'cual[datasets]'"
        ) from error
    return cast(Any, datasets)
