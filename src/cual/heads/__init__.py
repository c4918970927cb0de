"""Heads: classifiers on frozen features that learn new classes. One protocol, found by name in `heads`."""

from cual.heads.base import (
    TOGETHER,
    Calibrates,
    DrawsLogits,
    DrawsWhitening,
    Head,
    JoinsClasses,
    LearnsOnce,
    Lesson,
    Samples,
    Steps,
    TakesBack,
    TakesUnlabelled,
    Whitens,
    heads,
)
from cual.heads.calibration import likeliest_factor
from cual.heads.ccic import CCIC
from cual.heads.linear import Linear
from cual.heads.mlp import MLP
from cual.heads.ridge import Ridge
from cual.registry import import_all

import_all(__name__, __path__)

__all__ = [
    "CCIC",
    "MLP",
    "TOGETHER",
    "Calibrates",
    "DrawsLogits",
    "DrawsWhitening",
    "Head",
    "JoinsClasses",
    "LearnsOnce",
    "Lesson",
    "Linear",
    "Ridge",
    "Samples",
    "Steps",
    "TakesBack",
    "TakesUnlabelled",
    "Whitens",
    "heads",
    "likeliest_factor",
]
