"""Two Ray workers against one, as ratios: of an embedding, of streams of the bench, and of an adaptation.

    python benchmarks/on_ray.py [--images 600] [--rows 30000] [--rounds 3] [--only adapting]

Two clusters on this machine, of one and of two nodes with a core each, are measured in turn, so that both see
the same neighbours; 2 would be perfect. Workers load their network first. The command, Ray's own processes and
whatever else runs take their part of the cores: on a machine of two that is busy, these ratios tell little. So
an encoder that only waits, as for a device of its own, and passes over a pool that only wait are measured too:
that is mostly the bridge's own doing.
Of an adaptation, only the passes over the pool are the workers'; what the command does itself is in its time.
"""

import argparse
import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Before Ray is imported: loopback, a token of its own, nobody told.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np
import torch
from PIL import Image

from cual import Agent
from cual.bench.settings import DIGITS, Setting
from cual.bridges.ray import Cluster, Scoring, connected, embed, encoder_on, run
from cual.data.folder import FeaturesFolder, FeaturesWriter
from cual.data.pool import Pool
from cual.encoders.sources import Source, open_source

STREAMS = Setting(DIGITS, ("cual",), seeds=(0, 1, 2, 3), first=5, increment=5, buffer=500)
WAITS = (
    "import time\ndef waits(images):\n    time.sleep(0.3)\n    return [[i.width, i.height] for i in images]\n"
)
WHAT = ("waiting", "embedding", "streams", "passes", "adapting")
CLASSES, WIDTH, BUDGET = 20, 256, 100
WARM = Setting(DIGITS, ("er-random",), seeds=(0, 1, 2, 3), first=5, increment=5, buffer=500)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=WHAT, nargs="+", default=WHAT)
    args = parser.parse_args()
    clusters: list[Any] = []
    # Names of Ray's sockets have a limit, so its folder has a short one.
    with tempfile.TemporaryDirectory(prefix="cr", dir="/tmp") as own, tempfile.TemporaryDirectory() as folder:
        os.environ["RAY_TMPDIR"] = own
        source = pictures(Path(folder) / "images", args.images)
        features(Path(folder) / "pool", args.rows)
        (Path(folder) / "waits.py").write_text(WAITS)
        try:
            clusters += [start(nodes) for nodes in (1, 2)]
            addresses = [str(cluster.address) for cluster in clusters]
            rounds = [
                [
                    seconds(address, source, Path(tempfile.mkdtemp(dir=folder)), args.only)
                    for address in addresses
                ]
                for _ in range(args.rounds)
            ]
        finally:
            for cluster in clusters:
                cluster.shutdown()
    for what in args.only:
        ratios = sorted(one[what] / two[what] for one, two in rounds)
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{what:10} two workers are {statistics.median(ratios):.2f} × one ({shown})")


def start(nodes: int) -> Any:
    """A cluster of nodes with a core each."""
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    for _ in range(nodes - 1):
        cluster.add_node(**node)
    return cluster


def pictures(folder: Path, n: int) -> Source:
    """JPEGs of 320 × 240, of noise at three scales."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for i in range(n):
        layers = [
            np.asarray(
                Image.fromarray(rng.integers(0, 256, (s * 3, s * 4, 3), dtype=np.uint8)).resize((320, 240)),
                float,
            )
            for s in (2, 16, 60)
        ]
        Image.fromarray(np.mean(layers, axis=0).astype(np.uint8)).save(folder / f"{i:05}.jpg", quality=90)
    return open_source(folder)


def draw(classes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    means = np.random.default_rng(0).standard_normal((CLASSES + 5, WIDTH), np.float32)
    return (means[classes] + 1.5 * rng.standard_normal((len(classes), WIDTH), np.float32)).astype(np.float16)


def features(folder: Path, n: int) -> None:
    """A pool of classes that are known, and of five that are not."""
    rng = np.random.default_rng(1)
    with FeaturesWriter(folder, WIDTH) as writer:
        for start in range(0, n, 10_000):
            classes = rng.integers(0, CLASSES + 5, min(10_000, n - start))
            ids = [f"{i:08}-{c}" for i, c in enumerate(classes, start)]
            writer.append(draw(classes, rng), ids)


def wait_for_chunks(cluster: Cluster, n: int) -> None:
    """A pass over chunks of 4 MiB each, which are sent."""
    pieces = ((torch.zeros(4096, WIDTH),) for _ in range(n))
    for _ in Scoring(cluster, cores=1).map(lambda X: time.sleep(0.3), None, pieces, n):
        pass


def adapt(cluster: Cluster, folder: Path) -> None:
    """Adapt to the pool; the answer is in the id."""
    known = np.repeat(np.arange(CLASSES), 50)
    agent = Agent.fit(draw(known, np.random.default_rng(2)), known, learner={"keep_bytes": 0})
    pool = Pool.of(FeaturesFolder.open(folder).table())
    pool.elsewhere = Scoring(cluster, cores=1)
    task = agent.adapt(pool, BUDGET)
    while query := task.ask():
        task.tell(query.id, {sample: int(str(sample).partition("-")[2]) for sample in query.ids})


def seconds(address: str, source: Source, folder: Path, only: list[str]) -> dict[str, float]:
    """Time of each, after a small one, or of an adaptation the same, for every worker to be ready."""
    times: dict[str, float] = {}
    with connected(address) as cluster:

        def timed(what: str, work: Callable[[], object]) -> None:
            began = time.perf_counter()
            work()
            times[what] = time.perf_counter() - began

        if "waiting" in only:
            waits = encoder_on(cluster, f"python:{folder.parent / 'waits.py'}:waits")
            embed(cluster, Source(source.path, source.kind, source.items[:8]), waits, folder / "ready", batch=1)
            timed("waiting", lambda: embed(cluster, source, waits, folder / "waited", shard_rows=32))
        if "embedding" in only:
            encoder = encoder_on(cluster, "efficientnet-lite0")
            few = Source(source.path, source.kind, source.items[:32])
            embed(cluster, few, encoder, folder / "warm", batch=4, shard_rows=4)
            timed("embedding", lambda: embed(cluster, source, encoder, folder / "features", shard_rows=64))
        if "streams" in only:
            run(cluster, WARM, folder / "warm-results")
            timed("streams", lambda: run(cluster, STREAMS, folder / "results"))
        if "passes" in only:
            wait_for_chunks(cluster, 8)
            timed("passes", lambda: wait_for_chunks(cluster, 40))
        if "adapting" in only:
            adapt(cluster, folder.parent / "pool")
            timed("adapting", lambda: adapt(cluster, folder.parent / "pool"))
    print(".", end="", file=sys.stderr, flush=True)
    return times


if __name__ == "__main__":
    main()
