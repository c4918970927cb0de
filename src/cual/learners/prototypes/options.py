"""The options of the prototype learner, with what each of them means. No learning."""

from dataclasses import dataclass, fields

from cual import options


@dataclass(frozen=True, kw_only=True)
class PrototypeOptions:
    """What the space and the competition are set up with; docs/cual-plus.md shows how flat each of them is."""

    shrink: float = 0.3
    """Ridge of the covariance that whitens; the head's own, for predictions, is larger."""
    refinements: int = 6
    """Turns in which prototypes win samples and move; neighbours count from the third on."""
    answer_weight: float = 3.0
    """What a person's answer counts in a prototype, against 1 for a sample that was only won."""
    least_share: float = 0.3
    """A sample moves a prototype only if the class holds at least this share of it."""
    neighbour_weight: float = 3.0
    """What it counts, in logits, if all neighbours of a sample are of one class."""
    crowd_weight: float = 2.0
    """What a deviation of crowding counts, in logits, for classes that are still being learned."""
    crowd_edge: float = 0.8
    """Deviations of crowding that speak neither for nor against them."""
    few: int = 100
    """An old class of fewer samples (if all are small, than a quarter of the largest) goes on being learned if
    an answer names it …"""
    contradicted: int = 2
    """… and any old class does if so many answers name it although their samples look novel …"""
    looks_novel: float = 2.0
    """… by this many deviations of crowding."""
    known_weight: float = 12.0
    """What is known of such a class counts in its prototype as at most so many samples."""
    anchors: int = 4096
    """Pool samples that prototypes and neighbours are sought among; so many represent a larger pool."""
    crowd: int = 10
    """Nearest samples of the pool, and of the known ones, that crowding compares."""
    voters: int = 15
    """Nearest samples, of either kind, whose classes count."""
    crowd_in_novelty: bool = True
    """Whether the first scores count the crowd; else the angle to the nearest old class alone."""
    estimate_frequency: bool = True
    """Whether it is estimated how frequent novel classes are; else they are as frequent as old ones."""
    second_space: bool = True
    """Whether the pool is labelled in a space that novel classes have shaped too."""
    false_alarms: float = 0.05
    """Share of known samples that `Agent.novelty` may put above `Agent.threshold`."""
    keep_bytes: int = 2**28
    """Whitened pools up to this size are kept; larger ones are whitened again when needed."""

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
        for name in ("anchors", "crowd", "voters", "refinements"):
            options.whole(name, getattr(self, name), 1)
        for name in ("least_share", "false_alarms"):
            options.number(name, getattr(self, name), 0, 1)
        options.number("shrink", self.shrink, 0, 1000, without_low=True)
