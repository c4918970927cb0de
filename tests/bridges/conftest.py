"""Fixtures of the tests on Ray: one token and one folder for all, because a process reads them only once."""

from collections.abc import Iterator

import pytest

from ray_cluster import TwoNodes, free_port, surroundings, two_nodes


@pytest.fixture(scope="session")
def ray_surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with surroundings(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUAL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def cluster(ray_surroundings: None) -> Iterator[TwoNodes]:
    """A cluster that the tests share that kill no node."""
    with two_nodes(ray_client_server_port=free_port()) as held:
        yield held
