"""What a method is: a choice on every axis. Named ones are beside this file, the loop in `cual.adaptation`."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from cual import options
from cual.acquisition import acquisitions
from cual.errors import BadOption
from cual.heads import heads
from cual.pseudo_labels import pseudo_labels
from cual.registry import Registry
from cual.uncertainty import uncertainties


@dataclass(frozen=True, kw_only=True)
class Method:
    """A composition of the library's axes; the defaults are the paper's CUAL.

    Attributes
    ----------
    score
        "novelty": S⁰ and Sⁱ (eq. 2) on class models; "entropy" or "margin" of the classifier itself;
        "prototypes" in the ridge head's whitened space (cual-plus).
    uncertainty, uncertainty_options
        The elemental uncertainty of a class, and what its constructor takes.
    first, then
        Acquisition while no novel class is known, and from then on.
    first_share
        Share of the budget for one round of first questions; the rest goes evenly over the iterations left.
    pseudo, alpha
        Which samples are believed without asking ("" for none), and which share α per iteration.
    believes_last
        Believe nothing before the last answer, then label the pool in one go; else a share per iteration.
    unnamed
        Ask nothing: what is believed novel is one class, with a made-up name (incDFM).
    iterations
        Rounds of the inner loop at most.
    stds
        T_inner lies this many standard deviations above the validation set's mean score.
    ends_below_threshold
        End when nothing lies above T_inner (the paper's stopping rule); else go on until the budget is spent.
    validation_share
        Share of every class held out to set T_inner, never trained on.
    short_epochs, short_batch
        Training of the short-term head A_s, and of the working copy of A in the ER baselines.
    head, head_options
        The long-term head A, and what its constructor takes.
    buffer
        Samples in the replay memory.
    budget_factor
        Multiplies the budget: 8 for only-al-8x, infinite for the Oracle.
    """

    name: str
    summary: str = ""
    score: str = "novelty"
    uncertainty: str = "fre"
    uncertainty_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    first: str = "novel"
    then: str = "ambiguous"
    first_share: float = 0.4
    pseudo: str = "most-novel"
    alpha: float = 0.2
    believes_last: bool = False
    unnamed: bool = False
    iterations: int = 10
    stds: float = 2.0
    ends_below_threshold: bool = True
    validation_share: float = 0.1
    short_epochs: int = 5
    short_batch: int = 16
    head: str = "mlp"
    head_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    buffer: int = 2500
    budget_factor: float = 1.0

    def __post_init__(self) -> None:
        for names, checked in (
            (("name", "summary", "score", "uncertainty", "first", "then", "pseudo", "head"), options.text),
            (("unnamed", "believes_last", "ends_below_threshold"), options.flag),
            (("iterations", "short_epochs", "short_batch", "buffer"), options.whole),
            (("uncertainty_options", "head_options"), options.named),
        ):
            for name in names:
                object.__setattr__(self, name, checked(name, getattr(self, name)))
        for name, low, high in (
            ("first_share", 0, 1),
            ("alpha", 0, 1),
            ("validation_share", 0, 0.5),
            ("stds", -math.inf, math.inf),
            ("budget_factor", 0, math.inf),
        ):
            object.__setattr__(self, name, options.number(name, getattr(self, name), low, high))
        for axis, name in (
            (uncertainties, self.uncertainty),
            (acquisitions, self.first),
            (acquisitions, self.then),
            (heads, self.head),
        ):
            _ = axis[name]
        if self.pseudo:
            _ = pseudo_labels[self.pseudo]
        if self.score not in SCORES:
            raise BadOption(f"score is one of {', '.join(SCORES)}, not {self.score!r}")
        if self.score == "prototypes" and self.head != "ridge":
            raise BadOption('score "prototypes" lives in the space of the ridge head: it needs head="ridge"')
        if self.score in ("entropy", "margin") and self.head == "ridge":
            raise BadOption(f"score {self.score!r} needs a head that is trained in epochs, not the ridge head")
        if self.unnamed and (self.score != "novelty" or not self.pseudo):
            raise BadOption("an unnamed class is found by novelty and believed: unnamed needs score and pseudo")
        options.check_constructor(
            "uncertainty_options",
            f"uncertainty {self.uncertainty!r}",
            uncertainties[self.uncertainty],
            self.uncertainty_options,
        )
        options.check_constructor(
            "head_options", f"head {self.head!r}", heads[self.head], self.head_options, width=1
        )

    def but(self, **changed: Any) -> "Method":
        """This method with some options changed.

        >>> methods["cual"].but(alpha=0.1).alpha
        0.1
        >>> methods["cual"].but(alfa=0.1)
        Traceback (most recent call last):
        cual.errors.BadOption: a method has no option 'alfa'; it has score, uncertainty, ...
        """
        known = [f.name for f in fields(self) if f.name not in ("name", "summary")]
        for option in changed:
            if option not in known and option not in ("name", "summary"):
                raise BadOption(f"a method has no option {option!r}; it has {', '.join(known)}")
        return replace(self, **changed)

    def to_json(self) -> dict[str, Any]:
        row = asdict(self)
        row["budget_factor"] = None if math.isinf(self.budget_factor) else self.budget_factor
        return row

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> "Method":
        held = dict(row)
        if held["budget_factor"] is None:
            held["budget_factor"] = math.inf
        return Method(**held)


SCORES = ("novelty", "entropy", "margin", "prototypes")
methods = Registry[Method]("method")


def add(method: Method) -> Method:
    """Register a method under its own name."""
    return methods.add(method.name)(method)
