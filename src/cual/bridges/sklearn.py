"""An agent as a scikit-learn classifier, for pipelines, grid search and whatever else takes an estimator.

Only the translation lives here; learning and adapting are the agent's business.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from cual.agent import Agent
from cual.data.pool import Pool, check_width
from cual.loop.adaptation import Adaptation
from cual.methods import Method, methods
from cual.types import AnyArray, ArrayLike, FloatArray, Label

BLOCK = 64
"""Rows that are classified at once, always as many: matrix products of other shapes round differently, and
scikit-learn wants the same probabilities for a sample whatever else it is predicted with."""


class CualClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that can be asked what is novel, and that learns new classes from unlabelled data.

    Parameters
    ----------
    method
        A name from `cual.methods`, or a `Method`.
    random_state
        Everything random derives from it; an int is the agent's seed.
    buffer, hidden, epochs
        Samples in the replay memory, width of the long-term head's hidden layer, and epochs of its training;
        None for what the method says. A head that is not trained (cual-plus's) has no hidden layer and no
        epochs: giving them is a `BadOption` error.
    options
        Further options of the method, for example ``{"learner": {"strange_weight": 1.0}}``.
    device
        Where to compute: "cpu" or "cuda".

    Attributes
    ----------
    classes_
        The known classes, sorted.
    agent_
        The agent behind it. It sees labels that are whole numbers as int (also 1.0 and True) and names as str:
        that is how to `tell` them to an adaptation.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, new = np.concatenate([rng.normal(c, 1, (40, 8)) for c in (0, 6)]), rng.normal(-6, 1, (30, 8))
    >>> clf = CualClassifier().fit(X, ["cat"] * 40 + ["dog"] * 40)
    >>> task = clf.adapt(np.concatenate([X[::4], new]), budget=3)
    >>> while query := task.ask():
    ...     task.tell(query.id, {i: "owl" if i >= 20 else "cat" for i in query.ids})
    >>> clf.adopt(task.finish()).predict(new[:1]).tolist(), clf.classes_.tolist()
    (['owl'], ['cat', 'dog', 'owl'])
    """

    n_features_in_: int

    def __init__(
        self,
        method: str | Method = "cual-plus",
        *,
        random_state: int | np.random.RandomState | None = 0,
        buffer: int | None = None,
        hidden: int | None = None,
        epochs: int | None = None,
        options: Mapping[str, Any] | None = None,
        device: str = "cpu",
    ) -> None:
        self.method = method
        self.random_state = random_state
        self.buffer = buffer
        self.hidden = hidden
        self.epochs = epochs
        self.options = options
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the first classes."""
        features, labels = cast(
            tuple[AnyArray, AnyArray], validate_data(self, X, y, dtype=(np.float32, np.float64))
        )
        check_classification_targets(labels)
        agent = Agent.fit(
            features, _plain(labels), method=self._method(), seed=self._seed(), device=self.device
        )
        return self._take(agent, labels.dtype)

    def adapt(
        self, pool: Pool | ArrayLike, budget: float | int, ids: Sequence[Any] | AnyArray | None = None
    ) -> Adaptation:
        """Begin to adapt to unlabelled data (see `Agent.adapt`); `adopt` takes over what comes of it."""
        check_is_fitted(self)
        return self.agent_.adapt(pool, budget, ids)

    def adopt(self, agent: Agent) -> Self:
        """Go on with another agent on the same features, such as the next version from ``task.finish()``."""
        check_is_fitted(self)
        check_width(agent.width, self.n_features_in_, "the agent")
        return self._take(agent, self._dtype)

    def predict(self, X: Any) -> AnyArray:
        """The class of each sample."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities (n, classes), columns in the order of `classes_`."""
        features = self._checked(X)
        n, width = features.shape
        whole = np.concatenate([features, np.zeros((-n % BLOCK, width), features.dtype)])
        blocks = [self.agent_.predict_proba(whole[i : i + BLOCK]) for i in range(0, n, BLOCK)]
        return np.concatenate(blocks)[:n, self._order]

    def novelty(self, X: Any) -> FloatArray:
        """How novel each sample looks to the method; compare with ``agent_.threshold.value``."""
        features = self._checked(X)
        return self.agent_.novelty(features)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent to one file."""
        check_is_fitted(self)
        self.agent_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "cpu") -> Self:
        """A fitted classifier around an agent that was saved, by this class or by `Agent.save`."""
        agent = Agent.load(path, device)
        fitted = cls(agent.method, random_state=agent.seed, device=device)
        fitted.n_features_in_ = agent.width
        return fitted._take(agent, agent.classes_.dtype)

    def _checked(self, X: Any) -> AnyArray:
        check_is_fitted(self)
        return cast(AnyArray, validate_data(self, X, reset=False, dtype=(np.float32, np.float64)))

    def _take(self, agent: Agent, dtype: np.dtype[Any]) -> Self:
        names = _restored(agent.classes_, dtype)
        self.agent_, self._dtype = agent, dtype
        self._order = np.argsort(names)
        self.classes_ = names[self._order]
        return self

    def _method(self) -> Method:
        method = methods[self.method] if isinstance(self.method, str) else self.method
        changed = dict(self.options or {})
        if self.buffer is not None:
            changed["buffer"] = self.buffer
        method = method.but(**changed)
        head = {"hidden": self.hidden, "epochs": self.epochs}
        given = {name: value for name, value in head.items() if value is not None}
        return method.but(head=given) if given else method

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))


def _plain(y: AnyArray) -> list[Label]:
    """Labels as the agent takes them: scikit-learn lets floats and bools through where they are whole numbers.

    >>> _plain(np.array([1.0, 2.0])), _plain(np.array(["a", "b"], dtype=object))
    ([1, 2], ['a', 'b'])
    """
    return y.astype(np.int64).tolist() if y.dtype.kind in "fb" else y.tolist()


def _restored(labels: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """The agent's labels in the type of `y`, unless a class came later that the type cannot hold.

    >>> _restored(np.array([0, 1]), np.dtype(bool)), _restored(np.array([0, 1, 2]), np.dtype(bool))
    (array([False,  True]), array([0, 1, 2]))
    """
    converted = labels.astype(dtype)
    return converted if (converted == labels).all() else labels
