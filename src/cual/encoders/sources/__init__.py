"""What users have: folders of images, tables of text, Hugging Face datasets on disk. No encoding here."""

from collections.abc import Sequence
from pathlib import Path

from cual.data.dataset_folder import is_dataset_folder
from cual.data.plain import PlainColumns
from cual.encoders.images import SUFFIXES
from cual.encoders.sources.datasets import hugging_face_dataset, plain_dataset_columns, split_names
from cual.encoders.sources.folders import image_folder, one_image
from cual.encoders.sources.items import Columns, Inside, Item, Most, Source, Undecoded
from cual.encoders.sources.tables import TABLES, holds_text, plain_text_columns, table_columns, text_table
from cual.errors import BadFile

__all__ = [
    "Columns",
    "Inside",
    "Item",
    "Most",
    "Source",
    "Undecoded",
    "holds_text",
    "hugging_face_dataset",
    "image_folder",
    "one_image",
    "open_source",
    "plain_source_columns",
    "plain_text_columns",
    "table_columns",
    "text_table",
]


def open_source(path: str | Path, columns: Columns | None = None, most: Most | None = None) -> Source:
    """The items of a folder of images, one image, a table of text, or a Hugging Face dataset on disk.

    Parameters
    ----------
    columns
        Of a table.
    most
        How much of a table of text is taken; all by default.
    """
    path, columns = Path(path), columns or Columns()
    if not path.exists():
        raise BadFile(f"{path}: no such file or folder")
    if path.is_dir():
        if is_dataset_folder(path):
            return hugging_face_dataset(path, columns)
        if splits := split_names(path):
            named = ", ".join(str(path / split) for split in splits)
            raise BadFile(f"{path} is a Hugging Face dataset of several splits; name one of them: {named}")
        return image_folder(path)
    if path.name.lower().endswith(TABLES):
        return text_table(path, columns, most)
    if path.suffix.lower() in SUFFIXES:
        return one_image(path)
    raise BadFile(f"{path} is neither an image, a folder of images nor a table of text ({', '.join(TABLES)})")


def plain_source_columns(
    path: Path, columns: Columns | None = None, wanted: Sequence[str] | None = None
) -> PlainColumns:
    """What a table of text, or a Hugging Face dataset, says of each item beside it, in the items' order."""
    read = plain_dataset_columns if path.is_dir() else plain_text_columns
    return read(path, columns, wanted)
