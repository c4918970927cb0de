"""docs/results.md says of every file of ours how others can have one like it; its script does so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cual.data.files import read
from cual.data.folder import FeaturesWriter
from cual.datasets import datasets
from cual.methods import methods

pytestmark = pytest.mark.more

ROOT = Path(__file__).parents[1]
RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
SCRIPT = (ROOT / "benchmarks" / "features.sh").read_text(encoding="utf-8")
(SECTION,) = re.findall(r"## Running it again\n(.*?)\n## ", RESULTS, flags=re.DOTALL)


def test_every_file_of_ours_that_a_page_names_has_a_recipe() -> None:
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *(ROOT / "benchmarks").iterdir()]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages if page.is_file())
    named = set(re.findall(r"shared/data/([\w-]+(?:\.npz|\.csv\.gz)?)", text)) - {"README"}
    listed = set(re.findall(r"^\| `([\w.-]+)` \|", SECTION, flags=re.MULTILINE))
    assert named
    assert named <= listed


def test_every_method_has_figures_on_the_page_or_is_said_to_have_none() -> None:
    rows = set(re.findall(r"^\| (?:\*\*)?([a-z][a-z0-9-]+)(?:\*\*)? \|", RESULTS, flags=re.MULTILINE))
    unmeasured = set(re.findall(r"`([a-z0-9-]+)` has not been measured", RESULTS))
    assert {*methods} == {name for name in {*rows, *unmeasured} if name in methods}
    assert not rows & unmeasured
    assert {name for name in rows if name.startswith(("cual", "al-", "er-", "pseudo-", "only-", "oracle"))} <= {
        *methods
    }


def test_the_script_makes_the_files_that_the_presets_want() -> None:
    made = re.findall(r"^make_features (\S+) (\d+) (\S+)$", SCRIPT, flags=re.MULTILINE)
    assert {dataset for dataset, _, _ in made} <= {*datasets}
    from cual.bench.presets import SHARED

    assert {file for _, _, file in made} == {*SHARED}


def test_the_script_draws_so_many_of_each_class(tmp_path: Path) -> None:
    (code,) = re.findall(r"<<'PYTHON'\n(.*?)\nPYTHON", SCRIPT, flags=re.DOTALL)
    with FeaturesWriter(tmp_path / "all", width=2) as writer:
        labels = ["sea"] * 9 + ["wood"] * 5
        X = np.arange(28).reshape(14, 2)
        writer.append(X, ids=[f"{i}.jpg" for i in range(14)], labels=labels)
    for most, expected in ((3, 6), (0, 14)):
        target = tmp_path / f"{most}.npz"
        command = [sys.executable, "-c", code, str(tmp_path / "all"), str(most), str(target)]
        subprocess.run(command, check=True)
        table = read(target)
        assert len(table) == expected
        assert table.class_names == ("sea", "wood")
        rows = [int(str(i).partition(".")[0]) for i in table.ids]
        assert table.labels().tolist() == [labels[row] for row in rows]
        assert np.array_equal(table.X, X[rows])


@pytest.mark.parametrize("script", ["features.sh", "text.sh"])
def test_scripts_are_bash(script: str) -> None:
    assert subprocess.run(["bash", "-n", str(ROOT / "benchmarks" / script)], check=False).returncode == 0


@pytest.mark.slow
def test_the_script_runs_on_images_that_are_there_already(tmp_path: Path) -> None:
    """All of it but the download: images of each dataset lie where it would put them."""
    rng = np.random.default_rng(0)
    for dataset in ("eurosat", "cifar100-super", "places365-ood"):
        for name in ("sea", "wood"):
            folder = tmp_path / "images" / dataset / name
            folder.mkdir(parents=True)
            for i in range(3):
                Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).save(folder / f"{i}.png")
    toy = tmp_path / "toy.py"
    toy.write_text(
        "def mean(images):\n    return [[i.width, *i.resize((1, 1)).getpixel((0, 0))] for i in images]\n"
    )
    given = {"BIN": str(Path(sys.executable).parent), "ENCODER": f"python:{toy}:mean", "DEVICE": "cpu"}
    command = ["bash", str(ROOT / "benchmarks" / "features.sh"), str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, **given})
    for file in ("eurosat-r50", "cifar100-super-r50", "places50-r50"):
        table = read(tmp_path / f"{file}.npz")
        assert len(table) == 6
        assert table.class_names == ("sea", "wood")
    again = subprocess.run(command, check=True, env={**os.environ, **given}, capture_output=True, text=True)
    assert again.stdout == ""
