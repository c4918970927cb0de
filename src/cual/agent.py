"""The Agent: what is known. Classes, their models, the long-term head, replay and validation set.

An agent never changes: `adapt` starts an `Adaptation`, whose `finish` gives the next version. What it says of
samples is in `cual.judging`, what teaches and repairs it without questions in `cual.repair`.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cual import options as check
from cual import storage
from cual.data.frames import check_aligned
from cual.data.labels import ClassNames, read_labels
from cual.data.pool import Pool, as_features, check_not_vanishing, check_width, encoder_of
from cual.errors import BadOption, TooFewSamples
from cual.heads import (
    Head,
    LearnsOnce,
    Lesson,
    Samples,
    Steps,
    Whitens,
)
from cual.held_out import held_out_of_accepted, held_out_of_first
from cual.judging import Judges
from cual.learned import Learned, marks_of
from cual.learners import (
    Accepted,
    ModelsClasses,
    in_lessons,
    long_term_lesson,
)
from cual.loop.adaptation import Adaptation
from cual.loop.timing import Timings
from cual.methods import Method, methods
from cual.registry import options_of
from cual.repair import Repairs
from cual.replay import Replay
from cual.seeds import generator
from cual.types import AnyArray, ArrayLike, FloatArray, IntArray, Progress, Row
from cual.uncertainty import ClassModel, warn_about

ANCHOR = 12.0
"""Samples of a class in a new look that weigh half as much as each look before: fewer are hardly sure."""
REMEMBERED = 256
"""Unexplained samples that an agent carries into its next adaptation, at most (1 MiB of 2048 features)."""


@dataclass(frozen=True, eq=False, repr=False)
class Agent(Judges, Repairs):
    """What is known so far (`A` in the paper). Made by `fit`, by `load` and by an adaptation's `finish`.

    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(c, 1, (30, 8)) for c in (0, 6)])
    >>> agent = Agent.fit(X, ["cat"] * 30 + ["dog"] * 30)
    >>> agent.predict(X[:1]).tolist(), agent.version, agent.classes_.tolist()
    (['cat'], 0, ['cat', 'dog'])
    >>> agent
    <Agent version 0: 2 classes, cual-plus, features 8 wide>
    >>> agent.predict_proba(X[:1]).shape, agent.width, agent.names.names, agent.device.type
    ((1, 2), 8, ('cat', 'dog'), 'cpu')
    >>> fox = rng.normal(-6, 1, (1, 8))
    >>> bool(agent.novelty(fox)[0] > agent.threshold), len(agent.known_novelty) == len(agent.validation)
    (True, True)
    """

    method: Method
    seed: int
    version: int
    names: ClassNames
    models: tuple[ClassModel, ...]
    head: Head
    replay: Replay
    validation: Samples
    history: tuple[Row, ...]
    """One row per adaptation, lesson (`teach`) or repair that led here."""
    encoder: str | None = None
    """Fingerprint of the encoder that made the features, where it is known; others' are refused."""
    verified: Tensor | None = None
    """Of each validation sample, whether a person gave its label; None where all of them have one."""
    remembered: Tensor | None = None
    """Features of samples that looked novel and that nothing explained, at most `REMEMBERED`."""
    learned: Learned = field(default_factory=partial(Learned.nothing, complete=False))
    """Which samples the head has learned, by a mark of each, so that they can be taken back."""

    @classmethod
    def fit(
        cls,
        X: ArrayLike,
        y: Any,
        method: str | Method = "cual-plus",
        seed: int = 0,
        device: str | torch.device = "cpu",
        progress: Progress | None = None,
        encoder: str | None = None,
        **options: Any,
    ) -> "Agent":
        """Learn the first classes.

        Parameters
        ----------
        X
            (n, d) features, any float type; a DataFrame of numbers will do.
        y
            n labels, all str or all int; a Series has the index of `X`, if that is a DataFrame.
        method
            A name from `cual.methods`, or a `Method`.
        seed
            Everything random derives from it.
        device
            Where to compute: "cpu" or "cuda".
        progress
            Called as ``progress(stage, done, total)``.
        encoder
            Fingerprint of the encoder that made `X`; a features folder's `X` brings its own.
        options
            Change options of the method, for example ``buffer=5000, alpha=0.1``.

        >>> X = np.random.default_rng(0).normal(size=(40, 8))
        >>> Agent.fit(X, [0] * 20 + [1] * 20, method="er-entropy", rounds=3).method.rounds
        3
        >>> Agent.fit(X, [0] * 20 + [1] * 20, alpha=0.1)
        Traceback (most recent call last):
        cual.errors.BadOption: the rule of belief 'likelier-than-not' has no alpha; it has share, ...
        """
        chosen = methods[method] if isinstance(method, str) else method
        if not isinstance(chosen, Method):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadOption(f"method is {method!r}, but takes a name or a Method")
        chosen, device = chosen.but(**options), check.device(device)
        seed = check.whole("seed", seed, 0, most=math.inf)
        encoder = None if encoder is None else check.text("encoder", encoder)
        check_aligned(X, y)
        features = as_features(X, "X")
        if not len(features):
            raise TooFewSamples("there are no samples to learn from")
        check_not_vanishing(features, "X")
        names, codes = read_labels(y, len(features))
        features, labels = features.to(device), torch.from_numpy(codes).to(device)
        held_out = held_out_of_first(codes, chosen.validation_share, seed)
        train, validation = (
            Samples(features[rows], labels[rows])
            for rows in (torch.from_numpy(np.flatnonzero(mask)).to(device) for mask in (~held_out, held_out))
        )
        models: tuple[ClassModel, ...] = ()
        if isinstance(chosen.learner, ModelsClasses):
            models = tuple(chosen.learner.uncertainty.fit(train.X[train.y == c]) for c in range(len(names)))
            warn_about(chosen.learner.uncertainty, models)
        none = Samples(train.X[:0], train.y[:0])
        head = chosen.head.learn(
            Lesson(len(names), train, none, none),
            generator(seed, 0, 0, "long-term head"),
            at_stage(progress, "learning the first classes"),
        )
        replay = Replay(chosen.buffer).updated(train.X, train.y, generator(seed, 0, 0, "replay"))
        by_people = np.ones(len(train), np.bool_)
        learned = Learned.nothing().plus(marks_of(train.X), codes[~held_out], None, by_people)
        of = encoder or encoder_of(X)
        return cls(chosen, seed, 0, names, models, head, replay, validation, (), encoder=of, learned=learned)

    def adapt(
        self,
        pool: Pool | ArrayLike,
        budget: float | int,
        ids: Sequence[Any] | AnyArray | None = None,
        progress: Progress | None = None,
        overlap: int = 1,
    ) -> Adaptation:
        """Begin to adapt to unlabelled data; this agent stays as it is.

        Parameters
        ----------
        pool
            A `Pool`, or (m, d) features; the index of a DataFrame is its ids.
        budget
            Labels that people will be asked for: a float is a share of the pool, an int a count.
        ids
            Names of the rows of a plain array; 0 … m−1 by default.
        progress, overlap
            Called as ``progress(stage, done, total)``; and how many people each question is put to (`tell`).

        >>> rng = np.random.default_rng(0)
        >>> agent = Agent.fit(rng.normal(size=(40, 8)), ["cat"] * 40)
        >>> task = agent.adapt(rng.normal(size=(200, 8)), budget=0.05, ids=[f"{i}.jpg" for i in range(200)])
        >>> task.budget, task.ask().ids[0].endswith(".jpg")
        (10, True)
        """
        pool = pool if isinstance(pool, Pool) else Pool(pool, ids)
        self.check_encoder(pool.encoder, "pool")
        check_width(pool.width, self.width, "pool")
        if len(self.validation) < 2:
            raise TooFewSamples(
                f"the agent holds {len(self.validation)} validation samples, so T_inner cannot be set; "
                "fit it with at least two classes, or one of 15 samples, and three samples in each"
            )
        return Adaptation(self, pool, budget, progress, overlap=overlap)

    def consolidated(
        self,
        pool: Pool,
        accepted: Accepted,
        names: ClassNames,
        unexplained: IntArray,
        outcome: Row,
        timings: Timings,
        progress: Progress | None = None,
    ) -> "Agent":
        """The next version: this agent, and what an adaptation accepted (paper, appendix 4.1.4).

        Of the rows that stay `unexplained`, some are remembered for the next pool.
        """
        n_old, task = len(self.names), self.version + 1
        share = self.method.validation_share
        held_out = held_out_of_accepted(accepted, n_old, share, self.seed, task)
        kept = accepted.only(~held_out)

        def features(rows: IntArray) -> Tensor:
            return pool.take(rows, self.device)

        grown = sorted({*np.unique(kept.believed()[1]).tolist(), *range(n_old, len(names))})
        with timings.stage("class models"):
            models = self._models(grown, kept, features, len(names))
        head, counts = self.head, kept.weights
        if len(kept.rows):
            factors = self._yielding(kept, len(names)) if "drift" in outcome else None
            if factors is not None:
                counts = factors[kept.classes] * (1 if counts is None else counts)
            with timings.stage("long head"):
                head = self._taught(pool, kept, len(names), factors, at_stage(progress, "learning"))
        replay = self.replay.updated(
            lambda chosen: features(kept.rows[chosen.cpu().numpy()]),
            torch.from_numpy(kept.classes).to(self.device),
            generator(self.seed, task, 0, "replay"),
            keep=torch.from_numpy(kept.human == 1).to(self.device),
        )
        codes = torch.from_numpy(accepted.classes[held_out]).to(self.device)
        validation = Samples(
            torch.cat([self.validation.X, features(accepted.rows[held_out])]),
            torch.cat([self.validation.y, codes]),
        )
        person = torch.from_numpy(accepted.human[held_out] == 1).to(self.device)
        drawn = generator(self.seed, task, 0, "unexplained").permutation(unexplained)[:REMEMBERED]
        limit = torch.finfo(torch.float16).max
        new = features(np.sort(drawn)).clamp(-limit, limit).half()
        remembered = torch.cat([new, self.unexplained])[:REMEMBERED]
        marks = [marks_of(X) for _, X in pool.chunks(kept.rows, self.device)]
        history = (*self.history, {"version": task, **outcome})
        return Agent(
            self.method,
            self.seed,
            task,
            names,
            models,
            head,
            replay,
            validation,
            history,
            self.encoder,
            torch.cat([self.verified_mask, person]),
            remembered,
            self.learned.plus(np.concatenate([kept.rows[:0], *marks]), kept.classes, counts, kept.human == 1),
        )

    def _yielding(self, kept: Accepted, n_classes: int) -> FloatArray | None:
        """What a sample of each class counts, so that what was known yields to a new look; None for one each.

        A class of which n samples were accepted in a drifted pool is to weigh n / (n + `ANCHOR`) of what each
        earlier look weighs, however many samples that has.
        """
        head = self.head
        if not isinstance(head, Whitens) or not isinstance(head, LearnsOnce):
            return None
        looks = 1 + sum("drift" in row for row in self.history)
        new, known = np.bincount(kept.classes, minlength=n_classes), np.zeros(n_classes)
        known[: len(self.names)] = head.counts[: len(self.names)].cpu().numpy()
        return np.maximum(1.0, known / (looks * (new + ANCHOR))).astype(np.float32)

    def _taught(
        self,
        pool: Pool,
        kept: Accepted,
        n_classes: int,
        factors: FloatArray | None,
        progress: Steps | None,
    ) -> Head:
        """The long-term head, after what an adaptation accepted; `factors`: what samples of a class count."""
        head, rng = self.head, generator(self.seed, self.version + 1, 0, "long-term head")
        lessons = in_lessons(kept, head, self.width, len(self.names))
        for done, part in enumerate(lessons, 1):
            lesson = long_term_lesson(self, pool, part, n_classes)
            if factors is not None:
                lesson = lesson.counting(torch.from_numpy(factors))
            head = head.learn(lesson, rng, progress if len(lessons) == 1 else None)
            if progress is not None and len(lessons) > 1:
                progress(done, len(lessons))
        return head

    @property
    def unexplained(self) -> Tensor:
        """Samples (n, width) of earlier pools that looked novel and that nothing explained."""
        if self.remembered is not None:
            return self.remembered
        return torch.empty(0, self.width, dtype=torch.float16, device=self.device)

    @property
    def verified_mask(self) -> Tensor:
        """Of each validation sample, whether a person gave its label."""
        if self.verified is not None:
            return self.verified
        return torch.ones(len(self.validation), dtype=torch.bool, device=self.device)

    @property
    def verified_samples(self) -> Samples:
        """Validation samples whose label a person gave. Nothing was learned from them."""
        return Samples(self.validation.X[self.verified_mask], self.validation.y[self.verified_mask])

    def _models(
        self, grown: Sequence[int], kept: Accepted, features: Callable[[IntArray], Tensor], n_classes: int
    ) -> tuple[ClassModel, ...]:
        """Models of all classes, those of `grown` fitted anew; none for a learner that needs none."""
        learner = self.method.learner
        if not isinstance(learner, ModelsClasses):
            return ()
        models = dict(enumerate(self.models))
        for c in grown:
            known = self.replay.X[self.replay.y == c].float()
            models[c] = learner.uncertainty.fit(torch.cat([known, features(kept.rows[kept.classes == c])]))
        warn_about(learner.uncertainty, [models[c] for c in grown])
        return tuple(models[c] for c in range(n_classes))

    def __repr__(self) -> str:
        """One line: all that it holds would be pages of numbers."""
        classes = f"{len(self.names)} class{'' if len(self.names) == 1 else 'es'}"
        return f"<Agent version {self.version}: {classes}, {self.method.name}, features {self.width} wide>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to one file (safetensors with a JSON header).

        >>> import tempfile
        >>> agent = Agent.fit(np.random.default_rng(0).normal(size=(40, 8)), ["cat"] * 40)
        >>> agent.save(file := tempfile.mkdtemp() + "/v0.agent")
        >>> Agent.load(file)
        <Agent version 0: 1 class, cual-plus, features 8 wide>
        """
        body = {
            "method": self.method.to_json(),
            "seed": self.seed,
            "version": self.version,
            "names": list(self.names.names),
            "history": list(self.history),
            "encoder": self.encoder,
            "learned": {"complete": self.learned.complete},
        }
        tensors = {
            "validation.X": self.validation.X,
            "validation.y": self.validation.y,
            "validation.verified": self.verified_mask,
            "unexplained.X": self.unexplained,
        }
        tensors |= {f"head.{k}": v for k, v in self.head.state().items()}
        tensors |= {f"replay.{k}": v for k, v in self.replay.state().items()}
        tensors |= {f"learned.{k}": v for k, v in self.learned.state().items()}
        for c, model in enumerate(self.models):
            tensors |= {f"model.{c}.{k}": v for k, v in model.state().items()}
        storage.write(path, "agent", body, tensors)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | torch.device = "cpu") -> "Agent":
        """Read an agent that `save` wrote."""
        body, tensors = storage.read(path, "agent")
        device = check.device(device)
        with storage.rebuilding(path):
            method = Method.from_json(body["method"])
            names = ClassNames(tuple(body["names"]))
            models: tuple[ClassModel, ...] = ()
            if isinstance(method.learner, ModelsClasses):
                fitted = storage.sections(tensors, "model.", device)
                models = tuple(method.learner.uncertainty.load(fitted[str(c)]) for c in range(len(names)))
            head = storage.section(tensors, "head.", device)
            return cls(
                method,
                body["seed"],
                body["version"],
                names,
                models,
                type(method.head).from_state(head, **options_of(method.head)),
                Replay.from_state(storage.section(tensors, "replay.", device)),
                Samples(tensors["validation.X"].to(device), tensors["validation.y"].to(device)),
                tuple(body["history"]),
                body.get("encoder"),
                _read_verified(body, tensors).to(device),
                tensors["unexplained.X"].to(device) if "unexplained.X" in tensors else None,
                Learned.from_state(
                    storage.section(tensors, "learned."), body.get("learned", {}).get("complete", False)
                ),
            )

    def push_to_hub(
        self,
        repo_id: str,
        *,
        revision: str | None = None,
        private: bool = True,
        license: str | None = None,
        message: str | None = None,
        force: bool = False,
    ) -> str:
        """Put the agent on the Hugging Face Hub, with a card of what it knows; the commit, to pull it by.

        The token is the one that `huggingface_hub` finds: ``hf auth login``, or HF_TOKEN.

        Parameters
        ----------
        repo_id
            ``owner/name`` of a repository of models, which is made if it is not there.
        revision
            The branch; the main one if not given.
        private
            Whether a repository that is made is for its owner only. One that is there stays as it is.
        license
            The hub's short name of one, as ``apache-2.0``, for the card.
        message
            Of the commit.
        force
            Also into a repository whose card somebody else wrote, which is replaced.
        """
        from cual.bridges.hub import push

        pushed = push(
            self, repo_id, revision=revision, private=private, license=license, message=message, force=force
        )
        return pushed.commit

    @classmethod
    def from_hub(
        cls,
        repo_id: str,
        *,
        revision: str | None = None,
        sha256: str | None = None,
        device: str | torch.device = "cpu",
    ) -> "Agent":
        """Read an agent from the Hugging Face Hub; nothing that its file names is fetched or run.

        Parameters
        ----------
        repo_id
            ``owner/name`` of the repository that `push_to_hub` wrote to.
        revision
            A branch, a tag or a commit; the main branch if not given. Only a commit stays what it is.
        sha256
            What the agent's file must hash to, whatever the repository says.
        device
            Where to compute: "cpu" or "cuda".
        """
        from cual.bridges.hub import pull_agent

        return pull_agent(repo_id, revision=revision, sha256=sha256, device=device)


def _read_verified(body: Row, tensors: Mapping[str, Tensor]) -> Tensor:
    """Which validation samples have a label of a person; release 0.1.0 did not say.

    All of the first classes had, but for a few that were learned further from pseudo-labels.
    """
    if "validation.verified" in tensors:
        return tensors["validation.verified"]
    new = sum(len(row.get("new_classes", ())) for row in body["history"])
    return tensors["validation.y"] < len(body["names"]) - new


def at_stage(progress: Progress | None, stage: str) -> Callable[[int, int], None] | None:
    """A head's ``(done, total)`` progress, told as that of `stage`."""
    return None if progress is None else partial(progress, stage)
