"""How long people wait for the service, and how many predictions it makes: one run, everything on this machine.

    python benchmarks/serving.py [--annotators 50] [--seconds 20] [--width 512] [--database URL]
        [--only pictures]

A real `cual serve` with its worker. Annotators are asyncio clients that answer one question a second on
average, as quick people do, then as fast as they can: first while the worker has nothing to do, then while it
adapts to a large pool all the time. Predictions are compared with a bare FastAPI app that reads the same body
and sends it back, those of raw pictures with the encoder alone, on pictures that are decoded already and on
files as the service gets them. Ratios hold elsewhere; the times do not.
"""

import argparse
import asyncio
import contextlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np

from cual import Agent, Client

ECHO = """
import uvicorn
from fastapi import FastAPI, Request, Response
app = FastAPI()
@app.post("/echo")
async def echo(body: dict[str, list[list[float]]]) -> dict[str, list[list[float]]]:
    return body
@app.post("/bytes")
async def back(request: Request) -> Response:
    return Response(await request.body())
uvicorn.run(app, port={port}, access_log=False, log_level="error")
"""
TASKS = 5
"""Adaptations that the annotators are spread over."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annotators", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--pool", type=int, default=20_000)
    parser.add_argument("--database", default=None)
    parser.add_argument("--only", choices=("pictures",), help="leave out annotators and features")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, {args.annotators} annotators, {args.seconds:g} s each, {args.width} wide")
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        data = World(args.width)
        data.agent().save(folder / "v0.agent")
        with (
            service(folder / "workspace", args.database) as (url, token),
            Client(url, token, timeout=600) as client,
        ):
            if not args.only:
                agent = client.add_agent("benchmark", folder / "v0.agent")
                small = client.add_pool("small", agent, X=data.draw(4000))
                large = client.add_pool("large", agent, X=data.draw(args.pool))
                answering(client, url, token, agent.id, small.id, large.id, args)
                predicting(url, token, agent.id, data.draw(64), args)
            encoding(client, url, token, folder, args)


class World:
    """Flat Gaussian classes, known and new."""

    def __init__(self, width: int) -> None:
        self.rng = np.random.default_rng(0)
        self.centres = self.rng.normal(0, 2, (8, width))
        self.planes = self.rng.normal(0, 1, (8, 8, width)) / 4

    def draw(self, n: int, classes: int = 8) -> np.ndarray:
        return np.concatenate([self.of(c, n // classes) for c in range(classes)])

    def of(self, c: int, n: int) -> np.ndarray:
        inside = self.rng.normal(0, 1, (n, 8)) @ self.planes[c]
        return (self.centres[c] + inside + self.rng.normal(0, 0.1, inside.shape)).astype(np.float32)

    def agent(self) -> Agent:
        X = np.concatenate([self.of(c, 300) for c in range(4)])
        return Agent.fit(X, np.repeat([f"class {c}" for c in range(4)], 300))


# -- answers ---------------------------------------------------------------------------------------------------


def answering(
    client: Client, url: str, token: str, agent: int, small: int, large: int, args: argparse.Namespace
) -> None:
    """Measure how long an answer takes, beside an idle worker and beside a busy one."""
    paces = (("a second between answers", 1.0), ("no pause", 0.0))
    tasks = iter([open_task(client, agent, small) for _ in range(2 * len(paces) * TASKS)])
    people = [person(client, f"annotator {i}") for i in range(args.annotators)]
    found: dict[tuple[str, str], list[float]] = {}
    busy: list[int] = []
    for worker in ("idle", "adapting"):
        if worker == "adapting":
            busy = keep_busy(client, agent, large)
        for pace, pause in paces:
            mine = [next(tasks) for _ in range(TASKS)]
            found[worker, pace] = asyncio.run(label(url, people, mine, pause, args.seconds))
            if worker == "adapting" and not working(client):
                print("  (the worker ran out of work: give a larger --pool)")
    for id in busy:
        client.adaptation(id).drop()
    print("\nan answer takes          worker      p50 ms   p95 ms   answers/s")
    for (worker, pace), times in found.items():
        p50, p95 = np.percentile(times, [50, 95]) * 1000
        print(f"{pace:24} {worker:9} {p50:8.1f} {p95:8.1f} {len(times) / args.seconds:10.1f}")
    for pace, _ in paces:
        ratios = [
            np.percentile(found["adapting", pace], q) / np.percentile(found["idle", pace], q) for q in (50, 95)
        ]
        print(f"{pace:24} adapting against idle: p50 × {ratios[0]:.2f}, p95 × {ratios[1]:.2f}")


def open_task(client: Client, agent: int, pool: int) -> int:
    """An adaptation whose first round has some 1,600 questions."""
    task = client.start(agent, pool, 3999)
    while task.state.state == "thinking":
        time.sleep(0.1)
    return task.id


def person(client: Client, name: str) -> str:
    made = client.post("/api/people", json={"name": name, "role": "annotator"}, once=True)
    return client.post(f"/api/people/{made['id']}/tokens", json={"kind": "api"}, once=True)["token"]


def keep_busy(client: Client, agent: int, pool: int) -> list[int]:
    """Adaptations to a large pool, one after the other, answered by nobody: the worker scores and scores."""
    started = [client.start(agent, pool, 0.01).id for _ in range(40)]
    while not working(client):
        time.sleep(0.05)
    return started


def working(client: Client) -> bool:
    return any(job["state"] == "running" for job in client.get("/api/jobs"))


async def label(url: str, people: list[str], tasks: list[int], pause: float, seconds: float) -> list[float]:
    """All annotators at once; the time of each answer."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    # one pool of connections in this process: what is measured is the service, not 50 event loops
    limits = httpx.Limits(max_connections=len(people), max_keepalive_connections=len(people))
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as http:
        work = (
            annotate(http, token, tasks[i % len(tasks)], pause, end, times) for i, token in enumerate(people)
        )
        await asyncio.gather(*work)
    return times


