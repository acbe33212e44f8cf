"""Counts per zone and slot with Laplace noise that hides one visit, not the user who made it.

As published    Lap(1 / epsilon) on each count: "event-level" epsilon-DP: neighbours differ in one visit.
True for users  a user with v visits is protected with v * epsilon only; nothing bounds v but places x slots.
Source          Pyrgelis, Troncoso, De Cristofaro 2017, section 5.2: SCM with Lap(1 / epsilon).
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal.privacy.noise import Noise
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts


@dataclass(frozen=True, kw_only=True)
class ScmEvent:
    """Zone x slot counts plus discrete Laplace noise of scale 1 / epsilon visits."""

    epsilon: float  # of one visit
    visits: int  # a user may have: once per place and slot, so places x slots

    name = "scm-event"
    takes = "all counts"

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts:
        noisy = noise.laplace("counts", exact.units, exact.lattice / self.epsilon)
        return NoisyCounts(values=noisy / exact.lattice, family="discrete laplace", scale=1 / self.epsilon)

    def user_epsilon(self) -> float:
        """The losses of a user's visits add up."""
        return self.visits * self.epsilon

    def true_guarantee(self) -> str:
        return (
            f"Hides one visit with epsilon {self.epsilon:g}. A user with v visits has v times that: up to "
            f"{self.user_epsilon():g}, for one at every place and slot."
        )
