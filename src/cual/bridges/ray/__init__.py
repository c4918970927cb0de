"""cual on a Ray cluster: `embed` on it, `run` streams of the bench, `Scoring` of pools. How to: docs/ray.md.

>>> from cual.bridges.ray import Scoring, connected, encoder_on, embed, run
"""

from cual.bridges.ray.cluster import Cluster, connected
from cual.bridges.ray.embedding import embed, encoder_on
from cual.bridges.ray.scoring import Scoring
from cual.bridges.ray.streams import run

__all__ = ["Cluster", "Scoring", "connected", "embed", "encoder_on", "run"]
