"""Makes `release-0.2.0`: files of every kind as that release writes them, and what it says of them.

Run once, with the release's own code, unchanged, on the machine that `expected.json.gz` tells of::

    cd tests && OMP_NUM_THREADS=1 PYTHONPATH=../src:. python -m upgrades.make_fixtures

Do not make them again with later code: they are there because people have such files. For the next release,
change `FOLDER`, make a folder of its own, and write down in the tests what was changed on purpose. This file is
of the latest release: `release-0.1.0` was made by the code of commit 408d2db with the maker of commit e209964.
"""

import json
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cual
from cual import SKIP, Adaptation, Agent, Pool
from cual.data.files import read
from cual.data.folder import FeaturesFolder, FeaturesWriter, Made
from upgrades import make_workspace, release
from upgrades.release import answer_all, comparable, plain
from upgrades.samples import Data, animals, digits

FOLDER = release.SECOND
ENCODER = "toy@0123456789ab"
MLP = {"head": {"hidden": 16, "epochs": 8}, "buffer": 40}
RIDGE = {"head": {"expand": 24}, "buffer": 40}
"""With the default, four times the width and 512 at least, a file has megabytes."""
Arrays = dict[str, np.ndarray]
Row = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """An agent to make: on which data, how, and with how many labels it is adapted."""

    data: str
    method: str
    options: Mapping[str, Any]
    budget: float | int
    seed: int = 0
    encoder: str | None = None


KINDS = {
    "cual": Kind("animals", "cual", MLP, 12),
    "cual-plus": Kind("animals", "cual-plus", RIDGE, 0.25, seed=3),
    "cual-plus-digits": Kind(
        "digits",
        "cual-plus",
        {"head": {"expand": 0, "widest": 10, "shrink": 0.3}, "buffer": 30},
        8,
        encoder=ENCODER,
    ),
    "er-entropy-digits": Kind("digits", "er-entropy", {**MLP, "stds": 0.0}, 10),
    "pseudo-er-margin": Kind("animals", "pseudo-er-margin", {**MLP, "stds": 1.0}, 10),
    "ccic": Kind("animals", "ccic", MLP, 12),
    "incdfm": Kind("animals", "incdfm", MLP, 4),
    "linear-mahalanobis-digits": Kind(
        "digits",
        "cual",
        {
            "head": {"name": "linear"},
            "learner": {"uncertainty": {"name": "mahalanobis", "variance": 0.9}},
            "buffer": 30,
        },
        10,
        seed=7,
    ),
    "mlp-knn": Kind(
        "animals",
        "al-top",
        {**MLP, "learner": {"uncertainty": {"name": "knn", "k": 3, "cap": 15}}},
        10,
        seed=1,
        encoder=ENCODER,
    ),
}
"""Every head, every learner and every uncertainty, labels of both types."""


def make_agents(worlds: Mapping[str, Data]) -> tuple[Row, Arrays]:
    """Version 0 and, after an adaptation, version 1 of each kind."""
    said, arrays = {}, {}
    for name, kind in KINDS.items():
        data = worlds[kind.data]
        options = {"seed": kind.seed, "encoder": kind.encoder, **kind.options}
        agent = Agent.fit(data.X, data.y, method=kind.method, **options)
        task = agent.adapt(data.pools[0], kind.budget, ids=data.ids[0])
        after = answer_all(task, data.truth(0)).finish()
        assert task.labels_used or agent.method.learner.unnamed, f"{name} has asked nothing"
        said[name] = {"made": plain(kind), "versions": []}
        for version in (agent, after):
            version.save(FOLDER / "agents" / f"{name}-v{version.version}.agent")
            said[name]["versions"].append(release.said_of_agent(version))
            arrays |= named(f"agents.{name}.{version.version}", release.all_outputs(version, data.probe))
    return said, arrays


def named(name: str, arrays: Arrays) -> Arrays:
    return {f"{name}.{key}": array for key, array in arrays.items()}


