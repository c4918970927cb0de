"""Recorded labels as the annotator of an experiment, with mistakes and skips on demand.

The only place of a run where true labels of pool samples are handed out, one paid answer at a time.
"""

from collections.abc import Iterable, Sequence
from typing import Any

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
    ) -> None:
        if not (0 <= wrong <= 1 and 0 <= skip < 1):
            raise BadOption(
                f"wrong ({wrong}) and skip ({skip}) are shares; with skip 1 nothing would be answered"
            )
        self._labels, self._classes = labels, list(classes)
        self._seed, self._task, self._wrong, self._skip = seed, task, wrong, skip
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
        truth = self._labels[sample].item()
        mistakes, silence = generator(self._seed, self._task, sample, "bench annotator").random(2)
        if silence < self._skip:
            return SKIP
        others = [c for c in self._classes if c != truth]
        if mistakes >= self._wrong or not others:
            return truth
        return others[int(generator(self._seed, self._task, sample, "bench mistake").integers(len(others)))]
