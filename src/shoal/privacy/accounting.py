"""Privacy loss in exact integers of 1e-9, under one of three laws, and its conversion to (epsilon, delta).

pure       epsilon, which adds up
gaussian   rho = mu^2 / 2 of mu-GDP, which adds up; its exact curve is in gaussian.py
zcdp       rho of zero-concentrated differential privacy, which adds up

`delta_for` is the one conversion, and `epsilon_for` and `rho_for` are its inverses; the ledger, dry runs,
manifests and their check, evidence and audit all use it. Rounding is always towards more cost. A loss has a
rho under zCDP always, a pure epsilon while all its parts are pure, and a rho under GDP while all parts have
one.

>>> Loss.pure(nano("1")) + Loss.pure(nano("0.5"))
Loss(rho_nano=625000000, pure_epsilon_nano=1500000000, gdp_nano=953576580, tau=0)
>>> rho_for(1.0, 1e-6, GDP), rho_for(1.0, 1e-6, ZCDP)     # the largest rho within (1, 1e-6), rounded down
(28014479, 24355970)
>>> epsilon_for(rho_for(1.0, 1e-6, GDP), 1e-6, GDP) <= 1.0
True

Source of the conversion from zCDP: Canonne, Kamath, Steinke 2020, corollary 13 (through Renyi orders).

The noise drawn differs from the noise accounted for by a total variation tau, in 1e-30. A millionth of every
delta under GDP, `SLACK`, is set aside for it. Where (1 + e^epsilon) tau could exceed that, the law is zCDP,
which holds for the discrete noise itself.

>>> law_at(1.0, 1e-6), law_at(1.0, 1e-20)
('gaussian', 'zcdp')

A budget split by name: each share is of what is left, and the shares never exceed the whole.

>>> budget = Budget.approximate(epsilon=1.0, delta=1e-6)
>>> totals, budget = budget.take("totals", 0.2)
>>> counts, budget = budget.take("counts", 1)
>>> (totals.rho_nano, counts.rho_nano, budget.left)
(5602895, 22411584, 0)

What a release costs where its budget is counted by a law:

>>> cost_nano(Loss.pure(1_000_000_000), ZCDP)   # epsilon = 1 costs rho = 0.5
500000000
>>> cost_nano(Loss.pure(1), ZCDP)               # never rounded down to nothing
1
>>> show_nano(50_000_000), show_nano(123)
('0.0500', '0.000000123')
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache

from shoal.errors import LedgerError, PlanError
from shoal.privacy.gaussian import FINEST, MOST_CELLS, PURE_TO_GDP, delta_of, mu_of_pure, tau

NANO = 10**9
PURE, GDP, ZCDP = "pure", "gaussian", "zcdp"  # laws
SLACK = 1e-6  # of a delta under GDP, set aside for the noise that is drawn
TAU_UNIT = 1e30
TAU = math.ceil(tau(2.0**FINEST, MOST_CELLS) * TAU_UNIT)  # of one spend, in 1e-30
MOST_TAU = 10_000 * TAU  # of a release
LARGEST_EPSILON = 1e5  # far beyond any protection; keeps the conversion inside floating point
SMALLEST_DELTA = 1e-100
_LOG_ALPHA_MIN, _LOG_ALPHA_MAX = math.log(1e-9), math.log(1e9)  # of alpha - 1


@dataclass(frozen=True)
class Loss:
    """Privacy loss of a computation: rho of zCDP always; what else holds for every part of it."""

    rho_nano: int
    pure_epsilon_nano: int | None = None
    gdp_nano: int | None = None  # mu^2 / 2
    tau: int = 0  # in 1e-30: between the noise drawn and that of the curve

    @classmethod
    def pure(cls, epsilon_nano: int) -> Loss:
        """epsilon-DP is (epsilon^2 / 2)-zCDP (Bun and Steinke 2016, proposition 1.4), and has a mu."""
        gdp = Fraction(mu_of_pure(epsilon_nano / NANO)) ** 2 / 2
        return cls(ceil_nano(Fraction(epsilon_nano, NANO) ** 2 / 2), epsilon_nano, ceil_nano(gdp))

    @classmethod
    def gaussian(cls, rho_nano: int) -> Loss:
        """Gaussian noise, rho = mu^2 / 2 under both laws."""
        return cls(rho_nano, None, rho_nano, TAU)

    @classmethod
    def choice(cls, rho_nano: int) -> Loss:
        """Choices of bounded range; rho is the sum of r^2 / 8."""
        return cls(rho_nano, None, ceil_nano(Fraction(rho_nano, NANO) * Fraction(PURE_TO_GDP)))

    def __add__(self, other: Loss) -> Loss:
        """Sequential, adaptive composition: everything adds that both sides have."""
        pure, gdp = (
            None if one is None or another is None else one + another
            for one, another in (
                (self.pure_epsilon_nano, other.pure_epsilon_nano),
                (self.gdp_nano, other.gdp_nano),
            )
        )
        return Loss(self.rho_nano + other.rho_nano, pure, gdp, self.tau + other.tau)

    @property
    def rho(self) -> float:
        return self.rho_nano / NANO

    @property
    def law(self) -> str:
        """The law with the least noise that every part of it has."""
        if self.pure_epsilon_nano is not None:
            return PURE
        return ZCDP if self.gdp_nano is None else GDP

    def amount(self, law: str) -> int:
        """What it costs under a law, in 1e-9 of epsilon or rho."""
        amount = {PURE: self.pure_epsilon_nano, GDP: self.gdp_nano, ZCDP: self.rho_nano}[law]
        if amount is None:
            raise ValueError(f"a part of this loss has no price under the law {law}")
        return amount

    def law_for(self, delta: float, law: str | None = None) -> str:
        """Its own law or the named one; zCDP where the slack of the noise is too large for GDP."""
        law = law or self.law
        if law != GDP or slack_fits(self.tau, epsilon_for(self.amount(GDP), delta, GDP), delta):
            return law
        return ZCDP

    def epsilon(self, delta: float, law: str | None = None) -> float:
        """The epsilon at `delta` by its own law or the named one: exact if pure, else rounded up."""
        law = self.law_for(delta, law)
        return self.amount(PURE) / NANO if law == PURE else epsilon_for(self.amount(law), delta, law)


def compose(losses: Iterable[Loss]) -> Loss:
    """The total loss of several computations on the same people."""
    total = Loss(0, 0, 0)
    for loss in losses:
        total = total + loss
    return total


def ceil_nano(amount: Fraction) -> int:
    """An exact amount in integers of 1e-9, rounded up."""
    return -((-amount.numerator * NANO) // amount.denominator)


def nano(amount: str | float | int | Decimal) -> int:
    """A configured amount as integers of 1e-9, rounded down (so that no more is spent than configured)."""
    try:
        value = Decimal(str(amount))
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or value <= 0:
        raise PlanError("amount-range", f"a privacy amount must be a number above 0; got {amount}.")
    if value > 10**9:
        raise PlanError("amount-range", f"a privacy amount above 1e9 makes no sense; got {amount}.")
    result = int(value * NANO)
    if result == 0:
        raise PlanError("amount-range", f"a privacy amount must be at least 1e-9; got {amount}.")
    return result


def check_epsilon(epsilon: float) -> float:
    if not _is_finite(epsilon) or not 0 < epsilon <= LARGEST_EPSILON:
        rule = f"epsilon must be a number above 0 and at most {LARGEST_EPSILON:g}; got {epsilon}."
        raise PlanError("epsilon-range", rule, _SAY_EPSILON)
    return float(epsilon)


def check_delta(delta: float) -> float:
    if not _is_finite(delta) or not SMALLEST_DELTA <= delta < 1:
        rule = f"delta must be a number of at least {SMALLEST_DELTA:g} and below 1; got {delta}."
        raise PlanError("delta-range", rule, _SAY_DELTA)
    return float(delta)


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def delta_for(rho: float, epsilon: float, law: str = ZCDP) -> float:
    """The smallest delta that a law certifies for rho at `epsilon`; under GDP, slack of the noise included.

    Under zCDP any Renyi order alpha gives a valid delta, so an imperfect search for the best one is safe.
    """
    if rho == 0:
        return 0.0
    if law == GDP:
        return delta_of(math.sqrt(2 * rho) * (1 + 1e-15), epsilon) / (1 - SLACK)
    # log delta(alpha) is unimodal in log(alpha - 1): golden-section search.
    low, high = _LOG_ALPHA_MIN, _LOG_ALPHA_MAX
    shrink = (math.sqrt(5) - 1) / 2
    a, b = high - shrink * (high - low), low + shrink * (high - low)
    at_a, at_b = _log_delta(a, rho, epsilon), _log_delta(b, rho, epsilon)
    for _ in range(100):
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - shrink * (high - low)
            at_a = _log_delta(a, rho, epsilon)
        else:
            low, a, at_a = a, b, at_b
            b = low + shrink * (high - low)
            at_b = _log_delta(b, rho, epsilon)
    best = min(at_a, at_b)
    return math.exp(min(best, 0.0)) * (1 + 1e-9)  # covers the rounding of the few operations above


def slack_fits(tau: int, epsilon: float, delta: float) -> bool:
    """Whether what is set aside of delta covers the slack (1 + e^epsilon) tau, tau in 1e-30."""
    return epsilon < 700 and (1 + math.exp(epsilon)) * tau <= SLACK * delta * TAU_UNIT


def law_at(epsilon: float, delta: float) -> str:
    """The law by which a release at (epsilon, delta) is priced and entered."""
    return GDP if slack_fits(MOST_TAU, epsilon, delta) else ZCDP


@lru_cache(4096)
def epsilon_for(rho_nano: int, delta: float, law: str = ZCDP) -> float:
    """The smallest epsilon certified for rho at `delta`, rounded up in the ninth decimal."""
    check_delta(delta)
    if rho_nano < 0:
        raise PlanError("amount-range", "a privacy loss cannot be negative.")
    if rho_nano == 0:
        return 0.0
    rho = rho_nano / NANO * (1 + 1e-15)
    # the simple bound of zCDP always suffices
    high = rho + 2 * math.sqrt(rho * math.log(1 / (delta * (1 - SLACK)))) + 1e-6
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_for(rho, middle, law) <= delta else (middle, high)
    return math.ceil(high * NANO) / NANO


def rho_for(epsilon: float, delta: float, law: str = ZCDP) -> int:
    """The largest rho (in 1e-9) whose conversion stays within (epsilon, delta)."""
    check_epsilon(epsilon)
    check_delta(delta)
    low, high = 0, 1
    while delta_for(high / NANO, epsilon, law) <= delta:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if delta_for(middle / NANO, epsilon, law) <= delta else (low, middle)
    if low == 0:
        raise PlanError("epsilon-range", f"({epsilon}, {delta}) allows less than rho = 1e-9.", _SAY_EPSILON)
    return low


def _log_delta(log_alpha_minus_1: float, rho: float, epsilon: float) -> float:
    m = math.exp(log_alpha_minus_1)  # alpha - 1
    alpha = 1 + m
    # (1 - 1/alpha)^alpha, by log1p of -1/alpha; for tiny m, alpha*log(m/alpha) is the stable form.
    return m * (alpha * rho - epsilon) - log_alpha_minus_1 + alpha * (log_alpha_minus_1 - math.log1p(m))


_SAY_EPSILON = "Pass --epsilon 1, say: smaller is more private, larger is more accurate."
_SAY_DELTA = "Pass --delta 1e-6, say: well below one over the number of users."


@dataclass(frozen=True)
class Allowance:
    """What one named step may spend: in rho, or in epsilon where the release is pure."""

    name: str
    amount: int  # in 1e-9
    pure: bool
    law: str = GDP  # that its rho is counted by, where it is not pure

    @property
    def rho_nano(self) -> int:
        return Loss.pure(self.amount).rho_nano if self.pure else self.amount

    @property
    def step_rho_nano(self) -> int:
        """The rho under zCDP that it pays for in steps that are not Gaussian: pure ones and choices."""
        return self.amount if self.law == ZCDP else int(self.amount / Fraction(PURE_TO_GDP))

    @property
    def epsilon_nano(self) -> int:
        if not self.pure:
            raise PlanError("not-pure", f'the share "{self.name}" is in rho; a pure mechanism needs epsilon.')
        return self.amount

    def covers(self, loss: Loss) -> bool:
        if self.pure:
            return loss.pure_epsilon_nano is not None and loss.pure_epsilon_nano <= self.amount
        amount = loss.gdp_nano if self.law == GDP else loss.rho_nano
        return amount is not None and amount <= self.amount


@dataclass(frozen=True)
class Budget:
    """Remaining budget of a release; taking a share gives an allowance and the smaller budget."""

    left: int  # in 1e-9
    pure: bool
    taken: tuple[str, ...] = ()
    law: str = GDP  # that its rho is counted by, where it is not pure

    @classmethod
    def approximate(cls, *, epsilon: float, delta: float, law: str = GDP) -> Budget:
        """(epsilon, delta) under a law; under zCDP anyway where the slack of the noise could be too large."""
        law = law_at(check_epsilon(epsilon), check_delta(delta)) if law == GDP else law
        return cls(rho_for(epsilon, delta, law), pure=False, law=law)

    @classmethod
    def pure_epsilon(cls, epsilon: float) -> Budget:
        return cls(nano(check_epsilon(epsilon)), pure=True)

    @classmethod
    def of(cls, epsilon: float, delta: float | None, law: str = GDP) -> Budget:
        """(epsilon, delta) under a law, or pure epsilon where delta is None."""
        if delta is None:
            return cls.pure_epsilon(epsilon)
        return cls.approximate(epsilon=epsilon, delta=check_delta(delta), law=law)

    def take(self, name: str, share: float | Fraction) -> tuple[Allowance, Budget]:
        """A named share (0 < share <= 1) of what is left, rounded down."""
        fraction = Fraction(share)
        if name in self.taken:
            raise PlanError("share-name", f'the share "{name}" was taken already.')
        if not 0 < fraction <= 1:
            raise PlanError("share-range", f'the share "{name}" must be above 0 and at most 1; got {share}.')
        amount = int(self.left * fraction)
        if amount == 0:
            raise PlanError("share-empty", f'nothing is left for the share "{name}".', "Raise --epsilon.")
        taken = Budget(self.left - amount, self.pure, (*self.taken, name), self.law)
        return Allowance(name, amount, self.pure, self.law), taken


LARGEST_NANO = 10**18


def cost_nano(loss: Loss, law: str) -> int:
    """Price of a release where its budget is counted by a law.

    Under zCDP a pure release costs epsilon^2 / 2 for its whole epsilon, whatever its parts add up to.
    """
    pure = loss.pure_epsilon_nano
    if pure is not None:
        check_nano(pure, "epsilon")
    if law == PURE and pure is None:
        raise LedgerError(
            "not-pure",
            "this budget is counted in pure epsilon and takes pure releases only; this one is not pure.",
            "Choose a Laplace mechanism, or leave --pot out.",
        )
    if law == GDP and loss.gdp_nano is None:
        raise LedgerError(
            "not-gaussian",
            "a Gaussian budget takes Gaussian and pure steps only; a part of this release has neither law.",
            "Release it under a population made with `shoal ledger create NAME --rho`.",
        )
    if law == ZCDP and pure is not None:
        return check_nano(Loss.pure(pure).rho_nano, "rho")
    amount = {PURE: pure, GDP: loss.gdp_nano, ZCDP: loss.rho_nano}[law]
    return check_nano(amount, "epsilon" if law == PURE else "rho")


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
