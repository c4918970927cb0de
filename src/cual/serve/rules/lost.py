"""Files of the workspace that are gone or damaged, as whoever reads them is told. `storage` finds them."""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from cual.errors import DamagedFile, FileLost, ForeignFile
from cual.serve.rules.messages import without_paths
from cual.serve.storage.home import Home

log = logging.getLogger(__name__)


@contextmanager
def reading(home: Home) -> Generator[None]:
    """While a file is read that the database names: if it is gone or damaged, that is nobody's mistake.

    People are told which file it is, the log where it lies.
    """
    try:
        yield
    except (DamagedFile, ForeignFile, FileNotFoundError) as error:
        log.error("a file of the workspace is lost: %s", error)
        what = f"{error.filename} is gone" if isinstance(error, FileNotFoundError) else str(error)
        raise FileLost(
            f"{without_paths(what, [home.folder])}; an administrator restores it from a backup"
        ) from error
