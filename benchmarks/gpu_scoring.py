"""What scoring takes on a GPU, against the ceilings of its arithmetic, measured in the same run.

    python benchmarks/gpu_scoring.py [--rows 100000] [--memory 1000000]

FRE to 100 classes of 200 components, 2048 features: one class after the other, one stacked product in plain
PyTorch, and the kernel; errors are against float64. The samples are those that the classes were fitted on, so
that each lies in the subspace of its own class but for 0.5 % of the variance: there FRE is a small difference
of large numbers. Then fits, the nearest of many classes, and the nearest of many known samples. Needs torch,
numpy and Triton only (PYTHONPATH=src); run it while nothing else uses the GPU or the cores beside it.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import normalize

from cual.learners.prototypes import search
from cual.uncertainty import FRE, ClassSubspace, stacked
from cual.uncertainty.nearest import NearestSubspace
from cual.uncertainty.stacked import StackedSubspaces

WIDTH, CLASSES, COMPONENTS, SAMPLES = 2048, 100, 200, 1000
GPU = torch.device("cuda")


def milliseconds(work: Callable[[], object], repeats: int = 7) -> float:
    """The median, after two runs that do not count."""
    times = list[float]()
    for _ in range(repeats + 2):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times[2:])


class Precision:
    """Whether products of float32 matrices may be rounded to tf32."""

    def __init__(self, tf32: bool) -> None:
        self._tf32 = tf32

    def __enter__(self) -> None:
        torch.backends.cuda.matmul.allow_tf32 = self._tf32

    def __exit__(self, *_: object) -> None:
        torch.backends.cuda.matmul.allow_tf32 = False


ARITHMETICS = {
    "float32": (torch.float32, False),
    "tf32": (torch.float32, True),
    "bfloat16": (torch.bfloat16, False),
    "float16": (torch.float16, False),
}


def ceilings(rows: int, operations: float) -> dict[str, float]:
    """The rate of the bare product of the same shape in each arithmetic, in TFLOP/s."""
    part = rows // 4
    A, B = torch.randn(part, WIDTH, device=GPU), torch.randn(CLASSES * COMPONENTS, WIDTH, device=GPU)
    rates = dict[str, float]()
    for name, (dtype, tf32) in ARITHMETICS.items():
        a, b = A.to(dtype), B.to(dtype)
        out = torch.empty(part, len(B), dtype=dtype, device=GPU)
        with Precision(tf32):
            took = milliseconds(lambda a=a, b=b, out=out: torch.mm(a, b.T, out=out))
        rates[name] = operations / 4 / took / 1e9
        print(f"bare product in {name:9} {rates[name]:6.0f} TFLOP/s", flush=True)
    return rates


# -- FRE -------------------------------------------------------------------------------------------------------


def classes_of_200() -> tuple[list[ClassSubspace], Tensor]:
    """Classes that retain about 99.5 % of the variance in 200 components, and what they were fitted on."""
    rng = torch.Generator(GPU).manual_seed(0)
    spread = 4 * torch.arange(1, 401, device=GPU) ** -0.88
    models, samples = list[ClassSubspace](), list[Tensor]()
    for _ in range(CLASSES):
        directions = torch.linalg.qr(torch.randn(WIDTH, 400, generator=rng, device=GPU)).Q.T
        X = torch.randn(SAMPLES, 400, generator=rng, device=GPU) * spread @ directions
        X += 0.5 * torch.randn(WIDTH, generator=rng, device=GPU)
        models.append(replace(ClassSubspace.fit(X), k=COMPONENTS))
        samples.append(X)
    return models, torch.cat(samples)


def loop(X: Tensor, models: list[ClassSubspace]) -> Tensor:
    return torch.stack([model.fre(X) for model in models], dim=1)


def stacked_product(X: Tensor, models: list[ClassSubspace], dtype: torch.dtype) -> Tensor:
    """What one writes in plain PyTorch: a product with all components, 10,000 rows at a time."""
    W = torch.cat([model.components for model in models]).to(dtype)
    means = torch.stack([model.mean for model in models])
    offsets = torch.cat([model.components @ model.mean for model in models])
    found = torch.empty(len(X), len(models), device=X.device)
    for start in range(0, len(X), 10_000):
        u = X[start : start + 10_000]
        inside = (u.to(dtype) @ W.T).float().sub_(offsets).square_().view(len(u), len(models), -1).sum(dim=2)
        norms = u.square().sum(dim=1, keepdim=True) - 2 * u @ means.T + means.square().sum(dim=1)
        found[start : start + 10_000] = (norms - inside).clamp(min=0).sqrt()
    return found


def true_distances(X: Tensor, models: list[ClassSubspace]) -> Tensor:
    found = torch.empty(len(X), len(models), dtype=torch.float64, device=X.device)
    for c, model in enumerate(models):
        W = model.components.double()
        for start in range(0, len(X), 20_000):
            v = X[start : start + 20_000].double() - model.mean
            found[start : start + 20_000, c] = torch.linalg.vector_norm(v - v @ W.T @ W, dim=1)
    return found


def report_fre(rows: int) -> None:
    operations = 2.0 * rows * WIDTH * CLASSES * COMPONENTS
    rates = ceilings(rows, operations)
    models, X = classes_of_200()
    X = X[torch.randperm(len(X), device=GPU)[:rows]]
    true = true_distances(X, models)
    own = true.min(dim=1).indices
    inside = true.gather(1, own[:, None])[:, 0] / torch.linalg.vector_norm(
        X - torch.stack([m.mean for m in models])[own], dim=1
    )
    print(f"\n{rows} x {WIDTH} against {CLASSES} x {COMPONENTS}: {operations / 1e12:.2f} TFLOP; ", end="")
    print(f"FRE²/‖v‖² to the own class {inside.square().mean():.4f}, at least {inside.square().min():.4f}")
    prepared = StackedSubspaces(models)
    ways: dict[str, tuple[str, Callable[[], Tensor]]] = {"loop, float32": ("float32", lambda: loop(X, models))}
    for name, (dtype, _) in ARITHMETICS.items():
        ways[f"stacked, {name}"] = (name, lambda dtype=dtype: stacked_product(X, models, dtype))
    ways["kernel, classes prepared"] = ("float16", lambda: prepared.distances(X))
    ways["kernel"] = ("float16", lambda: FRE().distances(X, models))
    took = dict[str, float]()
    for name, (arithmetic, work) in ways.items():
        with Precision(ARITHMETICS[arithmetic][1]):
            error = (work().double() / true - 1).abs()
            took[name] = milliseconds(work)
        rate = operations / took[name] / 1e9
        share, largest = 100 * rate / rates[arithmetic], error.gather(1, own[:, None]).max()
        print(
            f"{name:26} {took[name]:8.2f} ms {rate:5.0f} TFLOP/s, {share:4.0f} % of the ceiling; "
            f"off by {largest:.1e} at most to the own class, {error.max():.1e} to all",
            flush=True,
        )
    for other in ("loop, float32", "stacked, tf32", "stacked, float32"):
        ratios = (took[other] / took[kernel] for kernel in ("kernel", "kernel, classes prepared"))
        print(
            f"kernel against {other}: {' / '.join(f'{r:.1f}' for r in ratios)} times faster (classes prepared)"
        )
    kept, stacked.CLOSE = stacked.CLOSE, 0.0
    print(f"without measuring anything again: {milliseconds(lambda: prepared.distances(X)):.2f} ms")
    stacked.CLOSE = kept


# -- fits, many classes, many known samples --------------------------------------------------------------------


def report_fits() -> None:
    samples = list(torch.randn(100, 300, WIDTH, device=GPU))
    grams = torch.stack([X @ X.T for X in samples]).double()
    fits = milliseconds(lambda: [FRE().fit(X) for X in samples], 3)
    bare = milliseconds(lambda: [torch.linalg.eigh(gram) for gram in grams], 3)
    batched = milliseconds(lambda: torch.linalg.eigh(grams), 3)
    print(f"\nfits of 100 classes of 300 samples: {fits:.0f} ms; ", end="")
    print(f"bare eigenproblems {bare:.0f}, batched {batched:.0f}")


def report_many_classes(classes: int, rows: int = 10_000, width: int = 512) -> None:
    """Every way to the nearest class, where classes have some 40 components."""
    rng = torch.Generator(GPU).manual_seed(classes)
    spread = (torch.arange(width, device=GPU) + 6.0) ** -0.9
    each = -(-rows // classes)
    samples, fresh = list[Tensor](), list[Tensor]()
    for _ in range(classes):
        mean, directions = (torch.randn(n, width, generator=rng, device=GPU) * spread for n in (1, 40))
        X = mean + torch.randn(48 + each, 40, generator=rng, device=GPU) @ directions / 40**0.5
        X += 0.3 * spread * torch.randn(X.shape, generator=rng, device=GPU)
        samples.append(X[:48])
        fresh.append(X[48:])
    models, X = [FRE().fit(part) for part in samples], torch.cat(fresh)[:rows]
    bounded, find = NearestSubspace(models), StackedSubspaces(models).nearest
    few = 200 if classes > 1000 else rows
    every = rows / few * milliseconds(lambda: loop(X[:few], models), 1)
    kernel = milliseconds(lambda: find(X), 3)
    pruned = rows / few * milliseconds(lambda: bounded(X[:few]), 1)
    same = (find(X[:few])[1] == loop(X[:few], models).min(dim=1).indices).float().mean()
    left_out = 1 - bounded.measured / bounded.bounded
    print(
        f"{classes:6} classes: kernel {kernel:.1f} ms; loop {every / kernel:.0f} times that, bounds "
        f"{pruned / kernel:.0f} times ({100 * left_out:.1f} % of distances not measured); "
        f"{100 * same:.2f} % the same class",
        flush=True,
    )


def report_neighbours(memory: int, rows: int = 20_000, width: int = 1280) -> None:
    """The 15 most alike of many known samples."""
    rng = torch.Generator(GPU).manual_seed(0)
    centres = torch.randn(10_000, width, generator=rng, device=GPU)

    def draw(n: int) -> Tensor:
        which = torch.randint(10_000, (n,), generator=rng, device=GPU)
        return normalize(centres[which] + torch.randn(n, width, generator=rng, device=GPU), dim=1)

    others, U = draw(memory), draw(rows)
    operations = 2.0 * rows * memory * width

    def by_blocks(rows: Tensor) -> tuple[Tensor, Tensor]:
        parts = [search._by_blocks(u, others, 15, None) for u in rows.split(2048)]
        return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])

    def by_groups(rows: Tensor) -> tuple[Tensor, Tensor]:
        parts = [search.most_alike(u, others, 15) for u in rows.split(2048)]
        return torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts])

    plain, kernel = milliseconds(lambda: by_blocks(U), 1), milliseconds(lambda: by_groups(U), 3)
    (a, place), (b, found) = by_blocks(U), by_groups(U)
    same = (place.sort(dim=1).values == found.sort(dim=1).values).float().mean()
    print(
        f"\n15 most alike of {memory} known samples, {rows} x {width}: kernel {kernel:.0f} ms "
        f"({operations / kernel / 1e9:.0f} TFLOP/s), {plain / kernel:.1f} times faster than blocks of float32; "
        f"{100 * same:.3f} % the same, cosines off by {(a - b).abs().max():.0e} at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--memory", type=int, default=1_000_000)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("needs a GPU")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    report_fre(args.rows)
    report_fits()
    report_neighbours(args.memory)
    print()
    for classes in (100, 1000, 10_000):
        report_many_classes(classes)


if __name__ == "__main__":
    main()