def make_repaired(data: Data) -> tuple[Row, Arrays]:
    """An agent that was taught and put right in every way, and what comes of going on with it."""
    agent = Agent.fit(data.X, data.y, method="cual-plus", **{**RIDGE, "buffer": 400})
    repaired = release.repaired(agent, data.pools[0], data.labels[0])
    repaired.save(FOLDER / "agents" / "repaired.agent")
    after = release.taught_on(repaired, data.pools[1], data.labels[1])
    arrays = named("repaired.before", release.all_outputs(repaired, data.probe))
    arrays |= named("repaired.after", release.all_outputs(after, data.probe))
    return {"before": release.learned(repaired), "after": release.learned(after)}, arrays


# -- adaptations -----------------------------------------------------------------------------------------------


def in_the_middle(task: Adaptation, truth: Mapping[Any, Any], wrong: Any) -> None:
    """Skips, a correction, labels that were there already, verdicts, and a question that is half answered."""
    query = task.ask()
    assert query is not None
    first, second, *rest = query.ids
    task.tell(query.id, {first: SKIP, second: wrong}, person="bob")
    task.tell(query.id, {sample: truth[sample] for sample in rest})
    query = task.ask()
    assert query is not None
    task.tell(query.id, {sample: truth[sample] for sample in query.ids})
    unasked = [sample for sample in task.pool.ids if sample not in task.answers][-2:]
    task.volunteer({sample: truth[sample] for sample in unasked})
    task.tell("q0", {second: truth[second]})  # thought better of it, a round later
    if task.pseudo_labels:
        some = list(task.pseudo_labels)
        task.reject(some[:2])
        task.confirm(some[2:4])
    query = task.ask()
    assert query is not None, "too little was to be asked"
    task.tell(query.id, {query.ids[0]: truth[query.ids[0]]})
    assert task.ask() is not None, "something is still open"


def over(task: Adaptation, truth: Mapping[Any, Any]) -> None:
    """Nothing left to do but to finish; some pseudo-labels were looked at, and one was named anew."""
    some = list(answer_all(task, truth).pseudo_labels)
    if len(some) > 5:
        task.reject(some[1:3])
        task.confirm(some[3:5])
        task.correct({some[5]: truth[some[5]]})


def extended(task: Adaptation, truth: Mapping[Any, Any]) -> None:
    """The questions had ended; then somebody allowed more."""
    answer_all(task, truth)
    task.raise_budget(task.budget + 4, person="ann")
    task.ask()


def stopped(task: Adaptation, truth: Mapping[Any, Any]) -> None:
    """Somebody has had enough in the middle of a round, and the learner has not gone on yet."""
    query = task.ask()
    assert query is not None
    task.tell(query.id, {sample: truth[sample] for sample in query.ids})
    query = task.ask()
    assert query is not None
    task.tell(query.id, {query.ids[0]: truth[query.ids[0]]})
    task.stop()


def begun(task: Adaptation, truth: Mapping[Any, Any]) -> None:
    """Asked, and nothing told."""
    task.ask()


Left = Callable[[Adaptation, Mapping[Any, Any]], None]
PLANS: dict[str, tuple[str, int, float | int, str, Left]] = {
    "cual-in-the-middle": ("cual", 1, 24, "animals", lambda t, y: in_the_middle(t, y, "dgo")),
    "cual-plus-in-the-middle": ("cual-plus", 1, 20, "animals", lambda t, y: in_the_middle(t, y, "Owl")),
    "cual-over": ("cual", 1, 12, "animals", over),
    "cual-plus-over": ("cual-plus-digits", 1, 8, "digits", over),
    "cual-plus-extended": ("cual-plus-digits", 1, 6, "digits", extended),
    "cual-stopped": ("linear-mahalanobis-digits", 1, 12, "digits", stopped),
    "cual-begun": ("mlp-knn", 0, 0.3, "animals", begun),
    "cual-untouched": ("cual", 0, 6, "animals", lambda t, y: None),
    "er-entropy-in-the-middle": ("er-entropy-digits", 1, 20, "digits", lambda t, y: in_the_middle(t, y, 4)),
    "ccic-begun": ("ccic", 1, 8, "animals", begun),
    "incdfm-over": ("incdfm", 0, 4, "animals", over),
    "cual-plus-on-a-folder": ("cual-plus", 0, 8, "folder", begun),
}


