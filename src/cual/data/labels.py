"""Class names at the border, integers inside: the one place that reads labels and maps between them."""

import itertools
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import lru_cache
from typing import Any, Final, cast

import numpy as np

from cual.data.listed import listed
from cual.errors import BadLabels
from cual.types import AnyArray, IntArray, Label


class Skip(Enum):
    """The answer "cannot tell".

    >>> Skip.SKIP, Skip("skip") is SKIP
    (SKIP, True)
    """

    SKIP = "skip"

    def __repr__(self) -> str:
        return self.name


SKIP: Final = Skip.SKIP
"""Tell this instead of a label for "cannot tell": not charged, not asked again."""

Answer = Label | Skip
_TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
"""Characters of other kinds for which nothing is drawn."""


def as_label(value: Any) -> Label:
    """A plain str or int, or a `BadLabels` error that says what came instead.

    >>> as_label(np.int64(3)), as_label("Sea, Lake")
    (3, 'Sea, Lake')
    """
    if isinstance(value, str) and value:
        return _encodable(str(value))
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if abs(int(value)) >= 2**63:
            raise BadLabels(f"a label is a whole number of at most 64 bits, not {value}")
        return int(value)
    what = "an empty string" if isinstance(value, str) else f"{value!r} ({type(value).__name__})"
    raise BadLabels(f"a label is a non-empty str or an int, not {what}")


