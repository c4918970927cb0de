"""How far an exported ONNX file is from its agent, on samples of known and unknown classes.

    OMP_NUM_THREADS=1 python benchmarks/exports.py [--data ../shared/data] [--methods cual-plus,cual,er-entropy]
        [--of digits,eurosat-r50,pictures,texts] [--seeds 0,1]

An agent learns half of the classes, or ten at most, from samples of which the others are asked about: digits of
scikit-learn, features of a file, pictures of EuroSAT through efficientnet-lite0 and texts of banking77 through
all-minilm-l6-v2 (both with the encoder in the file). The largest difference over seeds, as
`cual.deploy.checking` measures it, of novelty as a share of the score itself as well; and how many of the
samples have another label or verdict.
"""

import argparse
import csv
import gzip
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cual import Agent
from cual.deploy import to_onnx
from cual.deploy.checking import differences
from cual.encoders import Encoder, make
from cual.encoders.images import open_image

AT_ONCE = 32


@dataclass(frozen=True)
class Data:
    """Labelled samples; with an encoder, the prepared items that features were made of, too."""

    X: np.ndarray
    y: np.ndarray
    encoder: Encoder | None = None
    items: list[Any] | None = None


def digits(data: Path) -> Data:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Data(X.astype(np.float32), y)


def features(data: Path, file: str = "eurosat-r50.npz") -> Data:
    with np.load(data / file) as arrays:
        return Data(arrays["X"].astype(np.float32)[::4], arrays["y"].astype(np.int64)[::4])


def pictures(data: Path, each: int = 40) -> Data:
    folders = sorted(folder for folder in (data / "eurosat-images").iterdir() if folder.is_dir())
    files = [file for folder in folders for file in sorted(folder.iterdir())[:each]]
    encoder = make("efficientnet-lite0")
    return _encoded(encoder, [open_image(file) for file in files], [file.parent.name for file in files])


def texts(data: Path, each: int = 30) -> Data:
    with gzip.open(data / "banking77.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = sorted({row["label"] for row in rows})[:20]
    some = [row for name in names for row in [row for row in rows if row["label"] == name][:each]]
    return _encoded(make("all-minilm-l6-v2"), [row["text"] for row in some], [row["label"] for row in some])


def _encoded(encoder: Encoder, items: list[Any], labels: list[str]) -> Data:
    prepared = [encoder.prepare(item) for item in items]
    parts = [encoder.encode(prepared[i : i + AT_ONCE]) for i in range(0, len(prepared), AT_ONCE)]
    return Data(np.concatenate(parts), np.array(labels), encoder, prepared)


SOURCES: dict[str, Callable[[Path], Data]] = {
    "digits": digits,
    "eurosat-r50": features,
    "pictures": pictures,
    "texts": texts,
}


def compared(data: Data, method: str, seed: int) -> tuple[dict[str, float], int, int, int]:
    """Largest differences by output, samples with another label or verdict, and samples."""
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.unique(data.y))
    known = np.isin(data.y, classes[: min(10, len(classes) // 2)])
    learned = known & (rng.random(len(known)) < 0.5)
    asked = np.flatnonzero(~learned)
    fingerprint = None if data.encoder is None else data.encoder.fingerprint
    agent = Agent.fit(data.X[learned], data.y[learned], method, seed, encoder=fingerprint)
    with tempfile.TemporaryDirectory() as folder:
        to_onnx(agent, f"{folder}/agent.onnx")
        outputs = said(Path(folder) / "agent.onnx", data, asked)
    X = data.X[asked]
    found = {d.output: d.value for d in differences(outputs, agent, X)}
    score = agent.novelty(X)
    found["novelty of itself"] = float((np.abs(outputs["novelty"] - score) / np.abs(score)).max())
    labels = (agent.classes_[outputs["label"]] != agent.predict(X)).sum()
    verdicts = (outputs["unlike"] != (score > agent.threshold.value)).sum()
    return found, int(labels), int(verdicts), len(asked)


def said(path: Path, data: Data, rows: np.ndarray) -> dict[str, np.ndarray]:
    """What the file says of some samples."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    parts = []
    for start in range(0, len(rows), AT_ONCE):
        some = rows[start : start + AT_ONCE]
        if data.items is None:
            feeds = {"features": data.X[some]}
        else:
            feeds = data.encoder.feeds([data.items[i] for i in some])  # type: ignore[union-attr]
        parts.append(dict(zip(names, session.run(None, feeds), strict=True)))
    return {name: np.concatenate([np.atleast_1d(part[name]) for part in parts]) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--of", default=",".join(SOURCES))
    parser.add_argument("--methods", default="cual-plus,cual,er-entropy")
    parser.add_argument("--seeds", default="0,1")
    args = parser.parse_args()
    torch.set_num_threads(1)
    columns = ("logits", "probabilities", "calibrated", "novelty", "novelty of itself")
    print(f"| | method | {' | '.join(columns)} | other labels | other verdicts | samples |")
    print("| --- | --- |" + " ---: |" * (len(columns) + 3))
    for source in args.of.split(","):
        try:
            data = SOURCES[source](args.data)
        except FileNotFoundError as error:
            print(f"skipped: no {error.filename}")
            continue
        for method in args.methods.split(","):
            rows = [compared(data, method, int(seed)) for seed in args.seeds.split(",")]
            largest = [max(found[name] for found, *_ in rows) for name in columns]
            counts = [sum(row[i] for row in rows) for i in (1, 2, 3)]
            cells = [*(f"{value:.1e}" for value in largest), *map(str, counts)]
            print(f"| {source} | `{method}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
