"""The samples of which fixtures are made: two small worlds, the same for every release. No agents here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits


@dataclass(frozen=True)
class Data:
    """Samples of the first classes, two pools with their true labels, and rows to predict."""

    X: np.ndarray
    y: np.ndarray
    pools: tuple[np.ndarray, np.ndarray]
    ids: tuple[list[Any], list[Any]]
    labels: tuple[list[Any], list[Any]]
    probe: np.ndarray

    def truth(self, pool: int) -> dict[Any, Any]:
        return dict(zip(self.ids[pool], self.labels[pool], strict=True))

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        arrays = {"X": self.X, "y": self.y, "probe": self.probe}
        for pool in (0, 1):
            arrays |= {f"pool{pool}": self.pools[pool], f"ids{pool}": np.array(self.ids[pool])}
            arrays[f"labels{pool}"] = np.array(self.labels[pool])
        return {f"{name}.{key}": array for key, array in arrays.items()}


def animals() -> Data:
    """Flat Gaussian classes in sixteen dimensions, with names; float32."""
    rng = np.random.default_rng(408)
    names = ("cat", "dog", "owl", "Füchsin mit Schal", "Łabędź")
    centres = {name: rng.normal(0, 2, 16) for name in names}
    planes = {name: rng.normal(0, 1, (4, 16)) for name in names}

    def draw(counts: Mapping[str, int]) -> tuple[np.ndarray, list[str]]:
        rows = [
            centres[name] + rng.normal(0, 1, (n, 4)) @ planes[name] + rng.normal(0, 0.1, (n, 16))
            for name, n in counts.items()
        ]
        labels = [name for name, n in counts.items() for _ in range(n)]
        order = rng.permutation(len(labels))
        return np.concatenate(rows)[order].astype(np.float32), [labels[i] for i in order]

    X, y = draw({"cat": 24, "dog": 24})
    pools = (
        draw({"cat": 13, "dog": 13, "owl": 11, names[3]: 11}),
        draw({"cat": 8, "dog": 8, "owl": 8, names[4]: 16}),
    )
    ids = tuple(
        [f"{place}/img_{i:03}.jpg" for i in range(len(pool[1]))]
        for place, pool in zip("ab", pools, strict=True)
    )
    probe, _ = draw(dict.fromkeys(names, 4))
    return Data(X, np.array(y), tuple(p[0] for p in pools), ids, tuple(p[1] for p in pools), probe)


def digits() -> Data:
    """Scikit-learn's digits at 4 × 4 pixels, with numbers for labels and for ids; pools are float16."""
    held: Any = load_digits()
    X, y = held.images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16) / 16, held.target
    X = X.astype(np.float32)
    rng = np.random.default_rng(408)
    left = {c: list(rng.permutation(np.flatnonzero(y == c))) for c in range(6)}

    def draw(counts: Mapping[int, int]) -> np.ndarray:
        return rng.permutation([left[c].pop() for c, n in counts.items() for _ in range(n)])

    first = draw({0: 20, 1: 20, 2: 20})
    pools = draw({0: 8, 1: 8, 2: 8, 3: 12, 4: 12}), draw({0: 7, 1: 7, 2: 7, 3: 7, 5: 14})
    probe = draw(dict.fromkeys(range(6), 3))
    return Data(
        X[first],
        y[first],
        tuple(X[rows].astype(np.float16) for rows in pools),
        tuple(rows.tolist() for rows in pools),
        tuple(y[rows].tolist() for rows in pools),
        X[probe],
    )
