from pathlib import Path

import pytest

from cual.bench.jobs import run
from cual.bench.paper import paper_tables
from cual.bench.presets import ABLATIONS, TABLE1, presets
from cual.bench.settings import DIGITS, from_yaml
from cual.errors import BadFile, BadOption


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_makes_settings_and_says_how_its_features_are_made(name, tmp_path):
    settings = presets[name]("cpu", tmp_path / "features")
    assert settings
    for setting in settings.values():
        if name.startswith("paper"):
            assert setting.made_by[-1].endswith(f"-o {setting.features}")
    if all(s.features != DIGITS for s in settings.values()):
        with pytest.raises(BadFile) as error:
            run(settings, tmp_path / "out")
        for setting in settings.values():
            assert f"{setting.features} is missing" in str(error.value)
            assert all(command in str(error.value) for command in setting.made_by)
        assert not (tmp_path / "out").exists()


def test_presets_have_a_run_for_every_column_of_the_papers_tables():
    for table, preset in (
        ("table1", "paper-table1"),
        ("ablations", "paper-ablations"),
        ("increments", "paper-increments"),
    ):
        settings = presets[preset]("cpu", Path("features")).values()
        for column in paper_tables()[table].columns:
            assert any(column.matches(s.dataset, s.increment, s.budget) for s in settings), column
    assert set(TABLE1) == set(paper_tables()["table1"].rows)
    assert set(ABLATIONS) == set(paper_tables()["ablations"].rows)


def test_yaml_runs(blobs_file, tmp_path):
    path = tmp_path / "runs.yaml"
    path.write_text(
        f"defaults: {{features: {blobs_file}, methods: [cual, er-random], seeds: [0, 1]}}\n"
        "a: {first: 3}\nb: {}\n"
    )
    settings = from_yaml(path)
    assert list(settings) == ["a", "b"]
    assert settings["a"].methods == ("cual", "er-random")
    assert (settings["a"].first, settings["b"].first) == (3, 2)
    path.write_text("a: {features: f.npz, frist: 3}\n")
    with pytest.raises(BadOption, match=r"runs\.yaml, a: no field frist"):
        from_yaml(path)
    path.write_text("a: {first: 3}\n")
    with pytest.raises(BadOption, match="which features file"):
        from_yaml(path)
    path.write_text("a: [")
    with pytest.raises(BadFile, match="not YAML"):
        from_yaml(path)
    path.write_text("3")
    with pytest.raises(BadFile, match="map names"):
        from_yaml(path)
