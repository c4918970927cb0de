"""Fixtures that all tests share."""

import pytest
import torch

from worlds import World, make_world

torch.set_num_threads(1)  # beside other jobs, two threads wait for each other most of the time


@pytest.fixture
def world() -> World:
    return make_world()
