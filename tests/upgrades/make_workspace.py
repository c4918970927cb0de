"""Makes the workspace of a release: in the middle of much, as a folder, on PostgreSQL and as a backup."""

import gzip
import io
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

import postgres_server
from cual import SKIP, Agent, Pool
from cual.data.folder import FeaturesWriter
from cual.serve.jobs.worker import work_until_idle
from cual.serve.rules import jobs, shadows
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.inbox.records import Policy
from cual.serve.rules.records import OPERATOR, Person, Role
from cual.serve.rules.watching import noting, webhooks
from cual.serve.rules.watching.course import Judged, Yardstick
from cual.serve.rules.workspace import Workspace
from cual.serve.storage import tables as db
from cual.serve.web.security.middleware import cookie_names
from upgrades import release, service
from upgrades.release import CUAL, plain
from upgrades.samples import Data

FAR = datetime(2100, 1, 1, tzinfo=UTC)
"""Until when the workspace's tokens, sessions and loans live: the tests shall never find them dead."""
MLP = {"method": "cual", "head": {"hidden": 16, "epochs": 8}, "buffer": 40}
RIDGE = {"method": "cual-plus", "head": {"expand": 24}, "buffer": 40}
Row = dict[str, Any]
Truths = dict[int, dict[Any, Any]]


