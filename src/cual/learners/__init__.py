"""A_s, the short-term learner of one adaptation: by novelty (the paper), hesitation (ER), prototypes (cual-plus)."""

from cual.learners.base import (
    Accepted,
    Knowledge,
    Learner,
    ModelsClasses,
    Scored,
    ShortTerm,
    learners,
    long_term_lesson,
)
from cual.learners.hesitation import Hesitation
from cual.learners.novelty import Novelty
from cual.learners.prototypes import Prototypes

__all__ = [
    "Accepted",
    "Hesitation",
    "Knowledge",
    "Learner",
    "ModelsClasses",
    "Novelty",
    "Prototypes",
    "Scored",
    "ShortTerm",
    "learners",
    "long_term_lesson",
]
