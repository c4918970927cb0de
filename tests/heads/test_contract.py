"""What every registered head keeps to (`cual.checks`), and that a seed matters to each of ours."""

import pytest

from contracts import contracts
from cual.checks.base import Check, objects, same_state
from cual.checks.head import learned
from cual.heads import heads


@pytest.mark.parametrize("check", contracts(heads))
def test_a_head_keeps_its_contract(check: Check) -> None:
    check()


@pytest.mark.parametrize("name", heads.names())
def test_another_seed_gives_other_bits(name: str) -> None:
    for head, _ in objects(heads[name]):
        first, second = (learned(head, seed=seed).state() for seed in (0, 1))
        assert not same_state(first, second)
