"""Counts per zone and slot with Laplace noise that hides a user in each zone's series taken alone.

As published    Lap(T / epsilon) on each count: epsilon-DP for the series of one zone, |S| epsilon for all.
True for users  for all zones what the source says: a user counted at every place of every slot moves the
                counts by |S| T visits, so |S| epsilon. For one zone it holds only where the zone is one
                place: a user counted at each of its sites moves the zone's count by the sum of their area
                weights, and has that many times epsilon. (Where a user is counted once per slot, it would
                be plain Laplace noise for a cap of T visits: that is `laplace` with ell = T.)
Source          Pyrgelis, Troncoso, De Cristofaro 2017, section 5.2: SCM with Lap(|T'| / epsilon).
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal.privacy.noise import Noise
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts


@dataclass(frozen=True, kw_only=True)
class ScmZone:
    """Zone x slot counts plus discrete Laplace noise of scale slots / epsilon visits."""

    epsilon: float  # of one user in one zone
    slots: int
    places: int  # where a user may be counted within one slot
    zone_visits: float  # most by which one user moves one zone's count of a slot: its places' weights summed

    name = "scm-zone"
    takes = "all counts"

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts:
        scale = self.slots / self.epsilon
        noisy = noise.laplace("counts", exact.units, scale * exact.lattice)
        return NoisyCounts(values=noisy / exact.lattice, family="discrete laplace", scale=scale)

    def user_epsilon(self) -> float:
        """L1 of a user's whole record over the scale of the noise."""
        scale = self.slots / self.epsilon
        return self.slots * self.places / scale

    def zone_epsilon(self) -> float:
        """The same for the series of one zone."""
        return self.zone_visits * self.epsilon

    def true_guarantee(self) -> str:
        return (
            f"Claims epsilon {self.epsilon:g} for a user in one zone's series. Counted at every place of a "
            f"zone, a user has up to {self.zone_epsilon():g} there, and over all zones together up to "
            f"{self.user_epsilon():g}."
        )
