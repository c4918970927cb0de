"""Who to ask: query strategies of small-text, as an acquisition of ours. Translation only.

Importing this module registers the acquisition ``small-text``; the package itself is imported when a strategy
chooses, so that an agent with one still predicts where it is missing.
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
    "PredictionEntropy": (),
    "BreakingTies": (),
    "LeastConfidence": (),
    "GreedyCoreset": ("distance_metric", "normalize", "batch_size"),
    "LightweightCoreset": ("normalize",),
    "EmbeddingKMeans": ("normalize",),
    "ContrastiveActiveLearning": ("k", "normalize", "batch_size"),
}
"""Strategies that choose by features and probabilities, and their options that may be set. Others need a text
classifier of small-text (dropout, a discriminator) or are for several labels per sample."""
BY_PROBABILITIES = ("PredictionEntropy", "BreakingTies", "LeastConfidence")


@acquisition("small-text")
class Strategy:
    """Ask whom a query strategy of small-text would ask.

    Features are its embeddings, A_s's probabilities those of its classifier; the samples answered in this
    adaptation are its labelled ones (`ContrastiveActiveLearning` sees candidates only: nobody tells the
    probabilities of answered samples).

    Parameters
    ----------
    strategy
        Its name in ``small_text.query_strategies``, one of `STRATEGIES`.
    options
        Of its constructor, by name: those that `STRATEGIES` lists.
    candidates
        Samples that it looks at, at most: those of the highest scores.

    >>> Strategy("GreedyCoreset", {"distance_metric": "cosine"}).strategy
    'GreedyCoreset'
    """

    def __init__(
        self,
        strategy: str = "PredictionEntropy",
        options: Mapping[str, Any] | None = None,
        candidates: int = 5000,
    ) -> None:
        self.strategy, self.options = chosen_option(strategy, options, STRATEGIES, "small-text")
        self.candidates = check.whole("candidates", candidates)

    @classmethod
    def unit_test_params(cls) -> list[dict[str, Any]]:
        """What its checks are run with."""
        several: list[dict[str, Any]] = [{"strategy": name} for name in STRATEGIES]
        cosine = {"strategy": "GreedyCoreset", "options": {"distance_metric": "cosine"}, "candidates": 7}
        return [*several, cosine]

    def choose(self, view: PoolView, n: int, rng: np.random.Generator) -> IntArray:
        seen = Seen.of(view, max(n, self.candidates))
        by_features = self.strategy not in (*BY_PROBABILITIES, "RandomSampling")
        alike = by_features and bool((seen.X[:1] == seen.X).all())  # no direction leads anywhere
        if n <= 0 or n >= len(seen.at) or alike:
            return seen.positions([], n)
        strategies = needed("small_text.query_strategies", "small-text", "small-text")
        strategy = getattr(strategies, self.strategy)(**self._options(len(seen.at)))
        with shared_random_state(rng):  # small-text draws from nowhere else
            chosen = self._query(strategy, seen, n)
        return seen.positions(chosen, n)

    def _options(self, n: int) -> dict[str, Any]:
        """Those of the strategy's constructor, where there are `n` candidates."""
        if self.strategy != "ContrastiveActiveLearning":
            return self.options
        return {**self.options, "k": min(self.options.get("k", 10), n), "pbar": None}

    def _query(self, strategy: Any, seen: Seen, n: int) -> list[int]:
        candidates = np.arange(len(seen.X))
        nothing = np.empty(0, np.int64)
        if self.strategy in (*BY_PROBABILITIES, "ContrastiveActiveLearning"):
            told = _Classifier(seen.X, seen.probabilities())
            chosen = strategy.query(told, seen.X, candidates, nothing, nothing, n=n)
            if self.strategy in BY_PROBABILITIES:  # chosen are the right ones, in no order
                sign = 1 if strategy.lower_is_better else -1
                chosen = chosen[np.argsort(sign * strategy.scores_[chosen], kind="stable")]
            return chosen.tolist()
        labelled = np.arange(len(seen.X), len(seen.both))
        first: list[int] = []
        if self.strategy == "GreedyCoreset" and not len(labelled):  # it starts from something that is labelled
            first = [int(seen.view.scores[seen.at].argmax())]
            labelled = np.array(first)
            candidates = np.delete(candidates, first)
        if n == len(first):
            return first
        y = np.zeros(len(labelled), np.int64)
        more: dict[str, Any] = {}
        if self.strategy != "RandomSampling":
            more = {"embeddings": seen.both[np.concatenate([candidates, labelled])]}
        chosen = strategy.query(None, seen.both, candidates, labelled, y, n=n - len(first), **more)
        return [*first, *chosen.tolist()]


class _Classifier:
    """What strategies ask of a classifier: the probabilities of the candidates, and their embeddings."""

    def __init__(self, X: AnyArray, probabilities: AnyArray) -> None:
        self._X = X
        self._probabilities = probabilities

    def predict_proba(self, dataset: Any) -> AnyArray:
        return self._probabilities

    def embed(self, dataset: Any, return_proba: bool = False, pbar: Any = None) -> tuple[AnyArray, AnyArray]:
        return self._X, self._probabilities
