"""Recorded labels as the annotator of an experiment, with mistakes, second names and skips on demand.

The only place of a run where true labels of pool samples are handed out, one paid answer at a time.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cual.data.labels import SKIP, Answer
from cual.errors import BadOption
from cual.seeds import generator
from cual.types import AnyArray, Label


class Recorded:
    """Answers the queries of one task from recorded labels.

    Parameters
    ----------
    labels
        Label of every row of the features file; sample ids are row numbers.
    classes
        What a wrong answer is drawn from: the classes introduced so far.
    seed, task
        With the sample's id they decide on mistakes and skips, so a resumed run gets the same answers.
    wrong, skip
        Share of answers that name another class, and share of samples that get no answer.
    confused
        Classes that are taken for one another: a wrong answer about one of them names another of them.
    synonyms
        Share of samples whose class is called by its second name; the seed and the sample's id decide.
    untold
        Samples that get no answer.
    person
        Who answers: people make mistakes, and skip, each for themselves.

    >>> import numpy as np
    >>> annotator = Recorded(np.array(["cat", "dog", "owl"]), ["cat", "dog", "owl"], seed=0, task=1)
    >>> annotator.answer([2, 0]), annotator.paid
    ({2: 'owl', 0: 'cat'}, 2)
    """

    def __init__(
        self,
        labels: AnyArray,
        classes: Sequence[Label],
        seed: int,
        task: int,
        wrong: float = 0.0,
        skip: float = 0.0,
        confused: Sequence[Label] = (),
        synonyms: float = 0.0,
        untold: Iterable[int] = (),
        person: int = 0,
    ) -> None:
        if not (0 <= wrong <= 1 and 0 <= skip < 1 and 0 <= synonyms <= 1):
            raise BadOption(
                f"wrong ({wrong}), skip ({skip}) and synonyms ({synonyms}) are shares; "
                "with skip 1 nothing would be answered"
            )
        self._labels, self._classes, self._confused = labels, list(classes), list(confused)
        self._seed, self._task, self._wrong, self._skip = seed, task, wrong, skip
        self._synonyms, self._untold = synonyms, frozenset(untold)
        self._second_names = second_names(np.unique(labels).tolist()) if synonyms else {}
        self._own = f" {person}" if person else ""
        self.answers: dict[int, Answer] = {}

    def answer(self, ids: Iterable[Any]) -> dict[int, Answer]:
        """An answer, or `SKIP`, for each sample id; asking again gives the same and costs nothing more."""
        answers = {int(i): self._about(int(i)) for i in ids}
        self.answers.update(answers)
        return answers

    @property
    def paid(self) -> int:
        """Labels handed out so far."""
        return sum(answer is not SKIP for answer in self.answers.values())

    @property
    def skipped(self) -> int:
        return len(self.answers) - self.paid

    def _about(self, sample: int) -> Answer:
        if sample in self._untold:
            return SKIP
        truth = self._labels[sample].item()
        mistakes, silence = self._draw(sample, "bench annotator").random(2)
        if silence < self._skip:
            return SKIP
        name = truth
        others = self._taken_for(truth)
        if mistakes < self._wrong and others:
            name = others[int(self._draw(sample, "bench mistake").integers(len(others)))]
        if self._synonyms and generator(self._seed, 0, sample, "bench synonym").random() < self._synonyms:
            return self._second_names[name]
        return name

    def _draw(self, sample: int, purpose: str) -> np.random.Generator:
        """What is random about a sample for this person."""
        return generator(self._seed, self._task, sample, purpose + self._own)

    def _taken_for(self, truth: Label) -> list[Label]:
        """Which classes a wrong answer about one may name."""
        alike = self._confused if truth in self._confused else []
        return [c for c in alike if c != truth] or [c for c in self._classes if c != truth]


def second_names(names: Sequence[Label]) -> Mapping[Label, Label]:
    """A second name for each class, which no class has.

    >>> second_names(["sea", "wood"]), second_names([0, 7])
    ({'sea': 'sea (2)', 'wood': 'wood (2)'}, {0: 8, 7: 9})
    """
    numbers = [name for name in names if isinstance(name, int)]
    if numbers:
        return {name: max(numbers) + 1 + i for i, name in enumerate(names)}
    tries = ({name: f"{name} ({n})" for name in names} for n in itertools.count(2))
    return next(second for second in tries if not set(second.values()) & set(names))
