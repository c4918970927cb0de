"""Who to ask: pool-based query strategies of scikit-activeml, as an acquisition of ours. Translation only.

Importing this module registers the acquisition ``skactiveml``; scikit-activeml itself is imported when a
strategy chooses, so that an agent with one still predicts where the package is missing.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from cual import options as check
from cual.acquisition import PoolView, acquisition
from cual.bridges.pools import Seen, chosen_option, needed, shared_random_state
from cual.types import AnyArray, IntArray

STRATEGIES: Mapping[str, tuple[str, ...]] = {
    "RandomSampling": (),
    "UncertaintySampling": ("method",),
    "CoreSet": ("metric", "metric_dict"),
    "TypiClust": ("k", "cluster_algo_dict"),
    "ProbCover": ("n_classes", "alpha", "cluster_algo_dict"),
    "MaxHerding": ("normalize_samples", "metric", "metric_dict"),
    "GreedySamplingX": ("metric", "metric_dict"),
    "Badge": (),
    "Clue": ("method", "cluster_algo_dict"),
    "Falcun": ("gamma",),
}
"""Strategies that choose by what a view has, and their options that may be set. Others train a model of their
own on labels (committees, expected errors), which a view does not have, or are for regression."""
BY_CLASSIFIER = {"UncertaintySampling": "clf", "Badge": "clf", "Falcun": "clf", "Clue": "estimator"}
"""Those that ask a classifier for probabilities, and what they call it."""


@acquisition("skactiveml")
class Strategy:
    """Ask whom a query strategy of scikit-activeml would ask.

    It is given the features of the candidates as unlabelled samples, those of the samples answered in this
    adaptation as labelled ones, and A_s's probabilities as those of a classifier that is fitted already.

    Parameters
    ----------
    strategy
        Its name in ``skactiveml.pool``, one of `STRATEGIES`.
    options
        Of its constructor, by name: those that `STRATEGIES` lists.
    candidates
        Samples that it looks at, at most, those of the highest scores: many strategies compare all pairs.

    >>> Strategy("UncertaintySampling", {"method": "entropy"}).options
    {'method': 'entropy'}
    """

    def __init__(
        self,
        strategy: str = "UncertaintySampling",
        options: Mapping[str, Any] | None = None,
        candidates: int = 5000,
    ) -> None:
        self.strategy, self.options = chosen_option(strategy, options, STRATEGIES, "scikit-activeml")
        self.candidates = check.whole("candidates", candidates)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        several: list[dict[str, Any]] = [{"strategy": name} for name in STRATEGIES]
        return [*several, {"options": {"method": "entropy"}}, {"strategy": "CoreSet", "candidates": 7}]

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        seen = Seen.of(view, max(n, self.candidates))
        if n <= 0 or n >= len(seen.at):  # there is nothing to choose
            return seen.positions([], n)
        pool = needed("skactiveml.pool", "scikit-activeml", "skactiveml")
        kind = getattr(pool, self.strategy)
        given: dict[str, Any] = {}
        if self.strategy in BY_CLASSIFIER:
            called = BY_CLASSIFIER[self.strategy]
            given = {called: _classifier(seen.probabilities()), f"fit_{called}": False}
        labels = np.concatenate([np.full(len(seen.X), np.nan), np.zeros(len(seen.asked))])
        options = {**self._defaults(seen), **self.options}
        strategy = kind(**options, missing_label=np.nan, random_state=int(rng.integers(2**31)))
        with shared_random_state(rng):  # k-means inside some of them draws from there
            chosen = strategy.query(X=seen.both, y=labels, batch_size=n, **given)
        return seen.positions(chosen, n)

    def _defaults(self, seen: Seen) -> dict[str, Any]:
        """What a strategy would else read from labels, which it is not given."""
        if self.strategy != "ProbCover":
            return {}
        known = max(2, seen.view.n_old, int(seen.view.classes.max(initial=-1)) + 1)
        return {"n_classes": min(known, len(seen.at))}


def _classifier(probabilities: AnyArray) -> Any:
    """A fitted classifier that knows the probabilities of the candidates, which is all that it is asked for."""
    base = needed("skactiveml.base", "scikit-activeml", "skactiveml")

    class Told(base.SkactivemlClassifier):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            raise NotImplementedError("it is fitted already")

        def predict_proba(self, X: Any) -> AnyArray:
            if len(X) != len(probabilities):
                raise LookupError(f"probabilities of {len(X)} samples are asked for, not of the candidates")
            return probabilities

    told: Any = Told(classes=list(range(probabilities.shape[1])))
    told.classes_ = np.arange(probabilities.shape[1])
    return told
