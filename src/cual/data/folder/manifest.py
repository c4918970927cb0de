"""What a features folder says of itself: width, type, encoder, and which shards are whole. No features here."""

import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cual.errors import BadFile, DamagedFile, ForeignFile, NewerFormat
from cual.types import Row

FORMAT = 1
MANIFEST = "manifest.json"
TYPES = ("float16", "float32")
SHARD_NAME = re.compile(r"\d{6,9}")


@dataclass(frozen=True)
class Made:
    """How features were made: the encoder's fingerprint, and what is worth knowing beside it."""

    fingerprint: str
    preprocessing: Row = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Shard:
    """One whole shard, as the manifest names it."""

    name: str
    rows: int
    bytes: int
    """Size of the features file; another size means that it is cut short."""
    features_sha256: str
    table_sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a features folder holds: how wide and of which type the rows are, and in which shards they lie.

    >>> manifest = Manifest(384, "float16", shards=(Shard("000000", 10, 7808, "…", "…"),))
    >>> manifest.rows, manifest.to_json()["encoder"]
    (10, None)
    """

    width: int
    dtype: str
    made: Made | None = None
    shards: tuple[Shard, ...] = ()

    @property
    def rows(self) -> int:
        return sum(s.rows for s in self.shards)

    def to_json(self) -> Row:
        return {
            "cual": "features",
            "format": FORMAT,
            "rows": self.rows,
            "width": self.width,
            "dtype": self.dtype,
            "encoder": None if self.made is None else asdict(self.made),
            "shards": [asdict(s) for s in self.shards],
        }


def is_features_folder(path: str | Path) -> bool:
    """Whether `path` is a folder that a `FeaturesWriter` made.

    >>> import tempfile
    >>> from cual.data.folder import FeaturesWriter
    >>> folder = tempfile.mkdtemp()
    >>> is_features_folder(folder)
    False
    >>> FeaturesWriter(folder, width=2).close()
    >>> is_features_folder(folder)
    True
    """
    return (Path(path) / MANIFEST).is_file()


def read_manifest(path: Path) -> Manifest:
    """The manifest of a features folder, checked."""
    file = path / MANIFEST
    if not file.is_file():
        raise ForeignFile(f"{path} is not a features folder: it has no {MANIFEST}")
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
        if body.get("cual") != "features":
            raise ForeignFile(f"{file} was not written by cual")
        if body["format"] > FORMAT:
            raise NewerFormat(
                f"{path} has format {body['format']}, this cual reads up to {FORMAT}: update cual"
            )
        shards = tuple(_shard(s, file) for s in body["shards"])
        made = None if body["encoder"] is None else Made(**body["encoder"])
        manifest = Manifest(int(body["width"]), body["dtype"], made, shards)
    except BadFile:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{file} is damaged: {error!r}") from error
    if manifest.dtype not in TYPES or manifest.width < 1:
        raise DamagedFile(f"{file} tells of features {manifest.width!r} wide of the type {manifest.dtype!r}")
    return manifest


def _shard(entry: Row, file: Path) -> Shard:
    if not SHARD_NAME.fullmatch(entry["name"]):  # nothing that could lead out of the folder
        raise DamagedFile(f"{file} names a shard {entry['name']!r}")
    if min(entry["rows"], entry["bytes"]) < 1:
        raise DamagedFile(f"{file} names a shard of {entry['rows']} rows in {entry['bytes']} bytes")
    return Shard(**entry)
