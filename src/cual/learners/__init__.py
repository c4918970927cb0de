"""A_s, the short-term learner of one adaptation: the paper's, that of the ER baselines, and cual-plus's."""

from cual.learners.base import (
    Accepted,
    Detector,
    DrawsNovelty,
    Knowledge,
    Learner,
    LooksFirst,
    ModelsClasses,
    Remembers,
    Scored,
    SeesDrift,
    SeesTogether,
    ShortTerm,
    TellsInShort,
    TellsMargins,
    in_lessons,
    learners,
    long_term_lesson,
)
from cual.learners.hesitation import Hesitation
from cual.learners.novelty import Novelty
from cual.learners.prototypes import Prototypes
from cual.registry import import_all

import_all(__name__, __path__)

__all__ = [
    "Accepted",
    "Detector",
    "DrawsNovelty",
    "Hesitation",
    "Knowledge",
    "Learner",
    "LooksFirst",
    "ModelsClasses",
    "Novelty",
    "Prototypes",
    "Remembers",
    "Scored",
    "SeesDrift",
    "SeesTogether",
    "ShortTerm",
    "TellsInShort",
    "TellsMargins",
    "in_lessons",
    "learners",
    "long_term_lesson",
]
