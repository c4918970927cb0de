"""docs/bench.md and docs/results.md cannot rot: their commands are understood by the parser that gets them."""

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from cual.bench.__main__ import chosen, parser
from cual.bench.presets import PAPER, presets
from cual.bench.settings import from_yaml
from cual.cli import app
from cual.datasets import datasets
from cual.encoders import encoders

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "bench.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE + RESULTS, flags=re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]
BENCH = [c for c in COMMANDS if c.startswith(("cual bench ", "python -m cual.bench "))]
RUNS = [c for c in BENCH if " run " in c]


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


def arguments(command: str) -> list[str]:
    """The words after `cual bench` or `python -m cual.bench`."""
    words = shlex.split(command)
    return words[2:] if words[0] == "cual" else words[3:]


def test_the_page_has_a_command_for_every_preset():
    used = {parser().parse_args(arguments(c)).preset for c in RUNS}
    assert used - {None} == set(presets.names())
    assert set(re.findall(r"^\| `(\w[\w-]*)` \|", PAGE, flags=re.MULTILINE)) == set(presets.names())


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_parse(command):
    words = shlex.split(command)
    if words[0] == "cual":
        parsed(command)
    if command in BENCH:
        parser().parse_args(arguments(command))
    else:
        assert words[0] == "cual" or (ROOT / words[1]).is_file()


@pytest.mark.parametrize("command", [c for c in RUNS if "--config" not in c])
def test_runs_make_settings(command):
    options = parser().parse_args(arguments(command))
    settings = chosen(options)
    assert settings


def test_the_yaml_example_is_read(tmp_path):
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    file = tmp_path / "runs.yaml"
    file.write_text(example, encoding="utf-8")
    settings = from_yaml(file)
    assert list(settings) == ["eurosat", "places", "places-noisy"]
    assert settings["eurosat"].budget == 0.005
    assert settings["places"].methods == ("cual", "er-entropy")
    (command,) = [c for c in RUNS if "--config" in c]
    options = parser().parse_args(arguments(command.replace("runs.yaml", str(file))))
    assert list(chosen(options)) == list(settings)


def test_flags_of_the_page_are_the_flags_of_the_command():
    (table,) = re.findall(r"\| flag \| default .*?\n\n", PAGE, flags=re.DOTALL)
    told = set(re.findall(r"--[a-z][a-z-]*", table)) | {"--preset", "--config", "--features-dir", "--only"}
    run = parser()._subparsers._group_actions[0].choices["run"]
    flags = {flag for action in run._actions for flag in action.option_strings if flag.startswith("--")}
    assert told == flags - {"--help"}


@pytest.mark.parametrize("name", [n for n in presets.names() if n.startswith("paper")])
def test_commands_that_make_features_are_understood(name):
    for setting in presets[name]("cpu", Path("features")).values():
        get, embed = setting.made_by
        assert parsed(get)["name"] in datasets
        assert parsed(embed)["encoder"] in encoders
    assert set(PAPER) <= set(datasets)
