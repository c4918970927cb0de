"""Runs tests with a bug in: in a scratch copy of the sources, in forked children that have torch already.

Which mutants there are is not decided here, nor what their results mean.
"""

import compileall
import os
import py_compile
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from mutation.making import Change
from mutation.rooms import ROOT, Room

WARM = ("numpy", "torch", "scipy.special", "sklearn", "safetensors.torch", "pytest", "_pytest.doctest",
        "hypothesis.strategies", "rich", "typer")  # fmt: skip
MEMORY = 8 * 2**30  # a bug in a size must not take the machine's
MARKS = "not slow and not page and not postgres and not label_studio and not attacks and not ray"
CPU_OUT = (signal.SIGXCPU, signal.SIGKILL)


class CutOff(Exception):
    """The time of the whole run is over: what was being run has no result."""


class Scratch:
    """A copy of `src`, into which one bug at a time is put, with a folder for what its tests write.

    Parameters
    ----------
    like
        Another one, of which this becomes a copy: nothing is compiled again.
    """

    def __init__(self, folder: Path, like: "Scratch | None" = None) -> None:
        self.sources = folder / "src"
        self.cual = self.sources / "cual"
        self.written = folder / "written"
        self.log = folder / "log"
        if like is not None:
            shutil.copytree(like.sources, self.sources)
            return
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
    os.environ["COVERAGE_CORE"] = "ctrace"  # the one that knows which test is running
    for name in WARM:
        with suppress(ModuleNotFoundError):  # its tests will be left out
            __import__(name)
    has_gpu()  # asked once, before anything is forked
    import torch
    from hypothesis import Phase, settings

    torch.set_num_threads(1)
    assert not any(name.split(".")[0] == "cual" for name in sys.modules), (
        "cual is imported in the children only"
    )
    # a failure is enough, the smallest example of it is not asked for; nor is a slow one a failure
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", derandomize=True, deadline=None, phases=phases)


@cache
def has_gpu() -> bool:
    """Whether there is a GPU; asked in its own process: one that asked cannot use it in forked children."""
    asked = [sys.executable, "-c", "import sys, torch; sys.exit(not torch.cuda.is_available())"]
    return subprocess.run(asked, check=False).returncode == 0


def pytest_here(scratch: Scratch, room: Room, files: list[str], plugin: object, *options: str) -> int:
    """pytest over files of tests, in this process; its exit status."""
    import pytest

    sys.path.insert(0, str(scratch.sources))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(scratch.sources), os.environ.get("PYTHONPATH", "")])
    os.chdir(ROOT)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # others' plugins take longer to import than cual
    if not (room.gpu and has_gpu()):
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        os.environ["TRITON_INTERPRET"] = "1"
    given = [str(scratch.sources / name[4:]) if name.startswith("src/") else name for name in files]
    return int(
        pytest.main(
            [f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml"), f"--basetemp={scratch.written}", "-q",
             "-m", MARKS, "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin",
             "--hypothesis-profile=mutants", *options, *given],
            [plugin],
        )
    )  # fmt: skip


def forked(
    work: Callable[[], int], seconds: float, log: Path, *, patience: float, until: float, free: bool = False
) -> int | None:
    """The exit status of work that is done in a child of its own; none if it took too long.

    `seconds` are the processor's, `patience` is how many times as long it may take by the clock. At the time
    `until` it is cut off. Its memory is limited unless it is `free`.
    """
    child = os.fork()
    if not child:
        try:
            os.setsid()
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
            if not free:
                resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            os._exit(work())
        except BaseException:  # whatever it is, the child ends here
            import traceback

            traceback.print_exc()
            os._exit(3)
    deadline = time.monotonic() + patience * seconds
    while time.monotonic() < min(deadline, until):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            _end_group(child)
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) in CPU_OUT:
                return None
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    _end_group(child)
    os.waitpid(child, 0)
    if time.monotonic() >= until:
        raise CutOff
    return None


def _end_group(child: int) -> None:
    """Ends the child and whatever it started."""
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
