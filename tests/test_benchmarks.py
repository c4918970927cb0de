"""Benchmarks are measured, never asserted; but they cannot rot unseen: they import, and their options exist."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

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
