"""An hour of everybody at once, while one thing after another breaks: nothing is lost, and 503 is all it says.

People answer, programs predict and send samples, somebody looks at everything; meanwhile web, worker and
PostgreSQL are killed, the worker is frozen, the disk is full and a file is damaged. CUAL_LOAD_MINUTES makes it
shorter or longer than an hour.
"""

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import pytest

from cual import Agent, Client
from cual.client import RemoteAdaptation
from cual.data.labels import SKIP
from cual.errors import AlreadyFinished, Conflict, FileLost, Unavailable
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.records import OPERATOR, Person
from cual.serve.rules.workspace import Workspace
from cual.serve.storage.home import Home
from postgres_server import Server, launched, new_database
from running import Served, until
from serve.test_faults import scripted, undisturbed
from serving import Service, add_person, make_service
from worlds import World, make_world

MINUTES = float(os.environ.get("CUAL_LOAD_MINUTES", "60"))
BUDGET = 20
DISK = 400
"""Megabytes of the disk that is full at times."""
UNDISTURBED = 0.6
"""Of the time, after which the web process is killed no more: its memory is looked at from then on."""
AFTERWARDS = 60.0
"""Seconds after a fault in which the service may still say that it is not ready."""


@dataclass
class Tally:
    """What the service answered, and when it said that it could not."""

    answers: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    unready: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    wrong: list[str] = field(default_factory=list[str])
    broken: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, kind: str) -> Callable[[httpx.Response], None]:
        """Counts the answers to one kind of work."""

        def count(response: httpx.Response) -> None:
            status, asked = response.status_code, f"{response.request.method} {response.request.url.path}"
            with self.lock:
                self.answers[kind, status] += 1
                if status == 503:
                    self.unready.append((time.monotonic(), asked))
                elif status >= 500:
                    response.read()
                    self.wrong.append(f"{asked}: {status} {response.text[:300]}")

        return count


@dataclass
class Load:
    """A service, and those who use it until they are told to end."""

    served: Served
    world: World
    agent: int
    pool: int
    tally: Tally = field(default_factory=Tally)
    over: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list[BaseException])
    sent: int = 0
    finished: list[int] = field(default_factory=list[int])

    def client(self, kind: str, token: str, patience: float = 600) -> Client:
        client = Client(self.served.url, token, patience)
        client._http.event_hooks = {"response": [self.tally.of(kind)]}  # pyright: ignore[reportPrivateUsage]
        return client

    @contextlib.contextmanager
    def under_way(self, *work: Callable[[], None]) -> Iterator[None]:
        """Each does its work again and again until the block ends."""

        def repeat(once: Callable[[], None]) -> None:
            try:
                while not self.over.wait(0.05):
                    once()
            except BaseException as error:
                self.failures.append(error)

        threads = [threading.Thread(target=repeat, args=(once,)) for once in work]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            for thread in threads:
                thread.join()
        assert not self.failures, self.failures

    def predicting(self, token: str) -> Callable[[], None]:
        client, rng = self.client("predict", token), np.random.default_rng(0)

        def once() -> None:
            X = self.world.pool[rng.integers(0, len(self.world.pool), 8)]
            assert len(client.predict(self.agent, X)) == len(X)

        return once

    def sending(self, token: str, name: str) -> Callable[[], None]:
        client, rng, number = self.client("send", token), np.random.default_rng(1), 0

        def once() -> None:
            nonlocal number
            X = rng.normal(0, 3, (2, self.world.pool.shape[1])).astype(np.float32)
            names = [f"{name}-{number + n}" for n in range(len(X))]
            said = client.send(self.agent, X, key=f"{name}-{number}", names=names)
            assert [verdict.error for verdict in said] == [None] * len(X)
            number += len(X)
            with self.tally.lock:
                self.sent += len(X)

        return once

    def looking(self, token: str) -> Callable[[], None]:
        """Somebody who opens everything, once each; broken connections are for others to mend."""
        rng, paths = random.Random(2), ("/health", "/metrics", "/api/agents", "/api/pools", "/api/adaptations")
        browser = httpx.Client(
            base_url=self.served.url, headers={"Authorization": f"Bearer {token}"}, timeout=60
        )
        browser.event_hooks = {"response": [self.tally.of("look")]}

        def once() -> None:
            try:
                browser.get(rng.choice(paths))
            except httpx.TransportError:
                with self.tally.lock:
                    self.tally.broken += 1
                time.sleep(0.2)

        return once

    def answering(self, token: str) -> Callable[[], None]:
        client = self.client("answer", token)

        def once() -> None:
            for task in client.adaptations()[:1]:
                if task.state.state == "failed":
                    continue  # who manages has it tried again
                with contextlib.suppress(AlreadyFinished):  # somebody else gave the last answer
                    query = task.ask(wait=False, n=2)
                    for sample in query.ids if query is not None else ():
                        task.tell(query.id, {sample: scripted(self.world, sample)})  # pyright: ignore

        return once

    def managing(self, token: str) -> Callable[[], None]:
        """Begins adaptations from the first version, one after the other, and finishes them."""
        client = self.client("manage", token)

        def once() -> None:
            self.go_on(client)

        return once

    def go_on(self, client: Client, begin: bool = True) -> bool:
        """One step; False where nothing is left to do."""
        task = next(iter(client.adaptations()), None)
        state = None if task is None else task.state.state
        with contextlib.suppress(Conflict, AlreadyFinished, Unavailable):  # an answer was lost: look again
            if task is not None and state == "failed":
                task.retry()
            elif task is not None and state == "review":
                task.finish()
                self.finished.append(task.id)
            elif state in (None, "finished"):
                if not begin:
                    return False
                client.start(self.agent, self.pool, BUDGET, version=0)
        return True


