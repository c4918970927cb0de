"""How a check is found, run and reported: what all contract suites share. No contract lives here."""

import random
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from cual.methods import Method
from cual.registry import options_of
from cual.types import AnyArray

Check = Callable[[], None]
P = TypeVar("P")
T = TypeVar("T")


class Suite(Generic[P]):
    """The checks of one kind of part, by name, in the order in which they were added.

    Parameters
    ----------
    kind
        What such a part is called.
    needs
        Attributes that every such part has.

    >>> greeters = Suite("greeter", needs=("greet",))
    >>> @greeters.check
    ... def says_something(greeter):
    ...     expect(bool(greeter.greet()), "says nothing")
    >>> class Silent:
    ...     def greet(self):
    ...         return ""
    >>> greeters.run(Silent())
    Traceback (most recent call last):
    AssertionError: Silent() says nothing
    """

    def __init__(self, kind: str, needs: tuple[str, ...]) -> None:
        self.kind = kind
        self.needs = needs
        self._checks: list[tuple[Callable[[Any], None], Callable[[Any], bool]]] = []

    def check(self, function: Callable[[Any], None]) -> Callable[[Any], None]:
        """Add a check of every part; its name is that of the function."""
        return self.check_when(lambda part: True)(function)

    def check_when(
        self, able: Callable[[Any], bool]
    ) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
        """Add a check of parts that can do something which not all can."""

        def add(function: Callable[[Any], None]) -> Callable[[Any], None]:
            self._checks.append((function, able))
            return function

        return add

    def fits(self, part: object) -> bool:
        """Whether a part has all that this kind of part needs."""
        return all(hasattr(part, name) for name in self.needs)

    def of(self, part: object) -> list[tuple[str, Check]]:
        """The checks of one object."""
        if not self.fits(part):
            return [("has_what_it_needs", partial(_reported, self._has_what_it_needs, part))]
        return [(check.__name__, partial(_reported, check, part)) for check, able in self._checks if able(part)]

    def run(self, part: object) -> None:
        """Run every check of a part, or of the parts that a class makes."""
        for each, _ in objects(part):
            for _, check in self.of(each):
                check()

    def _has_what_it_needs(self, part: object) -> None:
        missing = [name for name in self.needs if not hasattr(part, name)]
        expect(not missing, f"has no {', '.join(missing)}, which every {self.kind} needs")


def objects(part: object) -> list[tuple[object, str]]:
    """What is checked, and with which parameters: an object as it is; of a class, one for each of its
    ``unit_test_params()``, or one of its defaults.

    >>> from cual.acquisition.diverse import Diverse
    >>> [given for _, given in objects(Diverse)]
    ['', 'candidates=4, turns=1', 'least_doubt=1.0']
    """
    if not isinstance(part, type):
        return [(part, "")]
    brought = getattr(part, "unit_test_params", None)
    if brought is None:
        several = [dict[str, Any]()]
    else:
        several = [dict(given) for given in cast("Callable[[], Iterable[Mapping[str, Any]]]", brought)()]
    if not several:
        raise AssertionError(f"{part.__name__}.unit_test_params() gives nothing, so that nothing is checked")
    constructor = cast("Callable[..., object]", part)
    return [(constructor(**given), written(given)) for given in several]


def written(given: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_plain(value)}" for name, value in given.items())


def _plain(value: object) -> str:
    """A value as one would write it; a part that has no way of its own to say so, by its options."""
    return shown(value) if type(value).__repr__ is object.__repr__ else repr(value)


def shown(part: object) -> str:
    """A part as its user would write it; a method by its name, because it has too many options.

    >>> from cual.acquisition import acquisitions
    >>> shown(acquisitions["diverse"](turns=3))
    'Diverse(least_doubt=0.3, candidates=5000, turns=3)'
    """
    if isinstance(part, Method):
        return f"the method {part.name!r}"
    try:
        return f"{type(part).__name__}({written(options_of(part))})"
    except (AttributeError, ValueError):  # a parameter that is no attribute: a check of its own says so
        return type(part).__name__


def expect(kept: bool, otherwise: str) -> None:
    """Raise `AssertionError` unless something is `kept`; `otherwise` says what the part does instead.

    Not an ``assert``: those are left out where Python optimises.

    >>> expect(1 < 2, "counts wrongly")
    >>> expect(1 > 2, "counts wrongly")
    Traceback (most recent call last):
    AssertionError: counts wrongly
    """
    if not kept:
        raise AssertionError(otherwise)


def first(values: Iterable[T]) -> T | None:
    """One of the values that are wrong, to show."""
    return next(iter(values), None)


@contextmanager
def given(case: str) -> Generator[None]:
    """While a part works on an input: what goes wrong is reported with it."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}, given {case}") from None
    except Exception as error:
        raise AssertionError(f"raises {error!r}, given {case}") from error


def _reported(check: Callable[[Any], None], part: object) -> None:
    try:
        check(part)
    except AssertionError as error:
        raise AssertionError(f"{shown(part)} {error}") from error.__cause__
    except Exception as error:
        raise AssertionError(f"{shown(part)} raises {error!r} in {check.__name__}") from error


# -- what several contracts ask --------------------------------------------------------------------------------


@contextmanager
def untouched_random_state() -> Generator[None]:
    """Expect that nothing draws from the generators that all of a program shares; they are put back after it.

    They start from a seed that nobody uses: a part that sets one of its own would else leave them as it found
    them the second time.
    """
    before = random.getstate(), np.random.get_state(), torch.random.get_rng_state()  # noqa: NPY002
    try:
        random.seed(723417)
        np.random.seed(723417)  # noqa: NPY002
        torch.default_generator.manual_seed(723417)
        start = _random_state()
        yield
        expect(_random_state() == start, "draws from a global random generator instead of the one it is given")
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.random.set_rng_state(before[2])


def _random_state() -> tuple[object, ...]:
    _, key, position, *_ = cast("tuple[Any, ...]", np.random.get_state())  # noqa: NPY002
    return random.getstate(), key.tobytes(), position, torch.random.get_rng_state().numpy().tobytes()


def same_array(a: AnyArray, b: AnyArray) -> bool:
    """Whether two arrays have the same bits."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def same_tensor(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


def same_state(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    """Whether two states have the same tensors, bit for bit.

    >>> import torch
    >>> same_state({"W": torch.ones(1)}, {"W": torch.ones(1)}), same_state({}, {"W": torch.ones(1)})
    (True, False)
    """
    return a.keys() == b.keys() and all(same_tensor(a[name], b[name]) for name in a)


def copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in state.items()}


def saved(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state as it comes back from a file."""
    expect(
        all(isinstance(value, Tensor) for value in state.values()),  # pyright: ignore[reportUnnecessaryIsInstance]
        "has a state that holds something else than tensors, which a file cannot",
    )
    return load(save({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}))


def close(a: Tensor, b: Tensor, share: float = 1e-4) -> bool:
    """Whether two tensors differ by rounding only: sums may be taken in another order.

    >>> import torch
    >>> close(torch.tensor([1.0]), torch.tensor([1.00001])), close(torch.tensor([1.0]), torch.tensor([1.1]))
    (True, False)
    """
    return a.shape == b.shape and torch.allclose(a, b, rtol=share, atol=1e-4)
