"""Views of a pool that strategies and rules of belief are checked with: seeded, and as odd as real ones get."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from cual.acquisition import PoolView
from cual.checks.base import expect, first, same_array
from cual.types import AnyArray, FloatArray, IntArray

N_OLD = 2
N_CLASSES = 4
LARGEST = np.finfo(np.float32).max  # Sⁱ is cut off here


def view_of(n: int, seed: int = 0) -> PoolView:
    """A view of `n` samples of two old and two novel classes."""
    rng = np.random.default_rng([n, seed])
    probabilities = rng.dirichlet(np.ones(N_CLASSES), n).astype(np.float32)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    return PoolView(
        scores=rng.uniform(0, 10, n).astype(np.float32),
        threshold=4.0,
        classes=rng.integers(0, N_CLASSES, n),
        n_old=N_OLD,
        validation=rng.uniform(0, 10, 20).astype(np.float32),
        probabilities=lambda: probabilities,
        features=lambda at: X[at],
    )


def views() -> Iterator[tuple[str, PoolView]]:
    """Views, and what is special about each."""
    for n in (0, 1, 2, 30, 400):
        yield f"{n} samples", view_of(n)
    view = view_of(25, seed=1)
    n = len(view.scores)
    even = np.full((n, N_CLASSES), 1 / N_CLASSES, np.float32)
    certain = np.eye(N_CLASSES, dtype=np.float32)[view.classes]
    yield "samples with the same score", replace(view, scores=np.full(n, 5, np.float32))
    yield "samples that all lie at T_inner", replace(view, scores=np.full(n, view.threshold, np.float32))
    yield "samples that all lie below T_inner", replace(view, threshold=11.0)
    yield "samples that all lie above T_inner", replace(view, threshold=-1.0)
    yield "scores of nothing but zero", replace(view, scores=np.zeros(n, np.float32), threshold=0.0)
    yield (
        "the largest scores there are",
        replace(view, scores=np.where(view.scores > 5, LARGEST, 0).astype(np.float32)),
    )
    yield "samples before a novel class is known", replace(view, classes=np.full(n, -1))
    yield "samples of old classes", replace(view, classes=view.classes % N_OLD)
    yield "samples of novel classes", replace(view, classes=N_OLD + view.classes % (N_CLASSES - N_OLD))
    yield "an old class that is being learned", replace(view, learning=np.array([1]))
    yield "samples of certain classes", replace(view, probabilities=lambda: certain, learning=np.array([0]))
    yield "classes that are all as likely", replace(view, probabilities=lambda: even)
    yield "samples that are all alike", replace(view, features=_all(1))
    yield "features of nothing but zero", replace(view, features=_all(0))
    yield "no validation scores", replace(view, validation=np.empty(0, np.float32))


def _all(value: float) -> Callable[[IntArray], FloatArray]:
    """Features that are the same everywhere."""
    return lambda at: np.full((len(at), 3), value, np.float32)


@dataclass(frozen=True)
class Contents:
    """All arrays of a view, copied."""

    arrays: dict[str, AnyArray]

    @classmethod
    def of(cls, view: PoolView) -> "Contents":
        arrays = {name: getattr(view, name) for name in ("scores", "classes", "learning", "validation")}
        arrays["probabilities"] = view.probabilities()
        arrays["features"] = view.features(np.arange(len(view.scores)))
        return cls({name: np.array(array) for name, array in arrays.items()})

    def expect_in(self, view: PoolView) -> None:
        """Expect that a view still holds this."""
        now = Contents.of(view).arrays
        changed = [name for name, array in self.arrays.items() if not same_array(array, now[name])]
        expect(not changed, f"changes the {' and the '.join(changed)} of the view that it is given")


def expect_positions(chosen: AnyArray, view: PoolView) -> None:
    """Expect an array of positions in a view."""
    expect(
        isinstance(chosen, np.ndarray) and chosen.ndim == 1 and chosen.dtype == np.int64,  # pyright: ignore[reportUnnecessaryIsInstance]
        f"gives {_kind(chosen)} instead of a row of positions in int64",
    )
    outside = chosen[(chosen < 0) | (chosen >= len(view.scores))].tolist()
    expect(not outside, f"chooses position {first(outside)}, which is none of the view")


def expect_once(chosen: AnyArray) -> None:
    """Expect that no position comes twice."""
    positions, times = np.unique(chosen, return_counts=True)
    twice = positions[times > 1].tolist()
    expect(not twice, f"chooses position {first(twice)} more than once")


def _kind(chosen: object) -> str:
    if isinstance(chosen, np.ndarray):
        return f"an array of {chosen.dtype} of the shape {chosen.shape}"
    return f"a {type(chosen).__name__}"
