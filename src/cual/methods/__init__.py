"""Named compositions of the axes."""

from cual.methods import ablations, ccic, cual, cual_plus, er, incdfm, oracle, pseudo_er
from cual.methods.base import AXES, Method, add, methods

__all__ = [
    "AXES",
    "Method",
    "ablations",
    "add",
    "ccic",
    "cual",
    "cual_plus",
    "er",
    "incdfm",
    "methods",
    "oracle",
    "pseudo_er",
]
