"""Reading the next part of something while the present one is worked on. What is read is others' business."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

P = TypeVar("P")
T = TypeVar("T")


def read_ahead(read: Callable[[P], T], parts: Iterable[P]) -> Iterator[tuple[P, T]]:
    """Each part and what `read` makes of it, one part ahead, in a thread of its own.

    >>> list(read_ahead(lambda part: 10 * part, [1, 2]))
    [(1, 10), (2, 20)]
    """
    with ThreadPoolExecutor(1) as reader:
        waiting: tuple[P, Future[T]] | None = None
        for part in parts:
            coming = part, reader.submit(read, part)
            if waiting is not None:
                yield waiting[0], waiting[1].result()
            waiting = coming
        if waiting is not None:
            yield waiting[0], waiting[1].result()
