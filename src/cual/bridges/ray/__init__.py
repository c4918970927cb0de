"""cual on a Ray cluster: `embed` by its workers, `run` streams of the bench on it. How to is in docs/ray.md.

>>> from cual.bridges.ray import connected, encoder_on, embed, run
"""

from cual.bridges.ray.cluster import Cluster, connected
from cual.bridges.ray.embedding import embed, encoder_on
from cual.bridges.ray.streams import run

__all__ = ["Cluster", "connected", "embed", "encoder_on", "run"]
