"""A folder of results: its lock, `run.json`, `results.jsonl`, `summary.json` and the agents to go on from.

Layout::

    DIR/run.json        what was run: setting, features' hash, versions, device
    DIR/results.jsonl   one row per finished task, appended and synced
    DIR/summary.json    per method: mean, std and each seed's average accuracy over tasks
    DIR/state/          the agent after the last finished task of each unfinished stream
"""

import contextlib
import fcntl
import json
import os
import platform
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np
import torch

from cual.agent import Agent
from cual.bench.settings import DEFAULTS, Setting
from cual.errors import BadOption, DamagedFile, ForeignFile
from cual.locks import claim
from cual.storage import write_bytes
from cual.types import Row

FORMAT = 1


class RunFolder:
    """The results of one setting on disk. Open it with `claimed`; worker processes reach it by its path."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.results = self.path / "results.jsonl"

    @contextlib.contextmanager
    def claimed(self, setting: Setting, features_hash: str) -> Generator["RunFolder"]:
        """Hold the folder for one run: a new one, or the same one again.

        The lock is the kernel's and ends with the process that holds it, however that ends.
        """
        lock = claim(self.path / "lock")
        try:
            self._check_or_start(setting, features_hash)
            self._drop_leftovers()
            yield self
        finally:
            lock.release()

    def rows(self) -> list[Row]:
        """All finished tasks so far; a line that a killed run left unfinished is not one."""
        return read_rows(self.results)

    def tasks_done(self, method: str, seed: int) -> int:
        """Finished tasks of one stream."""
        return sum(row["method"] == method and row["seed"] == seed for row in self.rows())

    def finish_task(self, row: Row, last: bool) -> None:
        """Write down a task of a stream. The agent to go on from, unless it was the `last`, is already safe."""
        self.append(row)  # only now is the task done
        task = row["task"]
        self.drop_agents(row["method"], row["seed"], before=task + 1 if last else task)

    def append(self, row: Row) -> None:
        """Add a row for good: once this returns, it survives a crash."""
        line = (json.dumps(row, ensure_ascii=False) + "\n").encode()
        with self.results.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # the rows themselves are locked, so that no second file is needed
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def save_agent(self, agent: Agent, method: str, seed: int, task: int) -> None:
        agent.save(self.agent_file(method, seed, task))

    def load_agent(self, method: str, seed: int, task: int, device: str) -> Agent:
        return Agent.load(self.agent_file(method, seed, task), device=device)

    def drop_agents(self, method: str, seed: int, before: int) -> None:
        """Forget saved agents that no resumed run can need."""
        for task in range(before):
            self.agent_file(method, seed, task).unlink(missing_ok=True)

    def agent_file(self, method: str, seed: int, task: int) -> Path:
        """Where the agent after a task is kept, to go on from."""
        return self.path / "state" / f"{method}-seed{seed}-task{task}.safetensors"

    def write_summary(self, expected: int) -> None:
        """Summarise the streams that have all of their `expected` tasks."""
        write_json(self.path / "summary.json", summarise(self.rows(), expected))

    def _check_or_start(self, setting: Setting, features_hash: str) -> None:
        file = self.path / "run.json"
        config = setting.to_json()
        if not file.exists():
            if self.results.exists():
                raise ForeignFile(f"{self.path} holds results but no run.json; choose another folder")
            write_json(
                file,
                {"format": FORMAT, "setting": config, "features_sha256": features_hash} | surroundings(setting),
            )
            return
        try:
            before = json.loads(file.read_text(encoding="utf-8"))
            there = {**DEFAULTS, **before["setting"], "features_sha256": before["features_sha256"]}
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedFile(f"{file} is damaged ({error}); choose another folder") from error
        here = {**DEFAULTS, **config, "features_sha256": features_hash}
        differing = [k for k in here if there.get(k) != here[k]]
        if differing:
            differences = "; ".join(f"{k} is {there.get(k)!r} there, {here[k]!r} here" for k in differing)
            raise BadOption(
                f"{self.path} holds another run: {differences}. Choose another folder, or delete that one."
            )

    def _drop_leftovers(self) -> None:
        """What a killed run left unfinished: files not yet in their place, and a line cut short."""
        for unfinished in (*self.path.glob(".*"), *(self.path / "state").glob(".*")):
            unfinished.unlink()
        if self.results.exists():
            data = self.results.read_bytes()
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                with self.results.open("r+b") as file:
                    file.truncate(whole)


def read_rows(path: Path) -> list[Row]:
    """Rows of a `results.jsonl`, without a last line that was cut short."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise DamagedFile(f"{path} is damaged: {error}") from error


def summarise(rows: Sequence[Row], expected: int) -> Row:
    """Per method the mean and sample deviation over seeds of the average accuracy over tasks t ≥ 1.

    >>> rows = [{"method": "cual", "seed": s, "accuracy": a} for s, a in [(0, 0.9), (0, 0.7), (1, 1.0)]]
    >>> summarise(rows, expected=2)
    {'cual': {'mean': 0.8, 'std': 0.0, 'seeds': {'0': 0.8}}}
    """
    streams: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        streams.setdefault(row["method"], {}).setdefault(row["seed"], []).append(row["accuracy"])
    summary: Row = {}
    for method, seeds in sorted(streams.items()):
        means = {str(s): float(np.mean(a)) for s, a in sorted(seeds.items()) if len(a) == expected}
        if means:
            values = list(means.values())
            std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            summary[method] = {"mean": float(np.mean(values)), "std": std, "seeds": means}
    return summary


def surroundings(setting: Setting) -> Row:
    """What a run's numbers may depend on beside its setting."""
    from cual import __version__

    cuda = setting.device.startswith("cuda") and torch.cuda.is_available()
    return {
        "versions": {
            "cual": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
        },
        "machine": {
            "device": torch.cuda.get_device_name() if cuda else platform.processor() or platform.machine(),
            "system": platform.platform(),
            "cpus": os.cpu_count(),
        },
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def write_json(path: Path, body: Row) -> None:
    write_bytes(path, (json.dumps(body, ensure_ascii=False, indent=1) + "\n").encode())
