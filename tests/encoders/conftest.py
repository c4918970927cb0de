"""A cache of the tests' own: nothing is read from or left in the user's. `toy` can be imported by its name."""

import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(cache, monkeypatch):
    monkeypatch.setenv("CUAL_CACHE", str(cache))
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parent), *sys.path])
