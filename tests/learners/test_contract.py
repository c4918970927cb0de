"""What every registered learner keeps to (`cual.checks`), also with options that change the most."""

import pytest

from contracts import contracts
from cual.checks import checks
from cual.checks.base import Check
from cual.learners import Hesitation, Novelty, Prototypes, learners

OTHERS = [
    Novelty(unnamed=True),
    Novelty(uncertainty="knn"),
    Novelty(uncertainty="mahalanobis"),
    Hesitation("margin"),
    Prototypes(none_of_these=False, estimate_frequency=False),
    Prototypes(anchors=20, neighbours=3),
    Prototypes(walk=0.0),
    Prototypes(keep_bytes=0),
]


@pytest.mark.parametrize("check", contracts(learners))
def test_a_learner_keeps_its_contract(check: Check) -> None:
    check()


@pytest.mark.parametrize("learner", OTHERS)
def test_a_learner_keeps_its_contract_with_other_options(learner: object) -> None:
    for _, check in checks(learner):
        check()