@dataclass
class Faults:
    """What breaks, and from when to when."""

    served: Served
    postgres: Server
    disk: Path | None
    home: Home
    agent: int
    samples: np.ndarray
    client: Client
    hasty: Client
    """Takes the first answer."""
    happened: Counter[str] = field(default_factory=Counter[str])
    spans: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    rng: random.Random = field(default_factory=lambda: random.Random(3))

    def any_of(self, gently: bool) -> None:
        """One fault, chosen by lot; `gently` leaves the web process alone."""
        faults: dict[str, Callable[[], None]] = {
            "worker killed": self.kill_worker,
            "worker frozen": self.freeze_worker,
            "PostgreSQL killed": self.kill_postgres,
            "file damaged": self.damage_file,
        }
        if self.disk is not None:
            faults["disk full"] = self.fill_disk
        if not gently:
            faults["web killed"] = self.served.kill_web
        least = min(self.happened[name] for name in faults)
        name = self.rng.choice([name for name in faults if self.happened[name] == least])
        began = time.monotonic()
        faults[name]()
        self.spans.append((began, time.monotonic()))
        self.happened[name] += 1

    def kill_worker(self) -> None:
        until(self.served.kill_worker)

    def freeze_worker(self) -> None:
        pids: list[int] = []

        def found() -> bool:
            pid = self.served.worker  # asked once: it may end before it is asked for again
            pids.extend([] if pid is None else [pid])
            return bool(pids)

        until(found)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[0], signal.SIGSTOP)
            time.sleep(self.rng.uniform(5, 20))
            os.kill(pids[0], signal.SIGCONT)

    def kill_postgres(self) -> None:
        self.postgres.kill()
        time.sleep(self.rng.uniform(1, 5))
        self.postgres.start()

    def fill_disk(self) -> None:
        assert self.disk is not None
        stuffing = self.disk / "stuffing"
        try:
            with contextlib.suppress(OSError), stuffing.open("wb") as file:
                while True:
                    file.write(bytes(1 << 16))
            time.sleep(self.rng.uniform(3, 10))
        finally:
            stuffing.unlink()

    def damage_file(self) -> None:
        """A bit of a version is turned over: who asks for it gets what it said before, or an error."""
        number = max(version["number"] for version in self.client.versions(self.agent))
        file, X = self.home.agent_file(self.agent, number), self.samples
        before, whole = Agent.load(file).predict(X), file.read_bytes()
        turned = bytearray(whole)
        turned[self.rng.randrange(len(whole))] ^= 1 << self.rng.randrange(8)
        try:
            file.write_bytes(turned)
            with contextlib.suppress(FileLost):
                assert np.array_equal(self.hasty.predict(self.agent, X, version=number), before)
        finally:
            file.write_bytes(whole)

    def explains(self, moment: float) -> bool:
        """Whether a fault was under way then, or had just ended."""
        return any(began - 1 <= moment <= ended + AFTERWARDS for began, ended in self.spans)


