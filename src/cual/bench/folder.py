"""A folder of results: its lock, `run.json`, `results.jsonl`, `summary.json` and the agents to go on from.

Layout::

    DIR/run.json        what was run: setting, protocol, features' hash, methods with their packages, versions
    DIR/results.jsonl   one row per finished task, appended and synced
    DIR/summary.json    per method: mean, std and each seed's average accuracy over tasks
    DIR/state/          the agent after the last finished task of each unfinished stream
"""

import contextlib
import json
import os
import platform
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from cual.agent import Agent
from cual.bench import PROTOCOL
from cual.bench.origins import origins
from cual.bench.settings import DEFAULTS, Setting
from cual.errors import BadOption, DamagedFile, ForeignFile
from cual.locks import alone, claim
from cual.storage import write_bytes
from cual.types import Row

FORMAT = 1
NOT_RECORDED = 1
"""The protocol of folders from before its version was written down."""


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
        with alone(self.path / "results.lock"), self.results.open("ab") as file:
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
                {
                    "format": FORMAT,
                    "protocol": PROTOCOL,
                    "setting": config,
                    "features_sha256": features_hash,
                    "methods": origins(setting),
                }
                | surroundings(setting),
            )
            return
        try:
            before = json.loads(file.read_text(encoding="utf-8"))
            there = {
                **DEFAULTS,
                **before["setting"],
                "features_sha256": before["features_sha256"],
                "protocol": before.get("protocol", NOT_RECORDED),
            }
            packages = {method: _others(origin) for method, origin in before.get("methods", {}).items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DamagedFile(f"{file} is damaged ({error}); choose another folder") from error
        here = {**DEFAULTS, **config, "features_sha256": features_hash, "protocol": PROTOCOL}
        for method, origin in origins(setting).items():
            there[f"package of {method}"] = packages.get(method, _others(origin))
            here[f"package of {method}"] = _others(origin)
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

    Where rows tell the accuracy before all tasks, `with_task_0` has the same with that counted as a task, which
    the paper calls t = 0. The version of the protocol is said beside them where every row of the method has it.
    """
    streams: dict[str, dict[int, list[Row]]] = {}
    for row in rows:
        streams.setdefault(row["method"], {}).setdefault(row["seed"], []).append(row)
    summary: Row = {}
    for method, seeds in sorted(streams.items()):
        whole = {str(s): mine for s, mine in sorted(seeds.items()) if len(mine) == expected}
        if whole:
            summary[method] = _over_seeds({s: [r["accuracy"] for r in mine] for s, mine in whole.items()})
            first = {s: accuracies_from_0(mine) for s, mine in whole.items()}
            if all(first.values()):
                summary[method]["with_task_0"] = _over_seeds(first)
            versions = {row.get("protocol") for row in rows if row["method"] == method}
            if len(versions) == 1 and None not in versions:
                summary[method]["protocol"] = versions.pop()
    return summary


def _over_seeds(accuracies: Mapping[str, Sequence[float]]) -> Row:
    means = {seed: float(np.mean(values)) for seed, values in accuracies.items()}
    values = list(means.values())
    std = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "std": std, "seeds": means}


def accuracies_from_0(rows: Sequence[Row]) -> list[float]:
    """Accuracies of a stream from before its tasks (t = 0, first classes alone) on; none if that is not told.

    >>> first = {"accuracy": 0.6, "per_class_before": {"cat": 1.0, "dog": 0.8}}
    >>> accuracies_from_0([first, {"accuracy": 0.5}])
    [0.9, 0.6, 0.5]
    """
    before = [row["per_class_before"] for row in rows if row.get("per_class_before")]
    return [float(np.mean(list(before[0].values()))), *(r["accuracy"] for r in rows)] if before else []


def _others(origin: Row) -> Row:
    """Packages of a method beside cual itself, whose next release goes on with a run of the last one."""
    return {name: version for name, version in origin["packages"].items() if name != "cual"}


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
