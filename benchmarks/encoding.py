"""Encoding speed: efficientnet-lite0 in eager torch and as the library runs it; how busy `embed` keeps cores.

Images are the shared EuroSAT ones where they are there, and photographs of 640 × 480 made up here.
"""

import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from cual.encoders import Setup, make
from cual.encoders.efficientnet import INPUT, _weights, build
from cual.encoders.embedding import embed
from cual.encoders.sessions import cores
from cual.encoders.sources import image_folder

SHARED = Path(__file__).parents[2] / "shared" / "data" / "eurosat-images"
BATCH, REPEATS = 32, 5


def rate(encode, batch) -> float:
    """Images per second, the best of some repeats."""
    encode(batch)
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        encode(batch)
        times.append(time.perf_counter() - began)
    return len(batch) / min(times)


def eager():
    """The network as its package gives it: float32, contiguous, nothing folded."""
    network = build(_weights(Setup()))
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (INPUT.mean, INPUT.std))

    def encode(batch):
        x = torch.from_numpy(np.stack(batch)).permute(0, 3, 1, 2).contiguous().float() / 255
        with torch.inference_mode():
            return network((x - mean) / std).numpy()

    return encode


def photographs(folder: Path, n: int = 400) -> Path:
    """JPEGs of 640 × 480 with detail at every scale."""
    rng = np.random.default_rng(0)
    for i in range(n):
        layers = [
            np.asarray(
                Image.fromarray(rng.integers(0, 256, (s * 3, s * 4, 3), dtype=np.uint8)).resize((640, 480)),
                float,
            )
            for s in (2, 16, 60)
        ]
        Image.fromarray(np.mean(layers, axis=0).astype(np.uint8)).save(folder / f"{i}.jpg", quality=90)
    return folder


def busy(folder: Path, encoder, out: Path) -> str:
    """Images per second of `embed`, and the share of all cores' time that it used."""
    source = image_folder(folder)
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    outcome = embed(source, encoder, out)
    after, seconds = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - began
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{outcome.encoded / seconds:6.1f} images/s, cores {100 * used / seconds / cores():.0f} % busy"


def main() -> None:
    torch.set_num_threads(cores())
    rng = np.random.default_rng(0)
    batch = [rng.integers(0, 256, (224, 224, 3), dtype=np.uint8) for _ in range(BATCH)]
    encoder = make("efficientnet-lite0")
    plain, ours = rate(eager(), batch), rate(encoder.encode, batch)
    print(f"{cores()} cores of {os.cpu_count()}, batches of {BATCH}")
    print(f"eager torch          {plain:6.1f} images/s")
    print(f"{type(encoder).__name__:20} {ours:6.1f} images/s, {ours / plain:.1f} ×")
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "photographs").mkdir()
        print("embed, 640 × 480    ", busy(photographs(Path(name) / "photographs"), encoder, Path(name) / "a"))
        if SHARED.is_dir():
            print("embed, EuroSAT      ", busy(SHARED, encoder, Path(name) / "b"))


if __name__ == "__main__":
    main()
