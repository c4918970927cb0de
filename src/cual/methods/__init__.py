"""Named compositions of the axes."""

from cual.methods import ablations, cual, er, oracle, pseudo_er
from cual.methods.base import SCORES, Method, add, methods

__all__ = ["SCORES", "Method", "ablations", "add", "cual", "er", "methods", "oracle", "pseudo_er"]
