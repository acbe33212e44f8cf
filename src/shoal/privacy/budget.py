"""A budget split by name: each share is of what is left, and the shares never exceed the whole.

>>> budget = Budget.approximate(epsilon=1.0, delta=1e-6)
>>> totals, budget = budget.take("totals", 0.2)
>>> counts, budget = budget.take("counts", 1)
>>> (totals.rho_nano, counts.rho_nano, budget.left)
(4871194, 19484776, 0)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from shoal.errors import PlanError
from shoal.privacy.accounting import Loss, check_delta, check_epsilon, nano, rho_for


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
    """What is left of a release's budget; taking a share gives an allowance and the smaller budget."""

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
