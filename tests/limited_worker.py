"""One pool or agent made of a file, by a worker that ends when it takes much more memory than at its start.

Arguments: FOLDER FILE KIND MIB, where FOLDER lies above FILE, KIND is pool or agent. Prints its state and what
is said of it. What is mapped from a file does not count: a system takes that memory back when it needs it.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

from cual import Agent
from cual.serve.jobs.worker import work_until_idle
from cual.serve.rules.records import OPERATOR
from cual.serve.rules.workspace import Workspace

WIDTH = 64


def own_memory() -> int:
    """Bytes in memory that no file has."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0]) * 1024


def watch(most: int) -> None:
    while own_memory() < most:
        time.sleep(0.005)
    os.write(2, b"it takes too much memory\n")
    os._exit(9)


def main(folder: str, file: str, kind: str, mib: str) -> None:
    workspace = Workspace.open(Path(folder) / "workspace", roots=[folder])
    X = np.random.default_rng(0).normal(size=(60, WIDTH)) + np.repeat([[0], [9]], 30, axis=0)
    agent = workspace.add_agent("two", Agent.fit(X, ["a"] * 30 + ["b"] * 30), OPERATOR)
    work_until_idle(workspace)
    most = own_memory() + int(mib) * 2**20
    threading.Thread(target=watch, args=(most,), daemon=True).start()
    if kind == "pool":
        made = workspace.add_pool("sent", Path(file), agent.id, OPERATOR)
    else:
        made = workspace.make_agent("sent", Path(file), OPERATOR)
    work_until_idle(workspace)
    record = workspace.pool(made.id) if kind == "pool" else workspace.agent(made.id)
    print(json.dumps([record.state, record.error]))


if __name__ == "__main__":
    main(*sys.argv[1:])
