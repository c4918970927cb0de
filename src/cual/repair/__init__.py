"""What changes an agent without an adaptation: taught, renamed, merged, split, removed, forgotten.

The agent's methods; what they do is beside this file. None of them changes the agent: each gives the next
version, whose history says what was done, by whom and why.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cual import options as check
from cual.data.frames import check_aligned, index_of
from cual.data.ids import check_ids
from cual.data.pool import as_features, encoder_of
from cual.errors import BadOption
from cual.loop.given import plain_samples
from cual.repair import answers, classes, samples, splitting, teaching
from cual.repair.base import A, By, Repairable
from cual.repair.splitting import Split
from cual.types import AnyArray, ArrayLike, Label, Progress

if TYPE_CHECKING:
    from cual.loop.adaptation import Adaptation

__all__ = ["Repairs", "Split"]


class Repairs:
    """The methods of an agent that teach and repair it; ``person`` and ``why`` go into the history."""

    def teach(
        self: A,
        X: ArrayLike,
        y: Any,
        ids: Sequence[Any] | AnyArray | None = None,
        person: Any = None,
        why: str | None = None,
        progress: Progress | None = None,
    ) -> A:
        """Learn labelled samples without questions: more of known classes, or new ones.

        A head in closed form takes them in at once, exactly; one that trains is trained once, with replay. A
        share is held out, each sample by a coin of its own. A sample that was learned before is not learned
        twice; under another label, the new one replaces the old.

        Parameters
        ----------
        X
            (n, d) features, any float type.
        y
            n labels, of the type that the known classes have.
        ids
            Names of the samples, for errors.

        Examples
        --------
        >>> import numpy as np
        >>> from cual import Agent
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(c, 1, (30, 8)) for c in (0, 6, -6)])
        >>> agent = Agent.fit(X[:60], ["cat"] * 30 + ["dog"] * 30).teach(X[60:], ["owl"] * 30)
        >>> agent.version, agent.classes_.tolist(), agent.predict(X[-1:]).tolist()
        (1, ['cat', 'dog', 'owl'], ['owl'])
        """
        check_aligned(X, y)
        given = _read(self, X, ids)
        return teaching.taught(self, given, y, By.of(person, why), progress)

    def rename_class(self: A, old: Any, new: Any, person: Any = None, why: str | None = None) -> A:
        """Give a class another name. What the agent computes stays the same.

        >>> import numpy as np
        >>> from cual import Agent
        >>> agent = Agent.fit(np.random.default_rng(0).normal(size=(40, 8)), ["cat"] * 20 + ["dgo"] * 20)
        >>> repaired = agent.rename_class("dgo", "dog", person="Ada", why="a typo")
        >>> repaired.classes_.tolist(), repaired.history[-1]["why"], agent.classes_.tolist()
        (['cat', 'dog'], 'a typo', ['cat', 'dgo'])
        """
        return classes.renamed(self, old, new, By.of(person, why))

    def merge_classes(
        self: A,
        into: Any,
        *others: Any,
        person: Any = None,
        why: str | None = None,
        progress: Progress | None = None,
    ) -> A:
        """Make `others` part of the class `into`.

        Of a head in closed form, exactly as if it had learned them under one name; one that trains is trained
        again from what is kept.

        >>> import numpy as np
        >>> from cual import Agent
        >>> X = np.random.default_rng(0).normal(size=(60, 8))
        >>> agent = Agent.fit(X, ["Forest"] * 20 + ["Woods"] * 20 + ["Lake"] * 20)
        >>> agent.merge_classes("Forest", "Woods").classes_.tolist()
        ['Forest', 'Lake']
        """
        return classes.merged(self, into, others, By.of(person, why), progress)

    def remove_class(
        self: A,
        name: Any,
        X: ArrayLike | None = None,
        exact: bool = True,
        person: Any = None,
        why: str | None = None,
        progress: Progress | None = None,
    ) -> A:
        """Forget a class, as if it had never been learned.

        A head in closed form needs the features of all samples that the class was learned from. What the
        memory does not keep of them must be given; else `SamplesMissing` is raised. One that trains is trained
        again from what is kept of the other classes.

        Parameters
        ----------
        X
            Features; those of other classes among them are left alone.
        exact
            False: where features are missing, leave in the head what the class said of how classes spread.

        >>> import numpy as np
        >>> from cual import Agent
        >>> X = np.random.default_rng(0).normal(size=(60, 8))
        >>> agent = Agent.fit(X, ["Forest"] * 20 + ["Woods"] * 20 + ["Lake"] * 20)
        >>> agent.remove_class("Woods").classes_.tolist()
        ['Forest', 'Lake']
        """
        given = None if X is None else _read(self, X, None)
        return classes.removed(self, name, given, exact, By.of(person, why), progress)

    def forget(
        self: A,
        X: ArrayLike,
        y: Any = None,
        ids: Sequence[Any] | AnyArray | None = None,
        person: Any = None,
        why: str | None = None,
        progress: Progress | None = None,
    ) -> A:
        """Take samples back, as if they had never been seen: nothing of them is left in the agent.

        A class that has no other samples is gone, too.

        Parameters
        ----------
        X
            Their features, as they were learned. The agent recognises them, and raises `UnknownSample` where it
            has not learned one, or has forgotten it already.
        y
            Their labels. Needed only of an agent that an earlier release has taught: it has no record of that.
        ids
            Names of the samples, for errors.

        >>> import numpy as np
        >>> from cual import Agent
        >>> X = np.random.default_rng(0).normal(size=(60, 8))
        >>> agent = Agent.fit(X, ["cat"] * 30 + ["dog"] * 30)
        >>> less = agent.forget(X[:1], why="its owner asked")
        >>> less.history[-1]["change"], less.history[-1]["samples"]
        ('forgot', 1)
        >>> less.forget(X[:1])
        Traceback (most recent call last):
        cual.errors.UnknownSample: row 0: not learned, or taken back already. The features must be, bit ...
        """
        return samples.forgotten(self, _read(self, X, ids), y, By.of(person, why), progress)

    def forget_answers(
        self: A,
        task: "Adaptation",
        of: Any = None,
        samples: Iterable[Any] | None = None,
        person: Any = None,
        why: str | None = None,
        progress: Progress | None = None,
    ) -> A:
        """Take back what people answered in an adaptation that led here.

        Samples that others have answered as well are learned as these say. Where nobody names a class any more,
        what was believed to be of it is taken back, too. The other pseudo-labels stay.

        Parameters
        ----------
        task
            The adaptation, finished or read from its folder.
        of
            The person whose answers these are; all people if not given.
        samples
            Only of these samples. Without `of`, also what is believed of them.
        person, why
            Who takes them back, and why. Of whom they were is not written down.
        """
        chosen = None if samples is None else plain_samples(samples)
        if of is None and chosen is None:
            raise BadOption("say whose answers are to be taken back (of), or of which samples")
        return answers.answers_forgotten(self, task, check.person(of), chosen, By.of(person, why), progress)

    def propose_split(
        self: Repairable,
        name: Any,
        parts: int = 2,
        X: ArrayLike | None = None,
        ids: Sequence[Any] | AnyArray | None = None,
    ) -> Split:
        """Group the samples of a class that the agent keeps, and say which of them are doubtful.

        Nothing is changed. People name the groups and answer about the doubtful ones; `Split.labels` says what
        all samples are then, which `split_class` takes.

        Parameters
        ----------
        X
            Features, of which those of the class are grouped, too: what the memory does not keep of it.
        ids
            Their names.
        """
        return splitting.proposed(self, name, parts, None if X is None else _read(self, X, ids))

    def split_class(
        self: A,
        name: Any,
        X: ArrayLike,
        y: Any,
        answered: Sequence[int] | None = None,
        exact: bool = True,
        ids: Sequence[Any] | AnyArray | None = None,
        person: Any = None,
        why: str | None = None,
        progress: Progress | None = None,
    ) -> A:
        """Give the samples of a class labels of their own, as if taught with these from the start.

        Exact for a head in closed form; one that trains is trained again from what is kept.

        Parameters
        ----------
        X, y
            Features of the samples of the class, and what each is: classes known or new, or the same as before.
        answered
            Rows whose labels people gave; those of the others only followed. All of them if not given.
        exact
            False: samples of the class that are not given stay in it. Else `SamplesMissing` is raised.

        Examples
        --------
        >>> import numpy as np
        >>> from cual import Agent
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(c, 1, (30, 8)) for c in (0, 6, -6)])
        >>> agent = Agent.fit(X, ["cat"] * 30 + ["bird"] * 60)
        >>> split = agent.propose_split("bird", parts=2)
        >>> y = split.labels(["owl", "hen"], {split.doubtful(1)[0]: "hen"})
        >>> sorted(agent.split_class("bird", split.X, y).classes_.tolist())
        ['cat', 'hen', 'owl']
        """
        given = _read(self, X, ids)
        return splitting.split(self, name, given, y, answered, exact, By.of(person, why), progress)

    def split(
        self: Repairable,
        name: Any,
        X: ArrayLike,
        budget: float | int,
        ids: Sequence[Any] | AnyArray | None = None,
        progress: Progress | None = None,
    ) -> "Adaptation":
        """Begin to tell apart what is in a class: an adaptation over its samples, which asks about few of them.

        For a class whose parts nobody has seen yet; `propose_split` is simpler where there are few.

        The adaptation's agent is this one without the class, so the answers name what its samples are: other
        classes, known or new, or the same. As in `remove_class`, `X` must have all samples that the class was
        learned from but for those that the memory keeps.
        """
        given = _read(self, X, ids)
        without = classes.removed(self, name, given, True, By(why="split"), progress)
        return without.adapt(X, budget, ids=ids, progress=progress)


def _read(agent: Repairable, X: ArrayLike, ids: Sequence[Any] | AnyArray | None) -> samples.Given:
    """Check features once, at the border."""
    agent.check_encoder(encoder_of(X), "X")
    features = as_features(X, "X", agent.width).to(agent.device)
    index = index_of(X) if ids is None else None
    if index is not None and len(set(index.tolist())) == len(index):  # else it names no sample
        ids = index
    names: Sequence[Label] | None = None if ids is None else check_ids(ids, len(features), "X")
    return samples.Given.of(features, names)
