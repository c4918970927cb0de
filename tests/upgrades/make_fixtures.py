"""Makes `release-0.1.0`: files of every kind as that release writes them, and what it says of them.

Made by commit 408d2db, with the release's own code, on the machine that `expected.json.gz` tells of::

    git worktree add /tmp/release-0.1.0 408d2db
    git worktree add /tmp/maker e209964  # this file with the imports of the release, which have moved since
    cd /tmp/maker/tests
    OMP_NUM_THREADS=1 PYTHONPATH=/tmp/release-0.1.0/src:. python -m upgrades.make_fixtures

Do not make them again with later code: they are there because people have such files. For another release, make
a folder of its own beside this one. The digits' rows are `cual bench run` on the protocol of `cual demo`.
"""

import gzip
import io
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
import torch
from sklearn.datasets import load_digits

import cual
import postgres_server
from cual import SKIP, Adaptation, Agent, Pool
from cual.data.files import read
from cual.data.folder import FeaturesFolder, FeaturesWriter, Made
from cual.methods import methods
from cual.serve.jobs.worker import work_until_idle
from cual.serve.rules import jobs
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.records import Person, Role
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from cual.serve.web.security.middleware import cookie_names
from upgrades import release
from upgrades.release import FOLDER, answer_all, comparable, outputs, plain

CUAL = (sys.executable, "-c", "from cual.cli import app; app()")
COMMIT = "408d2db"
"""Release 0.1.0."""
ENCODER = "toy@0123456789ab"
FAR = datetime(2100, 1, 1, tzinfo=UTC)
"""Until when the workspace's tokens, sessions and lent questions live: the tests shall never find them dead."""
SMALL = {"head_options": {"hidden": 16, "epochs": 8}, "buffer": 40}
RIDGE = {"head_options": {"expand": 24}, "buffer": 40}
"""With the default, four times the width and 512 at least, a file has megabytes; the digits' rows have that."""
FEW = {"uncertainty_options": {"variance": 0.9}, "buffer": 30}
"""For the digits: with more of the variance, FRE keeps all sixteen dimensions and means nothing."""
MAIN, SEEDS = ("cual", "cual-plus"), "0,1,2"


@dataclass(frozen=True)
class Data:
    """Samples of the first classes, two pools with their true labels, and rows to predict."""

    X: np.ndarray
    y: np.ndarray
    pools: tuple[np.ndarray, np.ndarray]
    ids: tuple[list[Any], list[Any]]
    labels: tuple[list[Any], list[Any]]
    probe: np.ndarray

    def truth(self, pool: int) -> dict[Any, Any]:
        return dict(zip(self.ids[pool], self.labels[pool], strict=True))

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        held = {"X": self.X, "y": self.y, "probe": self.probe}
        for pool in (0, 1):
            held |= {f"pool{pool}": self.pools[pool], f"ids{pool}": np.array(self.ids[pool])}
            held[f"labels{pool}"] = np.array(self.labels[pool])
        return {f"{name}.{key}": array for key, array in held.items()}


def animals() -> Data:
    """Flat Gaussian classes in sixteen dimensions, with names; float32."""
    rng = np.random.default_rng(408)
    names = ("cat", "dog", "owl", "Füchsin mit Schal", "Łabędź")
    centres = {name: rng.normal(0, 2, 16) for name in names}
    planes = {name: rng.normal(0, 1, (4, 16)) for name in names}

    def draw(counts: Mapping[str, int]) -> tuple[np.ndarray, list[str]]:
        rows = [
            centres[name] + rng.normal(0, 1, (n, 4)) @ planes[name] + rng.normal(0, 0.1, (n, 16))
            for name, n in counts.items()
        ]
        labels = [name for name, n in counts.items() for _ in range(n)]
        order = rng.permutation(len(labels))
        return np.concatenate(rows)[order].astype(np.float32), [labels[i] for i in order]

    X, y = draw({"cat": 24, "dog": 24})
    pools = (
        draw({"cat": 13, "dog": 13, "owl": 11, names[3]: 11}),
        draw({"cat": 8, "dog": 8, "owl": 8, names[4]: 16}),
    )
    ids = tuple(
        [f"{place}/img_{i:03}.jpg" for i in range(len(pool[1]))]
        for place, pool in zip("ab", pools, strict=True)
    )
    probe, _ = draw(dict.fromkeys(names, 4))
    return Data(X, np.array(y), tuple(p[0] for p in pools), ids, tuple(p[1] for p in pools), probe)


