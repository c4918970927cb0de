"""How far probabilities can be believed: of `Agent.predict_proba`, and of `Agent.calibrated`, which is served.

    OMP_NUM_THREADS=1 python benchmarks/calibration.py [--data ../shared/data] [--seeds 0,1,2,3,4]
        [--files eurosat-r50,…] [--methods cual-plus,cual]

An agent learns the first classes of a file and predicts fresh samples of these. The expected calibration error
(15 bins of equal width) of the probability of the class that it names; the share of samples that are called
"unsure", and how many labels are right of those and of the others. Mean over seeds.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from cual.agent import Agent
from cual.bench.streams import Protocol, make_stream
from cual.serve.web.predictions.outcomes import UNSURE_BELOW

FILES = {"eurosat-r50": (2, 1), "cifar100-super-r50": (4, 2), "places50-r50": (10, 5)}
BINS = 15


def calibration_error(sure: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error: how far sureness and the share of right labels are apart, bin by bin."""
    bins = np.minimum((BINS * sure).astype(int), BINS - 1)
    gaps = [abs(sure[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return float(sum(gaps))


def measured(X: np.ndarray, y: np.ndarray, protocol: Protocol, method: str, seed: int) -> tuple[float, ...]:
    stream = make_stream(y, protocol, seed)
    agent = Agent.fit(X[stream.first], y[stream.first], method, seed)
    test = stream.test_rows(stream.tasks[-1].number)
    test = test[np.isin(y[test], agent.classes_)]
    plain, calibrated = agent.predict_proba(X[test]), agent.calibrated(X[test])
    assert calibrated is not None
    right = agent.classes_[plain.argmax(axis=1)] == y[test]
    sure = calibrated.max(axis=1)
    unsure = sure < UNSURE_BELOW
    return (
        calibration_error(plain.max(axis=1), right),
        calibration_error(sure, right),
        float(unsure.mean()),
        float(right[unsure].mean()) if unsure.any() else float("nan"),
        float(right[~unsure].mean()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--methods", default="cual-plus,cual")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "| file | method | error of predict_proba | calibrated | unsure | right if unsure | right otherwise |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for file in args.files.split(","):
        path = args.data / f"{file}.npz"
        if not path.exists():
            print(f"skipped: no {path}")
            continue
        with np.load(path) as arrays:
            X, y = arrays["X"].astype(np.float32), arrays["y"].astype(np.int64)
        first, increment = FILES[file]
        protocol = Protocol(first=first, increment=increment)
        for method in args.methods.split(","):
            rows = [measured(X, y, protocol, method, int(seed)) for seed in args.seeds.split(",")]
            cells = " | ".join(f"{value:.1%}" for value in np.nanmean(rows, axis=0))
            print(f"| {file} | {method} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
