"""What strategies of other libraries are given of a pool, and which of their options a file may set.

Whom a strategy chooses is its own business; the libraries themselves are in the modules beside this one.
"""

import importlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

import numpy as np

from cual import options
from cual.acquisition import PoolView
from cual.acquisition.base import highest
from cual.errors import BadOption, Unavailable
from cual.types import AnyArray, IntArray


def needed(module: str, package: str, extra: str) -> ModuleType:
    """A module of another library; where it is missing, the error says how to get it.

    Parameters
    ----------
    module
        One that our own code names, never a file.
    package, extra
        What it is called on PyPI, and our extra that installs it.

    >>> needed("json", "json", "json").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unavailable(f"this needs {package} ({error}): pip install 'cual[{extra}]'") from error


@dataclass(frozen=True)
class Seen:
    """Samples that a strategy looks at.

    Attributes
    ----------
    at
        Their positions in the view, ascending.
    X, asked
        Features of these, and of the samples that were answered in this adaptation.
    """

    view: PoolView
    at: IntArray
    X: AnyArray
    asked: AnyArray

    @classmethod
    def of(cls, view: PoolView, most: int) -> "Seen":
        """All samples of a view, or the `most` with the highest scores."""
        at = np.sort(highest(view.scores, most)) if len(view.scores) > most else np.arange(len(view.scores))
        X = view.features(at).astype(np.float64)
        asked = view.asked().astype(np.float64)
        return cls(view, at, X, asked if len(asked) else np.empty((0, X.shape[1])))

    @property
    def both(self) -> AnyArray:
        """Features of candidates, then of what was answered."""
        return np.concatenate([self.X, self.asked])

    def probabilities(self) -> AnyArray:
        """Class probabilities of the candidates; rows add up to 1."""
        return whole(self.view.probabilities()[self.at])

    def positions(self, chosen: Any, n: int) -> IntArray:
        """Positions in the view of `n` candidates: those that were chosen, each once, then the highest scores.

        Strategies that cluster choose fewer where samples are alike.
        """
        by_score = highest(self.view.scores[self.at], len(self.at))
        places = dict.fromkeys([*np.asarray(chosen, dtype=np.int64).tolist(), *by_score.tolist()])
        return self.at[np.array(list(places)[:n], dtype=np.int64)]


@contextmanager
def shared_random_state(rng: np.random.Generator) -> Generator[None]:
    """NumPy's global generator, seeded by ours and put back afterwards: for libraries that draw from it.

    >>> with shared_random_state(np.random.default_rng(0)):
    ...     first = np.random.random()
    >>> with shared_random_state(np.random.default_rng(0)):
    ...     first == np.random.random()
    True
    """
    before = np.random.get_state()  # noqa: NPY002
    try:
        np.random.seed(int(rng.integers(2**32)))  # noqa: NPY002
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002


def whole(probabilities: AnyArray) -> AnyArray:
    """Probabilities whose rows add up to 1, of at least two classes.

    What named classes do not hold (cual-plus leaves some to classes without a name) is one more class.

    >>> whole(np.array([[0.5, 0.25], [1.0, 0.0]])).tolist()
    [[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]
    >>> whole(np.array([[0.75, 0.25]])).tolist()
    [[0.75, 0.25]]
    """
    p = probabilities.astype(np.float64)
    rest = np.maximum(1 - p.sum(axis=1, keepdims=True), 0)
    if p.shape[1] < 2 or (rest > 1e-3).any():
        p = np.concatenate([p, rest], axis=1)
    return p / p.sum(axis=1, keepdims=True)


def chosen_option(
    strategy: Any, given: Any, known: Mapping[str, tuple[str, ...]], package: str
) -> tuple[str, dict[str, Any]]:
    """The name of a strategy and its options, both of a closed list; values are plain JSON.

    A strategy's name may come from an agent's file: it is looked up here, and nothing else is ever imported.

    >>> chosen_option("Top", {"k": 3}, {"Top": ("k",)}, "some-package")
    ('Top', {'k': 3})
    >>> chosen_option("os.system", None, {"Top": ("k",)}, "some-package")
    Traceback (most recent call last):
    cual.errors.BadOption: 'os.system' is no strategy of some-package that works here; there are Top
    """
    name = options.text("strategy", strategy)
    if name not in known:
        raise BadOption(
            f"{name!r:.200} is no strategy of {package} that works here; there are {', '.join(known)}"
        )
    values = options.named("options", {} if given is None else given)
    wrong = [option for option in values if option not in known[name]]
    if wrong:
        has = ", ".join(known[name]) or "none"
        raise BadOption(f"{name} has no option {', '.join(wrong)!s:.200} that may be set; it has {has}")
    for option, value in values.items():
        if not _plain(value):
            raise BadOption(
                f"{name}: {option} is {value!r:.200}, but takes a number, a name, or options by name"
            )
    return name, values


def _plain(value: Any) -> bool:
    """A JSON value; of mappings, one level."""
    if isinstance(value, dict):
        inner = cast("dict[Any, Any]", value)
        return all(isinstance(key, str) and _scalar(v) for key, v in inner.items())
    return _scalar(value)


def _scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
