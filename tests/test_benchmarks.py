"""Benchmarks are measured, never asserted; but they cannot rot unseen: they import, and their options exist."""

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from cual.bench.runner import fit_first, walk
from cual.methods import methods

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmark_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(FOLDER)  # one may import another
    # what one registers for its runs is nobody else's method
    monkeypatch.setattr(methods, "_members", dict(methods._members))  # pyright: ignore[reportPrivateUsage]

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


def test_the_papers_tables_are_run_with_its_methods_and_cells(benchmark_module: Any, tmp_path: Path) -> None:
    module = benchmark_module("paper_tables")
    rng = np.random.default_rng(0)
    for name in module.SHARED:
        X, y = rng.standard_normal((40, 2048)).astype(np.float16), np.repeat(np.arange(4), 10)
        np.savez(tmp_path / f"{name}.npz", X=X, y=y)
    named = {
        name: setting
        for part in module.SETTINGS.values()
        for name, setting in part(tmp_path, tmp_path / "made").items()
    }
    assert {setting.increment for name, setting in named.items() if "increments" in name} == {1, 3, 5, 7}
    assert all(Path(setting.features).exists() for setting in named.values())
    narrow = named["vit-eurosat-r50"]
    assert set(module.TABLE1) < set(narrow.methods)
    with np.load(tmp_path / "eurosat-r50.npz") as wide, np.load(narrow.features) as few:
        assert few["X"].shape == (40, 384)
        assert np.array_equal(few["y"], wide["y"])
        lengths = np.linalg.norm(few["X"].astype(float), axis=1) / np.linalg.norm(
            wide["X"].astype(float), axis=1
        )
    assert np.allclose(lengths, 1, atol=0.15)  # a projection of Gaussians keeps lengths
    both = {*named["readings-eurosat-r50"].methods, *named["rest-eurosat-r50"].methods}
    assert both == {*methods}


def test_the_papers_tables_are_printed_with_both_averages(
    benchmark_module: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = benchmark_module("paper_tables")
    named = {
        name: replace(setting, methods=("cual",), seeds=(0, 1))
        for name, setting in module.increments(tmp_path, tmp_path).items()
    }
    for name, setting in named.items():
        (tmp_path / name).mkdir()
        row = {"dataset": setting.dataset, "method": "cual", "seconds": 1.0, **setting.varied()}
        before = {"per_class_before": {"a": 1.0}}
        rows = [{**row, "seed": s, "task": 1, "accuracy": 0.5 + s / 10, **before} for s in (0, 1)]
        lines = "".join(json.dumps(one) + "\n" for one in rows)
        (tmp_path / name / "results.jsonl").write_text(lines, encoding="utf-8")
    module.print_tables(named, tmp_path)
    printed = capsys.readouterr().out
    assert "| method | +1 | +3 | +5 | +7 |" in printed
    assert "| cual | 55.0 ± 7.1 |" in printed
    assert "| cual | 77.5 ± 3.5 |" in printed


def test_clairvoyant_questions_are_as_many_all_of_new_classes_and_evenly_dealt(benchmark_module: Any) -> None:
    module = benchmark_module("clairvoyant")
    job = module.Job(module.AT_ONCE | {"IMBALANCE": 8.0}, module.DIGITS, 3, module.DIGITS)
    setting, data = job.setting, module.load(module.DIGITS, "y", 0)
    stream = data.stream(setting, 3)
    agent = fit_first(setting, "cual-plus", 3, data, stream)
    task = stream.tasks[0]
    n = round(setting.budget * len(task.rows))
    for by_lot in (False, True):
        adaptation, after = module.told(agent, setting, task, data, by_lot)
        labels = [data.truth.labels[i] for i in adaptation.answers]
        assert len(labels) == n > 2
        assert not set(labels) & set(agent.classes_.tolist())
        assert all(data.truth.labels[i] == label for i, label in adaptation.answers.items())
        assert adaptation.pseudo_labels
        assert after.version == 1
        if not by_lot:
            assert set(labels) == set(data.truth.classes(task.new))
            assert max(map(labels.count, labels)) - min(map(labels.count, labels)) <= 1


def test_middles_of_groups_are_different_samples(benchmark_module: Any) -> None:
    module = benchmark_module("clairvoyant")
    D = torch.tensor([[1.0, 0.0], [0.96, 0.28], [0.96, -0.28], [0.0, 1.0], [0.28, 0.96], [-0.28, 0.96]])
    for seed in range(20):
        chosen = module.middles(D, 2, np.random.default_rng(seed))
        assert len(set(chosen)) == 2
    assert {0, 3} in [set(module.middles(D, 2, np.random.default_rng(seed))) for seed in range(20)]
    assert sorted(module.middles(D, 6, np.random.default_rng(0))) == list(range(6))


def test_a_look_of_a_thing_is_a_class_of_its_own(benchmark_module: Any, tmp_path: Path) -> None:
    np.savez(
        tmp_path / "pacs-lite0.npz",
        X=np.eye(3, dtype=np.float16),
        y=np.array(["dog", "dog", "cat"]),
        domain=np.array(["photo", "sketch", "photo"]),
    )
    benchmark_module("unseen").make_looks(tmp_path / "looks.npz", tmp_path)
    with np.load(tmp_path / "looks.npz") as looks:
        assert looks["y"].tolist() == ["dog photo", "dog sketch", "cat photo"]
        assert looks["X"].shape == (3, 3)
