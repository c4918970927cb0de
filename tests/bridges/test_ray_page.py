"""docs/ray.md cannot rot: its commands are understood, and its cluster is YAML of the shape it should have."""

import re
import shlex
from pathlib import Path

import pytest
import typer.main
import yaml

from cual.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "ray.md").read_text(encoding="utf-8")
LINES = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL) for line in block.splitlines()]
COMMANDS = [line[line.index("cual ") :] for line in LINES if "cual " in line]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_parse(command):
    words = shlex.split(command)[1:]
    step = typer.main.get_command(app)
    context = None
    while hasattr(step, "resolve_command"):
        context = step.make_context(step.name, words, parent=context)
        _, step, words = step.resolve_command(context, [*context._protected_args, *context.args])
    assert step.make_context(step.name, words, parent=context).params["ray"] == "auto"


def test_all_pods_have_the_same_image_and_storage():
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    spec = yaml.safe_load(text)["spec"]
    head, worker = (group["template"]["spec"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]))
    assert head["volumes"] == worker["volumes"]
    (one,), (two,) = head["containers"], worker["containers"]
    assert (one["image"], one["volumeMounts"]) == (two["image"], two["volumeMounts"])