def make_adaptations(worlds: Mapping[str, Data]) -> tuple[Row, Arrays]:
    """Adaptations as they are left between two runs of a program."""
    said, arrays = {}, {}
    for name, (agent, version, budget, where, leave) in PLANS.items():
        data = worlds["animals" if where == "folder" else where]
        before = Agent.load(FOLDER / "agents" / f"{agent}-v{version}.agent")
        pool = Pool(data.pools[version], data.ids[version], before.encoder)
        if where == "folder":
            features = FeaturesFolder.open(FOLDER / "features")
            pool = Pool(features.X, features.ids)
        truth = data.truth(version)
        task = before.adapt(pool, budget)
        leave(task, truth)
        folder = FOLDER / "adaptations" / name
        task.save(folder)
        came, after = release.finished(Adaptation.load(folder), truth)
        said[name] = {
            "truth": [[sample, truth[sample]] for sample in pool.ids],
            "data": "animals" if where == "folder" else where,
            "saved": release.saved(Adaptation.load(folder)),
            "finished": came,
        }
        arrays |= named(f"adaptations.{name}", release.all_outputs(after, data.probe))
    return said, arrays


# -- features --------------------------------------------------------------------------------------------------


def make_features(data: Data) -> tuple[Row, Arrays]:
    """A features folder of three shards, in which a row was replaced, and a pool's file."""
    path, X, ids, labels = FOLDER / "features", data.pools[0], data.ids[0], data.labels[0]
    with FeaturesWriter(path, 16, made=Made(None, {"size": 4}), shard_rows=20) as writer:
        sources, stamps = [f"/photos/{name}" for name in ids], [f"{i} bytes" for i in range(len(ids))]
        writer.append(X[1:], ids[1:], labels[1:], sources[1:], stamps[1:])
        writer.append(X[:1] + 1, ids[:1], labels[:1], sources[:1])
        writer.append(X[:1], ids[:1], labels[:1], sources[:1], stamps[:1], replace=True)
    (path / "lock").unlink(missing_ok=True)  # whoever writes next makes it
    folder, features = FeaturesFolder.open(path), read(path)
    said = {name: list(getattr(folder, name)) for name in ("ids", "labels", "sources", "stamps")}
    said |= {"encoder": features.encoder, "sha256": features.sha256()}
    Pool(data.pools[1].astype(np.float16), data.ids[1], ENCODER).save(FOLDER / "pool.safetensors")
    pool = Pool.load(FOLDER / "pool.safetensors")
    arrays = {"features": folder.X[:], "pool": pool.take(np.arange(len(pool))).numpy()}
    return plain({"folder": said, "pool": {"ids": list(pool.ids), "encoder": pool.encoder}}), arrays


# -- the bench -------------------------------------------------------------------------------------------------


def make_rows() -> list[Row]:
    """What `cual bench run` writes of the digits with the default method, on the protocol of `cual demo`."""
    with tempfile.TemporaryDirectory() as name:
        command = [*release.CUAL, "bench", "run", *release.PROTOCOL]
        subprocess.run([*command, "--methods", "cual-plus", "--seeds", "0", "--out", name], check=True)
        rows = [json.loads(line) for line in (Path(name) / "results.jsonl").read_text().splitlines()]
    return comparable(rows)


def source() -> str:
    """The commit whose code this is, which must be unchanged."""
    folder = Path(cual.__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    if git("status", "--porcelain", "--", "."):
        sys.exit(f"{folder} has changes that no commit has: {__doc__}")
    return git("rev-parse", "HEAD")


def main() -> None:
    commit = source()
    torch.set_num_threads(1)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    worlds = {"animals": animals(), "digits": digits()}
    said: Row = {
        "release": cual.__version__,
        "commit": commit,
        "machine": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "arithmetic": release.arithmetic(),
        },
    }
    said["features"], arrays = make_features(worlds["animals"])
    said["agents"], found = make_agents(worlds)
    arrays |= found
    said["repaired"], found = make_repaired(worlds["animals"])
    arrays |= found
    said["adaptations"], found = make_adaptations(worlds)
    arrays |= found
    said["workspace"] = make_workspace.make(FOLDER, worlds)
    said["rows"] = make_rows()
    for name, data in worlds.items():
        arrays |= data.arrays(f"data.{name}")
    release.write_expected(FOLDER, said, arrays)


if __name__ == "__main__":
    main()
