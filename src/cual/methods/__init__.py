"""Named compositions of parts, in whichever file of this folder."""

from cual.methods.base import AXES, Method, add, home_of, methods
from cual.registry import import_all

import_all(__name__, __path__)

__all__ = ["AXES", "Method", "add", "home_of", "methods"]
