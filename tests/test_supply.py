"""The supply chain: the lock holds what pyproject asks for, make uses it or says why not, audits are honest."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from cual.encoders.efficientnet import PACKAGE
from cual.encoders.hugging_face import MINILM_PACKAGE
from tools_of import tool

pytestmark = pytest.mark.more

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "locks").glob("*.txt"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


lock, audit = tool("lock"), tool("audit")


def blocks(path: Path) -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of each package of a lock; every line must be part of one."""
    found: dict[str, tuple[str, list[str]]] = {}
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    for text in re.sub(r" \\\n", " ", "\n".join(lines)).splitlines():
        pin, *options = text.split()
        name, _, version = pin.partition("==")
        hashes = [re.fullmatch(r"--hash=sha256:([0-9a-f]{64})", option) for option in options]
        assert version, text
        assert hashes, f"{name} has no hash"
        assert all(hashes), text
        found[canonicalize_name(name)] = (version, [h[1] for h in hashes if h])
    return found


def asked_for(extra: str | None = None) -> Iterator[Requirement]:
    """What pyproject asks for, with what its extras ask for in turn."""
    texts = PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]
    for requirement in map(Requirement, texts):
        if canonicalize_name(requirement.name) != "cual":
            yield requirement
        for inner in requirement.extras if requirement.name == "cual" else ():
            yield from asked_for(inner)


# -- the lock --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_the_lock_holds_what_pyproject_asks_for(path: Path) -> None:
    locked = blocks(path)
    for requirement in [*asked_for(), *asked_for("dev")]:
        version, _ = locked[canonicalize_name(requirement.name)]  # make lock, if it is missing
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement}, but {version}"
    assert "cual" not in locked


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_of_torch_both_the_wheel_for_cpus_and_that_of_pypi_are_taken(path: Path) -> None:
    version, hashes = blocks(path)["torch"]
    assert Version(version).local is None
    assert len(hashes) == len(set(hashes)) > 1
    local, options = (path.parent / "local" / path.name).read_text().splitlines()[-1].split()
    assert local == f"torch=={version}+cpu"
    assert options.removeprefix("--hash=sha256:") in hashes
    assert not any(name.startswith("nvidia-") for name in blocks(path)), "renewed without the wheel for CPUs"


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
@pytest.mark.parametrize("package", [PACKAGE, MINILM_PACKAGE])
def test_packages_with_weights_are_pinned_as_the_encoders_name_them(path: Path, package: str) -> None:
    """Their files are checked by hash when they are read, too: `tests/encoders/test_trust.py`."""
    name, version = package.split("==")
    assert blocks(path)[canonicalize_name(name)][0] == version
    (asked,) = (r for r in asked_for("encoders") if canonicalize_name(r.name) == canonicalize_name(name))
    assert str(asked.specifier) == f"=={version}"


PAGE = """
<a href="https://files.example.org/a/Some_Thing-1.0-py3-none-any.whl#sha256={a}">x</a>
<a href="https://files.example.org/b/some-thing-1.0.tar.gz#sha256={b}" data-requires-python="&gt;=3.9">x</a>
<a href="https://files.example.org/c/some_thing-1.0%2Blocal-py3-none-any.whl#sha256={c}">x</a>
<a href="https://files.example.org/d/some_thing-1.0.1-py3-none-any.whl#sha256={d}">x</a>
<a href="https://files.example.org/e/some_thing-1.0-py2.7.egg#sha256={e}">x</a>
""".format(**{letter: letter * 64 for letter in "abcde"})


def test_hashes_are_those_of_one_version() -> None:
    assert lock.of_version(PAGE, "1.0") == {"a" * 64, "b" * 64}


# -- make ------------------------------------------------------------------------------------------------------

STUB = """#!/bin/sh
case "$*" in
  *"tools/lock.py name"*) echo "$STUB_LOCK";;
  *" check"*) echo "torch needs nvidia-cublas"; exit "$STUB_CHECK";;
  *"pip --version"*) ;;
  *"locks/local/"*) echo "$*" >> "$STUB_LOG"; exit "$STUB_LOCAL";;
  *) echo "$*" >> "$STUB_LOG"; case "$*" in *require-hashes*) exit "$STUB_HASHES";; esac;;
esac
"""


@pytest.fixture
def installed(tmp_path: Path):
    """What make would run in an environment whose Python writes down what it is asked for."""
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    python, log = tmp_path / "venv" / "bin" / "python", tmp_path / "log"
    python.parent.mkdir(parents=True)
    python.write_text(STUB)
    python.chmod(python.stat().st_mode | stat.S_IXUSR)

    def run(name: str, check: int = 0, hashes: int = 0, local: int = 0) -> tuple[int, list[str], str]:
        log.write_text("")
        venv = tmp_path / "venv"
        (venv / ".installed").unlink(missing_ok=True)
        told = {"STUB_LOCK": name, "STUB_LOG": str(log), "STUB_CHECK": str(check)}
        told |= {"STUB_HASHES": str(hashes), "STUB_LOCAL": str(local)}
        command = ["make", "--no-print-directory", f"PYTHON={sys.executable}", f"VENV={venv}"]
        done = subprocess.run(
            [*command, str(venv / ".installed")],
            cwd=ROOT,
            env={k: v for k, v in os.environ.items() if k != "MAKEFLAGS"} | told,
            capture_output=True,
            text=True,
        )
        assert (venv / ".installed").exists() == (done.returncode == 0)
        return done.returncode, log.read_text().splitlines(), done.stderr

    return run


