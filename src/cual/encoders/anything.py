"""A table of features of whatever a user names: features as they are, images and text encoded, and kept."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from cual.data.dataset_folder import holds_features, is_dataset_folder, open_dataset
from cual.data.files import read
from cual.data.folder import FeaturesFolder, is_features_folder
from cual.data.table import Table
from cual.encoders.base import Encoder, Setup, default, make, trusted
from cual.encoders.embedding import Outcome, current, embed
from cual.encoders.sources import Columns, Source, holds_text, open_source
from cual.encoders.weights import cache_folder

FEATURES = (".npz", ".npy")


def features_of(
    path: str | Path,
    encoder: str | Encoder | None = None,
    cache: Path | None = None,
    setup: Setup | None = None,
    columns: Columns | None = None,
    report: Callable[[Source, Outcome], None] | None = None,
    fingerprint: str | None = None,
) -> Table:
    """Features of a file or folder, encoded where they are not features yet.

    Parameters
    ----------
    path
        A features file or folder; a folder of images; a table of text; a Hugging Face dataset on disk.
    encoder
        Name of the encoder, or one; for images and for text there is a default. Features need none.
    cache
        Where encoded features are kept; only what changed since is encoded again.
    setup
        Device, precision, weights; its `progress` is called while encoding.
    columns
        Columns of a table.
    report
        Called with what was encoded, before the features are returned.
    fingerprint
        What the encoder must be, such as `Agent.encoder`. It comes from a file, so by itself it can only mean
        a built-in one (`trusted`); any other must also be given as `encoder`.
    """
    path = Path(path)
    columns = columns or Columns()
    if is_features(path, columns):
        return read(path, ids=columns.id, labels=columns.label)
    setup = setup or Setup()
    source = open_source(path, columns)
    if fingerprint is not None:
        encoder = trusted(fingerprint, encoder, setup)
    elif encoder is None or isinstance(encoder, str):
        encoder = make(encoder or default(source.kind), setup)
    named = columns if any((columns.text, columns.label, columns.id)) else None
    key = f"{path.resolve()} {encoder.fingerprint} {named}".encode(errors="surrogateescape")
    folder = (cache or cache_folder() / "embeddings") / hashlib.sha256(key).hexdigest()[:24]
    outcome = embed(source, encoder, folder, progress=setup.progress, wait=True)
    if report is not None:
        report(source, outcome)
    return current(source, FeaturesFolder.open(folder)).table(str(path))


def _features_in(path: Path, columns: Columns | None) -> bool:
    arrow, _ = open_dataset(path)
    return holds_features(arrow.schema, None if columns is None else columns.text)


def is_features(path: Path, columns: Columns | None = None) -> bool:
    """Whether a path holds features already, rather than something to encode."""
    if path.is_dir():
        return is_features_folder(path) or (is_dataset_folder(path) and _features_in(path, columns))
    if path.suffix in (".parquet", ".pq") and path.is_file():
        return not holds_text(path) if columns is None or columns.text is None else False
    return path.suffix in FEATURES or not path.exists()
