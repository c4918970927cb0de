"""Continual uncertainty-aware active learning: find what is novel, ask about little of it, learn all of it.

>>> from cual import Agent, SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cual.agent import Agent
    from cual.client import Client
    from cual.data.labels import SKIP
    from cual.data.pool import Pool
    from cual.loop.adaptation import Adaptation, Query

__version__ = "0.2.0"
__all__ = ["SKIP", "Adaptation", "Agent", "Client", "Pool", "Query", "__version__"]

_HOME = {
    "SKIP": "cual.data.labels",
    "Adaptation": "cual.loop.adaptation",
    "Agent": "cual.agent",
    "Client": "cual.client",
    "Pool": "cual.data.pool",
    "Query": "cual.loop.adaptation",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: `import cual` does not wait for torch."""
    if name not in _HOME:
        raise AttributeError(f"module 'cual' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
