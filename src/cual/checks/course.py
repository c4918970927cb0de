"""The course that an A_s is put through: the steps of an adaptation, corrections included. No checks."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from cual.checks.base import given
from cual.checks.world import NOVEL, OLD, Stage, accepted_of
from cual.learners import Accepted, Learner, Scored, ShortTerm
from cual.types import AnyArray, IntArray

N_OLD = len(OLD)
STEPS: tuple[tuple[str, tuple[str, ...] | None], ...] = (
    ("nothing learned yet", None),
    ("answers of one novel class", NOVEL[:1]),
    ("answers of two novel classes", NOVEL),
    ("answers of the second novel class only: those of the first were corrected", NOVEL[1:]),
    ("answers of old classes only", ()),
)


@dataclass
class Course:
    """An A_s that goes through the steps of an adaptation, and what it has to say at each of them."""

    stage: Stage
    short: ShortTerm = field(init=False)
    accepted: Accepted = field(default_factory=Accepted.nothing)

    def __post_init__(self) -> None:
        self.short = self.stage.learner.begin(self.stage.agent, self.stage.pool)

    def go(self, step: int) -> None:
        """Learn what is accepted by a step; nothing at the first one."""
        novel = STEPS[step][1]
        if novel is not None:
            self.accepted = accepted_of(novel)
            self.short.learn(self.accepted, step - 1)

    @property
    def rows(self) -> IntArray:
        """Pool rows that nothing is known of."""
        return np.setdiff1d(np.arange(len(self.stage.pool)), self.accepted.rows)

    def sayings(self) -> dict[str, AnyArray]:
        """All that it says of the rows that are left, in the order in which a resumed adaptation asks."""
        rows = self.rows
        outputs = {
            "probabilities": self.short.probabilities(rows),
            "features": self.short.features(rows),
            "learning": self.short.learning(),
        }
        scored = self.short.score(rows)
        outputs |= {"scores": scored.scores, "classes": scored.classes}
        outputs |= {"validation": scored.validation.cpu().numpy(), "nearest": self.short.nearest_old(rows)}
        return outputs


def steps(learner: Learner, stage: Stage | None = None) -> Iterator[tuple[str, Course, Scored]]:
    """A course, step by step: after each one it has scored what is left, as an adaptation does."""
    course = Course(stage or Stage.of(learner))
    for number, (case, _) in enumerate(STEPS):
        with given(case):
            course.go(number)
            scored = course.short.score(course.rows)
        yield case, course, scored