UNLOCKED = "--editable .[dev]"


@pytest.mark.parametrize("local", [0, 1])
def test_make_installs_nothing_without_a_hash_where_a_lock_fits(installed, local: int) -> None:
    """Whether or not the builds are found that PyPI does not have."""
    code, commands, told = installed(LOCKS[0].stem, local=local)
    assert (code, told) == (0, "")
    assert len(commands) == 3
    assert f"--require-hashes --no-deps --requirement locks/local/{LOCKS[0].name}" in commands[0]
    assert f"--require-hashes --no-deps --requirement locks/{LOCKS[0].name}" in commands[1]
    assert "--no-deps --no-build-isolation --editable ." in commands[2]


@pytest.mark.parametrize("name", ["py3.99-linux-x86_64", "py3.11-plan9-sparc"])
def test_make_says_that_it_installs_without_a_lock(installed, name: str) -> None:
    code, commands, told = installed(name)
    assert code == 0
    assert f"NOTICE: there is no locks/{name}.txt" in told
    assert len(commands) == 1
    assert UNLOCKED in commands[0]


def test_make_says_what_the_lock_lacks(installed) -> None:
    """As where PyPI's PyTorch is taken, which needs NVIDIA's libraries."""
    code, commands, told = installed(LOCKS[0].stem, check=1)
    assert code == 0
    assert "torch needs nvidia-cublas" in told
    assert UNLOCKED in commands[-1]


def test_a_wrong_hash_is_an_error_and_nothing_is_installed_instead(installed) -> None:
    code, commands, _ = installed(LOCKS[0].stem, hashes=1)
    assert code != 0
    assert len(commands) == 2
    assert not any(UNLOCKED in command for command in commands)


# -- the audit -------------------------------------------------------------------------------------------------


def report(*rows: dict[str, object]) -> str:
    return json.dumps({"dependencies": rows, "fixes": []})


CLEAN = {"name": "numpy", "version": "2.4.6", "vulns": []}
SKIPPED = {"name": "rich", "skip_reason": "Dependency not found on PyPI and could not be audited: rich (14.0)"}
BAD = {
    "name": "urllib3",
    "version": "1.0",
    "vulns": [{"id": "PYSEC-2099-1", "fix_versions": ["2.0"], "aliases": ["CVE-2099-1"]}],
}


@pytest.mark.parametrize(
    ("said", "errors", "status"),
    [
        (report(CLEAN), "No known vulnerabilities found", 0),
        (report(CLEAN, BAD), "Found 1 known vulnerability", 1),
        (report(SKIPPED, BAD), "Found 1 known vulnerability", 1),
        (report(CLEAN, SKIPPED), "No known vulnerabilities found", 2),
        (report(), "No known vulnerabilities found", 2),
        ("", "requests.exceptions.ConnectionError: Failed to resolve 'pypi.org'", 2),
        ("<html>", "", 2),
    ],
)
def test_only_what_was_looked_up_counts_as_audited(said: str, errors: str, status: int) -> None:
    assert audit.read(said, errors).status == status


def test_the_audit_says_what_was_found_and_what_was_not_asked(capsys: pytest.CaptureFixture[str]) -> None:
    audit.tell(audit.read(report(BAD), ""))
    assert capsys.readouterr().out == "urllib3 1.0: PYSEC-2099-1, fixed in 2.0\n"
    audit.tell(audit.read("", "Failed to resolve 'pypi.org'"))
    told = capsys.readouterr()
    assert told.out == ""
    assert "NOT AUDITED" in told.err
    assert "Failed to resolve 'pypi.org'" in told.err


def test_an_audit_that_reaches_nobody_fails(tmp_path: Path) -> None:
    """The real pip-audit, through a proxy that is not there."""
    pytest.importorskip("pip_audit", reason="pip-audit is not installed")
    (tmp_path / "lock.txt").write_text(f"filelock==3.13.1 --hash=sha256:{'0' * 64}\n")
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "NO_PROXY": ""}
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "audit.py", tmp_path / "lock.txt"],
        env={**os.environ, **nowhere, "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert "NOT AUDITED" in done.stderr
    assert done.stdout == ""


# -- what is built ---------------------------------------------------------------------------------------------


def test_a_wheel_built_twice_is_the_same(tmp_path: Path) -> None:
    for package in ("build", "hatchling"):
        pytest.importorskip(package, reason=f"{package} is not installed: make sets it up")
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "wheel.py", tmp_path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "twice the same" in done.stdout
    assert len(list(tmp_path.glob("cual-*.whl"))) == 1


def test_the_version_has_one_place() -> None:
    from cual import __version__

    assert "version" not in PROJECT
    assert PROJECT["dynamic"] == ["version"]
    headings = re.findall(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == __version__
