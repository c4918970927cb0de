"""Finding a class by what somebody types: any order of words, typos, plurals, case and accents.

Names and text only: which classes there are, and who may know them, is in `classes`.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.distance import OSA

from cual.types import Label

_WORDS = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Match:
    """A class that may be meant.

    >>> Match("otter", 0.95).literal, Match("otter", 0.8).typo
    (True, True)
    """

    label: Label
    score: float
    """1 for the name itself; from `LITERAL` on what was typed begins or makes up the name; less for typos."""

    @property
    def literal(self) -> bool:
        """Whether the name is what was typed, or begins so: then nobody need be asked what was meant."""
        return self.score >= LITERAL

    @property
    def typo(self) -> bool:
        """Whether it probably is what was meant, with a letter or two wrong."""
        return TYPO <= self.score < LITERAL


LITERAL = 0.9
TYPO = 0.7
FAR = 0.5
"""Names farther than this have nothing to do with what was typed."""


def find(typed: str, labels: Iterable[Label], first: Sequence[Label] = ()) -> list[Match]:
    """Classes that what was typed may mean, the best first.

    Parameters
    ----------
    first
        Labels that come first among equally good ones: likely or recent, the likeliest first.

    >>> names = ["barn owl", "weather station", "Café", "sea lion", "seal"]
    >>> [match.label for match in find("wether", names)], [match.label for match in find("owls barn", names)]
    (['weather station'], ['barn owl'])
    >>> [match.label for match in find("cafe", names)], [match.label for match in find("sea", names)]
    (['Café'], ['sea lion', 'seal'])
    >>> [match.label for match in find("s", names, first=["seal"])]
    ['seal', 'sea lion', 'weather station']
    >>> [(match.label, match.literal, match.typo) for match in find("weater", names)]
    [('weather station', False, True)]
    """
    place = {label: i for i, label in enumerate(first)}
    wanted = _read(typed)
    if not wanted.words:
        return []
    matches = [Match(label, _score(typed.strip(), wanted, str(label))) for label in labels]
    matches = [match for match in matches if match.score > FAR]
    last = len(place)
    return sorted(matches, key=lambda m: (-_tier(m.score), place.get(m.label, last), -m.score, str(m.label)))


@dataclass(frozen=True)
class _Text:
    """Words without case, accents and plurals."""

    words: tuple[str, ...]
    joined: str


@lru_cache(2**15)
def _read(text: str) -> _Text:
    plain = unicodedata.normalize("NFKD", text)
    plain = "".join(c for c in plain if not unicodedata.combining(c)).casefold()
    words = tuple(_singular(word) for word in _WORDS.findall(plain))
    return _Text(words, "".join(words))


def _singular(word: str) -> str:
    """A word without the ending of its plural; the same for both, whatever it is.

    >>> [_singular(word) for word in ("owls", "boxes", "box", "berries", "berry", "glass", "bus")]
    ['owl', 'box', 'box', 'berry', 'berry', 'glass', 'bus']
    """
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "xes", "sses", "zes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _tier(score: float) -> float:
    """Scores that count as equally good, so that what is likely comes first among them."""
    return 1 + score if score > 0.98 else round(score, 1)


def _score(typed: str, wanted: _Text, name: str) -> float:
    if typed == name:
        return 1.0
    known = _read(name)
    if not known.words:
        return 0.0
    if sorted(wanted.words) == sorted(known.words):
        return 0.99
    if known.joined.startswith(wanted.joined):
        return 0.97
    if _begun(wanted.words, known.words):
        return 0.95
    if len(wanted.joined) > 1 and "".join(word[0] for word in known.words).startswith(wanted.joined):
        return 0.9
    if len(wanted.joined) > 2 and wanted.joined in known.joined:
        return 0.69
    return 0.89 * max(_similar(wanted.joined, known.joined), _by_words(wanted.words, known.words))


def _begun(wanted: Sequence[str], known: Sequence[str]) -> bool:
    """Whether each word typed begins another word of the name, in whatever order."""
    left = list(known)
    for word in sorted(wanted, key=len, reverse=True):
        whole = next((other for other in left if other.startswith(word)), None)
        if whole is None:
            return False
        left.remove(whole)
    return True


def _by_words(wanted: Sequence[str], known: Sequence[str]) -> float:
    """How near the words are, each to its nearest; a word typed that is nowhere near counts in full."""
    weight = sum(len(word) for word in wanted)
    return sum(len(word) * max(_similar(word, other) for other in known) for word in wanted) / weight


def _similar(typed: str, name: str) -> float:
    """How many letters are right, 0 … 1: of the whole name, or of its beginning, for it may not be typed yet.

    Two letters that changed places are one mistake (optimal string alignment).
    """
    whole = OSA.normalized_similarity(typed, name)
    if len(name) <= len(typed) or len(typed) < 4:
        return whole
    begun = max(OSA.normalized_similarity(typed, name[: len(typed) + more]) for more in (-1, 0, 1))
    return max(whole, 0.97 * begun)
