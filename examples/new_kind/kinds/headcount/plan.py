"""The plan of a headcount: all that shapes it, given by the owner, none of it read off the data."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.kinds.plan import ReleasePlan, StretchPlan, epsilon_setting
from shoal.privacy.accounting import Budget
from shoal.setting import setting


@dataclass(frozen=True, kw_only=True)
class HeadcountPlan(ReleasePlan):
    """How much privacy, for whom, when, from what, to where."""

    epsilon: float = epsilon_setting()
    window: StretchPlan = setting("The stretch of time.")
    sites: str = setting("The public list of sites that events name.", file=True)
    method: str = setting("laplace", "Method of the release.", choices=("laplace",), key=True)

    def budget(self) -> Budget:
        """What the release may spend."""
        return Budget.pure_epsilon(self.epsilon)
