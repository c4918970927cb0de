"""The next version of an agent, while it is put together: what is kept, what must be fitted or trained again.

Every change to what an agent knows without an adaptation goes through a `Draft`, so that head, memory, class
models, validation set and record follow each other. Which change it is, is decided beside this file.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from cual import options as check
from cual.data.labels import ClassNames
from cual.errors import BadLabels, TooFewSamples, UnknownClass
from cual.heads import Head, JoinsClasses, Lesson, Samples
from cual.learned import Learned
from cual.learners import ModelsClasses
from cual.loop.adaptation import Adaptation
from cual.loop.machine import Composed
from cual.replay import Replay
from cual.seeds import generator
from cual.types import FloatArray, IntArray, Progress, Row
from cual.uncertainty import ClassModel, warn_about

log = logging.getLogger(__name__)


class Repairable(Composed, Protocol):
    """An agent, as far as it is changed here."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def history(self) -> tuple[Row, ...]: ...
    @property
    def learned(self) -> Learned: ...
    @property
    def verified_mask(self) -> Tensor: ...

    def check_encoder(self, encoder: str | None, what: str) -> None: ...
    def adapt(
        self,
        pool: Any,
        budget: float | int,
        ids: Any = None,
        progress: Progress | None = None,
    ) -> Adaptation: ...


A = TypeVar("A", bound=Repairable)


@dataclass(frozen=True)
class Draft:
    """What the next version will know.

    Attributes
    ----------
    head
        None where it has to be trained again, from `replay`.
    models
        Of each class; None where it has to be fitted again. Empty for a method without class models.
    verified
        Of each validation sample, whether a person gave its label.
    """

    names: ClassNames
    head: Head | None
    models: tuple[ClassModel | None, ...]
    replay: Replay
    validation: Samples
    verified: Tensor
    unexplained: Tensor
    learned: Learned

    @classmethod
    def of(cls, agent: Repairable) -> "Draft":
        """An agent as it is."""
        return cls(
            agent.names,
            agent.head,
            tuple(agent.models),
            agent.replay,
            agent.validation,
            agent.verified_mask,
            agent.unexplained,
            agent.learned,
        )

    def left(self, c: int) -> float:
        """Samples that a class has been learned from, as far as that is known."""
        if isinstance(self.head, JoinsClasses):
            return float(self.head.counts[c])
        return float((self.replay.y == c).sum())

    def outdated(self, classes: Sequence[int]) -> "Draft":
        """The same, where the models of some classes have to be fitted again."""
        gone = set(classes)
        models = tuple(None if c in gone else model for c, model in enumerate(self.models))
        return replace(self, models=models)

    def held_out(self, chosen: Tensor) -> "Draft":
        """The same with some of the validation samples."""
        validation = Samples(self.validation.X[chosen], self.validation.y[chosen])
        return replace(self, validation=validation, verified=self.verified[chosen])

    def renumbered(self, numbers: Sequence[int], names: ClassNames) -> "Draft":
        """The same under other class numbers, ``numbers[c]`` for c; a class of −1 is gone with all it has.

        Classes that get one number become one. A head that can join classes does; others are trained again.
        """
        to = torch.tensor(numbers)
        joined = [number for number, n in Counter(numbers).items() if n > 1 and number >= 0]
        head = self.head.joined(numbers) if isinstance(self.head, JoinsClasses) else None
        models: dict[int, ClassModel | None] = {
            numbers[c]: model for c, model in enumerate(self.models) if numbers[c] >= 0
        }
        y = to.to(self.validation.y.device)[self.validation.y]
        draft = replace(
            self,
            names=names,
            head=head,
            models=tuple(models[c] for c in range(len(names))) if models else (),
            replay=self.replay.renumbered(to),
            validation=Samples(self.validation.X, y),
            learned=self.learned.renumbered(np.array(numbers)),
        )
        return draft.outdated(joined).held_out(y >= 0)

    def without_classes(self, gone: Sequence[int]) -> "Draft":
        """The same without some classes, the numbers closed up; a closed-form head has forgotten them."""
        kept = [c for c in range(len(self.names)) if c not in set(gone)]
        if not kept:
            raise TooFewSamples("nothing would be left: an agent knows one class at least")
        numbers = np.full(len(self.names), -1)
        numbers[kept] = np.arange(len(kept))
        return self.renumbered(numbers.tolist(), ClassNames(tuple(self.names.names[c] for c in kept)))


def version_of(agent: A, draft: Draft, change: Row, by: "By", progress: Progress | None = None) -> A:
    """The next version of an agent: what a draft says, trained and fitted where it has to be, and why."""
    head, how = draft.head, "exact"
    if head is None:
        head, how = _trained_again(agent, draft, progress), "trained again"
        log.warning("the head was trained again, from the %d samples that are kept", len(draft.replay))
    models = _fitted_again(agent, draft)
    if draft.models and any(model is None for model in draft.models):
        how = "trained again"
    row = {"version": agent.version + 1, **change, "how": change.get("how", how), **by.row}
    return replace(
        agent,
        version=agent.version + 1,
        names=draft.names,
        head=head,
        models=models,
        replay=draft.replay,
        validation=draft.validation,
        verified=draft.verified,
        remembered=draft.unexplained,
        learned=draft.learned,
        history=(*agent.history, row),
    )


