"""How sure a head may be: one factor on its logits, from samples that it never learned. No head lives here."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def likeliest_factor(logits: Tensor, y: Tensor, lowest: float = -12, highest: float = 4) -> float:
    """The factor on logits under which labels `y` are likeliest, of 2 to the power `lowest` … `highest`.

    One over it is what is called a temperature. Four factors are tried for each doubling.

    >>> logits = torch.tensor([[8.0, 0.0], [0.0, 8.0], [8.0, 0.0], [8.0, 0.0]])
    >>> likeliest_factor(logits, torch.tensor([0, 1, 0, 1])) < 0.2  # a quarter is wrong: it was far too sure
    True
    """
    factors = 2.0 ** torch.linspace(lowest, highest, round(4 * (highest - lowest)) + 1)
    losses = [float(cross_entropy(float(factor) * logits, y)) for factor in factors]
    return float(factors[int(np.argmin(losses))])
