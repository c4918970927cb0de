"""The small formulas of the competition, each alone, against what they are written as."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from cual.learners import Accepted
from cual.learners.prototypes.competition import Competition, Rules
from cual.learners.prototypes.learner import PrototypeLearner

N_OLD = 3


def accepted(classes: list[int], human: list[int], weights: list[float] | None = None) -> Accepted:
    sure = None if weights is None else np.array(weights, np.float32)
    return Accepted(np.arange(len(classes)) * 2, np.array(classes), np.array(human), sure)


@pytest.mark.parametrize(
    ("answers", "held", "of_known", "expected"),
    [
        (0, 40.0, 0.1, (40 - 100 * 0.1) / 0.9),
        (9, 40.0, 0.38, 9),  # as many as were answered
        (1, 40.0, 0.5, 1),
        (0, 40.0, 0.5, 1),  # one at least
        (0, 99.5, 0.0, 90),  # nine tenths at most
        (0, 96.0, 0.99, (96 - 95) / 0.05),  # known samples are not believed to be novel nearly all
    ],
)
@pytest.mark.parametrize("none_of_these", [0, 1])
def test_novel_classes_are_as_frequent_as_they_hold_more_of_the_pool_than_of_known_samples(
    answers: int, held: float, of_known: float, expected: float, none_of_these: int
) -> None:
    told = accepted([3] * answers + [4] * 20 + [0] * 20, [1] * answers + [0] * 20 + [1] * 20)
    competition: Any = SimpleNamespace(
        _novel=[3, 4], _n_old=N_OLD, _accepted=told, rules=SimpleNamespace(none_of_these=none_of_these),
        _part=SimpleNamespace(estimate_frequency=True),
    )  # fmt: skip
    shares = torch.full((100, 2), held / 200)
    odds = Competition._odds(competition, shares, torch.full((10, 2), of_known / 2))
    n_novel = 2 + none_of_these
    assert odds == pytest.approx(math.log(expected / n_novel) - math.log((100 - expected) / N_OLD), abs=1e-3)


@pytest.mark.parametrize("weights", [None, [0.5, 1.0, 0.25, 0.75]])
def test_answered_anchors_are_their_class_s_as_far_as_the_answer_is_sure(weights: list[float] | None) -> None:
    """Rows 0, 2, 4 and 6 are accepted, 4 is believed only, and 6 is no anchor."""
    told = accepted([1, 3, 0, 1], [1, 1, 0, 1], weights)
    competition: Any = SimpleNamespace(
        _accepted=told,
        numbers=np.array([0, 1, 2, 3]),
        _space=SimpleNamespace(anchors=np.array([0, 1, 2, 4, 5])),
    )
    before = torch.softmax(torch.randn(5, 4, generator=torch.Generator().manual_seed(0)), dim=1)
    after = Competition._certain(competition, before.clone())
    expected = before.clone()
    for place, (anchor, c) in {0: (0, 1), 1: (2, 3)}.items():
        sure = 1.0 if weights is None else weights[place]
        expected[anchor] = sure * torch.eye(4)[c] + (1 - sure) * before[anchor]
    torch.testing.assert_close(after, expected)


def test_means_of_few_samples_are_taken_for_longer() -> None:
    rules: Any = SimpleNamespace(likeness=0.25)
    mass = torch.tensor([0.2, 1.0, 4.0, 100.0])
    expected = [math.sqrt((0.25 + 0.75 / max(1.0, n)) / 0.25) for n in mass.tolist()]
    assert Rules.fair(rules, mass).tolist() == pytest.approx(expected)


def test_what_was_known_before_is_as_long_as_so_many_directions_add_up_to() -> None:
    competition: Any = SimpleNamespace(
        _learning=np.array([0, 2]), _counts=torch.tensor([0.5, 7.0, 90.0]),
        _part=SimpleNamespace(known_weight=20.0), _space=SimpleNamespace(likeness=0.3, old=torch.eye(3)),
    )  # fmt: skip
    sums, weights = Competition._known(competition, 4)
    assert weights.tolist() == [1, 20, 0, 0]
    expected = torch.zeros(4, 3)
    expected[0, 0], expected[1, 2] = 1.0, math.sqrt(20 + 20 * 19 * 0.3)
    torch.testing.assert_close(sums, expected)


def test_old_classes_are_learned_further_where_few_samples_knew_them_or_answers_contradict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few: under the option, and under a quarter of the largest class. Only classes that an answer named."""
    counts = torch.tensor([4.0, 5.0, 20.0, 9.0, 4.0, 20.0])
    monkeypatch.setattr(
        "cual.learners.prototypes.learner.whitening", lambda agent: SimpleNamespace(counts=counts)
    )

    def learned_further(
        few: float, contradicted: int, drifted: bool = False, answered: bool = True
    ) -> list[int]:
        learner: Any = SimpleNamespace(
            _drifted=lambda: drifted, _n_old=6, _agent=None,
            _part=SimpleNamespace(few=few, looks_novel=0.9, contradicted=contradicted),
            _accepted=accepted([0, 1, 3, 2, 2, 5], [1, 1, 1, 1, 1, 0]) if answered else Accepted.nothing(),
            _home=SimpleNamespace(strangeness=lambda rows: torch.tensor([0.0, 0.0, 0.95, 0.95, 0.95])),
        )  # fmt: skip
        return PrototypeLearner.learning(learner).tolist()

    assert learned_further(few=8, contradicted=3) == [0]
    assert learned_further(few=3, contradicted=3) == []
    assert learned_further(few=8, contradicted=2) == [0, 2]
    assert learned_further(few=3, contradicted=1) == [2, 3]
    assert learned_further(few=8, contradicted=1, answered=False) == []
    assert learned_further(few=3, contradicted=3, drifted=True) == list(range(6))
