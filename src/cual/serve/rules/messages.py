"""Error messages as everybody may read them: without where things lie on this machine; and words for ends."""

import re
import signal
from collections.abc import Iterable
from pathlib import Path

_QUOTED = re.compile(r"(?P<mark>['\"])(?P<path>/[^'\"]+)(?P=mark)")
_BARE = re.compile(r"(?<![^\s('\"=,;:\[])/(?:[^\s/'\"(),;:]+/)*[^\s/'\"(),;:]+/?")
"""A path that begins a word: neither the end of an address (https://…) nor a share (3/4)."""


def without_paths(text: str, known: Iterable[Path] = ()) -> str:
    """A message with the last name of each absolute path in place of the path.

    Parameters
    ----------
    text
        The message.
    known
        Folders that it may name; their own names may hold anything, spaces too.

    >>> without_paths("[Errno 2] No such file: '/srv/my labels/pools/3/a b.jpg'; /data/x.csv has 3/4 of it")
    "[Errno 2] No such file: 'a b.jpg'; x.csv has 3/4 of it"
    >>> without_paths("/srv/my labels/pools/3/source/items holds no images", [Path("/srv/my labels")])
    'items holds no images'
    """
    for folder in sorted(map(str, known), key=len, reverse=True):
        if len(folder) > 1:
            text = text.replace(folder, "/known")
    text = _QUOTED.sub(lambda match: match["mark"] + _last(match["path"]) + match["mark"], text)
    return _BARE.sub(lambda match: _last(match[0]), text)


def exit_words(code: int) -> str:
    """How a process ended, of its exit status as Python has it.

    >>> exit_words(-11), exit_words(-63), exit_words(3)
    ('SIGSEGV', 'signal 63', 'code 3')
    """
    if code >= 0:
        return f"code {code}"
    return next((known.name for known in signal.Signals if known == -code), f"signal {-code}")


def _last(path: str) -> str:
    return Path(path).name
