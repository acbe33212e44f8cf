"""Every histogram method: built from a budget, its spends explained, its price its budget."""

import json

import pytest

from shoal.errors import GuaranteeError, PlanError
from shoal.kinds.describe import check_spends, spends_of
from shoal.kinds.histogram.plan import METHODS, PAYS_FOR
from shoal.mechanisms.audit_size import trip_setting
from shoal.privacy.accounting import Budget


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize("bound", [{"per_unit": 1}, {"per_unit": 3, "cap": 9}, {"per_unit": 2, "trips": 500}])
def test_each_method_stays_within_its_budget_and_says_what_it_buys(name, delta, bound):
    budget = Budget.of(0.5, delta)
    if METHODS[name].pure and delta is not None:
        with pytest.raises(GuaranteeError, match="no gaussian noise"):
            METHODS[name].build(budget, trip_setting(**bound))
        return
    mechanism = METHODS[name].build(budget, trip_setting(**bound))
    check_spends(mechanism, budget)
    spends = spends_of(mechanism, PAYS_FOR)
    assert all(spend["pays_for"] for spend in spends), [spend["name"] for spend in spends]
    assert ("trips" in [spend["name"] for spend in spends]) == ("trips" not in bound)
    json.dumps(mechanism.describe(), allow_nan=False)


def test_a_name_that_is_nearly_right():
    with pytest.raises(PlanError, match="Did you mean prish"):
        METHODS.named("prich")
