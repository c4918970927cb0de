"""Fixtures that all tests share."""

import pytest
import torch
from hypothesis import settings

from worlds import World, make_world

torch.set_num_threads(1)  # beside other jobs, two threads wait for each other most of the time


# What passes once passes on every machine; `make fuzz` looks for new examples.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("search", derandomize=False, print_blob=True)
settings.load_profile("repeatable")


@pytest.fixture
def world() -> World:
    return make_world()
