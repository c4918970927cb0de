"""The fully supervised upper bound: experience replay with every label of the pool (the paper's Oracle)."""

import math

from cual.acquisition.chance import Random
from cual.methods.base import Method, add

ORACLE = add(
    Method(
        name="oracle",
        summary="every label of every pool: the supervised upper bound",
        first=Random(),
        then=Random(),
        first_share=1.0,
        believe=None,
        ends_below_threshold=False,
        budget_factor=math.inf,
    )
)
