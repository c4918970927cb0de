"""The options of the prototype learner, with what each of them means. No learning."""

from dataclasses import dataclass, fields

from cual import options


@dataclass(frozen=True, kw_only=True)
class PrototypeOptions:
    """What the space and the competition are set up with; docs/cual-plus.md shows how flat each of them is.

    >>> PrototypeOptions(neighbours=5).neighbours
    5
    >>> PrototypeOptions(walk="far")
    Traceback (most recent call last):
    cual.errors.BadOption: walk is 'far', but takes a number
    """

    shrink: float = 0.3
    """Ridge of the covariance that whitens; the head's own, for predictions, is larger."""
    refinements: int = 6
    """Turns in which prototypes win samples and move; neighbours count from the third on."""
    answer_weight: float = 3.0
    """What a person's answer counts in a prototype, against 1 for a sample that was only won."""
    least_share: float = 0.3
    """A sample moves a prototype only if the class holds at least this share of it."""
    neighbours: int = 15
    """Nearest samples of the pool and of what is known that are a sample's neighbours …"""
    neighbour_weight: float = 3.0
    """… and what it counts, in logits, if all of them are of one class."""
    walk: float = 0.9
    """Chance that a walk from neighbour to neighbour goes on. How strange a sample's surroundings are is the
    chance that it ends before it meets something known."""
    strange_weight: float = 2.0
    """What a deviation of strangeness counts, in logits, for classes that are still being learned."""
    strange_edge: float = 0.8
    """Deviations of strangeness that speak neither for nor against them."""
    none_of_these: bool = True
    """Whether a class that nobody has named yet competes, too; else all goes to classes that have a name."""
    few: int = 100
    """An old class of fewer samples (if all are small, than a quarter of the largest) goes on being learned if
    an answer names it …"""
    contradicted: int = 2
    """… and any old class does if so many answers name it although their samples look novel …"""
    looks_novel: float = 2.0
    """… by this many deviations of strangeness."""
    known_weight: float = 12.0
    """What is known of such a class counts in its prototype as at most so many samples."""
    anchors: int = 4096
    """Pool samples that prototypes and neighbours are sought among; so many represent a larger pool, half of
    them its most novel ones."""
    estimate_frequency: bool = True
    """Whether it is estimated how frequent novel classes are; else they are as frequent as old ones."""
    drift: float = 1.7
    """Deviations of known samples by which nine tenths of a pool must have moved together for that to be
    drift, and no new class; 0 for never. Then the shift is taken away, and all old classes are learned on."""
    drift_shrink: float = 1.0
    """`shrink` in a drifted pool, whose classes are spread in other directions than those that are known."""
    false_alarms: float = 0.05
    """Share of known samples that `Agent.novelty` may put above `Agent.threshold`."""
    keep_bytes: int = 2**28
    """Whitened pools up to this size are kept; larger ones are whitened again when needed. Neighbours of a pool
    beyond this size lie in a temporary file."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, bool):
                checked = options.flag(field.name, value)
            elif isinstance(field.default, int):
                checked = options.whole(field.name, value, 0)
            else:
                checked = options.number(field.name, value, 0)
            object.__setattr__(self, field.name, checked)
        for name in ("anchors", "neighbours", "refinements"):
            options.whole(name, getattr(self, name), 1)
        for name in ("least_share", "walk", "false_alarms"):
            options.number(name, getattr(self, name), 0, 1)
        for name in ("shrink", "drift_shrink"):
            options.number(name, getattr(self, name), 0, 1000, without_low=True)