def megabytes_of(pid: int) -> float:
    """What a process holds in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """A disk of its own, so that it can be full; None where nobody may mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def check(service: Service, load: Load, client: Client, expected: bytes) -> None:
    """Every answer counts once and is the one that was given, every agent is the same, every sample is kept."""
    begun = client.adaptations()
    assert {task.state.state for task in begun} == {"finished"}
    for task in begun:
        made = check_answers(task, load.world)
        assert service.agent_bytes(made) == expected
    counts = Counter[str]()
    for row in client.inbox(load.agent).counts:
        counts.update({name: row[name] for name in ("arrived", "kept", "again", "passed_over")})
    assert counts["arrived"] == load.sent, "what was answered is kept, and counted once"
    assert counts["kept"] + counts["again"] + counts["passed_over"] == counts["arrived"]


def check_answers(task: RemoteAdaptation, world: World) -> int:
    """The version that came of an adaptation whose answers are all there."""
    rows = task.ledger()
    assert len({row["sample"] for row in rows}) == len(rows)
    for row in rows:
        given = scripted(world, row["sample"])
        assert row["answer"] == (None if given is SKIP else given)
    version = task.state.result_version
    assert version is not None
    return version


@pytest.mark.slow
def test_an_hour_of_load_with_faults(tmp_path: Path) -> None:
    world = make_world(old=30)
    with small_disk(tmp_path / "disk") as disk, launched(synchronous_commit="on") as postgres:
        folder = (disk or tmp_path) / "workspace"
        workspace = Workspace.open(folder, new_database(postgres.address))
        service = make_service(workspace, world)
        people: list[Person] = [service.ann, add_person(workspace, "cem"), add_person(workspace, "dao")]
        accounts = Accounts(workspace.database)
        ann, cem, dao = (accounts.new_token(person.id, "api", by=OPERATOR)[1] for person in people)
        workspace.close()
        served = Served(workspace, tmp_path / "service.log")
        load = Load(served, world, service.agent, service.pool)
        manager = load.client("manage", ann)
        faults = Faults(
            served,
            postgres,
            disk,
            workspace.home,
            service.agent,
            world.pool[:20],
            manager,
            load.client("hasty", ann, 0),
        )
        memory: list[tuple[int, float]] = []
        began, length = time.monotonic(), 60 * MINUTES
        try:
            manager.agents()
            with load.under_way(
                load.predicting(ann),
                load.predicting(cem),
                load.sending(ann, "first"),
                load.sending(ann, "second"),
                load.looking(dao),
                load.answering(cem),
                load.answering(dao),
                load.managing(ann),
            ):
                while time.monotonic() < began + length and not load.failures:
                    gently = time.monotonic() > began + UNDISTURBED * length
                    faults.any_of(gently)
                    time.sleep(faults.rng.uniform(2, 20))
                    if gently:
                        memory.append((served.process.pid, megabytes_of(served.process.pid)))
            until(lambda: not load.go_on(manager, begin=False) or not answer_rest(load, manager))
            report(load, faults, memory)
            check(service, load, manager, undisturbed(tmp_path / "undisturbed", world))
        except BaseException:
            print((tmp_path / "service.log").read_text()[-5000:])
            raise
        finally:
            served.end()
        assert not load.tally.wrong, load.tally.wrong[:5]
        unexplained = [asked for moment, asked in load.tally.unready if not faults.explains(moment)]
        assert not unexplained, unexplained[:5]
        flat(memory)


def answer_rest(load: Load, client: Client) -> bool:
    """Answer what is still open; True."""
    for task in client.adaptations()[:1]:
        query = task.ask(wait=False)
        if query is not None:
            task.tell(query.id, {sample: scripted(load.world, sample) for sample in query.ids})
    return True


def flat(memory: list[tuple[int, float]]) -> None:
    """The web process, which nobody killed any more, holds no more at the end than soon after its start."""
    assert len({pid for pid, _ in memory}) == 1
    held = [megabytes for _, megabytes in memory]
    part = max(1, len(held) // 4)
    assert np.median(held[-part:]) <= 1.1 * np.median(held[part : 2 * part] or held) + 10


def report(load: Load, faults: Faults, memory: list[tuple[int, float]]) -> None:
    """The figures."""
    print(f"\n{MINUTES:g} minutes; faults: {dict(faults.happened)}")
    print(f"answers: {dict(sorted(load.tally.answers.items()))}; connections broken: {load.tally.broken}")
    print(f"samples sent and kept: {load.sent}; adaptations finished: {len(set(load.finished))}")
    if memory:
        held = [round(megabytes) for _, megabytes in memory]
        print(f"megabytes of the web process at the end: {held[0]} … {held[-1]}, most {max(held)}")
