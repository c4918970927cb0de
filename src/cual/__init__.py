"""Continual uncertainty-aware active learning: find what is novel, ask about little of it, learn all of it.

>>> from cual import Agent, SKIP
"""

from cual.adaptation import Adaptation, Query
from cual.agent import Agent
from cual.labels import SKIP
from cual.pool import Pool

__version__ = "0.1.0"
__all__ = ["SKIP", "Adaptation", "Agent", "Pool", "Query", "__version__"]
