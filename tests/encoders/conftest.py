"""A cache of the tests' own: nothing is read from or left in the user's."""

import pytest


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(cache, monkeypatch):
    monkeypatch.setenv("CUAL_CACHE", str(cache))