async def annotate(
    http: httpx.AsyncClient, token: str, task: int, pause: float, end: float, times: list[float]
) -> None:
    rng, headers = random.Random(token), {"Authorization": f"Bearer {token}"}
    await asyncio.sleep(rng.random() * pause)
    while time.perf_counter() < end:
        lent = await http.post(f"/api/adaptations/{task}/lend", json={"n": 5}, headers=headers)
        if not lent.raise_for_status().json():
            raise RuntimeError("there are no questions left; give fewer --seconds")
        for question in lent.json():
            if pause:
                await asyncio.sleep(rng.expovariate(1 / pause))
            if time.perf_counter() >= end:
                return
            said = {"answers": {str(question["id"]): f"class {question['row'] % 8}"}}
            began = time.perf_counter()
            told = await http.post(f"/api/adaptations/{task}/answers", json=said, headers=headers)
            times.append(time.perf_counter() - began)
            told.raise_for_status()


# -- predictions -----------------------------------------------------------------------------------------------


def predicting(url: str, token: str, agent: int, X: np.ndarray, args: argparse.Namespace) -> None:
    """Requests a second, of the service and of a bare echo, by the same client."""
    with echo() as bare:
        print(
            "\npredictions              rows   predict/s  verdicts/s   novelty/s      echo/s   predict/echo",
            end="",
        )
        print("   p95 ms: predict  verdicts   novelty      echo")
        for rows in (1, 64):
            for kind, body in (("json", as_json(X[:rows])), ("npy", as_npy(X[:rows]))):
                type_ = "application/json" if kind == "json" else "application/x-npy"
                told = [
                    asyncio.run(flood(at, path, body, type_, token, args.seconds / 4, 32 if rows == 1 else 8))
                    for at, path in (
                        (url, f"/api/agents/{agent}/predict?verdicts=false"),
                        (url, f"/api/agents/{agent}/predict"),
                        (url, f"/api/agents/{agent}/novelty"),
                        (bare, "/echo" if kind == "json" else "/bytes"),
                    )
                ]
                rates = "".join(f"{rate:12.0f}" for rate, _ in told)
                waits = "".join(f"{p95:10.1f}" for _, p95 in told)
                print(f"{kind:24} {rows:4}{rates} {told[0][0] / told[3][0]:14.2f}        {waits}")


