"""Counts per zone and slot with Laplace noise that hides a user in each zone's series taken alone.

As published    Lap(T / epsilon) on each count: epsilon-DP for the series of one zone, |S| epsilon for all.
True for users  as the counts are made here, once per user and slot over all zones, one visit per slot is all
                that a user can move: L1 at most min(ell, T) visits, so min(ell, T) / T of epsilon jointly:
                this is plain Laplace noise for a cap of T visits. Where a user is counted in several zones of
                a slot, as in the source, it is what the source says.
Source          Pyrgelis, Troncoso, De Cristofaro 2017, section 5.2: SCM with Lap(|T'| / epsilon).

It stays a comparator because its promise rests on how the counts were made; `laplace` with ell = T is the
same noise with the promise stated for users.
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
    ell: int  # visits a user may have in the counts
    slots: int
    zones_per_slot: int = 1  # zones a user may be counted in during one slot; 1 in our engine

    name = "scm-zone"
    takes = "counts"

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts:
        scale = self.slots / self.epsilon
        noisy = noise.laplace("counts", exact.units, scale * exact.lattice)
        return NoisyCounts(values=noisy / exact.lattice, family="discrete laplace", scale=scale)

    def user_epsilon(self) -> float:
        """L1 of a user's whole record over the scale of the noise."""
        visits = min(self.ell, self.slots * self.zones_per_slot)
        return visits * self.epsilon / self.slots

    def true_guarantee(self) -> str:
        return (
            f"Hides a user in one zone's series with epsilon {self.epsilon:g}. Over all zones together a "
            f"user counted in up to {self.zones_per_slot} zone(s) per slot and {self.ell} visits has epsilon "
            f"{self.user_epsilon():g}."
        )
