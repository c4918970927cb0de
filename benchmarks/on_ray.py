"""Two Ray workers against one, as ratios: images per second of an embedding, streams per second of the bench.

    python benchmarks/on_ray.py [--images 600] [--rounds 3]

Two clusters on this machine, of one and of two nodes with a core each, are measured in turn, so that both see
the same neighbours; 2 would be perfect. Workers load their network first. The command, Ray's own processes and
whatever else runs take their part of the cores: on a machine of two that is busy, these ratios tell little. So
an encoder that only waits, as for a device of its own, is measured too: that is mostly the bridge's own doing.
"""

import argparse
import os
import secrets
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# Before Ray is imported: loopback, a token of its own, nobody told.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np
from PIL import Image

from cual.bench.settings import DIGITS, Setting
from cual.bridges.ray import connected, embed, encoder_on, run
from cual.encoders.sources import Source, open_source

STREAMS = Setting(DIGITS, ("cual",), seeds=(0, 1, 2, 3), first=5, increment=5, buffer=500)
WAITS = (
    "import time\ndef waits(images):\n    time.sleep(0.3)\n    return [[i.width, i.height] for i in images]\n"
)
WARM = Setting(DIGITS, ("er-random",), seeds=(0, 1, 2, 3), first=5, increment=5, buffer=500)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    clusters: list[Any] = []
    # Names of Ray's sockets have a limit, so its folder has a short one.
    with tempfile.TemporaryDirectory(prefix="cr", dir="/tmp") as own, tempfile.TemporaryDirectory() as folder:
        os.environ["RAY_TMPDIR"] = own
        source = pictures(Path(folder) / "images", args.images)
        (Path(folder) / "waits.py").write_text(WAITS)
        try:
            clusters += [start(nodes) for nodes in (1, 2)]
            addresses = [str(cluster.address) for cluster in clusters]
            rounds = [
                [seconds(address, source, Path(tempfile.mkdtemp(dir=folder))) for address in addresses]
                for _ in range(args.rounds)
            ]
        finally:
            for cluster in clusters:
                cluster.shutdown()
    for what in ("waiting", "embedding", "streams"):
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


def seconds(address: str, source: Source, folder: Path) -> dict[str, float]:
    """Time of an embedding and of four streams, after a small one of each for every worker to be ready."""
    with connected(address) as cluster:
        waits = encoder_on(cluster, f"python:{folder.parent / 'waits.py'}:waits")
        embed(cluster, Source(source.path, source.kind, source.items[:8]), waits, folder / "ready", batch=1)
        first = time.perf_counter()
        embed(cluster, source, waits, folder / "waited", shard_rows=32)
        waited = time.perf_counter() - first
        encoder = encoder_on(cluster, "efficientnet-lite0")
        few = Source(source.path, source.kind, source.items[:32])
        embed(cluster, few, encoder, folder / "warm", batch=4, shard_rows=4)
        began = time.perf_counter()
        embed(cluster, source, encoder, folder / "features", shard_rows=64)
        embedded = time.perf_counter()
        run(cluster, WARM, folder / "warm-results")
        warm = time.perf_counter()
        run(cluster, STREAMS, folder / "results")
        ended = time.perf_counter()
    print(".", end="", file=sys.stderr, flush=True)
    return {"waiting": waited, "embedding": embedded - began, "streams": ended - warm}


if __name__ == "__main__":
    main()
