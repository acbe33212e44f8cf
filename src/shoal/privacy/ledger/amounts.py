"""Exact amounts of budget: integers of 1e-9 (`nano`), rounded towards more cost and less budget.

>>> pure_epsilon_as_rho(1_000_000_000)   # epsilon = 1 costs rho = 0.5
500000000
>>> pure_epsilon_as_rho(1)               # never rounded down to nothing
1
>>> show_nano(50_000_000), show_nano(123)
('0.0500', '0.000000123')
"""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from typing import TYPE_CHECKING

from shoal.errors import LedgerError, PlanError

if TYPE_CHECKING:
    from shoal.privacy.accounting import Loss

NANO = 1_000_000_000
LARGEST_NANO = 10**18
CURRENCIES = ("rho", "epsilon")


def cost_nano(loss: Loss, currency: str) -> int:
    """What a release costs in the currency of its population."""
    pure = loss.pure_epsilon_nano
    if pure is not None:
        check_nano(pure, "epsilon")
        return pure if currency == "epsilon" else pure_epsilon_as_rho(pure)
    if currency == "epsilon":
        raise LedgerError(
            "not-pure",
            "this population is counted in pure epsilon and takes pure releases only; this one has a rho.",
            "Choose a Laplace mechanism, or release under a population with a rho budget.",
        )
    return check_nano(loss.rho_nano, "rho")


def pure_epsilon_as_rho(epsilon_nano: int) -> int:
    """epsilon^2 / 2 in nano, rounded up."""
    return -(-epsilon_nano * epsilon_nano // (2 * NANO))


def check_nano(amount: object, name: str) -> int:
    """The amount itself if it is a whole number of nano above 0; everything else is refused."""
    if type(amount) is not int or not 0 < amount <= LARGEST_NANO:
        raise LedgerError(
            "bad-amount",
            f"{name} must be a whole number of 1e-9, above 0 and at most 1e9; got {amount!r}.",
            "Amounts are Python integers: 0.5 is 500_000_000.",
        )
    return amount


def parse_nano(text: str, name: str) -> int:
    """A decimal number as nano, rounded down: a limit is never more than was asked for."""
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or not 0 < number <= LARGEST_NANO // NANO:
        raise PlanError(f"{name}-range", f"{name} must be a number above 0; got {text}.", f"Pass --{name} 0.5, say.")
    nano = int((number * NANO).to_integral_value(ROUND_FLOOR))
    if nano == 0:
        raise PlanError(f"{name}-range", f"{name} must be at least 1e-9; got {text}.", f"Pass --{name} 0.5, say.")
    return nano


def show_nano(nano: int) -> str:
    """All digits of an amount, at least four after the point."""
    whole, part = divmod(nano, NANO)
    digits = f"{part:09d}".rstrip("0").ljust(4, "0")
    return f"{whole}.{digits}"