def _encodable(text: str) -> str:
    """A text that is one: half of a character (a lone surrogate) could not be written to any file.

    >>> _encodable("\\ud800")
    Traceback (most recent call last):
    cual.errors.BadLabels: a label is text that UTF-8 can hold; '\\ud800' holds half of a character
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadLabels(
            f"a label is text that UTF-8 can hold; {text[:200]!r} holds half of a character"
        ) from None
    return text


@dataclass(frozen=True)
class ClassNames:
    """Names of classes; the position in `names` is the integer used inside.

    >>> names = ClassNames(("cat", "dog"))
    >>> names.encode(["dog", "cat"]).tolist(), names.plus("île").names
    ([1, 0], ('cat', 'dog', 'île'))
    >>> names.index("dog"), names.decode([1, 1]).tolist(), names.array().dtype.kind
    (1, ['dog', 'dog'], 'U')
    >>> names.check(3)
    Traceback (most recent call last):
    cual.errors.BadLabels: label 3 is int, but the classes known so far are str, for example 'cat'; ...
    """

    names: tuple[Label, ...]

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, label: object) -> bool:
        return label in self.names

    def index(self, label: Label) -> int:
        return self.names.index(label)

    def plus(self, label: Label) -> "ClassNames":
        """These names and one more (itself if it is known)."""
        return self if label in self.names else ClassNames((*self.names, label))

    def check(self, label: Any) -> Label:
        """A label of the type that the known classes have: 3 is not "3"."""
        plain = as_label(label)
        if self.names and type(plain) is not type(self.names[0]):
            known = type(self.names[0]).__name__
            raise BadLabels(
                f"label {plain!r} is {type(plain).__name__}, but the classes known so far are {known}, "
                f"for example {self.names[0]!r}; use one type for all"
            )
        return plain

    def encode(self, labels: Iterable[Label]) -> IntArray:
        positions = {name: i for i, name in enumerate(self.names)}
        return np.array([positions[label] for label in labels], dtype=np.int64)

    def decode(self, indices: Sequence[int] | IntArray) -> AnyArray:
        return self.array()[np.asarray(indices, dtype=np.int64)]

    def array(self) -> AnyArray:
        """The names as a numpy array of ints or of strings."""
        if not self.names:
            return np.array([], dtype=np.int64)
        if isinstance(self.names[0], str):
            return np.array(self.names, dtype=np.str_)
        return np.array(self.names, dtype=np.int64)


def read_labels(y: Any, n: int) -> tuple[ClassNames, IntArray]:
    """Check the labels of `n` samples; the classes in sorted order, and each sample's position in them.

    >>> read_labels(["b", "a", "b"], 3)
    (ClassNames(names=('a', 'b')), array([1, 0, 1]))
    """
    values = listed(y)
    if values is None:
        raise BadLabels(f"labels come as a list or array, one for each sample, not as {y!r:.200}")
    if len(values) != n:
        raise BadLabels(f"{n} samples came with {len(values)} labels")
    plain: list[Label] = []
    for i, value in enumerate(values):
        try:
            plain.append(as_label(value))
        except BadLabels as error:
            raise BadLabels(f"label of row {i}: {error}") from None
    kinds = {type(label) for label in plain}
    if len(kinds) > 1:
        raise BadLabels("labels mix str and int; use one type for all")
    names = ClassNames(tuple(sorted(cast("set[str]", set(plain)))))
    return names, names.encode(plain)


def read_label(text: str, names: ClassNames, longest: int | None = None) -> Label:
    """A label that a person typed, in the type that the known classes have.

    A known name is taken as it is, and so is one that looks the same; any other is tidied up.

    Parameters
    ----------
    text
        What was typed.
    names
        The known classes.
    longest
        How many characters a new name may have, where it must fit on a button.

    >>> read_label(" 3", ClassNames((0, 1))), read_label("3", ClassNames(("0", "1")))
    (3, '3')
    >>> read_label(" barn  owl ", ClassNames(("cat",))), read_label("c\\u200bat", ClassNames(("cat",)))
    ('barn owl', 'cat')
    """
    if text in names:
        return text
    name = known_form(text, names)
    if names.names and isinstance(names.names[0], int):
        try:
            number = int(name)
        except ValueError:
            raise BadLabels(
                f"{text[:200]!r} is not a whole number, but the known classes are, for example {names.names[0]}"
            ) from None
        return as_label(number)
    why = unreadable(name, longest)
    if why and name not in names:
        raise BadLabels(f"the name of a class {why}")
    return name


def near_name(text: str, names: ClassNames, cutoff: float = 0.8) -> Label | None:
    """The known class that somebody may mean who writes a new name; None where it is plainly another one.

    >>> names = ClassNames(("Forest", "class 1"))
    >>> near_name("forest", names), near_name("Forrest", names), near_name("River", names)
    ('Forest', 'Forest', None)
    >>> near_name("class 2", names) is None
    True
    """
    known = {str(name): name for name in names.names}
    if text in known or not isinstance(next(iter(known.values()), None), str):
        return known.get(text)
    folded = {" ".join(name.casefold().split()): name for name in reversed(known)}
    same = folded.get(" ".join(text.casefold().split()))
    if same is not None:
        return known[same]
    close = get_close_matches(text.casefold(), folded, n=1, cutoff=cutoff)
    if not close or _without_digits(close[0]) == _without_digits(text.casefold()):  # class 1, class 2
        return None
    return known[folded[close[0]]]


def _without_digits(text: str) -> str:
    return "".join(c for c in text if not c.isdigit())


# -- names that look alike -------------------------------------------------------------------------------------

_JOINED = ("Lo", "Mn", "Mc", "So", "Sk")
"""What joiners and selectors of a form belong to: letters of scripts that need them, and pictures."""


@lru_cache(2**16)
def tidy(name: str) -> str:
    """A name in the one form that is kept: composed (NFC), nothing in it that is not seen, single blanks.

    What turns the direction of text is left for `unreadable` to refuse, as are controls.

    >>> tidy(" barn\\u00a0 owl\\ufeff "), tidy("cafe\\u0301") == "caf\\u00e9", tidy("c\\u200dat")
    ('barn owl', True, 'cat')
    """
    kept: list[str] = []
    for character in unicodedata.normalize("NFC", name):
        joins = character in "\u200c\u200d" or _selects(character)
        if _is_unseen(character) and not (joins and kept and unicodedata.category(kept[-1]) in _JOINED):
            continue
        kept.append(character)
    return " ".join(unicodedata.normalize("NFC", "".join(kept)).split())


@lru_cache(2**16)
def likeness(name: str) -> str:
    """What names have in common that people would take for one: case, width, forms and blanks do not matter.

    >>> likeness("Ada  Lovelace ") == likeness("ADA Lovelace"), likeness("Zoë") == likeness("Zoe")
    (True, False)
    """
    plain = "".join(c for c in name if not _is_unseen(c) and c not in _TURNING)
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKD", plain).casefold())
    return " ".join(folded.casefold().split())


def known_form(name: str, names: ClassNames) -> str:
    """The known name that looks just like this one, or else this one, tidied up.

    Classes that an earlier cual has named otherwise keep their names.

    >>> known_form("cat\\u200e", ClassNames(("cat",))), known_form(" Cat", ClassNames(("cat",)))
    ('cat', 'Cat')
    """
    return _forms(names)[0].get(tidy(name), tidy(name))


def alike(name: str, names: ClassNames) -> str | None:
    """The known name that differs from this one only by case, width or the like; None where it is known itself.

    >>> names = ClassNames(("cat", "owl", "Owl"))
    >>> alike("Cat", names), alike("Owl", names), alike("bat", names)
    ('cat', None, None)
    """
    return None if name in names else _forms(names)[1].get(likeness(name))


@lru_cache(64)
def _forms(names: ClassNames) -> tuple[dict[str, str], dict[str, str]]:
    """Known names by their tidy form, and by their likeness; the first of several."""
    texts = [name for name in reversed(names.names) if isinstance(name, str)]
    return {tidy(text): text for text in texts}, {likeness(text): text for text in texts}


def _selects(character: str) -> bool:
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"


def _is_unseen(character: str) -> bool:
    """Whether nothing is drawn for a character: joiners, marks of direction, soft hyphens, fillers and such."""
    unseen = unicodedata.category(character) == "Cf" or character in _FILLERS or _selects(character)
    return unseen and character not in _TURNING


def recorded_label(value: Any) -> Label | None:
    """A label as the cell of a table holds it: a whole number or a name; None where there is none.

    >>> [recorded_label(value) for value in (3, 3.0, "cat", "", float("nan"))]
    [3, 3, 'cat', None, None]
    """
    if value is None or value == "" or value != value:  # only NaN is not itself
        return None
    if isinstance(value, float) and value.is_integer():  # what pandas makes of numbers with gaps
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return value
    return as_text(str(value))


def unreadable(name: str, longest: int | None = None) -> str:
    """Why people could not read a name; nothing where they can.

    >>> unreadable("barn owl"), unreadable(" "), unreadable("owl" * 40, longest=100)
    ('', 'is empty', 'has 120 characters; at most 100 are allowed')
    """
    if not name.strip():
        return "is empty"
    if longest is not None and len(name) > longest:
        return f"has {len(name)} characters; at most {longest} are allowed"
    # Controls, halves of characters and line ends are not seen. The others turn the direction of what follows,
    # so that a name can look like another.
    unseen = ("Cc", "Cs", "Zl", "Zp")
    if any(unicodedata.category(c) in unseen or c in _TURNING for c in name):
        return "holds control characters"
    return ""


def as_text(text: str) -> str:
    r"""Text that every file can hold: bytes of a name that are no UTF-8 are written out.

    >>> as_text(b"caf\xe9.jpg".decode(errors="surrogateescape"))
    'caf\\xe9.jpg'
    """
    try:
        return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold
        return text.encode(errors="replace").decode()


def made_up(names: ClassNames) -> Label:
    """A name for the class that nobody names: no class has it, and no person would give it.

    >>> made_up(ClassNames(("cat", "unnamed 1"))), made_up(ClassNames((0, 7, -1)))
    ('unnamed 2', -2)
    """
    if isinstance(names.names[0], int):
        return min(0, *(int(name) for name in names.names)) - 1
    return next(name for i in itertools.count(1) if (name := f"unnamed {i}") not in names)
