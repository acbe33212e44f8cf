"""The pots of a population: limits fixed in advance, what they take, and what does not fit.

A population has two pots, and a release is admitted by one of them. The Gaussian pot limits the sum of rho =
mu^2 / 2, the pure pot the sum of epsilon. Each is a filter, so it holds however releases are chosen;
concurrent filters add up (Vadhan and Zhang 2022, Lyu 2022), so the guarantee for a lifetime is the sum of
both at their limits. Populations from before have one limit, in rho of zCDP or in epsilon.

>>> limits = pots_within(2.0, 1e-6)
>>> pot = Pot(name="gaussian", law=GDP, limit_nano=limits["gaussian"], delta=1e-6, spent_nano=20_000_000)
>>> pot.line, round(largest_epsilon(pot, pure=False), 2)
('Gaussian budget: epsilon 0.8342 of 1 spent', 0.51)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from shoal.errors import BudgetExceeded, LedgerError
from shoal.privacy.accounting import (
    GDP,
    LARGEST_NANO,
    NANO,
    PURE,
    SLACK,
    TAU_UNIT,
    ZCDP,
    Loss,
    cost_nano,
    epsilon_for,
    law_at,
    rho_for,
    show_nano,
)

if TYPE_CHECKING:
    from shoal.privacy.ledger.state import Population

ONE_POT = "one"  # of populations with one limit
CURRENCIES = {"rho": ZCDP, "epsilon": PURE}  # of a population with one limit, and its law
POTS = {"gaussian": GDP, "pure": PURE}  # of a population with two, and their laws


@dataclass(kw_only=True)
class Pot:
    """A part of a population's budget, with a limit of its own that never moves into another pot.

    A filter with a limit fixed in advance holds however releases are chosen. Concurrent filters add up
    (Vadhan and Zhang 2022, Lyu 2022), so the guarantee for a lifetime is the sum at the limits.
    """

    name: str
    law: str
    limit_nano: int  # of epsilon where the law is pure, else of rho
    delta: float | None  # that a rho is read at
    spent_nano: int = 0
    tau: int = 0

    @property
    def currency(self) -> str:
        return "epsilon" if self.law == PURE else "rho"

    @property
    def left_nano(self) -> int:
        return self.limit_nano - self.spent_nano

    @property
    def title(self) -> str:
        return {GDP: "Gaussian budget", PURE: "pure budget", ZCDP: "budget"}[self.law]

    def epsilon(self, nano: int) -> float | None:
        """An amount of this pot as epsilon; None for a rho without a delta."""
        if self.law == PURE or not nano:
            return nano / NANO
        return None if self.delta is None else epsilon_for(nano, self.delta, self.law)

    def shown(self, nano: int, *, up: bool = True) -> str:
        """An amount as epsilon, rounded towards more; as rho where there is no delta."""
        epsilon = self.epsilon(nano)
        if epsilon is None:
            return f"rho {show_nano(nano)}"
        digits = 4 if epsilon > 0.01 else 9
        steps = epsilon * 10**digits
        whole = math.ceil(steps - 0.01) if up else math.floor(steps + 0.01)
        return f"epsilon {_plain(whole, digits)}"

    @property
    def line(self) -> str:
        """What is spent of its limit."""
        limit = self.shown(self.limit_nano).partition(" ")[2]
        return f"{self.title}: {self.shown(self.spent_nano)} of {limit} spent"

    @property
    def most_tau(self) -> int:
        """The slack of the noise that its delta covers at the limit."""
        if self.delta is None or self.law != GDP:
            return 0
        return int(
            SLACK * self.delta * TAU_UNIT / (1 + math.exp(min(self.epsilon(self.limit_nano) or 0, 500)))
        )

    def cost(self, loss: Loss) -> int:
        """Price of a release in this pot, in 1e-9."""
        return cost_nano(loss, self.law)

    def tau_of(self, loss: Loss) -> int:
        """The slack that it adds; under zCDP and for pure releases there is none."""
        return loss.tau if self.law == GDP else 0


def pots_within(epsilon: float, delta: float | None, pure: float | None = None) -> dict[str, int]:
    """Limits of both pots for a lifetime epsilon, in 1e-9: half of it each, or as much pure as is said."""
    whole = round(epsilon * NANO)
    pure_nano = whole // 2 if pure is None else round(pure * NANO)
    if not 0 <= pure_nano <= whole or (delta is None and pure_nano < whole):
        raise LedgerError(
            "pots-range",
            f"the pure budget must be between 0 and the whole epsilon = {epsilon:g}, and all of it where "
            f"there is no delta; got {pure_nano / NANO:g}.",
            "Pass --pure-epsilon within --epsilon, and --delta 1e-6.",
        )
    rest = (whole - pure_nano) / NANO
    if rest and delta and law_at(rest, delta) != GDP:
        raise LedgerError(
            "pots-range",
            f"a Gaussian budget of epsilon = {rest:g} at delta = {delta:g} is beyond what the noise is "
            "accounted for.",
            "Pass a smaller --epsilon: above 20 it protects nobody.",
        )
    return {"gaussian": rho_for(rest, delta, GDP) if rest and delta else 0, "pure": pure_nano}


def raised_within(owner: Population, epsilon: float | None, pure: float | None) -> dict[str, int]:
    """Limits of the pots that change for another lifetime epsilon; the pure pot stays unless it is named."""
    before = owner.pots["pure"].limit_nano
    pure_nano = before if pure is None else round(pure * NANO)
    if epsilon is None:
        limits = {"pure": pure_nano}
    else:
        limits = pots_within(epsilon, float(owner.delta) if owner.delta else None, pure_nano / NANO)
    return {name: limit for name, limit in limits.items() if limit != owner.pots[name].limit_nano}


def _plain(whole: int, digits: int) -> str:
    """A decimal number without an exponent."""
    return f"{Decimal(whole).scaleb(-digits).normalize():f}"


def check_limit(kind: str, population: Population, pot: Pot, limit_nano: int) -> None:
    """`raise` raises, `lower` lowers, no limit lies below what is spent, and no pot is lowered once used."""
    fits = limit_nano >= pot.limit_nano if kind == "raise" else limit_nano < pot.limit_nano
    if not fits:
        other, against = ("lower", "below") if kind == "raise" else ("raise", "not below")
        raise LedgerError(
            f"limit-not-{'higher' if kind == 'raise' else 'lower'}",
            f'the {pot.title} of "{population.name}" is {_amount(pot, pot.limit_nano)}; '
            f"{_amount(pot, limit_nano)} is {against} that.",
            f"Use `shoal ledger {other}`.",
        )
    if limit_nano < pot.spent_nano:
        raise LedgerError(
            "limit-below-spent",
            f'the {pot.title} of "{population.name}" has {_amount(pot, pot.spent_nano)} spent; a limit of '
            f"{_amount(pot, limit_nano)} is below that.",
            "What is spent stays spent; choose a limit above it.",
        )
    if pot.law == GDP and pot.tau > replace(pot, limit_nano=limit_nano).most_tau:
        raise LedgerError(
            "limit-slack",
            f'at {_amount(pot, limit_nano)}, the {pot.title} of "{population.name}" would not cover the '
            "difference between the noise that was drawn and exact Gaussian noise.",
            "Choose a smaller limit.",
        )
    if kind == "lower" and population.spends and pot.name != ONE_POT:
        raise LedgerError(
            "pots-fixed",
            f'the budgets of "{population.name}" are fixed since its first release was reserved.',
            "A part that is left over may stay unspent; it never moves into the other.",
        )


def check_budget(owner: Population, pot: Pot, cost: int, loss: Loss | None = None) -> None:
    """Refuse what does not fit its pot; what is left is without every reserve, resolved or not."""
    slack = 0 if loss is None else pot.tau_of(loss)
    if cost <= pot.left_nano and (not slack or pot.tau + slack <= pot.most_tau):
        return
    pure = loss is not None and loss.law == PURE
    dear = f" {_PURE_IS_DEAR}" if pure and pot.law == ZCDP else ""
    raise BudgetExceeded(
        "budget-exceeded",
        f"this release needs {_amount(pot, cost)} of the {pot.title}; the population "
        f'"{owner.name}" has {_amount(pot, pot.left_nano, up=False)} left.',
        f"{_largest(pot, pure)}{dear} {_RAISE}",
    )


def largest_epsilon(pot: Pot, *, pure: bool) -> float | None:
    """The largest epsilon of a release that fits what is left, at the pot's delta; None where it has none."""
    if pot.law == PURE or not pure:
        return pot.epsilon(pot.left_nano)
    if pot.law == ZCDP:
        return math.isqrt(2 * pot.left_nano * NANO) / NANO
    low, high = 0, LARGEST_NANO
    while high - low > 1:  # the largest epsilon whose mu^2 / 2 is left
        middle = (low + high) // 2
        low, high = (middle, high) if Loss.pure(middle).amount(pot.law) <= pot.left_nano else (low, middle)
    return low / NANO


def _largest(pot: Pot, pure: bool) -> str:
    largest = largest_epsilon(pot, pure=pure)
    if largest is None:
        return f"Lower --epsilon, or pass --rho {show_nano(pot.left_nano)}."
    digits = 4 if largest > 0.01 else 9
    shown = _plain(math.floor(largest * 10**digits), digits)
    at = "" if pure or pot.delta is None else f" at delta = {pot.delta:g}"
    if shown == "0":
        return "Nothing of it is left that a release could use."
    return f"The largest epsilon that fits is {shown}{at}: pass --epsilon {shown}."


def _amount(pot: Pot, nano: int, *, up: bool = True) -> str:
    """An amount as epsilon; as rho where the population counts in it."""
    return f"rho = {show_nano(nano)}" if pot.law == ZCDP else pot.shown(nano, up=up)


_PURE_IS_DEAR = (
    "In a population with one limit a pure epsilon costs epsilon^2 / 2 in rho; Gaussian noise is cheaper."
)
_RAISE = "A larger lifetime budget (`shoal ledger raise`) is another promise, and is recorded as one."
