"""Heads: classifiers on frozen features that learn new classes. One protocol, found by name in `heads`."""

from cual.heads.base import Head, Lesson, Progress, Samples, heads
from cual.heads.ccic import CCIC
from cual.heads.linear import Linear
from cual.heads.mlp import MLP
from cual.heads.ridge import Ridge

__all__ = ["CCIC", "MLP", "Head", "Lesson", "Linear", "Progress", "Ridge", "Samples", "heads"]