@dataclass(frozen=True)
class By:
    """Who changes something, and why, where that is known.

    >>> By.of("Ada", "they were one class all along").row
    {'person': 'Ada', 'why': 'they were one class all along'}
    >>> By.of(None, None).row
    {}
    """

    person: Any = None
    why: str | None = None

    @classmethod
    def of(cls, person: Any, why: Any) -> "By":
        """Checked, where somebody says so."""
        return cls(check.person(person), None if why is None else check.text("why", why))

    @property
    def row(self) -> Row:
        given = {"person": self.person, "why": self.why}
        return {name: value for name, value in given.items() if value is not None}


def _trained_again(agent: Repairable, draft: Draft, progress: Progress | None) -> Head:
    """A head of the method that has learned what is kept, and nothing else."""
    check_kept(draft)
    known = Samples(draft.replay.X.float(), draft.replay.y)
    none = Samples(known.X[:0], known.y[:0])
    return agent.method.head.learn(
        Lesson(len(draft.names), known, none, none),
        generator(agent.seed, agent.version + 1, 0, "long-term head"),
        at_stage(progress, "training again"),
    )


def check_kept(draft: Draft) -> None:
    """Refuse to train a head again that would not know a class any more."""
    missing = [name for c, name in enumerate(draft.names.names) if not bool((draft.replay.y == c).any())]
    if missing:
        raise TooFewSamples(
            f"the head has to be trained again, but nothing is kept of {missing[0]!r}; "
            "teach samples of it first"
        )


def _fitted_again(agent: Repairable, draft: Draft) -> tuple[ClassModel, ...]:
    learner = agent.method.learner
    if not isinstance(learner, ModelsClasses):
        return ()
    models: list[ClassModel] = []
    new: list[ClassModel] = []
    for c, model in enumerate(draft.models):
        if model is None:
            kept = draft.replay.X[draft.replay.y == c].float()
            if not len(kept):
                raise TooFewSamples(
                    f"the model of {draft.names.names[c]!r} has to be fitted again, but nothing is kept of it; "
                    "teach samples of it first, or remove it"
                )
            model = learner.uncertainty.fit(kept)
            new.append(model)
        models.append(model)
    warn_about(learner.uncertainty, new)
    return tuple(models)


def targets(classes: IntArray, weights: FloatArray, n_classes: int, device: torch.device) -> Tensor:
    """Labels as a head was given them: class numbers, or what each sample counts for its class.

    >>> sure, unsure = np.ones(2, np.float32), np.array([1, 0.5], np.float32)
    >>> targets(np.array([0, 2]), sure, 3, torch.device("cpu"))
    tensor([0, 2])
    >>> targets(np.array([0, 2]), unsure, 3, torch.device("cpu"))
    tensor([[1.0000, 0.0000, 0.0000],
            [0.0000, 0.0000, 0.5000]])
    """
    y = torch.from_numpy(classes.astype(np.int64)).to(device)
    if bool((weights == 1).all()):
        return y
    return one_hot(y, n_classes) * torch.from_numpy(weights).to(device)[:, None]


def number_of(names: ClassNames, name: Any) -> int:
    """The number of a class, by its name.

    >>> number_of(ClassNames(("cat", "Forest")), "Forest")
    1
    >>> number_of(ClassNames(("cat", "Forest")), "forest")
    Traceback (most recent call last):
    cual.errors.UnknownClass: the agent knows no class 'forest'; did you mean 'Forest'?
    """
    try:
        label = names.check(name)
    except BadLabels as error:
        raise UnknownClass(str(error)) from None
    if label in names:
        return names.index(label)
    close = get_close_matches(str(label), [str(known) for known in names.names], n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; it knows {_listed(names)}"
    raise UnknownClass(f"the agent knows no class {label!r}{hint}")


def _listed(names: ClassNames, most: int = 8) -> str:
    shown = ", ".join(map(repr, names.names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def counts_by_name(names: ClassNames, classes: IntArray | Sequence[int]) -> Mapping[str, int]:
    """How many of some samples each class has, by its name as text: JSON has no other keys.

    >>> counts_by_name(ClassNames(("cat", "dog")), [1, 1, 0])
    {'cat': 1, 'dog': 2}
    """
    numbers, counts = np.unique(np.asarray(classes, np.int64), return_counts=True)
    return {str(names.names[c]): n for c, n in zip(numbers.tolist(), counts.tolist(), strict=True)}


def at_stage(progress: Progress | None, stage: str) -> Callable[[int, int], None] | None:
    """A head's ``(done, total)`` progress, told as that of `stage`."""
    return None if progress is None else partial(progress, stage)
