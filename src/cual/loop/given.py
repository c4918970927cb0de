"""What callers pass, as the plain ids and labels that events hold; anything else is refused by name."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np

from cual.data.frames import index_of
from cual.data.labels import SKIP, Answer, ClassNames
from cual.errors import BadLabels, BadOption, UnknownSample
from cual.types import Label


def plain_sample(sample: Any) -> Label:
    """The id of a sample: a str or an int.

    >>> plain_sample(np.int64(3)), plain_sample(3.0), plain_sample("a.jpg")
    (3, 3, 'a.jpg')
    """
    plain = sample.item() if isinstance(sample, np.generic) else sample
    if isinstance(plain, float) and plain.is_integer():  # what pandas makes of numbers with gaps
        plain = int(plain)
    if isinstance(plain, str | int) and not isinstance(plain, bool):
        return plain
    raise UnknownSample(f"the id of a sample is a str or an int, not {sample!r:.200}")


def plain_samples(samples: Any) -> list[Label]:
    """Ids of samples, in any collection but a text, which is one id.

    >>> import numpy as np
    >>> plain_samples(np.array([3, 5]))
    [3, 5]
    >>> plain_samples("a.jpg")
    Traceback (most recent call last):
    cual.errors.BadOption: ids of samples come as a list, not as 'a.jpg'
    """
    if isinstance(samples, str | bytes) or not isinstance(samples, Iterable):
        raise BadOption(f"ids of samples come as a list, not as {samples!r:.200}")
    try:
        ids = list(cast("Iterable[Any]", samples))
    except TypeError:  # of an array without a dimension
        raise BadOption(f"ids of samples come as a list, not as {samples!r:.200}") from None
    return [plain_sample(sample) for sample in ids]


def plain_labels(labels: Any, names: ClassNames) -> dict[Label, Label]:
    """Labels by sample, of the type that known classes have.

    >>> plain_labels({3: "owl"}, ClassNames(("cat",)))
    {3: 'owl'}
    >>> plain_labels({3: 7}, ClassNames(("cat",)))
    Traceback (most recent call last):
    cual.errors.BadLabels: label 7 is int, but the classes known so far are str, for example 'cat'; ...
    """
    return {plain_sample(sample): names.check(label) for sample, label in _by_sample(labels).items()}


def plain_answers(answers: Any, names: ClassNames) -> dict[Label, Answer]:
    """The same, where `SKIP` stands for "cannot tell".

    >>> plain_answers({"a.jpg": "owl", "b.jpg": SKIP}, ClassNames(("cat",)))
    {'a.jpg': 'owl', 'b.jpg': SKIP}
    """
    return {
        plain_sample(sample): SKIP if answer is SKIP else names.check(answer)
        for sample, answer in _by_sample(answers).items()
    }


def _by_sample(answers: Any) -> Mapping[Any, Any]:
    index = index_of(answers)
    if index is not None:  # a Series; its to_dict would keep one of two that have the same id
        answers = dict(zip(index.tolist(), answers.tolist(), strict=True))
    if not isinstance(answers, Mapping):
        raise BadLabels(f"labels come by the id of each sample, {{id: label}}, not as {answers!r:.200}")
    return cast("Mapping[Any, Any]", answers)
