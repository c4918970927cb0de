"""Speed of class subspaces against scikit-learn and against the bare matrix product.

``.venv/bin/python benchmarks/subspaces.py``: 20 classes × 400 samples × 2048 features on 2 cores, about half a
minute. Alternatives are timed in turn, in one run, and their medians compared; run it on an idle machine.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits
from torch import Tensor

from cual.uncertainty import FRE, ClassSubspace

CORES = 2
CLASSES = 20
SAMPLES = 400  # that a class is fitted to
SCORED = 2000
WIDTH = 2048
REPEATS = 5


def classes(rng: np.random.Generator) -> list[Tensor]:
    """Samples of each class as a ResNet50 pools them: not negative, with as much mean as spread.

    The spectrum keeps some 360 of 399 directions at 99.5 % of the variance (CIFAR-100: 341 to 362).
    """
    directions = np.linalg.qr(rng.standard_normal((WIDTH, WIDTH), dtype=np.float32))[0]
    variances = (np.arange(WIDTH) + 6.0) ** -1.8
    spread = np.sqrt(0.5 * WIDTH * variances / variances.sum()).astype(np.float32)

    def one() -> Tensor:
        mean = rng.exponential(0.4, WIDTH).astype(np.float32)
        latent = rng.standard_normal((SAMPLES + SCORED // CLASSES, WIDTH), dtype=np.float32)
        return torch.from_numpy(np.maximum(mean + (latent * rng.permutation(spread)) @ directions, 0))

    return [one() for _ in range(CLASSES)]


def medians(**alternatives: Callable[[], object]) -> dict[str, float]:
    """Median seconds of each alternative, timed in turn after one unmeasured round."""
    seconds: dict[str, list[float]] = {name: [] for name in alternatives}
    for _ in range(REPEATS + 1):
        for name, alternative in alternatives.items():
            time.sleep(0.1)  # the other's idle threads spin a while before they sleep
            start = time.perf_counter()
            alternative()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times[1:]) for name, times in seconds.items()}


def reconstruction_loop(X: np.ndarray, pcas: list[PCA]) -> np.ndarray:
    """FRE as one writes it with scikit-learn."""
    return np.stack(
        [np.linalg.norm(X - pca.inverse_transform(pca.transform(X)), axis=1) for pca in pcas], axis=1
    )


def memory(kind: str) -> int:
    """Resident memory of this process in bytes: now (VmRSS), or the most there was (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind):
            return int(line.split()[1]) * 1024
    raise LookupError(kind)


def score_in_fresh_process(folder: Path) -> None:
    """Child of `peak_memory`: score once and print the peak over what was resident before, in bytes."""
    torch.set_num_threads(CORES)
    X = load_file(folder / "X")["X"].clone()
    uncertainty = FRE()
    subspaces = [
        uncertainty.load({name: tensor.clone() for name, tensor in load_file(path).items()})
        for path in sorted(folder.glob("class*"))
    ]
    uncertainty.distances(X, subspaces[:1])  # libraries load code and take working memory of their own, once
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of loading
    before = memory("VmRSS")
    distances = uncertainty.distances(X, subspaces)
    inputs = X.nbytes + sum(tensor.nbytes for model in subspaces for tensor in model.state().values())
    print(json.dumps({"extra": memory("VmHWM") - before, "inputs": inputs, "outputs": distances.nbytes}))


def peak_memory(X: Tensor, subspaces: list[ClassSubspace]) -> tuple[float, float]:
    """Peak of scoring over inputs plus outputs, as a ratio; and what it takes beside the inputs, in MiB."""
    with tempfile.TemporaryDirectory() as folder:
        save_file({"X": X}, Path(folder) / "X")
        for j, subspace in enumerate(subspaces):
            save_file(subspace.state(), Path(folder) / f"class{j:02}")
        child = [sys.executable, __file__, folder]
        env = os.environ | {
            "MALLOC_MMAP_THRESHOLD_": "65536"
        }  # what is freed goes back at once and counts anew
        m = json.loads(subprocess.run(child, check=True, capture_output=True, env=env).stdout)
    return (m["inputs"] + m["extra"]) / (m["inputs"] + m["outputs"]), m["extra"] / 2**20


def main() -> None:
    """Measure everything and print the table."""
    torch.set_num_threads(CORES)
    data = classes(np.random.default_rng(0))
    fitted, arrays = [X[:SAMPLES] for X in data], [X[:SAMPLES].numpy() for X in data]
    scored = torch.cat([X[SAMPLES:] for X in data])
    uncertainty = FRE()
    subspaces = [uncertainty.fit(X) for X in fitted]
    pcas = [PCA(0.995).fit(X) for X in arrays]
    W = torch.cat([subspace.components for subspace in subspaces])
    product = torch.empty(len(scored), len(W))
    grams = [(X - X.mean(dim=0)).double() @ (X - X.mean(dim=0)).double().T for X in fitted]
    bases = [torch.randn(len(subspace.basis), SAMPLES) for subspace in subspaces]

    with threadpool_limits(CORES):
        fit = medians(
            sklearn=lambda: [PCA(0.995).fit(X) for X in arrays],
            ours=lambda: [uncertainty.fit(X) for X in fitted],
            eigenproblems=lambda: [torch.linalg.eigh(gram) for gram in grams],
            products=lambda: [
                (X.double() @ X.double().T, basis @ X) for X, basis in zip(fitted, bases, strict=True)
            ],
        )
        score = medians(
            sklearn=lambda: reconstruction_loop(scored.numpy(), pcas),
            product=lambda: torch.mm(scored, W.T, out=product),
            ours=lambda: uncertainty.distances(scored, subspaces),
        )
    difference = (
        uncertainty.distances(scored, subspaces).numpy() / reconstruction_loop(scored.numpy(), pcas) - 1
    )
    peak, extra = peak_memory(scored, subspaces)

    rows = [
        ("fit 20 classes, times faster than scikit-learn", fit["sklearn"] / fit["ours"], 5),
        ("score 2,000 samples, times faster than scikit-learn", score["sklearn"] / score["ours"], 2),
        ("score, share of the bare matrix product's rate", score["product"] / score["ours"], 0.6),
        ("score, peak memory over inputs + outputs (below)", peak, 1.5),
    ]
    print(f"{SAMPLES} samples keep {subspaces[0].k} components")
    for what, ratio, aim in rows:
        print(f"{what:55} {ratio:6.2f}   aim {aim}")
    bare = fit["eigenproblems"] + fit["products"]
    print(
        f"fit: eigenproblems in float64 take {fit['eigenproblems'] / fit['ours']:.2f} of it, with both ", end=""
    )
    print(f"products {bare / fit['ours']:.2f}; no more than that: {fit['sklearn'] / bare:.2f} times faster")
    print(
        f"fit: {1e3 * fit['ours'] / CLASSES:.1f} ms a class (scikit-learn {1e3 * fit['sklearn'] / CLASSES:.1f})"
    )
    print(f"score: {1e3 * score['ours']:.0f} ms (product {1e3 * score['product']:.0f}, scikit-learn ", end="")
    print(f"{1e3 * score['sklearn']:.0f}), {extra:.1f} MiB beside the inputs")
    print(f"FRE off scikit-learn's by {np.abs(difference).max():.1e} at most")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        score_in_fresh_process(Path(sys.argv[1]))
    else:
        main()
