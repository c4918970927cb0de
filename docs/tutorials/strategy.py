# %% [markdown]
# # Adding a strategy
#
# **The problem.** You have an idea whom to ask, and want to know whether it is any good. Most of the work
# in such an experiment is not the idea: it is the loop around it, budgets, seeds, resuming, tables.
#
# **What we do.** We write one file with one class of one method, have its contract checked, and run it
# against chance and against the built-in strategy on handwritten digits. Nothing in `cual` is changed, and
# no fork is needed.
#
# ```sh
# pip install 'cual[bench]'
# ```
#
# ## The idea
#
# Ask about samples that look novel *and* are far from each other: two questions about near twins tell
# hardly more than one. That is farthest-first traversal (k-center greedy; Sener and Savarese 2018 use it as
# *core-set*): take the most novel sample, then again and again the one whose nearest chosen neighbour is
# farthest.
#
# A strategy gets a `PoolView`: scores, the threshold, features of any positions, what was asked before. It
# returns up to `n` positions. Its options are its constructor's parameters. `unit_test_params` says with
# which of them it is checked. The last two lines make methods of it: `cual-plus`, but asking by our
# strategy, and `cual-plus` asking at random.

# %%
from pathlib import Path

SOURCE = '''"""Who to ask: what looks novel, and far from each other and from what was asked. Choosing only."""

import numpy as np

from cual import options
from cual.acquisition import PoolView, acquisition
from cual.methods import add, methods


@acquisition("spread")
class Spread:
    """Farthest-first among the most novel samples.

    Parameters
    ----------
    candidates
        So many of the most novel samples are looked at.
    """

    def __init__(self, candidates: int = 200) -> None:
        self.candidates = options.whole("candidates", candidates)

    @classmethod
    def unit_test_params(cls):
        return [{}, {"candidates": 3}]

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> np.ndarray:
        at = np.argsort(-view.scores, kind="stable")[: max(self.candidates, n)]
        X = view.features(at)
        X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
        nearest = np.full(len(at), np.inf)  # distance to the nearest that is or was asked about
        for known in view.asked():
            known = known / max(np.linalg.norm(known), 1e-12)
            nearest = np.minimum(nearest, np.linalg.norm(X - known, axis=1))
        chosen = []
        for _ in range(min(n, len(at))):
            best = int(np.argmax(nearest))  # of equals the first: the most novel
            chosen.append(best)
            nearest = np.minimum(nearest, np.linalg.norm(X - X[best], axis=1))
            nearest[chosen] = -1
        return at[np.array(chosen, dtype=np.int64)]


SPREAD = add(methods["cual-plus"].but(name="plus-spread", first="spread", then="spread"))
CHANCE = add(methods["cual-plus"].but(name="plus-random", first="random", then="random"))
'''
Path("spread.py").write_text(SOURCE)

# %% [markdown]
# ## Does it keep to the contract?
#
# An adaptation relies on its parts: a strategy that asks twice wastes labels, one that forgets its seed
# cannot be resumed. `checks` finds out what kind of part it is and gives the checks for it.

# %%
import sys

sys.path.insert(0, ".")
from spread import Spread

from cual.checks import checks

found = checks(Spread)
for _, check in found:
    check()
print(f"{len(found)} checks passed:", *(name for name, _ in found[:9]), "...", sep="\n  ")

# %% [markdown]
# What a mistake looks like: one that draws with replacement.

# %%
from cual.checks import check_acquisition


class Forgetful(Spread):
    def choose(self, view, n, rng):
        return rng.choice(len(view.scores), min(n, len(view.scores)))  # with replacement


try:
    check_acquisition(Forgetful())
except AssertionError as error:
    print("AssertionError:", error)

# %% [markdown]
# ## Is it any good?
#
# The bench runs whole streams: four digits are known at first, two more turn up in each pool, and 2 % of a
# pool may be asked about. Every method of a seed sees the same samples in the same order. A method of your
# own is `python:FILE:NAME`.

# %%
import subprocess

methods = "python:spread.py:SPREAD,python:spread.py:CHANCE,cual-plus"
command = f"cual bench run --features digits --methods {methods} --out results"
stream = "--first 4 --increment 2 --budget 0.02 --seeds 0,1,2,3,4"
subprocess.run(f"{command} {stream}".split(), check=True)

# %% [markdown]
# `results/results.jsonl` has a row per task, `results/summary.json` the average accuracy of each method.
# (`cual bench report results` makes tables, figures and a page of it.) Accuracy is the mean over all
# classes that have appeared so far; a class that was never found counts 0.

# %% ± 1.5
import json

summary = json.loads(Path("results/summary.json").read_text())
tasks = [json.loads(line) for line in Path("results/results.jsonl").read_text().splitlines()]
for method, row in summary.items():
    missed = [task["classes_missed"] > 0 for task in tasks if task["method"] == method]
    percent = f"{100 * row['mean']:.1f} ± {100 * row['std']:.1f} %"
    print(f"{method:12} {percent}, a new class was missed in {sum(missed)} of {len(missed)} tasks")

# %% [markdown]
# One line per seed says more than the average: a seed decides which digits are known first, and methods
# meet the same ones.

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
for method, row in summary.items():
    axes.plot(list(row["seeds"]), [100 * value for value in row["seeds"].values()], marker="o", label=method)
axes.set(xlabel="seed", ylabel="accuracy (%)")
axes.legend()
Path("figures").mkdir(exist_ok=True)
figure.savefig("figures/strategy.svg")

# %% [markdown]
# ![Accuracy of the three methods for each seed](figures/strategy.svg)
#
# How to read it: compare the gap between two methods with how far they scatter. Where the gap is the
# smaller one, the honest sentence is "no difference was seen with five seeds", and the next step is more
# seeds or other data, not a claim. A steadier method (a smaller ±) is worth something by itself, and so is
# one that misses no class: what was never asked about cannot be learned.
#
# ## Where to go on
#
# - [Checks](../checks.md): what is checked, and how to run it in pytest
# - [The bench](../bench.md): rare classes, wrong answers, drift, many runs in one file
# - [Components](../components.md): every strategy that is there, with its formula and its file
# - [Contributing](../../CONTRIBUTING.md): heads and learners of your own; parts in a package of yours, found by
#   every command through an entry point
