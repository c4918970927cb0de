"""Bugs put in by hand that tests once did not notice: each is made in a copy of the sources, and tests fail.

    python tests/mutants.py [--only WORD]

Not a test itself: it takes minutes. `make mutants` runs it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Mutant:
    """A bug: in which file, what becomes what, and the tests that should fail."""

    name: str
    file: str
    before: str
    after: str
    tests: str


MUTANTS = (
    Mutant(
        "eq. 4's weights are swapped",
        "heads/base.py",
        "zip((self.queried, self.pseudo, replay), self.weights, strict=True)",
        "zip((self.pseudo, self.queried, replay), self.weights, strict=True)",
        "tests/heads",
    ),
    Mutant(
        "shuffled rows of a features folder are read as contiguous",
        "data/folder/reading.py",
        " and (np.diff(local) == 1).all()",
        "",
        "tests/data",
    ),
    Mutant(
        "accuracy over samples instead of classes",
        "bench/rows.py",
        '"accuracy": float(np.mean(list(per_class.values()))),',
        '"accuracy": float(np.mean(np.asarray(predicted) == truth.labels[rows])),',
        "tests/bench/test_measures.py tests/bench/test_runner.py",
    ),
    Mutant(
        "the budget's check ignores open questions",
        "loop/state.py",
        "if charged + promised > self.budget:",
        "if charged > self.budget:",
        "tests/loop",
    ),
    Mutant(
        "odds without their correction",
        "learners/prototypes/competition.py",
        "frequent = (float(novel.sum()) - n * mistaken) / (1 - mistaken)",
        "frequent = float(novel.sum())",
        "tests/learners",
    ),
    Mutant(
        "answered anchors are not fixed to their class",
        "learners/prototypes/competition.py",
        "        shares[at] = certain\n",
        "",
        "tests/learners",
    ),
    Mutant(
        "expanded features are not normalised",
        "heads/ridge.py",
        "z = F.normalize(z.relu_() if self._expanded else z)",
        "z = z.relu_() if self._expanded else F.normalize(z)",
        "tests/heads",
    ),
    Mutant(
        "rejected pseudo-labels are chosen again",
        "loop/machine.py",
        "judged[np.concatenate([self._answered_rows(state), self._rejected_rows(state)])] = True",
        "judged[self._answered_rows(state)] = True",
        "tests/loop",
    ),
)


def killed(mutant: Mutant) -> bool:
    """Whether tests fail with the bug in."""
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "src"
        shutil.copytree(ROOT / "src", sources, ignore=shutil.ignore_patterns("__pycache__"))
        file = sources / "cual" / mutant.file
        text = file.read_text()
        if text.count(mutant.before) != 1:
            sys.exit(f"{mutant.name}: {mutant.file} has {text.count(mutant.before)} times {mutant.before!r}")
        file.write_text(text.replace(mutant.before, mutant.after))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests.split()],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode not in (0, 1):
            sys.exit(f"{mutant.name}: the tests did not run\n{done.stdout[-2000:]}")
        failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
        print(f"{'killed' if failed else 'SURVIVED':9} {mutant.name}  {' '.join(failed)[:150]}", flush=True)
        return bool(failed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutants with this in their names")
    args = parser.parse_args()
    results = [killed(mutant) for mutant in MUTANTS if args.only in mutant.name]
    if not all(results):
        sys.exit(f"{results.count(False)} of {len(results)} survived")


if __name__ == "__main__":
    main()
