"""Benchmarks are measured, never asserted; but they cannot rot unseen: they import, and their options exist."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cual.bench.runner import fit_first, walk
from cual.methods import methods

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmark_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)  # one may import another

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look themselves up there
        spec.loader.exec_module(module)
        return module

    return load


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.py")))
def test_benchmarks_import(name: str, benchmark_module: Any) -> None:
    assert callable(benchmark_module(name).main)


def test_variants_of_cual_plus_are_options_that_change_something(benchmark_module: Any) -> None:
    usual = methods["cual-plus"]
    for kind, variants in benchmark_module("cual_plus").VARIANTS.items():
        for name, changes in variants.items():
            options = {option: value for option, value in changes.items() if not option.isupper()}
            assert (usual.but(**options) != usual) is bool(options), (kind, name)


def test_variants_of_cual_plus_are_runs_of_the_bench(benchmark_module: Any) -> None:
    module = benchmark_module("cual_plus")
    for kind, variants in module.VARIANTS.items():
        for name, changes in variants.items():
            capitals = {change for change in changes if change.isupper()}
            assert capitals <= set(module.CAPITALS), (kind, name)
            runs = [module.Job(changes, file, 0, "").identity for file in module.FILES]
            assert all(run["imbalance"] == changes.get("IMBALANCE") for run in runs), (kind, name)


def test_a_stream_of_cual_plus_is_that_of_the_bench(benchmark_module: Any) -> None:
    module = benchmark_module("cual_plus")
    job = module.Job({"IMBALANCE": 8.0, "SYNONYMS": 0.2}, "digits", 10, "digits")
    row = module.run(job)
    data = module.load("digits", "y", 0)
    agent = fit_first(job.setting, "cual-plus", 10, data, data.stream(job.setting, 10))
    rows = [step.row for step in walk(job.setting, "cual-plus", 10, data, agent)]
    assert row["accuracy"] == pytest.approx(np.mean([r["accuracy"] for r in rows]))
    assert [t["questions"] for t in row["tasks"]] == [r["labels_used"] for r in rows]
    assert [t["asked_novel"] for t in row["tasks"]] == [r["novel_queried"] for r in rows]
    assert [t["auroc"] for t in row["tasks"]] == [r["iterations"][0]["auroc"] for r in rows]
    right = [r["pseudo_labels"] * (r["pseudo_label_accuracy"] or 0) for r in rows]
    assert row["precision"] == pytest.approx(sum(right) / sum(r["pseudo_labels"] for r in rows))


def test_the_calibration_error_is_that_of_ten_bins(benchmark_module: Any) -> None:
    rng = np.random.default_rng(0)
    said = rng.random(200)
    so = rng.random(200) < said**2
    expected = 0.0
    for low in np.arange(10) / 10:
        inside = [i for i in range(200) if low <= said[i] < low + 0.1]
        expected += len(inside) / 200 * abs(np.mean(said[inside]) - np.mean(so[inside]))
    error = benchmark_module("cual_plus").calibration_error([(said[:50], so[:50]), (said[50:], so[50:])])
    assert error == pytest.approx(expected)


def test_streams_of_the_drift_benchmark_are_runs_of_the_bench(benchmark_module: Any, tmp_path: Path) -> None:
    module = benchmark_module("drift")
    args = SimpleNamespace(
        methods=["cual-plus", "oracle-ridge"], budgets=[0.02, 0.1], seeds=[10, 11], choices=4,
        per_class=5, data=Path("data"), out=tmp_path / "drift.jsonl",
    )  # fmt: skip
    jobs = {kind: list(make(args)) for kind, make in module.JOBS.items()}
    identities = [str(job.identity) for some in jobs.values() for job in some]
    assert len(set(identities)) == len(identities)
    assert len(jobs["pacs"]) == 4 * 4 * 2 * 3, "choices, orders of looks, seeds; two budgets and a bound"
    assert {job.setting.turn for job in jobs["pacs"]} == {0, 1, 2, 3}


@pytest.mark.parametrize("corruption", ["haze", "blur", "cast", "noise"])
def test_pictures_are_corrupted_more_and_more(corruption: str, benchmark_module: Any) -> None:
    module = benchmark_module("drift")
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    clean = np.asarray(image, dtype=float)
    changes = []
    for strength in (0.0, 0.25, 0.5, 0.75, 1.0):
        one, two = (np.asarray(module.corrupted(image, corruption, strength, 7)) for _ in range(2))
        assert one.tobytes() == two.tobytes()
        changes.append(float(np.abs(one - clean).mean()))
    assert changes[0] == 0
    assert changes == sorted(set(changes)), "each strength changes more than the one before"


def test_a_table_of_drift_has_the_worst_gain_of_all_streams(benchmark_module: Any) -> None:
    module = benchmark_module("drift")
    row = dict.fromkeys(module.KEPT, 0.5) | {"task": 1, "look": "sketch", "novelty_auroc_last": None}
    worse = row | {"accuracy": 0.4, "accuracy_before": 0.45}
    better = row | {"accuracy": 0.7}
    lines = {("cual-plus", 0.1): [(10, [better]), (10, [worse]), (11, [better])]}
    _, _, line = module.table(lines)
    cells = dict(zip(module.HEADER, line.strip("| ").split(" | "), strict=True))
    assert cells["after"] == "62.5 ± 10.6", "mean and deviation over seeds, of means over choices"
    assert (cells["worst gain over frozen"], cells["over before"]) == ("-10.0", "-5.0")
    assert (cells["AUROC first"], cells["last"]) == ("50.0 ± 0.0", "–")
