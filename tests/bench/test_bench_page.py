"""docs/bench.md and docs/results.md cannot rot: their commands are understood by the parser that gets them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

from cual.bench.folder import read_rows
from cual.bench.presets import PAPER, presets
from cual.bench.settings import Setting, from_yaml
from cual.cli import app
from cual.datasets import datasets
from cual.encoders import encoders

pytestmark = pytest.mark.more

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "bench.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE + RESULTS, flags=re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]
RUNS = [c for c in COMMANDS if c.startswith("cual bench run ")]


@pytest.mark.parametrize("page", ["bench.md", "results.md"])
def test_pages_lead_somewhere_and_their_figures_are_small(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    linked = [ROOT / "docs" / name for name in re.findall(r"\]\(([^)#:]+)\)", text)]
    named = [ROOT / name for name in re.findall(r"`((?:src|tests|benchmarks|docs)/[\w./-]+)`", text)]
    assert [path for path in linked + named if not path.exists()] == []
    drawn = [path for path in linked if path.suffix == ".svg"]
    assert [path for path in drawn if path.stat().st_size > 150_000] == []
    if page == "results.md":
        assert sorted(drawn) == sorted((ROOT / "docs" / "figures").iterdir()), "each is shown once"


def parsed(command: str) -> dict[str, object]:
    """What the typer command line understands of a `cual …` command; it must be a whole one."""
    words = shlex.split(command)
    assert words[0] == "cual"
    step, rest = typer.main.get_command(app), words[1:]
    context = None
    while True:
        context = step.make_context(step.name, rest, parent=context)
        if not hasattr(step, "resolve_command"):
            return context.params
        _, step, rest = step.resolve_command(context, [*context._protected_args, *context.args])


@pytest.fixture
def settings_of(monkeypatch):
    """What a `cual bench run` command would run; the device is this machine's."""

    def settings(command: str) -> Setting | dict[str, Setting]:
        given: list[Setting | dict[str, Setting]] = []

        def take(settings, *_):
            given.append(settings)
            return []

        monkeypatch.setattr("cual.bench.jobs.run", take)
        words = shlex.split(command.replace("--device cuda", "--device cpu"))[1:]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        return given[0]

    return settings


def test_the_page_has_a_command_for_every_preset():
    used = {parsed(c)["preset"] for c in RUNS}
    assert used - {None} == set(presets.names())
    assert set(re.findall(r"^\| `(\w[\w-]*)` \|", PAGE, flags=re.MULTILINE)) == set(presets.names())


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_parse(command):
    words = shlex.split(command)
    if words[0] == "cual":
        parsed(command)
    else:
        assert (ROOT / words[1]).is_file()


@pytest.mark.parametrize("command", [c for c in RUNS if "--config" not in c])
def test_runs_make_settings(command, settings_of):
    assert settings_of(command)


def test_flags_become_a_setting(settings_of):
    setting = settings_of(
        "cual bench run --features F.npz --methods cual,al-top --first 4 --increment 2 --budget 0.005 "
        "--buffer 99 --seeds 0,1 --no-reuse --wrong 0.1 --skip 0.05 --rarity 10 --natural --imbalance 10 "
        "--wrong-among-new --synonyms 0.2 --turn 1 --drift shift --strength 0.3 --pools drift "
        "--option believe.alpha=0.1 --option learner.uncertainty.variance=0.9 --out DIR"
    )
    assert setting.to_json() == {
        "features": "F.npz", "methods": ["cual", "al-top"], "seeds": [0, 1], "first": 4, "increment": 2,
        "budget": 0.005, "buffer": 99, "name": "F", "rarity": 10.0, "reuse": False, "wrong": 0.1, "skip": 0.05,
        "natural": True, "imbalance": 10.0, "wrong_among_new": True, "synonyms": 0.2, "device": "cpu",
        "turn": 1, "drift": "shift", "looks": [], "strength": 0.3, "pools": "drift",
        "options": {"believe": {"alpha": 0.1}, "learner": {"uncertainty": {"variance": 0.9}}},
    }  # fmt: skip


def test_only_some_runs_of_a_preset(settings_of):
    named = settings_of("cual bench run --preset paper-budgets --only cifar100-super-0.0125 --out DIR")
    assert list(named) == ["cifar100-super-0.0125"]


def test_the_yaml_example_is_read(tmp_path, settings_of):
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    file = tmp_path / "runs.yaml"
    file.write_text(example, encoding="utf-8")
    settings = from_yaml(file)
    assert list(settings) == ["eurosat", "places", "places-noisy"]
    assert settings["eurosat"].budget == 0.005
    assert settings["places"].methods == ("cual", "er-entropy")
    (command,) = [c for c in RUNS if "--config" in c]
    assert settings_of(command.replace("runs.yaml", str(file))) == settings


def test_flags_of_the_page_are_the_flags_of_the_command():
    (table,) = re.findall(r"\| flag \| default .*?\n\n", PAGE, flags=re.DOTALL)
    named = set(re.findall(r"--[a-z][a-z-]*", table)) | {"--preset", "--config", "--features-dir", "--only"}
    command = typer.main.get_command(app).commands["bench"].commands["run"]
    assert named == {flag for parameter in command.params for flag in parameter.opts}


HEAVIER = (
    "PIL", "fastapi", "httpx", "matplotlib", "nicegui", "onnx", "onnxruntime", "pandas", "pyarrow", "rich",
    "scipy", "sklearn", "sqlalchemy", "transformers", "typer", "yaml",
)  # fmt: skip
BLOCK = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVIER!r}:
            raise ModuleNotFoundError(f"{{name}} is not installed here")

sys.meta_path.insert(0, Missing())
"""


def test_the_script_for_bare_machines_needs_numpy_torch_and_safetensors_only(blobs_file, tmp_path):
    (script,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    changes = {
        '"eurosat-r50.npz"': repr(str(blobs_file)),
        '"cuda"': '"cpu"',
        "jobs=8": "jobs=2",
        "budget=0.005": "budget=0.1",
    }
    for there, here in changes.items():
        assert there in script
        script = script.replace(there, here)
    (tmp_path / "stream.py").write_text(script, encoding="utf-8")
    (tmp_path / "sitecustomize.py").write_text(BLOCK, encoding="utf-8")  # for the worker processes, too
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
    process = subprocess.run(
        [sys.executable, "stream.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    rows = read_rows(tmp_path / "results" / "eurosat" / "results.jsonl")
    assert f"{len(rows)} of {len(rows)}" in process.stdout
    assert {row["seed"] for row in rows} == {0, 1}


@pytest.mark.parametrize("name", [n for n in presets.names() if n.startswith("paper")])
def test_commands_that_make_features_are_understood(name):
    for setting in presets[name]("cpu", Path("features")).values():
        get, embed = setting.made_by
        assert parsed(get)["name"] in datasets
        assert parsed(embed)["encoder"] in encoders
    assert set(PAPER) <= set(datasets)
