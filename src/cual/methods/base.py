"""What a method is: a composition of parts. Named ones are beside this file, the loop in `cual.loop`."""

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from cual import options
from cual.acquisition import Acquisition, acquisitions
from cual.acquisition.ambiguous import Ambiguous
from cual.acquisition.chance import Novel
from cual.errors import BadOption
from cual.heads import MLP, Head, heads
from cual.learners import Learner, Novelty, learners
from cual.methods import earlier
from cual.pseudo_labels import MostNovel, PseudoLabels, pseudo_labels
from cual.registry import Registry, options_of, to_json

AXES: Mapping[str, Registry[Any]] = {
    "learner": learners,
    "first": acquisitions,
    "then": acquisitions,
    "believe": pseudo_labels,
    "head": heads,
}
"""The parts of a method, and where each is looked up by name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Method:
    """A composition of parts; the defaults are the paper's CUAL.

    Attributes
    ----------
    learner
        A_s: scores the pool, and learns from what is accepted.
    first, then
        Whom to ask while no novel class is known, and from then on.
    believe
        What to believe without asking; None for nothing.
    head
        The long-term head A, before its first lesson.
    first_share
        Share of the budget for one round of first questions; the rest goes evenly over the rounds left.
    believes_last
        Believe nothing before the last answer, then label the pool in one go; else a share per round.
    rounds
        Of the inner loop, at most.
    stds
        T_inner lies this many standard deviations above the validation set's mean score.
    ends_below_threshold
        End when nothing lies above T_inner (the paper's stopping rule); else go on until the budget is spent.
    validation_share
        Share of every class held out to set T_inner, never trained on.
    buffer
        Samples in the replay memory.
    budget_factor
        Multiplies the budget: 8 for only-al-8x, infinite for the Oracle.

    >>> from cual.methods import methods
    >>> quick = methods["cual"].but(name="quick", rounds=3, head={"hidden": 64})
    >>> quick.rounds, quick.head.hidden, methods["cual"].rounds
    (3, 64, 10)
    >>> Method.from_json(quick.to_json()).head.hidden
    64
    """

    name: str
    summary: str = ""
    learner: Learner = field(default_factory=Novelty)
    first: Acquisition = field(default_factory=Novel)
    then: Acquisition = field(default_factory=Ambiguous)
    first_share: float = 0.4
    believe: PseudoLabels | None = field(default_factory=MostNovel)
    believes_last: bool = False
    rounds: int = 10
    stds: float = 2.0
    ends_below_threshold: bool = True
    validation_share: float = 0.1
    head: Head = field(default_factory=MLP)
    buffer: int = 2500
    budget_factor: float = 1.0

    def __post_init__(self) -> None:
        for names, checked in (
            (("name", "summary"), options.text),
            (("believes_last", "ends_below_threshold"), options.flag),
            (("rounds", "buffer"), options.whole),
        ):
            for name in names:
                object.__setattr__(self, name, checked(name, getattr(self, name)))
        for name, low, high in (
            ("first_share", 0, 1),
            ("validation_share", 0, 0.5),
            ("stds", -math.inf, math.inf),
            ("budget_factor", 0, math.inf),
        ):
            object.__setattr__(self, name, options.number(name, getattr(self, name), low, high))
        for name, axis in AXES.items():
            part = getattr(self, name)
            if part is not None or name != "believe":
                _ = axis.name_of(part)
        self.learner.check(self.head)
        if self.learner.unnamed and self.believe is None:
            raise BadOption("a learner that asks nothing must believe: unnamed needs a rule of belief")

    def but(self, **changed: Any) -> "Method":
        """This method with some options changed.

        A part is given as it is, by name, or by the options to change in it; `None` or "" for no `believe`.

        >>> methods["cual"].but(believe={"alpha": 0.1}).believe.alpha
        0.1
        >>> methods["cual"].but(alfa=0.1)
        Traceback (most recent call last):
        cual.errors.BadOption: a method has no option 'alfa'; it has learner, first, ...
        """
        plain: dict[str, Any] = {}
        for name, value in earlier.translated(changed, self.head).items():
            if name not in _FIELDS:
                known = ", ".join(f for f in _FIELDS if f not in ("name", "summary"))
                raise BadOption(f"a method has no option {name!r}; it has {known}")
            plain[name] = self._part(name, value) if name in AXES else value
        return replace(self, **plain)

    def _part(self, name: str, value: Any) -> Any:
        before = getattr(self, name)
        if name == "believe" and (value is None or value == ""):
            return None
        if before is None and isinstance(value, Mapping) and "name" not in value:
            raise BadOption(f"{self.name} believes nothing without asking, so {', '.join(value)} has no effect")
        return AXES[name].part(value, before)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Method) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))

    def to_json(self) -> dict[str, Any]:
        """Everything as plain JSON: a part as its name and its options."""
        row: dict[str, Any] = {}
        for name in _FIELDS:
            value = getattr(self, name)
            row[name] = to_json(value) if name in AXES and value is not None else value
        row["budget_factor"] = None if math.isinf(self.budget_factor) else self.budget_factor
        return row

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> "Method":
        """The method that `to_json` wrote, now or in an earlier release."""
        given = earlier.read(row)
        for name, axis in AXES.items():
            if given[name] is not None:
                given[name] = axis.part(given[name])
        if given["budget_factor"] is None:
            given["budget_factor"] = math.inf
        return cast("Callable[..., Method]", Method)(**given)

    def options(self) -> dict[str, Any]:
        """Every option by the name under which `but` changes it: ``learner.epochs``, ``first_share``, …"""
        flat: dict[str, Any] = {}
        for name in _FIELDS:
            value = getattr(self, name)
            if name in AXES and value is not None:
                flat |= {f"{name}.{option}": held for option, held in options_of(value).items()}
            elif name not in ("name", "summary"):
                flat[name] = value
        return flat


_FIELDS = tuple(f.name for f in fields(Method))
methods = Registry[Method]("method")
_homes: dict[str, str] = {}


def add(method: Method) -> Method:
    """Register a method under its own name, and remember which module did."""
    added = methods.add(method.name)(method)
    _homes[method.name] = sys._getframe(1).f_globals.get("__name__", "")  # pyright: ignore[reportPrivateUsage]
    return added


def home_of(name: str) -> str:
    """The module that registered a method with `add`; nothing where it was registered otherwise.

    >>> home_of("cual")
    'cual.methods.cual'
    """
    return _homes.get(name, "")