class Maker:
    """One workspace that is being filled, and what is known of its samples."""

    def __init__(self, folder: Path, worlds: Mapping[str, Data]) -> None:
        self.roots = folder.parent / "data"
        self.roots.mkdir()
        self.workspace = Workspace.open(folder, roots=[self.roots])
        self.animals, self.digits = worlds["animals"], worlds["digits"]
        self.people: dict[str, Person] = {}
        self.truths: Truths = {}

    def work(self) -> None:
        work_until_idle(self.workspace)

    def right(self, task: int, questions: Sequence[Any]) -> dict[int, Any]:
        truth = self.truths[self.workspace.adaptation(task).pool]
        return {question.id: truth[question.sample] for question in questions}

    def start(self, agent: int, pool: int, budget: int, **more: Any) -> int:
        task = self.workspace.start(agent, pool, budget, self.people["ann"], **more).id
        self.work()
        return task

    def answer_round(self, task: int) -> None:
        """Two people share the work."""
        for name, n in (("bob", 2), ("ann", 1000)):
            lent = self.workspace.lend(task, self.people[name], n)
            self.workspace.answer(task, self.people[name], self.right(task, lent))
        self.work()

    def answer_all(self, task: int) -> None:
        while self.workspace.adaptation(task).state == "asking":
            self.answer_round(task)

    # -- who and what is there ---------------------------------------------------------------------------------

    def make_people(self) -> Row:
        """Everybody, and the secrets that they hold."""
        accounts = Accounts(self.workspace.database)
        roles = {"ann": Role.admin, "bob": Role.annotator, "cleo": Role.annotator, "eve": Role.reader}
        roles["Zoë"] = Role.annotator
        records = {name: accounts.add_person(name, role, by=OPERATOR) for name, role in roles.items()}
        secrets = {
            name: accounts.new_token(person.id, "api", note=f"of {name}", by=OPERATOR)[1]
            for name, person in records.items()
        }
        accounts.change_person(records["Zoë"].id, active=False, by=OPERATOR)
        cleo = records["cleo"].id
        accounts.revoke(cleo, accounts.tokens(cleo)[0].id, by=OPERATOR)
        _, session = accounts.sign_in(accounts.new_token(records["bob"].id, "sign-in", by=OPERATOR)[1])
        self.people = {name: Person(p.id, p.name, p.role) for name, p in records.items()}
        cookie = cookie_names(self.workspace.home.id)[0]
        return plain({"people": accounts.people(), "tokens": secrets, "cookies": {"bob": [cookie, session]}})

    def make_agents(self) -> tuple[int, int, int, int]:
        w, ann, beasts = self.workspace, self.people["ann"], self.animals
        one = w.add_agent("animals", Agent.fit(beasts.X, beasts.y, iterations=5, **MLP), ann).id
        two = w.add_agent("numbers", Agent.fit(self.digits.X, self.digits.y, **RIDGE), ann).id
        three = w.add_agent("to be split", Agent.fit(beasts.X, beasts.y, **{**RIDGE, "buffer": 300}), ann).id
        four = w.add_agent("to be taught", Agent.fit(beasts.X, beasts.y, **RIDGE), ann).id
        return one, two, three, four

    def make_pools(self, one: int, two: int) -> tuple[int, int, int, int]:
        w, ann, beasts, numbers = self.workspace, self.people["ann"], self.animals, self.digits
        pictures = np.random.default_rng(0).integers(0, 256, (len(beasts.pools[0]), 4, 4), dtype=np.uint8)
        shown = {"note": [f"note on {name}" for name in beasts.ids[0]], "n": list(range(len(beasts.ids[0])))}
        garden = w.add_pool("garden", Pool(beasts.pools[0], beasts.ids[0]), one, ann, pictures, shown=shown).id
        texts = [f"“{name}”, seen in the wood" for name in beasts.ids[1]]
        wood = w.add_pool("wood", Pool(beasts.pools[1], beasts.ids[1]), one, ann, texts=texts).id
        scans = w.add_pool("scans", Pool(numbers.pools[0], numbers.ids[0]), two, ann).id
        np.savez(self.roots / "narrow.npz", X=np.zeros((5, 3), np.float32))
        w.add_pool("narrow", self.roots / "narrow.npz", one, ann)
        with FeaturesWriter(self.roots / "more.features", 16, shard_rows=30) as writer:
            writer.append(numbers.pools[1], numbers.ids[1])
        more = w.add_pool("more", self.roots / "more.features", two, ann).id
        self.work()
        assert sorted(pool.state for pool in w.pools()) == ["failed", *["ready"] * 4]
        self.truths = {garden: beasts.truth(0), wood: beasts.truth(1)}
        self.truths |= {scans: numbers.truth(0), more: numbers.truth(1)}
        w.set_guidelines(wood, "Birds only.\nNo bats.", ann)
        return garden, wood, scans, more

    # -- what has happened -------------------------------------------------------------------------------------

    def make_team(self, agent: int, pool: int) -> int:
        """An adaptation of several people in the middle of a round: overlap, gold, disputes, reviews."""
        w, ann, bob, cleo = self.workspace, *(self.people[name] for name in ("ann", "bob", "cleo"))
        w.mark_gold(pool, {0: self.truths[pool][self.animals.ids[1][0]]}, ann)
        task = self.start(agent, pool, 24)
        first, second, third, *rest = w.lend(task, bob, 1000)
        w.answer(task, bob, {first.id: "lynx"})
        assert w.undo(task, bob).id == first.id
        w.answer(task, bob, {first.id: SKIP, second.id: "dog", **self.right(task, [third])})
        w.answer(task, cleo, {second.id: "owl"})
        w.settle(second.id, ann, self.truths[pool][second.sample])
        w.answer(task, bob, {**self.right(task, rest), rest[0].id: "dgo"})
        self.work()
        w.answer(task, bob, self.right(task, rest[:1]))  # a correction of what the learner has used
        self.work()
        while len(w.pseudo_labels(task)) < 4:
            self.answer_round(task)
        w.share_work(task, ann, overlap=2, own_disputes=True, gold_share=0.1)
        believed = [row["row"] for row in w.pseudo_labels(task)]
        w.review(task, cleo, {believed[0]: "reject", believed[1]: "reject", believed[2]: "confirm"})
        w.review(task, ann, {believed[1]: "confirm"})
        w.name_classes(task, bob, {believed[3]: self.truths[pool][self.animals.ids[1][believed[3]]]})
        asked = w.questions(task, answered=False)
        assert len(asked) > 2, "too little is open"
        w.answer(task, ann, self.right(task, asked[:1]))
        w.lend(task, bob, 1)
        w.pass_on(task, cleo, [w.lend(task, cleo, 1)[0].id])
        return task

    def make_notes(self, agent: int, pool: int) -> None:
        w, ann, bob = self.workspace, self.people["ann"], self.people["bob"]
        w.describe_class(agent, "cat", ann, "has whiskers", "#aa5500", [(pool, 3)])
        w.give_key(agent, bob, "3", "cat")
        w.set_false_alarms(agent, 0.05, ann)

    def make_candidate(self, agent: int, pool: int) -> int:
        """A version that waits to be promoted, and what its shadow was."""
        w, ann = self.workspace, self.people["ann"]
        w.set_rollout(agent, ann, "candidate", 0.5)
        task = self.start(agent, pool, 8)
        self.answer_all(task)
        w.finish(task, ann)
        self.work()
        examples = [
            shadows.Example(0, 3, "ab" * 32, picture=w.picture(1, 0).read_bytes()),
            shadows.Example(1, 3, "cd" * 32, text="a number"),
        ]
        pairs = Counter({(0, 3): 2, (1, 3): 1, (2, 2): 7})
        counts = shadows.Counts(10, 7, 10, 1, 2, pairs=pairs, examples=examples)
        assert shadows.add(w.home, agent, 1, 0, counts)
        return task

    def make_split(self, agent: int) -> None:
        """Taught, renamed and merged by administrators; a split waits to be told what its groups are."""
        w, ann, beasts = self.workspace, self.people["ann"], self.animals
        np.savez(w.uploads / "labels.npz", X=beasts.pools[0], y=beasts.labels[0], ids=beasts.ids[0])
        w.teach(agent, w.uploads / "labels.npz", ann, why="labels of May")
        self.work()
        w.rename_class(agent, "owl", "barn owl", ann, "there are others")
        w.merge_classes(agent, "dog", [beasts.labels[0][-1]] if beasts.labels[0][-1] != "dog" else ["cat"], ann)
        w.roll_back(agent, 2, ann, "not the same")
        w.split_class(agent, "cat", ann, 2, 3, "two breeds")
        self.work()
        assert [repair.state for repair in w.repairs(agent)] == ["asking", "done"]

    def make_inbox(self, agent: int) -> None:
        """A pool was made of what had come; more has come since."""
        w, ann, X = self.workspace, self.people["ann"], self.animals.probe
        w.set_inbox_policy(agent, Policy(known_share=1.0, most_days=3650), ann)
        version = w.agent(agent).version

        def send(rows: slice, verdict: str, **more: Any) -> None:
            sent = service.arrivals(X[rows], verdict, version, **more)
            w.send(agent, sent, ann, lambda fates: b"")

        texts = [f"seen at {n} o’clock".encode() for n in range(6)]
        send(slice(0, 6), "unlike anything known", kind="text", originals=texts)
        w.close_inbox(agent, "of Monday", ann)
        self.work()
        send(slice(6, 12), "unlike anything known", kind="text", originals=texts)
        send(slice(10, 16), "known")

    def make_watching(self, agent: int) -> None:
        """What predictions were like, whom it was told to, and a delivery that failed."""
        w, ann, rng = self.workspace, self.people["ann"], np.random.default_rng(0)
        hook, _ = w.add_webhook(agent, "https://hooks.example.org/cual", ann, secret="not so secret, but long")
        w.set_watching(agent, ann, most_questions=20, least_gain=3.0)
        known = rng.normal(1, 0.1, 60)
        yardstick = Yardstick.of(known, 1.5, 0.05)
        version = w.agent(agent).version
        for minute, unlike in enumerate((2, 3, 90)):
            scores = np.concatenate([rng.normal(1, 0.1, 100 - unlike), rng.normal(3, 0.1, unlike)])
            judged = Judged(scores > 1.5, scores, rng.integers(0, 2, 100), unsure=1)
            at = datetime(2026, 11, 1, 12, minute, tzinfo=UTC)
            noting.note(w.home, [noting.Batch(agent, version, at, judged, yardstick)], at)
        assert w.watching(agent).novelty_since is not None
        for due in webhooks.due(w.home, db.now()):
            webhooks.failed(w.home, due, "nobody is there", db.now())
        assert w.webhooks(agent, ann)[0].id == hook.id

    # -- what nobody has worked off yet ------------------------------------------------------------------------

    def leave(self, one: int, two: int, four: int, garden: int, more: int) -> None:
        w, ann = self.workspace, self.people["ann"]
        dropped = self.start(one, garden, 6)
        w.answer(dropped, ann, self.right(dropped, w.lend(dropped, ann, 1)))
        w.drop(dropped, ann)
        left = self.start(one, garden, 8)
        w.raise_budget(left, 10, ann)
        w.answer(left, ann, self.right(left, w.lend(left, ann, 1)))
        answered = self.start(two, more, 8, version=1)
        w.stop(left, ann)
        assert jobs.claim(w.home, "elsewhere 1 1") is not None  # by a worker that is gone
        w.answer(answered, ann, self.right(answered, w.lend(answered, ann, 1000)))
        np.savez(w.uploads / "late.npz", X=self.animals.pools[1], y=self.animals.labels[1])
        w.teach(four, w.uploads / "late.npz", ann, why="labels of June")
        w.add_pool("later", Pool(self.animals.pools[0][:9], self.animals.ids[0][:9]), one, ann)
        with w.database.writing() as connection:
            for table in (db.tokens, db.sessions):
                connection.execute(sa.update(table).values(expires_at=FAR))
            connection.execute(sa.update(db.sessions).values(seen_at=FAR))
            connection.execute(sa.update(db.loans).values(until=FAR))
            running = db.jobs.c.state == "running"
            gone = {"heartbeat": datetime(2026, 1, 1, tzinfo=UTC)}
            connection.execute(sa.update(db.jobs).where(running).values(**gone))


