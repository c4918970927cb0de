"""Fixtures that all tests share."""

import pytest

from worlds import World, make_world


@pytest.fixture
def world() -> World:
    return make_world()
