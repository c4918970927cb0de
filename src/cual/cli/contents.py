"""What a sample is for people: its text, or its image and where that lies. How it is shown is elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cual.cli.embed import check_packages
from cual.cli.options import Named
from cual.errors import BadImage, Unavailable
from cual.types import Label

if TYPE_CHECKING:
    from PIL.Image import Image

_TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@dataclass(frozen=True)
class Content:
    """One sample. Loading may raise `BadImage`, of a text that is none as well."""

    text: Callable[[], str] | None = None
    image: "Callable[[int], Image] | None" = None
    """Called with the shorter side that is needed."""
    raw: Callable[[], Path | bytes] | None = None
    """An image as it lies there: its file, or its bytes where it lies inside a table."""
    source: str | None = None
    """Where an image lies, for people to read."""


class Contents:
    """The samples of a pool, by their ids; looked for when the first of them is wanted.

    Parameters
    ----------
    path
        A folder of images, a table of text, a Hugging Face dataset on disk; or features, of which a features
        folder knows where its images were, and an .npz nothing.
    columns
        Of a table, where they are not called as usual.
    """

    def __init__(self, path: Path, columns: Named | None = None) -> None:
        self._path, self._columns = path, columns or Named()

    def of(self, sample: Label) -> Content | None:
        """What is known of a sample; None where that is its id only."""
        return self._found.get(str(sample))

    def file(self, sample: Label) -> Path | None:
        """The file of a sample, if it is one."""
        content = self.of(sample)
        try:
            file = None if content is None or content.raw is None else content.raw()
        except BadImage:
            return None
        return file if isinstance(file, Path) else None

    @cached_property
    def _found(self) -> dict[str, Content]:
        try:
            check_packages()
        except Unavailable:  # without them there are features only, which nobody can look at
            return {}
        from cual.encoders.anything import is_features
        from cual.encoders.sources import Columns, open_source

        columns = Columns(*self._columns)
        if not is_features(self._path, columns):
            items = open_source(self._path, columns).items
            return {str(item.id): _content(item) for item in items}
        return self._of_folder() if self._path.is_dir() else {}

    def _of_folder(self) -> dict[str, Content]:
        from cual.data.folder import FeaturesFolder

        folder = FeaturesFolder.open(self._path)
        files = zip(folder.ids, folder.sources, strict=True)
        return {str(sample): _image_in(Path(file)) for sample, file in files if file and Path(file).is_file()}


def _content(item: Any) -> Content:
    from cual.encoders.sources import Undecoded

    if isinstance(item.load, Undecoded):
        return Content(image=item.load, raw=item.load.raw, source=item.source)
    return Content(text=lambda: item.load(0))


def _image_in(file: Path) -> Content:
    from cual.encoders.images import open_image

    return Content(image=lambda shorter: open_image(file, shorter), raw=lambda: file, source=str(file))


def printable(text: str) -> str:
    r"""Text that a terminal only shows: what could move the cursor, hide or turn text becomes a visible mark.

    >>> printable("a\x1b[2Jb\tc\nd")
    'a�[2Jb\tc\nd'
    """
    return "".join(c if c in "\n\t" or (c.isprintable() and c not in _TURNING) else "�" for c in text)
