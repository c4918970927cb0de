"""What annotators see of a sample: its text, or a small picture as a data URI, so that no files are served."""

import base64
import html
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from cual.bridges.label_studio.labelling import Kind
from cual.types import Label

if TYPE_CHECKING:
    from PIL.Image import Image

    from cual.encoders.sources import Columns

LONGEST_SIDE = 512
Show = Callable[[Label], str]
"""A text, or a picture as a data URI, for the id of a sample; LookupError or `BadImage` if there is none."""


def showing(path: Path, columns: "Columns | None" = None) -> tuple[Kind, Show]:
    """What there is to see of the samples of a pool, by their ids.

    Parameters
    ----------
    path
        A folder of images, a table of text, or features; of features only the ids can be seen, except of a
        features folder whose images are still where they were.
    columns
        Of a table of text, where they are not called as usual.
    """
    from cual.data.folder import FeaturesFolder
    from cual.encoders.anything import is_features
    from cual.encoders.images import open_image
    from cual.encoders.sources import open_source

    if not is_features(path, columns):
        source = open_source(path, columns)
        items = {str(item.id): item for item in source.items}
        if source.kind == "text":
            return "text", lambda sample: items[str(sample)].load(0)
        return "image", lambda sample: thumbnail(items[str(sample)].load(LONGEST_SIDE))
    if path.is_dir():
        folder = FeaturesFolder.open(path)
        files = {str(i): Path(file) for i, file in zip(folder.ids, folder.sources, strict=True) if file}
        if any(file.is_file() for file in files.values()):
            return "image", lambda sample: thumbnail(open_image(files[str(sample)], LONGEST_SIDE))
    return "text", str


def data_uri(data: bytes, kind: str = "image/webp") -> str:
    """Bytes as an address that holds them itself.

    >>> data_uri(b"hello", "text/plain")
    'data:text/plain;base64,aGVsbG8='
    """
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def thumbnail(image: "Image") -> str:
    """A picture as a small WebP data URI."""
    out, image = io.BytesIO(), image.convert("RGB")
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    image.save(out, "WEBP", quality=85, method=2)
    return data_uri(out.getvalue())


def no_picture(sample: Label, error: Exception) -> str:
    """A picture that says that there is none."""
    reason = html.escape(f"{sample}: {error}"[:100])
    text = f'<text x="8" y="60" font-size="12">{reason}</text>'
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="512" height="120">{text}</svg>'
    return f"data:image/svg+xml,{quote(svg)}"