def encoding(client: Client, url: str, token: str, folder: Path, args: argparse.Namespace) -> None:
    """Raw pictures a second, of the service and of its encoder alone on pictures that are decoded already."""
    from PIL import Image

    from cual.encoders import make

    encoder = make("efficientnet-lite0")
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).resize((320, 240))
    X = rng.normal(np.repeat([0, 3], 50)[:, None], 1, (100, encoder.dim))
    Agent.fit(X, ["a"] * 50 + ["b"] * 50, encoder=encoder.fingerprint).save(folder / "pictures.agent")
    agent = client.add_agent("pictures", folder / "pictures.agent").id
    jpeg = io.BytesIO()
    picture.save(jpeg, "JPEG", quality=90)
    client.predict(agent, [jpeg.getvalue()])  # loads the encoder there
    prepared = [encoder.prepare(picture)] * 32

    def files() -> np.ndarray:
        opened = (Image.open(io.BytesIO(jpeg.getvalue())).convert("RGB") for _ in range(32))
        return encoder.encode([encoder.prepare(one) for one in opened])

    bare, whole = (rate(work, args.seconds / 4) for work in (lambda: encoder.encode(prepared), files))
    print(f"\nencoder alone: {bare:.0f} pictures/s, {whole:.0f} with opening the files, both in batches of 32")
    path, kind = f"/api/agents/{agent}/predict", "image/jpeg"
    ways = {
        "one each, 1 at a time": (jpeg.getvalue(), kind, 1, 1),
        "one each, 32 at a time": (jpeg.getvalue(), kind, 32, 1),
    }
    ways["64 each, 2 at a time"] = (*form([jpeg.getvalue()] * 64), 2, 64)
    print("pictures                 predict/s   of the encoder   with opening   p95 ms")
    for name, (body, kind, n, each) in ways.items():
        requests, p95 = asyncio.run(flood(url, path, body, kind, token, args.seconds / 2, n))
        served = requests * each
        print(f"{name:24} {served:9.1f} {served / bare:16.2f} {served / whole:14.2f} {p95:8.1f}")


def rate(work: Callable[[], np.ndarray], seconds: float) -> float:
    """Rows a second, after one run that does not count."""
    work()
    began, done = time.perf_counter(), 0
    while time.perf_counter() < began + seconds:
        done += len(work())
    return done / (time.perf_counter() - began)


def form(files: list[bytes]) -> tuple[bytes, str]:
    """A form of files, and its type."""
    head = '--edge\r\nContent-Disposition: form-data; name="files"; filename="{}.jpg"\r\n'
    head += "Content-Type: image/jpeg\r\n\r\n"
    parts = [head.format(number).encode() + file + b"\r\n" for number, file in enumerate(files)]
    return b"".join(parts) + b"--edge--\r\n", "multipart/form-data; boundary=edge"


def as_json(X: np.ndarray) -> bytes:
    return json.dumps({"features": np.round(X, 5).astype(float).tolist()}).encode()


def as_npy(X: np.ndarray) -> bytes:
    held = io.BytesIO()
    np.save(held, X)
    return held.getvalue()


async def flood(
    url: str, path: str, body: bytes, kind: str, token: str, seconds: float, n: int
) -> tuple[float, float]:
    """Requests a second over `n` connections, and how long the slowest of twenty took, in milliseconds.

    Written by hand, so that the client is not what is measured.
    """
    host, port = url.removeprefix("http://").split(":")
    head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n"
    head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    request, took, end = head.encode() + body, list[float](), time.perf_counter() + seconds

    async def one() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        while (began := time.perf_counter()) < end:
            writer.write(request)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b" 200 " not in answer[:20]:
                raise RuntimeError(answer.decode())
            await reader.readexactly(int(answer.split(b"content-length:")[1].split(b"\r\n")[0]))
            took.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*(one() for _ in range(n)))
    return len(took) / seconds, 1e3 * float(np.quantile(took, 0.95))


# -- processes -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def service(folder: Path, database: str | None) -> Iterator[tuple[str, str]]:
    """A real `cual serve`, and the token of an administrator."""
    command = [
        sys.executable,
        "-c",
        "from cual.cli import app; app()",
        "serve",
        str(folder),
        "--log-format",
        "json",
    ]
    environment = {**os.environ, **({} if database is None else {"CUAL_DATABASE": database})}
    with open(os.devnull, "w") as nowhere:
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=nowhere, text=True, env=environment)
    try:
        assert running.stdout is not None
        file = next(line.split()[-1] for line in running.stdout if line.strip().endswith("/.sign-in"))
        address = Path(file).read_text(encoding="utf-8").strip()
        url, secret = address.partition("/sign-in")[0], address.partition("token=")[2]
        with httpx.Client(base_url=url, headers={"Origin": url}) as browser:
            me = browser.post("/api/sign-in", json={"token": secret}).raise_for_status().json()
            browser.headers["X-CSRF-Token"] = me["csrf"]
            made = browser.post(f"/api/people/{me['id']}/tokens", json={"kind": "api"}).raise_for_status()
        yield url, made.json()["token"]
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait()


@contextlib.contextmanager
def echo() -> Iterator[str]:
    port = 8799
    running = subprocess.Popen([sys.executable, "-c", ECHO.format(port=port)])
    try:
        url = f"http://127.0.0.1:{port}"
        while True:
            try:
                httpx.post(f"{url}/bytes", content=b"x").raise_for_status()
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield url
    finally:
        running.terminate()
        running.wait()


if __name__ == "__main__":
    main()
