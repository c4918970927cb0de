"""Parts of others: installed packages, python:module:Name and --use. What a file names is never imported.

Each command runs in a process of its own: what is registered there is not registered here.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cual
from cual import Agent
from worlds import World, without_sums

pytestmark = pytest.mark.more

ROOT = Path(__file__).parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SRC = Path(cual.__file__).parents[1]
METHOD = """
from cual.methods import add, methods
MINE = add(methods["cual"].but(name="mine", summary="asks where nothing is", then="bottom", rounds=2))
NO_METHOD = 3
UNKNOWN = MINE.but(name="unknown")
"""


def example(title: str) -> str:
    """The first block of Python under a heading of the contributing page."""
    (code,) = re.findall(rf"### {title}\n(?:(?!###).)*?```python\n(.*?)```", CONTRIBUTING, flags=re.DOTALL)
    return code


def cual_in(folder: Path, *arguments: object, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`cual …` in a folder, with `path` in front of where packages are looked for."""
    packages = os.pathsep.join(str(p) for p in (path, SRC) if p is not None)
    return subprocess.run(
        [sys.executable, "-P", "-c", "from cual.cli import app; app()", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": packages, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def done_in(folder: Path, *arguments: object, path: Path | None = None) -> str:
    process = cual_in(folder, *arguments, path=path)
    assert process.returncode == 0, process.stderr
    return process.stdout + process.stderr


@pytest.fixture
def desk(tmp_path: Path, world: World) -> Path:
    """A folder with features, and a file of parts and a method of one's own."""
    np.savez(tmp_path / "first.npz", X=world.X, y=np.array(world.y))
    np.savez(tmp_path / "pool.npz", X=world.pool, ids=np.array(world.ids))
    rows = "".join(f"{sample},{label}\n" for sample, label in world.truth.items())
    (tmp_path / "answers.csv").write_text("id,label\n" + rows, encoding="utf-8")
    (tmp_path / "mine.py").write_text(example("A strategy") + METHOD, encoding="utf-8")
    (tmp_path / "heads.py").write_text(example("A head"), encoding="utf-8")
    return tmp_path


def test_parts_and_methods_of_ones_own_reach_fit_adapt_and_predict(desk: Path) -> None:
    flags = ("--option", "then=python:mine.py:Bottom", "--option", "then.spare=2")
    done_in(desk, "fit", "first.npz", "-o", "a.agent", "--method", "cual", *flags)
    refused = cual_in(desk, "info", "a.agent")
    assert refused.returncode == 2
    assert "no acquisition strategy is called 'bottom'" in refused.stderr
    assert "cual --use MODULE" in refused.stderr
    adapted = ("adapt", "a.agent", "pool.npz", "-o", "b.agent", "--budget", 8, "--labels", "answers.csv")
    done_in(desk, "--use", "mine.py", *adapted, "--only-asked")
    assert "version  1" in re.sub(" +", "  ", done_in(desk, "--use", "mine.py", "info", "b.agent"))
    head = ("--option", "head=python:heads.py:NearestMean")
    done_in(desk, "fit", "first.npz", "-o", "c.agent", "--method", "python:mine.py:MINE", *head)
    both = ("--use", "mine.py", "--use", "heads.py")
    assert "novel" in done_in(desk, *both, "predict", "c.agent", "pool.npz")


@pytest.mark.attacks
def test_a_method_of_ones_own_is_run_by_the_bench_in_every_process(desk: Path, world: World) -> None:
    labels = np.array([*world.y, *world.truth.values()])
    np.savez(desk / "all.npz", X=np.concatenate([world.X, world.pool]), y=labels)
    quick = ("--option", "head.epochs=2", "--first", 2, "--budget", "0.2", "--jobs", 2)
    methods = "cual,python:mine.py:MINE"
    done_in(desk, "bench", "run", "--features", "all.npz", "--methods", methods, *quick, "--out", "results")
    rows = [json.loads(line) for line in (desk / "results" / "results.jsonl").read_text().splitlines()]
    assert {row["method"] for row in rows} == {"cual", "mine"}


@pytest.mark.attacks
def test_an_installed_package_brings_parts(desk: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    for package, module in (("mine", "mine_parts"), ("broken", "no_such_module")):
        info = site / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[cual.parts]\n{package} = {module}\n")
    (site / "mine_parts.py").write_text(example("A strategy") + METHOD, encoding="utf-8")
    said = done_in(desk, "fit", "first.npz", "-o", "a.agent", "--method", "mine", path=site)
    assert "broken (no_such_module) cannot be loaded" in said
    assert "asks where nothing is" in done_in(desk, "info", "a.agent", path=site)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--method", "python:mine.py:NO_METHOD"), "is a int; a method is made by"),
        (("--method", "python:mine.py:UNKNOWN"), "is not registered; write cual.methods.add"),
        (("--method", "python:mine.py:NOTHING"), "mine.py has no NOTHING"),
        (("--method", "python:nowhere.py:X"), "nowhere.py cannot be loaded"),
        (("--method", "python:mine:MINE"), "for the file in this folder write mine.py"),
        (("--method", "python:mine.py"), "write python:module:Name"),
        (("--option", "then=python:json:dumps"), "python:json:dumps is not registered"),
    ],
)
def test_what_cannot_be_used_is_one_line(desk: Path, arguments: tuple[str, ...], message: str) -> None:
    refused = cual_in(desk, "fit", "first.npz", "-o", "a.agent", *arguments)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert message in refused.stderr


def test_an_agents_file_never_imports_what_it_names(desk: Path, world: World) -> None:
    """A file that asks for python:… asks for a name that nothing is registered under."""
    (desk / "evil.py").write_text("open('ran', 'w').close()\n", encoding="utf-8")
    agent = world.agent(then="top")
    agent.save(desk / "a.agent")
    content = without_sums(desk / "a.agent").read_bytes()
    for name in ("python:evil.py:X", "python:evil:X"):
        changed = content.replace(
            b'\\"then\\": {\\"name\\": \\"top\\"}', b'\\"then\\": {\\"name\\": \\"%b\\"}' % name.encode()
        )
        assert changed != content
        grown = int.from_bytes(content[:8], "little") + len(changed) - len(content)
        (desk / "b.agent").write_bytes(grown.to_bytes(8, "little") + changed[8:])
        refused = cual_in(desk, "info", "b.agent", path=desk)
        assert refused.returncode == 2
        assert f"no acquisition strategy is called '{name}'" in refused.stderr
    assert not (desk / "ran").exists()


def test_the_example_of_the_contributing_page_works_as_it_is_written(tmp_path: Path, desk: Path) -> None:
    """One file in the axis's folder, and that is all: by name, in Python and on the command line."""
    import shutil

    copy = tmp_path / "src"
    shutil.copytree(SRC / "cual", copy / "cual", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "cual" / "acquisition" / "bottom.py").write_text(example("A strategy"), encoding="utf-8")
    (copy / "cual" / "heads" / "nearest_mean.py").write_text(example("A head"), encoding="utf-8")
    options = re.findall(r"--option (then\S+?)(?: |`)", CONTRIBUTING.split("### A head")[0])
    assert options == ["then=bottom", "then.spare=5"]
    flags = [flag for option in options for flag in ("--option", option)]
    fit = ("fit", "first.npz", "-o", "a.agent", "--method", "cual", *flags, "--option", "head=nearest-mean")
    process = subprocess.run(
        [sys.executable, "-c", "from cual.cli import app; app()", *fit],
        cwd=desk,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    lines = (
        "import numpy as np",
        "from cual import Agent",
        "from cual.checks import checks",
        "from cual.acquisition.bottom import Bottom",
        "from cual.heads.nearest_mean import NearestMean",
        "import doctest, cual.acquisition.bottom, cual.heads.nearest_mean",
        "for part in (Bottom, NearestMean):",
        "    for _, check in checks(part): check()",
        "for module in (cual.acquisition.bottom, cual.heads.nearest_mean):",
        "    assert doctest.testmod(module).attempted and not doctest.testmod(module).failed",
        "file = np.load('first.npz')",
        "X, y = file['X'], file['y']",
        *re.findall(r"`(Agent\.fit\(X, y, then=\"bottom\"\))`", CONTRIBUTING),
        "agent = Agent.load('a.agent')",
        "print(agent.method.then.spare, type(agent.head).__name__)",
    )
    assert any(line.startswith("Agent.fit") for line in lines)
    process = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=desk,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout == "5 NearestMean\n"
    with pytest.raises(cual.errors.DamagedFile):
        Agent.load(desk / "a.agent")  # of this process, which has no such parts


@pytest.mark.attacks
def test_workers_of_a_cluster_import_the_same_modules(desk: Path) -> None:
    """What `cual bench run --ray` sends along; that it arrives is Ray's business."""
    sender = (
        "import pickle",
        "from cual import extensions",
        "from cual.bridges.ray.cluster import Place",
        "extensions.use('mine.py')",
        "open('place', 'wb').write(pickle.dumps(Place.here()))",
    )
    worker = (
        "import pickle",
        "from cual.methods import methods",
        "assert 'mine' not in methods",
        "pickle.loads(open('place', 'rb').read()).enter(cpus=1)",
        "assert 'mine' in methods",
    )
    for lines in (sender, worker):
        command = [sys.executable, "-c", "\n".join(lines)]
        environment = {**os.environ, "PYTHONPATH": str(SRC)}
        process = subprocess.run(
            command, cwd=desk, env=environment, capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, process.stderr


@pytest.mark.attacks
def test_a_method_of_an_installed_package_stands_on_the_leaderboard_with_its_version(
    desk: Path, tmp_path: Path, world: World
) -> None:
    """A package as others write it: built and installed by pip, its method run by the bench and by its name."""
    source, site = tmp_path / "source", tmp_path / "site"
    (source / "their_parts").mkdir(parents=True)
    (source / "their_parts" / "__init__.py").write_text(example("A strategy") + METHOD, encoding="utf-8")
    (source / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "their-parts"\nversion = "3.1"\n'
        '[project.entry-points."cual.parts"]\ntheirs = "their_parts"\n'
    )
    pip = ("install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", site, source)
    subprocess.run([sys.executable, "-m", "pip", *map(str, pip)], check=True, capture_output=True, timeout=120)
    labels = np.array([*world.y, *world.truth.values()])
    np.savez(desk / "all.npz", X=np.concatenate([world.X, world.pool]), y=labels)
    quick = ("--option", "head.epochs=2", "--first", 2, "--budget", "0.2", "--seeds", "0,1,2")
    run = ("bench", "run", "--features", "all.npz", "--methods", "cual,mine", *quick, "--out", "results")
    done_in(desk, *run, path=site)
    told = json.loads((desk / "results" / "run.json").read_text())["methods"]
    assert told["mine"]["packages"] == {"their-parts": "3.1", "cual": cual.__version__}
    assert told["mine"]["options"]["then"] == {"name": "bottom", "spare": 0}
    assert told["cual"]["packages"] == {"cual": cual.__version__}
    done_in(desk, "bench", "leaderboard", "results", "-o", "board")  # which needs the package no more
    page = (desk / "board" / "leaderboard.md").read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if ". mine " in line]
    assert f"their-parts 3.1, cual {cual.__version__}" in line
    assert "head.epochs=2" in line

    newer = (
        (site / "their_parts-3.1.dist-info" / "METADATA").read_text().replace("Version: 3.1", "Version: 3.2")
    )
    (site / "their_parts-3.1.dist-info" / "METADATA").write_text(newer)
    refused = cual_in(desk, *run, path=site)
    assert refused.returncode == 2
    assert "package of mine is {'their-parts': '3.1'} there, {'their-parts': '3.2'} here" in refused.stderr
