"""How long a training step of a head takes, against what it cannot do without and what people write.

    python benchmarks/training.py [--device cuda] [--rounds 60]

The floor is the step's own matrix products, each alone, plus one fused pass of Adam over the parameters; aim:
a step of the MLP within 1.5 times that. The plain loop is nn.Sequential, autograd and torch.optim.Adam with
its defaults. All are timed in turns within the same rounds; medians are printed. On a GPU the outcome is also
compared with the CPU's. Needs torch and numpy only (``PYTHONPATH=src`` where cual is not installed).
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median

import numpy as np
import torch
from torch import Tensor, nn

from cual.heads import MLP, Lesson, Linear, Samples, training
from cual.heads.training import Step, gathered, plan, recorded

WIDTH = 2048
HIDDEN = 4096
CLASSES = 10
RECORD, NEVER = training.EAGER_STEPS + 1, sys.maxsize  # values of MIN_RECORDED


def lesson(device: str, n: int = 1000, dtype: torch.dtype = torch.float32) -> Lesson:
    rng = np.random.default_rng(0)

    def source(size: int) -> Samples:
        y = rng.integers(CLASSES, size=size)
        X = rng.random((size, WIDTH), dtype=np.float32) + 0.3 * (y[:, None] == np.arange(WIDTH) % CLASSES)
        return Samples(torch.from_numpy(X).to(device, dtype), torch.from_numpy(y).to(device))

    return Lesson(CLASSES, source(n // 20), source(n // 4), source(n - n // 20 - n // 4))


def timed(
    jobs: Mapping[str, Callable[[], object]], rounds: int, device: str, warm_up: int = 3, repeats: int = 0
) -> dict[str, float]:
    """Median seconds of each job, in turns; on a GPU a turn is several launches and one wait."""
    repeats = repeats or (20 if device == "cuda" else 1)
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(warm_up + rounds):
        for name, job in jobs.items():
            wait()
            start = time.perf_counter()
            for _ in range(repeats):
                job()
            wait()
            seconds[name].append((time.perf_counter() - start) / repeats)
    return {name: median(times[warm_up:]) for name, times in seconds.items()}


def step_of(head: MLP | Linear, task: Lesson) -> Step:
    sources, rng = task.sources(), np.random.default_rng(0)
    rows, weights = plan([len(s) for s, _ in sources], [w for _, w in sources], 500, head.batch, rng)
    state = head.sized(task).grown(CLASSES, rng).state()
    n_layers = sum(name.startswith("weight_") for name in state)
    layers = tuple((state[f"weight_{i}"], state[f"bias_{i}"]) for i in range(n_layers))
    X, targets = gathered([s for s, _ in sources], CLASSES)
    return Step(layers, X, targets, torch.from_numpy(rows), torch.from_numpy(weights), head.lr)


def products(step: Step) -> dict[str, Callable[[], Tensor]]:
    """The matrix products of one step, each alone, on memory of their own."""
    jobs: dict[str, Callable[[], Tensor]] = {}
    for i, (weight, _) in enumerate(step.layers):
        w, x, y = (torch.rand_like(each) for each in (weight, step.values[i], step.values[i + 1]))
        w_out, x_out, y_out = (torch.empty_like(each) for each in (w, x, y))
        jobs[f"layer {i}: values"] = partial(torch.mm, x, w.t(), out=y_out)
        jobs[f"layer {i}: gradient"] = partial(torch.mm, y.t(), x, out=w_out)
        if i:
            jobs[f"layer {i}: errors"] = partial(torch.mm, y, w, out=x_out)
    return jobs


def fused_adam(step: Step) -> Callable[[], None]:
    """One fused pass over as many parameters as the step has, on memory of its own."""
    parameters, gradient, m, v = (torch.rand_like(step.parameters) for _ in range(4))
    count = torch.zeros_like(step.adam_steps)

    def run() -> None:
        count.add_(1)
        torch._fused_adam_(
            [parameters], [gradient], [m], [v], [], [count],
            lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip

    return run


def plain_loop(head: MLP | Linear, task: Lesson, device: str) -> Callable[[], None]:
    """The step everyone writes, at its best: one batch from one source, one forward pass, one loss."""
    if isinstance(head, MLP):
        net = nn.Sequential(nn.Linear(WIDTH, head.hidden), nn.ReLU(), nn.Linear(head.hidden, CLASSES))
    else:
        net = nn.Sequential(nn.Linear(WIDTH, CLASSES))
    net.to(device)
    adam, cross_entropy = torch.optim.Adam(net.parameters(), lr=1e-3), nn.CrossEntropyLoss()
    X, y = task.replay.X, task.replay.y

    def run() -> None:
        rows = torch.randint(len(y), (head.batch,), device=device)
        adam.zero_grad()
        cross_entropy(net(X[rows]), y[rows]).backward()
        adam.step()

    return run


def report_steps(head: MLP | Linear, device: str, rounds: int) -> None:
    task = lesson(device)
    step = step_of(head, task)
    floor = {**products(step), "one fused pass of Adam": fused_adam(step)}
    jobs = {**floor, "our step": step, "plain loop": plain_loop(head, task, device)}
    if device == "cuda":
        step()  # libraries set themselves up before anything is recorded
        jobs["our step, recorded"] = recorded(step)
    seconds = timed(jobs, rounds, device)
    print(f"\n{type(head).__name__}, width {WIDTH}, {CLASSES} classes, batch {head.batch}")
    for name, value in seconds.items():
        print(f"  {name:26s} {value * 1e3:9.4f} ms")
    total = sum(seconds[name] for name in floor)
    ours = seconds.get("our step, recorded", seconds["our step"])
    print(f"  {'floor (products + Adam)':26s} {total * 1e3:9.4f} ms")
    print(f"  our step / floor      {ours / total:6.2f}")
    print(f"  plain loop / our step {seconds['plain loop'] / ours:6.2f}")


def logits_after(head: MLP | Linear, task: Lesson, record_from: int | None = None) -> Tensor:
    """Logits of the replay samples after learning, with recording forced on or off if asked for."""
    usual = training.MIN_RECORDED
    training.MIN_RECORDED = usual if record_from is None else record_from
    logits = head.learn(task, np.random.default_rng(1)).logits(task.replay.X)
    training.MIN_RECORDED = usual
    return logits


def report_agreement() -> bool:
    """GPU against CPU (within rounding), against itself and recorded against eager steps (bit for bit)."""
    agree = True
    print()
    for head in (MLP(HIDDEN, epochs=15), Linear(epochs=5)):
        cpu, gpu = (logits_after(head, lesson(device, 400), RECORD).cpu() for device in ("cpu", "cuda"))
        again, eager = (logits_after(head, lesson("cuda", 400), kind).cpu() for kind in (RECORD, NEVER))
        error = ((gpu - cpu).abs().max() / cpu.abs().max()).item()
        repeats, same = torch.equal(gpu, again), torch.equal(gpu, eager)
        agree &= error < 1e-3 and repeats and same
        print(f"{type(head).__name__}: largest difference GPU-CPU {error:.1e} of the largest logit; ", end="")
        print(f"repeats bit for bit: {repeats}; recorded = eager bit for bit: {same}")
    half = lesson("cuda", 400, torch.float16)
    agree &= bool(logits_after(MLP(HIDDEN, epochs=5), half).isfinite().all())
    return agree


def report_lessons(device: str, rounds: int) -> None:
    """Whole lessons; on a GPU with and without recording, which tells where MIN_RECORDED should lie."""
    kinds = {"automatic": None, "recorded": RECORD, "eager": NEVER} if device == "cuda" else {"learn": None}
    print()
    for n in (50, 200, 2500, 10_000) if device == "cuda" else (200,):
        task = lesson(device, n)
        for head in (MLP(HIDDEN), Linear()):
            jobs = {kind: partial(logits_after, head, task, value) for kind, value in kinds.items()}
            times = timed(jobs, max(1, rounds // 20), device, warm_up=1, repeats=1)
            print(
                f"{type(head).__name__} lesson of {n} samples, {head.epochs * -(-n // head.batch)} steps: ",
                end="",
            )
            print(", ".join(f"{kind} {value * 1e3:.1f} ms" for kind, value in times.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {options.device}, {torch.get_num_threads()} threads")
    for head in (MLP(HIDDEN), Linear()):
        report_steps(head, options.device, options.rounds)
    report_lessons(options.device, options.rounds)
    if options.device == "cuda" and not report_agreement():
        sys.exit("GPU and CPU disagree")


if __name__ == "__main__":
    main()
