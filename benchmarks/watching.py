"""How soon watching tells of a new class, how often for nothing, and which groups it finds.

    OMP_NUM_THREADS=1 python benchmarks/watching.py [--data ../shared/data] [--seeds 0,1,2,3,4]
        [--files eurosat-r50,…] [--method cual-plus] [--known 4000] [--shares 0.05,0.1,0.2]

First the rule alone, on drawn verdicts: 5 % of known samples and 90 % of new ones are called unlike anything
known, after 2000 known samples and with 400 validation samples. Then agents on real features: fresh samples of
known classes, one after the other, and from then on a share of one unknown class. Told are samples of that
class until the alert, and alerts before it came. Last, the groups among samples called unlike anything known:
150 of each known class, and 100 of each of so many unknown ones.
"""

import argparse
import math
from pathlib import Path

import numpy as np

from cual.agent import Agent
from cual.serve.rules.watching.course import Course, Judged, Yardstick
from cual.serve.rules.watching.evidence import Baseline, Evidence
from cual.serve.rules.watching.grouping import MOST, groups_of

FILES = ("eurosat-r50", "cifar100-super-r50", "places50-r50")
LEARNED, FRESH, NEW = 150, 150, 100
"""Samples of each class that an agent learns, that are fresh, and of an unknown class."""


def rule_alone(shares: list[float]) -> None:
    print("\nthe rule alone: samples of the new class until the alert\n")
    print("| share of traffic | median | 95 of 100 |")
    print("| ---: | ---: | ---: |")
    rng, most = np.random.default_rng(0), Baseline.of(20, 400).seen(100, 2000).most
    for share in shares:
        needed: list[float] = []
        for _ in range(200):
            new = rng.random(round(1000 / share)) < share
            unlike = rng.random(len(new)) < np.where(new, 0.9, 0.05)
            at = Evidence().after(unlike.tolist(), most).at
            needed.append(math.inf if at is None else int(new[: at + 1].sum()))
        ordered = np.sort(needed)
        print(f"| {100 * share:g} % | {ordered[100]:.0f} | {ordered[190]:.0f} |")


def fitted(X: np.ndarray, y: np.ndarray, seed: int, method: str) -> tuple[Agent, np.ndarray, np.ndarray]:
    """An agent of twelve classes at most, fresh rows of these, and three classes that it does not know."""
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.unique(y))
    new, old = classes[:3], classes[3:15]
    rows = [rng.permutation(np.flatnonzero(y == label)) for label in old]
    learned = np.concatenate([r[:LEARNED] for r in rows])
    agent = Agent.fit(X[learned], y[learned].tolist(), method, seed)
    return agent, np.concatenate([r[LEARNED : LEARNED + FRESH] for r in rows]), new


def alerts(
    agent: Agent, X: np.ndarray, fresh: np.ndarray, new: np.ndarray, args: argparse.Namespace, seed: int
) -> tuple[int, float, list[float]]:
    """False alerts, the share of new samples above the threshold, samples until the alert for each share."""
    rng, threshold = np.random.default_rng(seed), agent.threshold.value
    stick = Yardstick.of(agent.known_novelty, threshold, None)
    scores = {"known": agent.novelty(X[fresh]), "new": agent.novelty(X[new])}

    def judged(drawn: np.ndarray) -> Judged:
        return Judged(drawn > threshold, drawn.astype(np.float32), np.zeros(len(drawn), np.int64))

    course, turns = Course(0).after(judged(rng.choice(scores["known"], args.known)), stick)
    false = sum(turn.begins and turn.kind == "novelty" for turn in turns)
    needed: list[float] = []
    for share in args.shares:
        is_new = rng.random(20_000) < share
        drawn = np.where(is_new, rng.choice(scores["new"], 20_000), rng.choice(scores["known"], 20_000))
        _, turns = course.after(judged(drawn), stick)
        at = [turn.after - course.seen for turn in turns if turn.begins and turn.kind == "novelty"]
        needed.append(float(is_new[: at[0]].sum()) if at else math.inf)
    return false, float((scores["new"] > threshold).mean()), needed


def found(
    agent: Agent, X: np.ndarray, y: np.ndarray, fresh: np.ndarray, new: np.ndarray, seed: int
) -> list[str]:
    """Unknown classes that a group is mostly of, and other groups; for none to three of them."""
    rng, told = np.random.default_rng(seed), list[str]()
    for n in range(4):
        rows = [rng.permutation(np.flatnonzero(y == label))[:NEW] for label in new[:n]]
        all_rows = np.concatenate([fresh, *rows])
        unlike = rng.permutation(all_rows[agent.novelty(X[all_rows]) > agent.threshold.value])[:MOST]
        groups = [group for group in groups_of(agent, X[unlike]) if group.like is None]
        main = [np.unique(y[unlike[g.rows]], return_counts=True) for g in groups]
        names = [labels[counts.argmax()] for labels, counts in main]
        hits = {name for name in names if name in new[:n]}
        told.append(f"{len(hits)}/{n} +{sum(name not in new[:n] for name in names)}")
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=lambda text: [int(s) for s in text.split(",")], default=[0, 1, 2, 3, 4])
    parser.add_argument("--files", type=lambda text: text.split(","), default=list(FILES))
    parser.add_argument("--method", default="cual-plus")
    parser.add_argument("--known", type=int, default=4000)
    parser.add_argument("--shares", type=lambda t: [float(s) for s in t.split(",")], default=[0.05, 0.1, 0.2])
    args = parser.parse_args()
    rule_alone(sorted({*args.shares, 0.02, 0.5}))
    shares = " | ".join(f"at {100 * share:g} %" for share in args.shares)
    print(f"\n| file | seed | new above threshold | false alerts | {shares} | groups, 0 to 3 unknown classes |")
    for name in args.files:
        path = args.data / f"{name}.npz"
        if not path.is_file():
            print(f"{path}: no such file")
            continue
        data = np.load(path, allow_pickle=False)
        X, y = data["X"].astype(np.float32), data["y"]
        for seed in args.seeds:
            agent, fresh, new = fitted(X, y, seed, args.method)
            false, above, needed = alerts(agent, X, fresh, np.flatnonzero(y == new[0]), args, seed)
            told = " | ".join("never" if math.isinf(n) else f"{n:.0f}" for n in needed)
            groups = ", ".join(found(agent, X, y, fresh, new, seed))
            print(f"| {name} | {seed} | {100 * above:.0f} % | {false} | {told} | {groups} |", flush=True)


if __name__ == "__main__":
    main()