def fill(folder: Path, worlds: Mapping[str, Data]) -> tuple[Row, Truths]:
    maker = Maker(folder, worlds)
    w = maker.workspace
    said = maker.make_people()
    one, two, three, four = maker.make_agents()
    garden, wood, scans, more = maker.make_pools(one, two)
    maker.make_notes(one, garden)
    finished = maker.start(one, garden, 12)
    maker.answer_all(finished)
    w.finish(finished, maker.people["ann"])
    maker.work()
    maker.make_team(one, wood)
    maker.make_candidate(two, scans)
    maker.make_split(three)
    maker.make_inbox(one)
    maker.make_watching(one)
    maker.leave(one, two, four, garden, more)
    said |= described(w, maker.people)
    said["jobs"] = release.said_of_jobs(w)
    said["audit"] = service.audited(w)
    said["waiting folders"] = sorted(str(p.relative_to(folder)) for p in folder.glob("agents/*/repair-*/*"))
    w.close()
    return said, maker.truths


def described(workspace: Workspace, people: Mapping[str, Person]) -> Row:
    opened = release.opened(workspace) | service.said(workspace)
    return {"opened": opened, "keys": service.keys(workspace, people)}


def make(folder: Path, worlds: Mapping[str, Data]) -> Row:
    """The workspace as a folder with SQLite, as SQL for PostgreSQL and as a backup; what is said of each."""
    with tempfile.TemporaryDirectory() as name:
        temporary = Path(name)
        workspace = temporary / "workspace"
        said, truths = fill(workspace, worlds)
        backup = folder / "workspace.backup"
        subprocess.run([*CUAL, "serve", str(workspace), "--backup", str(backup)], check=True)
        (workspace / "lock").unlink(missing_ok=True)
        (folder / "workspace.tar.gz").write_bytes(gzip.compress(_packed(workspace), mtime=0))
        text = _dump(workspace / "cual.sqlite3")
        (folder / "workspace.sql.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        people = {p["name"]: Person(p["id"], p["name"], Role(p["role"])) for p in said["people"]}
        said["end"] = _end(Workspace.open(workspace), people, truths)
        restored = Workspace.restore(backup, temporary / "restored")
        said["restored"] = described(restored, people)
        said["restored"]["end"] = _end(restored, people, truths)
    said["truths"] = {str(pool): [[k, v] for k, v in truth.items()] for pool, truth in truths.items()}
    return said


def _end(workspace: Workspace, people: Mapping[str, Person], truths: Truths) -> Row:
    service.go_on(workspace, people, truths)
    came = service.ended(workspace)
    workspace.close()
    return came


def _packed(folder: Path) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", dereference=True) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, path.relative_to(folder), recursive=False, filter=_nobody)
    return packed.getvalue()


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def _dump(sqlite: Path) -> str:
    """The same rows on PostgreSQL, as SQL: all of them, also what a backup leaves out."""
    with postgres_server.server() as server, tempfile.TemporaryDirectory() as name:
        url = postgres_server.new_database(server)
        target = Workspace.open(Path(name) / "empty", url)
        with sa.create_engine(f"sqlite:///{sqlite}").connect() as source:
            for table in db.metadata.sorted_tables:
                if table is not db.schema:
                    _copy(table, source, target)
        target.close()
        binaries = postgres_server.newest()
        assert binaries is not None
        options = ("--inserts", "--no-owner", "--no-privileges", "--no-comments")
        done = subprocess.run([binaries / "pg_dump", *options, url], capture_output=True, text=True, check=True)
        return done.stdout


def _copy(table: sa.Table, source: sa.Connection, target: Workspace) -> None:
    rows = [dict(row) for row in source.execute(sa.select(table)).mappings()]
    if not rows:
        return
    with target.database.writing() as connection:
        connection.execute(sa.insert(table), rows)
        if "id" in table.columns:
            sequence = sa.func.pg_get_serial_sequence(table.name, "id")
            connection.execute(sa.select(sa.func.setval(sequence, max(row["id"] for row in rows))))
