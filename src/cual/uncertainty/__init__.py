"""How far samples are from each class, and S⁰, Sⁱ, T_inner, zones. Who to ask is decided elsewhere."""

from cual.registry import import_all
from cual.uncertainty.base import (
    ClassModel,
    DrawsDistances,
    Finder,
    FindsNearest,
    Uncertainty,
    Warns,
    nearest_of,
    uncertainties,
    warn_about,
)
from cual.uncertainty.fre import FRE
from cual.uncertainty.knn import KNN, ClassSamples
from cual.uncertainty.mahalanobis import Mahalanobis
from cual.uncertainty.scores import Threshold, Zone, at_rate, s0, si, t_inner, zones
from cual.uncertainty.subspace import ClassSubspace

import_all(__name__, __path__)

__all__ = [
    "FRE",
    "KNN",
    "ClassModel",
    "ClassSamples",
    "ClassSubspace",
    "DrawsDistances",
    "Finder",
    "FindsNearest",
    "Mahalanobis",
    "Threshold",
    "Uncertainty",
    "Warns",
    "Zone",
    "at_rate",
    "nearest_of",
    "s0",
    "si",
    "t_inner",
    "uncertainties",
    "warn_about",
    "zones",
]
