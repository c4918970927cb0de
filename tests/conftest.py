"""Fixtures that all tests share."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from worlds import World, make_world

os.environ["COLUMNS"] = "200"  # of the consoles, which are made when the command line is imported
torch.set_num_threads(1)  # beside other jobs, two threads wait for each other most of the time
if not torch.cuda.is_available():
    # kernels run in Triton's interpreter, if that is known before anybody imports Triton: encoders do
    os.environ["TRITON_INTERPRET"] = "1"


def pytest_configure() -> None:
    """Temporary folders in memory where there is plenty: a busy disk makes whatever is kept for good wait."""
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 * 2**30:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


# What passes once passes on every machine; `make fuzz` looks for new examples.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("search", derandomize=False, print_blob=True)
settings.load_profile("repeatable")


@pytest.fixture
def world() -> World:
    return make_world()