def digits() -> Data:
    """Scikit-learn's digits at 4 × 4 pixels, with numbers for labels and for ids; pools are float16."""
    held: Any = load_digits()
    X, y = held.images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16) / 16, held.target
    X = X.astype(np.float32)
    rng = np.random.default_rng(408)
    left = {c: list(rng.permutation(np.flatnonzero(y == c))) for c in range(6)}

    def draw(counts: Mapping[int, int]) -> np.ndarray:
        return rng.permutation([left[c].pop() for c, n in counts.items() for _ in range(n)])

    first = draw({0: 20, 1: 20, 2: 20})
    pools = draw({0: 8, 1: 8, 2: 8, 3: 12, 4: 12}), draw({0: 7, 1: 7, 2: 7, 3: 7, 5: 14})
    probe = draw(dict.fromkeys(range(6), 3))
    return Data(
        X[first],
        y[first],
        tuple(X[rows].astype(np.float16) for rows in pools),
        tuple(rows.tolist() for rows in pools),
        tuple(y[rows].tolist() for rows in pools),
        X[probe],
    )


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
    "cual": Kind("animals", "cual", SMALL, 12),
    "cual-plus": Kind("animals", "cual-plus", RIDGE, 0.25, seed=3),
    "cual-plus-digits": Kind("digits", "cual-plus", {"head_options": {"widest": 10, "shrink": 0.3}, **FEW}, 8),
    "er-entropy-digits": Kind("digits", "er-entropy", {**SMALL, "stds": 0.0}, 10),
    "pseudo-er-margin": Kind("animals", "pseudo-er-margin", {**SMALL, "stds": 1.0}, 10),
    "ccic": Kind("animals", "ccic", SMALL, 12),
    "incdfm": Kind("animals", "incdfm", SMALL, 4),
    "oracle": Kind("animals", "oracle", SMALL, 1),
    "linear-mahalanobis-digits": Kind(
        "digits",
        "cual",
        {"head": "linear", "uncertainty": "mahalanobis", **FEW},
        10,
        seed=7,
    ),
    "mlp-knn": Kind(
        "animals",
        "al-top",
        {**SMALL, "uncertainty": "knn", "uncertainty_options": {"k": 3, "cap": 15}},
        10,
        1,
        ENCODER,
    ),
}
"""Every head and every uncertainty, labels of both types. Of so few held-out samples T_inner lies far out."""


