"""Runs tests with a bug in: in a scratch copy of the sources, in forked children that have torch already.

Which mutants there are is not decided here, nor what their results mean.
"""

import compileall
import os
import py_compile
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mutation.making import Change
from mutation.rooms import ROOT

WARM = ("numpy", "torch", "scipy.special", "sklearn", "safetensors.torch", "pytest", "_pytest.doctest",
        "hypothesis.strategies", "rich", "typer")  # fmt: skip
MEMORY = 8 * 2**30  # a bug in a size must not take the machine's
PATIENCE = 20  # times as long by the clock as by the processor: the machine is others' too


class Scratch:
    """A copy of `src`, into which one bug at a time is put."""

    def __init__(self, folder: Path) -> None:
        self.sources = folder / "src"
        self.cual = self.sources / "cual"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(ROOT / "src", self.sources, ignore=shutil.ignore_patterns("__pycache__"))
        # compiled code that is compared with its text: a bug of the same length within a second is noticed
        mode = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(self.cual, quiet=2, invalidation_mode=mode)

    @contextmanager
    def holding(self, file: str, change: Change) -> Iterator[None]:
        """The copy with a bug in one of its files."""
        path = self.cual / file
        original = path.read_bytes()
        try:
            path.write_text(change.text)
            yield
        finally:
            path.write_bytes(original)


def warm_up() -> None:
    """Imports what all children need, and what is never mutated."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in WARM:
        __import__(name)
    import torch
    from hypothesis import Phase, settings

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"
    torch.set_num_threads(1)
    assert not any(name.split(".")[0] == "cual" for name in sys.modules), (
        "cual is imported in the children only"
    )
    # a failure is enough, the smallest example of it is not asked for; nor is a slow one a failure
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", derandomize=True, deadline=None, phases=phases)


def pytest_here(scratch: Scratch, files: list[str], plugin: object) -> int:
    """pytest over files of tests, in this process; its exit status."""
    import pytest

    sys.path.insert(0, str(scratch.sources))
    os.environ["PYTHONPATH"] = str(scratch.sources)
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # others' plugins take longer to import than cual
    options = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "_hypothesis_pytestplugin",
        "--hypothesis-profile=mutants",
    ]
    return int(
        pytest.main([f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml"), *options, *files], [plugin])
    )


def forked(work: Callable[[], int], seconds: float, log: Path) -> int | None:
    """The exit status of work that is done in a child of its own; none if it took too long.

    `seconds` are the processor's: how busy the machine is does not matter.
    """
    child = os.fork()
    if not child:
        try:
            os.setsid()
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            os._exit(work())
        except BaseException:  # whatever it is, the child ends here
            import traceback

            traceback.print_exc()
            os._exit(3)
    deadline = time.monotonic() + PATIENCE * seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            _end_group(child)
            return None if os.WIFSIGNALED(status) and os.WTERMSIG(status) in CPU_OUT else _exit_code(status)
        time.sleep(0.05)
    _end_group(child)
    os.waitpid(child, 0)
    return None


CPU_OUT = (signal.SIGXCPU, signal.SIGKILL)


def _exit_code(status: int) -> int:
    return os.waitstatus_to_exitcode(status)


def _end_group(child: int) -> None:
    """Ends the child and whatever it started."""
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
