"""Features as an encoder gives them: decaying spectrum, large common mean, no negative entries."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

Features = Callable[..., Tensor]


@pytest.fixture(scope="session")
def features() -> Features:
    """``features(n, d, seed)``: n samples of the class `seed`; ``draw`` gives other samples of it."""

    def make(n: int, d: int = 96, seed: int = 0, draw: int = 0) -> Tensor:
        of_class = np.random.default_rng([seed, 0])
        directions = np.linalg.qr(of_class.standard_normal((d, d)))[0]
        mean = 3 + of_class.exponential(0.4, d)
        spread = (np.arange(d) + 3.0) ** -0.9
        latent = np.random.default_rng([seed, 1, draw]).standard_normal((n, d))
        return torch.tensor(np.maximum(mean + (latent * spread) @ directions, 0), dtype=torch.float32)

    return make
