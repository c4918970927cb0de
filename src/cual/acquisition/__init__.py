"""Who to ask: one strategy per name."""

from cual.acquisition import ambiguous, chance, classifier, diverse, top
from cual.acquisition.base import Acquisition, PoolView, acquisition, acquisitions

__all__ = [
    "Acquisition",
    "PoolView",
    "acquisition",
    "acquisitions",
    "ambiguous",
    "chance",
    "classifier",
    "diverse",
    "top",
]
