"""Methods that ask whom scikit-activeml and small-text choose; and how well cleanlab finds wrong labels.

The methods are run by the bench (docs/neighbours.md has the command)::

    cual --use benchmarks/neighbours.py bench run --features digits --methods cual,cual-coreset,… --out results

Run by itself where cleanlab is installed, this measures label issues: of answers of which a tenth is wrong,
and of pseudo-labels, how well cleanlab's score and the margin of `Adaptation.margins` sort wrong ones first.
"""

import argparse
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import numpy as np

from cual import Agent
from cual.bridges import skactiveml as _skactiveml  # registers the strategies that are named below
from cual.bridges import small_text as _small_text
from cual.methods import add, methods

_ = _skactiveml, _small_text
THEN: dict[str, dict[str, Any]] = {
    "uncertainty": {
        "name": "skactiveml",
        "strategy": "UncertaintySampling",
        "options": {"method": "entropy"},
    },
    "coreset": {"name": "skactiveml", "strategy": "CoreSet"},
    "typiclust": {"name": "skactiveml", "strategy": "TypiClust"},
    "badge": {"name": "skactiveml", "strategy": "Badge"},
    "ties": {"name": "small-text", "strategy": "BreakingTies"},
    "kmeans": {"name": "small-text", "strategy": "EmbeddingKMeans"},
    "lightweight": {"name": "small-text", "strategy": "LightweightCoreset"},
}
for _short, _then in THEN.items():
    for _base in ("cual", "cual-plus"):
        add(methods[_base].but(name=f"{_base}-{_short}", then=_then))


def sorted_first(wrong: Iterable[bool], scores: Iterable[float]) -> float:
    """AUROC of "is wrong" by low scores; NaN where all are right or all are wrong."""
    from sklearn.metrics import roc_auc_score

    truth = list(wrong)
    return float("nan") if len(set(truth)) < 2 else float(roc_auc_score(truth, [-score for score in scores]))


def measured(method: str, seed: int, share: float) -> dict[str, float]:
    """One adaptation on digits: five known classes, five novel ones, 100 answers of which a share is wrong."""
    from sklearn.datasets import load_digits

    from cual.bridges.cleanlab import label_issues

    X, y = load_digits(return_X_y=True)
    X = X / 16
    rng = np.random.default_rng(seed)
    first = rng.permutation(np.flatnonzero(y < 5))[:450]
    pool = np.setdiff1d(np.arange(len(y)), first)
    task = Agent.fit(X[first], y[first], method=method, seed=seed).adapt(X[pool], budget=100, ids=pool)
    while query := task.ask():
        others = {i: [c for c in range(10) if c != y[i]] for i in query.ids}
        wrong = {i: rng.random() < share for i in query.ids}
        task.tell(query.id, {i: int(rng.choice(others[i])) if wrong[i] else int(y[i]) for i in query.ids})
    issues = label_issues(task)
    row: dict[str, float] = {}
    for source in ("answer", "pseudo-label"):
        of_it = [issue for issue in issues if issue.source == source and issue.score is not None]
        mistaken = [issue.label != y[issue.id] for issue in of_it]
        flagged = [bad for issue, bad in zip(of_it, mistaken, strict=True) if issue.issue]
        row[f"{source}s"] = len(of_it)
        row[f"wrong {source}s"] = sum(mistaken)
        row[f"flagged {source}s"] = len(flagged)
        row[f"of them wrong {source}s"] = sum(flagged)
        row[f"AUROC {source}s"] = sorted_first(mistaken, [issue.score or 0.0 for issue in of_it])
    margins = task.margins()
    row["AUROC margin"] = sorted_first([task.pseudo_labels[i] != y[i] for i in margins], margins.values())
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--wrong", type=float, default=0.1)
    given = parser.parse_args()
    if find_spec("cleanlab") is None:
        print("cleanlab is not installed: pip install 'cual[cleanlab]'")
        return
    for method in ("cual-plus", "cual"):
        rows = [measured(method, int(seed), given.wrong) for seed in given.seeds.split(",")]
        for name in rows[0]:
            print(f"{method:10} {name:24} {np.nanmean([row[name] for row in rows]):8.3f}")


if __name__ == "__main__":
    main()
