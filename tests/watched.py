"""Samples for tests of watching: a new class that appears, is sent to an agent, and is looked at."""

from datetime import timedelta
from typing import Any

import numpy as np

from cual.serve.rules.inbox.records import Arrivals
from cual.serve.rules.watching import proposing
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from serving import Service


def look(workspace: Workspace) -> None:
    """What the web process does every few seconds."""
    proposing.look(workspace.home, workspace.load_agent, workspace.close_inbox, db.now(), timedelta())


def new_class(n: int, seed: int = 0, width: int = 16) -> np.ndarray:
    """Samples of a class that no agent of the tests knows."""
    rng = np.random.default_rng(seed)
    return (np.tile([12.0, -12.0, -12.0, 12.0], width // 4) + rng.normal(0, 3, (n, width))).astype(np.float32)


def send_unlike(
    service: Service, n: int, originals: list[bytes] | None = None, kind: str = "picture", seed: int = 0
) -> None:
    """Let samples of a new class wait in the agent's inbox, as judged by the agent."""
    X = new_class(n, seed)
    agent = service.workspace.load_agent(service.agent)
    scores = agent.novelty(X)
    assert (scores > agent.threshold.value).all()
    given: dict[str, Any] = {} if originals is None else {"kind": kind, "originals": originals}
    arrivals = Arrivals(
        X=X,
        digests=[f"{seed:04x}{row:060x}" for row in range(n)],
        verdicts=["unlike anything known"] * n,
        labels=["cat"] * n,
        scores=[float(score) for score in scores],
        version=0,
        **given,
    )
    service.workspace.send(service.agent, arrivals, service.ann, lambda fates: b"")
