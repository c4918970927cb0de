"""CCIC: semi-supervised continual learning that cannot tell old from new in a pool (paper, appendix 4.2.3).

Random labels, all at once; the rest of the pool is used unlabelled. How is the business of its head.
"""

from cual.heads import CCIC as CCICHead
from cual.methods.base import add
from cual.methods.er import ER_RANDOM

CCIC = add(
    ER_RANDOM.but(
        name="ccic",
        summary="contrastive interpolation consistency on random labels and the unlabelled rest",
        head=CCICHead(),
    )
)
