"""What every registered uncertainty keeps to (`cual.checks`)."""

import pytest

from contracts import contracts
from cual.checks.base import Check
from cual.errors import UnknownName
from cual.uncertainty import uncertainties


@pytest.mark.parametrize("check", contracts(uncertainties))
def test_an_uncertainty_keeps_its_contract(check: Check) -> None:
    check()


def test_unknown_name_lists_the_known():
    with pytest.raises(UnknownName, match="fre, knn, mahalanobis"):
        uncertainties["fred"]
