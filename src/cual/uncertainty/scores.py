"""From distances to scores, threshold and zones: S⁰, Sⁱ, T_inner. Pure functions, no distances."""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

import torch
from torch import Tensor

from cual.errors import TooFewSamples


class Zone(IntEnum):
    """Where a score lies against T_inner.

    >>> Zone.NOVEL > Zone.AMBIGUOUS, Zone(0).name
    (True, 'OLD')
    """

    OLD = 0
    AMBIGUOUS = 1
    NOVEL = 2


@dataclass(frozen=True)
class Threshold:
    """T_inner, or a threshold at a rate, and the validation scores' mean and standard deviation behind it.

    It compares with scores as its value does.

    >>> torch.tensor([1.0, 5.0]) > Threshold(value=4.0, mean=2.0, std=1.0)
    tensor([False,  True])
    """

    __array_ufunc__: ClassVar[None] = None  # or numpy would compare its arrays with an object, one by one
    value: float
    mean: float
    std: float

    def __float__(self) -> float:
        return self.value

    def __lt__(self, other: Any) -> Any:
        return self.value < _number(other)

    def __le__(self, other: Any) -> Any:
        return self.value <= _number(other)

    def __gt__(self, other: Any) -> Any:
        return self.value > _number(other)

    def __ge__(self, other: Any) -> Any:
        return self.value >= _number(other)


def _number(other: Any) -> Any:
    return other.value if isinstance(other, Threshold) else other


def s0(old: Tensor) -> Tensor:
    """S⁰(u) = min over old classes j of FREⱼ(u) (section 2.2.2): distance to the nearest old class.

    Parameters
    ----------
    old : Tensor
        Distances to the old classes, (n, C) with C >= 1.

    Examples
    --------
    >>> s0(torch.tensor([[3.0, 1.0], [2.0, 5.0]]))
    tensor([1., 2.])
    """
    return old.min(dim=1).values


def si(s0: Tensor, novel: Tensor, floor: float) -> Tensor:
    """Sⁱ(u) = min over old classes j of FREⱼ(u) / FREₘ(u) (eq. 2); always finite.

    Parameters
    ----------
    s0 : Tensor
        S⁰(u), (n,): the denominator does not depend on j, so the minimum is that of the numerators.
    novel : Tensor
        FREₘ(u), (n,): distance to the novel class m that the short-term head routes u to.
    floor : float
        Least denominator: a sample that a small class was fitted to has almost no distance to it.

    Examples
    --------
    >>> si(torch.tensor([4.0, 4.0]), torch.tensor([2.0, 0.0]), floor=0.5)
    tensor([2., 8.])
    """
    largest = torch.finfo(s0.dtype).max
    return (s0 / novel.clamp(min=max(floor, 1e-12))).clamp(max=largest)


def t_inner(validation: Tensor, stds: float = 2.0) -> Threshold:
    """T_inner (appendix 4.1.1): mean + `stds` standard deviations of in-distribution validation scores.

    The standard deviation is the population's, so that of one sample is 0.

    Examples
    --------
    >>> t_inner(torch.tensor([1.0, 3.0]))
    Threshold(value=4.0, mean=2.0, std=1.0)
    """
    if len(validation) == 0:
        raise TooFewSamples("T_inner needs at least one validation sample, and there is none")
    std, mean = torch.std_mean(validation.double(), correction=0)
    return Threshold(float(mean + stds * std), float(mean), float(std))


def at_rate(validation: Tensor, rate: float) -> Threshold:
    """The score that a share `rate` of known samples exceeds at most, as far as so many of them can tell.

    Of n validation samples it is the ⌈(n + 1)(1 − rate)⌉-th lowest score, so that a fresh known sample lies
    above it with a chance of `rate` at most; where that would be one more than there are, the highest.

    >>> at_rate(torch.arange(100.0), 0.05).value
    95.0
    """
    n = len(validation)
    if not n:
        raise TooFewSamples("the agent holds no validation samples, so that nobody can say what looks novel")
    place = min(n, math.ceil((n + 1) * (1 - rate)))
    value = float(validation.sort().values[place - 1])
    return Threshold(value, float(validation.mean()), float(validation.std(correction=0)))


def zones(scores: Tensor, threshold: Threshold) -> Tensor:
    """The `Zone` of each score, int8: ambiguous within one standard deviation of T_inner, else old or novel.

    Examples
    --------
    >>> zones(torch.tensor([1.0, 3.5, 9.0]), Threshold(value=4.0, mean=2.0, std=1.0))
    tensor([0, 1, 2], dtype=torch.int8)
    """
    above = torch.where(scores > threshold.value, Zone.NOVEL, Zone.OLD)
    near = (scores - threshold.value).abs() <= threshold.std
    return torch.where(near, Zone.AMBIGUOUS, above).to(torch.int8)
