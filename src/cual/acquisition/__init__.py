"""Who to ask: one strategy per name, in whichever file of this folder."""

from cual.acquisition.base import Acquisition, Holdings, PoolView, acquisition, acquisitions
from cual.registry import import_all

import_all(__name__, __path__)

__all__ = ["Acquisition", "Holdings", "PoolView", "acquisition", "acquisitions"]