def make_agents(worlds: Mapping[str, Data]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Version 0 and, after an adaptation, version 1 of each kind."""
    said, arrays = {}, {}
    for name, kind in KINDS.items():
        data = worlds[kind.data]
        agent = Agent.fit(
            data.X, data.y, method=kind.method, seed=kind.seed, encoder=kind.encoder, **kind.options
        )
        task = agent.adapt(data.pools[0], kind.budget, ids=data.ids[0])
        after = answer_all(task, data.truth(0)).finish()
        assert task.labels_used or agent.method.unnamed, f"{name} has asked nothing"
        said[name] = {"made": plain(kind), "versions": []}
        for held in (agent, after):
            held.save(FOLDER / "agents" / f"{name}-v{held.version}.agent")
            said[name]["versions"].append(release.said_of_agent(held))
            found = outputs(held, data.probe)
            arrays |= {f"agents.{name}.{held.version}.{key}": array for key, array in found.items()}
    return said, arrays


# -- adaptations -----------------------------------------------------------------------------------------------


def in_the_middle(task: Adaptation, truth: Mapping[Any, Any], wrong: Any) -> None:
    """Skips, a correction, verdicts where there are pseudo-labels, and a question that is half answered."""
    query = task.ask()
    first, second, *rest = query.ids
    task.tell(query.id, {first: SKIP, second: wrong})
    task.tell(query.id, {sample: truth[sample] for sample in rest})
    for _ in range(2):
        query = task.ask()
        assert query is not None
        task.tell(query.id, {sample: truth[sample] for sample in query.ids})
    task.tell("q0", {second: truth[second]})  # thought better of it, two rounds later
    query = task.ask()
    assert query is not None
    if task.pseudo_labels:
        some = list(task.pseudo_labels)
        task.reject(some[:2])
        task.confirm(some[2:4])
    task.tell(query.id, {query.ids[0]: truth[query.ids[0]]})
    assert task.ask() is not None, "something is still open"


def over(task: Adaptation, truth: Mapping[Any, Any]) -> None:
    """Nothing left to do but to finish; some pseudo-labels were looked at."""
    some = list(answer_all(task, truth).pseudo_labels)
    if some:
        task.reject(some[1:3])
        task.confirm(some[3:5])


def stopped(task: Adaptation, truth: Mapping[Any, Any]) -> None:
    """Somebody has had enough in the middle of a round, and the learner has not gone on yet."""
    query = task.ask()
    task.tell(query.id, {sample: truth[sample] for sample in query.ids})
    query = task.ask()
    assert query is not None
    task.tell(query.id, {query.ids[0]: truth[query.ids[0]]})
    task.stop()


def begun(task: Adaptation, truth: Mapping[Any, Any]) -> None:
    """Asked, and nothing told."""
    task.ask()


def make_adaptations(worlds: Mapping[str, Data]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Adaptations as they are left between two runs of a program."""
    plans = {
        "cual-in-the-middle": ("cual", 1, 24, "animals", lambda t, y: in_the_middle(t, y, "dgo")),
        "cual-plus-in-the-middle": ("cual-plus", 1, 20, "animals", lambda t, y: in_the_middle(t, y, "Owl")),
        "cual-over": ("cual", 1, 12, "animals", over),
        "cual-plus-over": ("cual-plus-digits", 1, 8, "digits", over),
        "cual-stopped": ("linear-mahalanobis-digits", 1, 12, "digits", stopped),
        "cual-plus-stopped": ("cual-plus-digits", 1, 12, "digits", stopped),
        "cual-begun": ("mlp-knn", 0, 0.3, "animals", begun),
        "cual-untouched": ("cual", 0, 6, "animals", lambda t, y: None),
        "er-entropy-in-the-middle": ("er-entropy-digits", 1, 20, "digits", lambda t, y: in_the_middle(t, y, 4)),
        "pseudo-er-margin-in-the-middle": (
            *("pseudo-er-margin", 1, 24, "animals"),
            lambda t, y: in_the_middle(t, y, "cat"),
        ),
        "ccic-begun": ("ccic", 1, 8, "animals", begun),
        "incdfm-over": ("incdfm", 0, 4, "animals", over),
        "cual-plus-on-a-folder": ("cual-plus", 0, 8, "folder", begun),
    }
    said, arrays = {}, {}
    for name, (agent, version, budget, where, until) in plans.items():
        data = worlds["animals" if where == "folder" else where]
        before = Agent.load(FOLDER / "agents" / f"{agent}-v{version}.agent")
        if where == "folder":
            held = FeaturesFolder.open(FOLDER / "features")
            pool, truth = Pool(held.X, held.ids), data.truth(0)
        else:
            pool, truth = Pool(data.pools[version], data.ids[version]), data.truth(version)
        task = before.adapt(pool, budget)
        until(task, truth)
        folder = FOLDER / "adaptations" / name
        task.save(folder)
        came, after = release.finished(Adaptation.load(folder), truth)
        said[name] = {
            "truth": [[sample, truth[sample]] for sample in pool.ids],
            "data": "animals" if where == "folder" else where,
            "saved": release.saved(Adaptation.load(folder)),
            "finished": came,
        }
        arrays |= {f"adaptations.{name}.{key}": v for key, v in outputs(after, data.probe).items()}
    return said, arrays


# -- features --------------------------------------------------------------------------------------------------


def make_features(data: Data) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A features folder of three shards, in which a row was replaced, and a pool's file."""
    path, X, ids, labels = FOLDER / "features", data.pools[0], data.ids[0], data.labels[0]
    with FeaturesWriter(path, 16, made=Made(ENCODER, {"size": 4}), shard_rows=20) as writer:
        sources, stamps = [f"/photos/{name}" for name in ids], [f"{i} bytes" for i in range(len(ids))]
        writer.append(X[1:], ids[1:], labels[1:], sources[1:], stamps[1:])
        writer.append(X[:1] + 1, ids[:1], labels[:1], sources[:1])
        writer.append(X[:1], ids[:1], labels[:1], sources[:1], stamps[:1], replace=True)
    (path / "lock").unlink()  # whoever writes next makes it
    held = FeaturesFolder.open(path)
    said = {name: getattr(held, name) for name in ("ids", "labels", "sources", "stamps")}
    features = read(path)
    said |= {
        "encoder": features.encoder,
        "sha256": features.sha256(),
        "shards": [s.rows for s in held.manifest.shards],
    }
    Pool(data.pools[1].astype(np.float16), data.ids[1]).save(FOLDER / "pool.safetensors")
    pool = Pool.load(FOLDER / "pool.safetensors")
    arrays = {"features": held.X[:], "pool": pool.take(np.arange(len(pool))).numpy()}
    return plain({"folder": said, "pool": {"ids": list(pool.ids), "encoder": pool.encoder}}), arrays


# -- the service -----------------------------------------------------------------------------------------------


def make_people(workspace: Workspace) -> tuple[dict[str, Person], dict[str, Any]]:
    """Everybody, and the secrets that they hold."""
    accounts = Accounts(workspace.database)
    roles = {"ann": Role.admin, "bob": Role.annotator, "cleo": Role.annotator, "eve": Role.reader}
    people = {name: accounts.add_person(name, role) for name, role in {**roles, "Zoë": Role.annotator}.items()}
    secrets = {name: accounts.new_token(people[name].id, "api", note=f"of {name}")[1] for name in people}
    accounts.change_person(people["Zoë"].id, active=False)
    accounts.revoke(people["cleo"].id, accounts.tokens(people["cleo"].id)[0].id)
    invited = accounts.new_token(people["eve"].id, "sign-in")[1]
    _, session = accounts.sign_in(accounts.new_token(people["bob"].id, "sign-in")[1])
    said = {
        "people": accounts.people(),
        "tokens": secrets,
        "invited": {"eve": invited},
        "cookies": {"bob": [cookie_names(workspace.home.id)[0], session]},
    }
    return {name: Person(p.id, p.name, p.role) for name, p in people.items()}, plain(said)


def make_workspace(
    folder: Path, worlds: Mapping[str, Data]
) -> tuple[dict[str, Any], dict[int, dict[Any, Any]]]:
    """A workspace in the middle of much. What nobody has worked off yet comes last."""
    roots = folder.parent / "data"
    roots.mkdir()
    w = Workspace.open(folder, roots=[roots])
    people, said = make_people(w)
    ann, bob, cleo = people["ann"], people["bob"], people["cleo"]
    beasts, numbers = worlds["animals"], worlds["digits"]
    rng = np.random.default_rng(0)

    one = w.add_agent("animals", Agent.fit(beasts.X, beasts.y, method="cual", iterations=5, **SMALL)).id
    two = w.add_agent("numbers", Agent.fit(numbers.X, numbers.y, method="cual-plus", **{**RIDGE, **FEW})).id
    pictures = rng.integers(0, 256, (len(beasts.pools[0]), 4, 4), dtype=np.uint8)
    garden = w.add_pool("garden", Pool(beasts.pools[0], beasts.ids[0]), one, pictures=pictures).id
    texts = [f"“{name}”, seen in the wood" for name in beasts.ids[1]]
    wood = w.add_pool("wood", Pool(beasts.pools[1], beasts.ids[1]), one, texts=texts).id
    scans = w.add_pool("scans", Pool(numbers.pools[0], numbers.ids[0]), two).id
    np.savez(roots / "narrow.npz", X=np.zeros((5, 3), np.float32))
    failed = w.add_pool("narrow", roots / "narrow.npz", one).id
    with FeaturesWriter(roots / "more.features", 16, shard_rows=30) as writer:
        writer.append(numbers.pools[1], numbers.ids[1])
    more = w.add_pool("more", roots / "more.features", two).id
    work_until_idle(w)
    assert [w.pool(p).state for p in (garden, wood, scans, failed, more)] == [*["ready"] * 3, "failed", "ready"]
    truths = {garden: beasts.truth(0), wood: beasts.truth(1), scans: numbers.truth(0), more: numbers.truth(1)}

    def right(task: int, questions: Sequence[Any]) -> dict[int, Any]:
        truth = truths[w.adaptation(task).pool]
        return {question.id: truth[question.sample] for question in questions}

    def answer_round(task: int) -> None:
        """Two people share the work."""
        w.answer(task, bob, right(task, w.lend(task, bob, 2)))
        w.answer(task, ann, right(task, w.lend(task, ann, 1000)))
        work_until_idle(w)

    ended = w.start(one, garden, 12, ann).id
    work_until_idle(w)
    while w.adaptation(ended).state == "asking":
        answer_round(ended)
    doubtful = [row["row"] for row in w.pseudo_labels(ended)]
    w.review(ended, bob, {doubtful[0]: "reject", doubtful[1]: "confirm"})
    w.finish(ended)
    work_until_idle(w)
    assert w.agent(one).version == 1

    middle = w.start(one, wood, 24, ann).id
    work_until_idle(w)
    first, second, third, fourth, *rest = w.lend(middle, bob, 1000)
    w.answer(middle, bob, {first.id: "lynx"})
    assert w.undo(middle, bob).id == first.id
    w.answer(middle, bob, {first.id: SKIP, second.id: "dog", **right(middle, [third, fourth])})
    w.answer(
        middle, cleo, {second.id: "owl", third.id: "cat" if truths[wood][third.sample] != "cat" else "dog"}
    )
    w.settle(second.id, ann, truths[wood][second.sample])
    w.answer(middle, bob, {**right(middle, rest), rest[0].id: "dgo"})
    work_until_idle(w)
    w.answer(middle, bob, right(middle, rest[:1]))  # a correction of what the learner has used
    while len(w.pseudo_labels(middle)) < 3:
        answer_round(middle)
    believed = [row["row"] for row in w.pseudo_labels(middle)]
    w.review(middle, cleo, {believed[0]: "reject", believed[1]: "reject", believed[2]: "confirm"})
    w.review(middle, ann, {believed[1]: "confirm"})
    asked = w.questions(middle, answered=False)
    assert len(asked) > 2, "too little is open"
    w.answer(middle, ann, right(middle, asked[:1]))
    w.lend(middle, bob, 1)
    w.give_back(middle, cleo, [w.lend(middle, cleo, 1)[0].id])
    assert w.questions(middle, disagreement=True)

    looked_at = w.start(two, scans, 8, ann).id
    work_until_idle(w)
    while w.adaptation(looked_at).state == "asking":
        answer_round(looked_at)
    doubtful = [row["row"] for row in w.pseudo_labels(looked_at)]
    w.review(looked_at, ann, {doubtful[0]: "reject", doubtful[1]: "reject", doubtful[2]: "confirm"})

    dropped = w.start(one, garden, 6, ann).id
    work_until_idle(w)
    w.answer(dropped, bob, right(dropped, w.lend(dropped, bob, 1)))
    w.drop(dropped)

    left, answered = w.start(one, garden, 8, ann).id, w.start(two, more, 8, ann).id
    work_until_idle(w)
    w.answer(left, ann, right(left, w.lend(left, ann, 1)))
    w.stop(left)
    assert jobs.claim(w.home, "elsewhere 1 1") is not None  # by a worker that is gone
    w.answer(answered, ann, right(answered, w.lend(answered, ann, 1000)))
    w.add_pool("later", Pool(beasts.pools[0][:9], beasts.ids[0][:9]), one)
    with w.database.writing() as c:
        for table in (db.tokens, db.sessions):
            c.execute(sa.update(table).values(expires_at=FAR))
        c.execute(sa.update(db.sessions).values(seen_at=FAR))
        lent = db.questions.c.lent_to.is_not(None)
        c.execute(sa.update(db.questions).where(lent).values(lent_until=FAR))
        running = db.jobs.c.state == "running"
        c.execute(sa.update(db.jobs).where(running).values(heartbeat=datetime(2026, 1, 1, tzinfo=UTC)))
    states = [w.adaptation(task).state for task in (ended, middle, looked_at, dropped, left, answered)]
    assert states == ["finished", "asking", "review", "dropped", "thinking", "thinking"]
    said |= {"opened": release.opened(w), "jobs": release.said_of_jobs(w)}
    said |= {"text": w.text(wood, 3), "picture": list(w.picture(garden, 3).read_bytes())}
    w.close()
    return said, truths


def dump(backup: Path, folder: Path, sqlite: Path) -> str:
    """The same workspace on PostgreSQL, as SQL: the release restores its own backup there."""
    with postgres_server.server() as server:
        url = postgres_server.new_database(server)
        w = Workspace.restore(backup, folder, url)
        with sa.create_engine(f"sqlite:///{sqlite}").connect() as source, w.database.writing() as c:
            # A backup has no sessions and nothing half done; a database that is upgraded does.
            for row in source.execute(sa.select(db.sessions)).mappings().all():
                c.execute(sa.insert(db.sessions).values(**{k: v for k, v in row.items() if k != "id"}))
            for row in source.execute(sa.select(db.jobs).where(db.jobs.c.state == "running")).all():
                wanted = sa.update(db.jobs).where(db.jobs.c.id == row.id)
                c.execute(wanted.values(state="running", worker=row.worker, heartbeat=row.heartbeat))
        w.close()
        binary = postgres_server.newest()
        assert binary is not None
        options = ("--inserts", "--no-owner", "--no-privileges", "--no-comments")
        done = subprocess.run([binary / "pg_dump", *options, url], capture_output=True, text=True, check=True)
        return done.stdout


def make_service(worlds: Mapping[str, Data]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name)
        folder = temporary / "workspace"
        said, truths = make_workspace(folder, worlds)
        backup = FOLDER / "workspace.backup"
        subprocess.run([*CUAL, "serve", str(folder), "--backup", str(backup)], check=True)
        (folder / "lock").unlink(missing_ok=True)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", dereference=True) as tar:
            for path in sorted(folder.rglob("*")):
                tar.add(path, path.relative_to(folder), recursive=False, filter=_nobody)
        (FOLDER / "workspace.tar.gz").write_bytes(gzip.compress(packed.getvalue(), mtime=0))
        text = dump(backup, temporary / "restored", folder / "cual.sqlite3")
        (FOLDER / "workspace.sql.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        w = Workspace.open(folder)
        ann = next(Person(p["id"], p["name"], Role(p["role"])) for p in said["people"] if p["name"] == "ann")
        release.go_on(w, ann, truths)
        said["end"] = release.ended(w)
        w.close()
    said["truths"] = {str(pool): [[k, v] for k, v in truth.items()] for pool, truth in truths.items()}
    return said


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


# -- the bench -------------------------------------------------------------------------------------------------


def make_rows() -> list[dict[str, Any]]:
    """What `cual bench run` writes of the digits, on the protocol of `cual demo`."""
    protocol = ["--features", "digits", "--first", "2", "--increment", "1", "--budget", "0.02"]
    others = [name for name in methods.names() if name not in MAIN]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        for chosen, seeds in ((MAIN, SEEDS), (others, "0")):
            out = Path(name) / chosen[0]
            command = [
                *CUAL,
                "bench",
                "run",
                *protocol,
                "--buffer",
                "500",
                "--methods",
                ",".join(chosen),
                "--seeds",
                seeds,
            ]
            subprocess.run([*command, "--out", str(out)], check=True)
            rows += [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    return comparable(rows)


def check_release() -> str:
    """The commit whose code this is, which must be the release's, unchanged."""
    source = Path(cual.__file__).parent

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=source, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    commit, changed = git("rev-parse", "HEAD"), git("status", "--porcelain", "--", ".")
    if not commit.startswith(COMMIT) or changed:
        sys.exit(f"{source} is of {commit[:7]}{' with changes' if changed else ''}, not of {COMMIT}: {__doc__}")
    return commit


def main() -> None:
    commit = check_release()
    torch.set_num_threads(1)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    worlds = {"animals": animals(), "digits": digits()}
    said: dict[str, Any] = {
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
    for name, make in (("agents", make_agents), ("adaptations", make_adaptations)):
        said[name], found = make(worlds)
        arrays |= found
    said["workspace"] = make_service(worlds)
    rows = make_rows()
    (FOLDER / "digits-rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, data in worlds.items():
        arrays |= data.arrays(f"data.{name}")
    release.write_expected(said, arrays)


if __name__ == "__main__":
    main()
