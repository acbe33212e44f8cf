"""Exact amounts of budget: integers of 1e-9 (`nano`), rounded towards more cost.

>>> cost_nano(Loss.pure(1_000_000_000), "rho")   # epsilon = 1 costs rho = 0.5
500000000
>>> cost_nano(Loss.pure(1), "rho")               # never rounded down to nothing
1
>>> show_nano(50_000_000), show_nano(123)
('0.0500', '0.000000123')
"""

from __future__ import annotations

from shoal.errors import LedgerError
from shoal.privacy.accounting import NANO, Loss

LARGEST_NANO = 10**18
CURRENCIES = ("rho", "epsilon")
LIMIT_FLAG = {"rho": "--rho", "epsilon": "--pure-epsilon"}  # that sets a limit in this currency


def cost_nano(loss: Loss, currency: str) -> int:
    """What a release costs in the currency of its population.

    A pure release costs epsilon^2 / 2 in rho for its whole epsilon, whatever its parts add up to.
    """
    pure = loss.pure_epsilon_nano
    if pure is not None:
        check_nano(pure, "epsilon")
        cost = pure if currency == "epsilon" else Loss.pure(pure).rho_nano
        return check_nano(cost, currency)
    check_nano(loss.rho_nano, "rho")
    if currency == "epsilon":
        raise LedgerError(
            "not-pure",
            "this population is counted in pure epsilon and takes pure releases only; this one has a rho.",
            "Choose a Laplace mechanism, or release under a population with a rho budget.",
        )
    return loss.rho_nano


def check_nano(amount: object, name: str) -> int:
    """The amount itself if it is a whole number of nano above 0; everything else is refused."""
    if type(amount) is not int or not 0 < amount <= LARGEST_NANO:
        raise LedgerError(
            "bad-amount",
            f"{name} must be a whole number of 1e-9, above 0 and at most 1e9; got {amount!r}.",
            "Amounts are Python integers: 0.5 is 500_000_000.",
        )
    return amount


def show_nano(nano: int) -> str:
    """All digits of an amount, at least four after the point."""
    whole, part = divmod(nano, NANO)
    digits = f"{part:09d}".rstrip("0").ljust(4, "0")
    return f"{whole}.{digits}"
