"""Privacy loss in zCDP, in exact integers of 1e-9, and its conversion to (epsilon, delta).

Inside, everything is `rho` (zero-concentrated differential privacy); a release whose parts are all
pure keeps its exact epsilon beside it. Losses add up. Rounding is always towards more cost.

>>> Loss.pure(nano("1")) + Loss.pure(nano("0.5"))
Loss(rho_nano=625000000, pure_epsilon_nano=1500000000)
>>> rho_for(1.0, 1e-6)                           # largest rho within (1, 1e-6), rounded down
24355970
>>> epsilon_for(rho_for(1.0, 1e-6), 1e-6) <= 1.0
True

Source: Canonne, Kamath, Steinke 2020, corollary 13 (zCDP to approximate DP through Renyi orders).

A budget split by name: each share is of what is left, and the shares never exceed the whole.

>>> budget = Budget.approximate(epsilon=1.0, delta=1e-6)
>>> totals, budget = budget.take("totals", 0.2)
>>> counts, budget = budget.take("counts", 1)
>>> (totals.rho_nano, counts.rho_nano, budget.left)
(4871194, 19484776, 0)

What a release costs a population, counted in rho or in epsilon:

>>> cost_nano(Loss.pure(1_000_000_000), "rho")   # epsilon = 1 costs rho = 0.5
500000000
>>> cost_nano(Loss.pure(1), "rho")               # never rounded down to nothing
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

from shoal.errors import LedgerError, PlanError

NANO = 10**9
LARGEST_EPSILON = 1e5  # far beyond any protection; keeps the conversion inside floating point
SMALLEST_DELTA = 1e-100
_LOG_ALPHA_MIN, _LOG_ALPHA_MAX = math.log(1e-9), math.log(1e9)  # of alpha - 1


@dataclass(frozen=True)
class Loss:
    """Privacy loss of a computation: rho always, and the exact pure epsilon if every part is pure."""

    rho_nano: int
    pure_epsilon_nano: int | None = None

    @classmethod
    def pure(cls, epsilon_nano: int) -> Loss:
        """epsilon-DP is (epsilon^2 / 2)-zCDP (Bun and Steinke 2016, proposition 1.4)."""
        return cls(ceil_nano(Fraction(epsilon_nano, NANO) ** 2 / 2), epsilon_nano)

    def __add__(self, other: Loss) -> Loss:
        """Sequential, adaptive composition: rho adds; epsilon adds while both sides are pure."""
        rho = self.rho_nano + other.rho_nano
        if self.pure_epsilon_nano is None or other.pure_epsilon_nano is None:
            return Loss(rho)
        return Loss(rho, self.pure_epsilon_nano + other.pure_epsilon_nano)

    @property
    def rho(self) -> float:
        return self.rho_nano / NANO

    def epsilon(self, delta: float) -> float:
        """The epsilon at `delta`: exact when pure, else by the tight conversion, rounded up."""
        if self.pure_epsilon_nano is not None:
            return self.pure_epsilon_nano / NANO
        return epsilon_for(self.rho_nano, delta)


def compose(losses: Iterable[Loss]) -> Loss:
    """The total loss of several computations on the same people."""
    total = Loss(0, 0)
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


def delta_for(rho: float, epsilon: float) -> float:
    """The smallest delta the conversion certifies for rho-zCDP at `epsilon`.

    Any Renyi order alpha gives a valid delta, so an imperfect search for the best one is safe.
    """
    if rho == 0:
        return 0.0
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


def epsilon_for(rho_nano: int, delta: float) -> float:
    """The smallest epsilon certified for rho-zCDP at `delta`, rounded up in the ninth decimal."""
    check_delta(delta)
    if rho_nano < 0:
        raise PlanError("amount-range", "a privacy loss cannot be negative.")
    if rho_nano == 0:
        return 0.0
    rho = rho_nano / NANO * (1 + 1e-15)
    high = rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-6  # the simple bound always suffices
    low = 0.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_for(rho, middle) <= delta else (middle, high)
    return math.ceil(high * NANO) / NANO


def rho_for(epsilon: float, delta: float) -> int:
    """The largest rho (in 1e-9) whose conversion stays within (epsilon, delta)."""
    check_epsilon(epsilon)
    check_delta(delta)
    low, high = 0, 1
    while delta_for(high / NANO, epsilon) <= delta:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if delta_for(middle / NANO, epsilon) <= delta else (low, middle)
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

    @property
    def rho_nano(self) -> int:
        return Loss.pure(self.amount).rho_nano if self.pure else self.amount

    @property
    def epsilon_nano(self) -> int:
        if not self.pure:
            raise PlanError("not-pure", f'the share "{self.name}" is in rho; a pure mechanism needs epsilon.')
        return self.amount

    def covers(self, loss: Loss) -> bool:
        if self.pure:
            return loss.pure_epsilon_nano is not None and loss.pure_epsilon_nano <= self.amount
        return loss.rho_nano <= self.amount


@dataclass(frozen=True)
class Budget:
    """Remaining budget of a release; taking a share gives an allowance and the smaller budget."""

    left: int  # in 1e-9
    pure: bool
    taken: tuple[str, ...] = ()

    @classmethod
    def approximate(cls, *, epsilon: float, delta: float) -> Budget:
        return cls(rho_for(epsilon, delta), pure=False)

    @classmethod
    def pure_epsilon(cls, epsilon: float) -> Budget:
        return cls(nano(check_epsilon(epsilon)), pure=True)

    @classmethod
    def of(cls, epsilon: float, delta: float | None) -> Budget:
        """(epsilon, delta) in zCDP, or pure epsilon where delta is None."""
        if delta is None:
            return cls.pure_epsilon(epsilon)
        return cls.approximate(epsilon=epsilon, delta=check_delta(delta))

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
        return Allowance(name, amount, self.pure), Budget(self.left - amount, self.pure, (*self.taken, name))


LARGEST_NANO = 10**18
CURRENCIES = ("rho", "epsilon")
LIMIT_FLAG = {"rho": "--rho", "epsilon": "--pure-epsilon"}  # that sets a limit in this currency


def cost_nano(loss: Loss, currency: str) -> int:
    """Price of a release in the currency of its population.

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
