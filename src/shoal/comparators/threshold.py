"""Counts per zone and slot as they are, where they are at least k; zero elsewhere.

As published    "small counts are suppressed", the rule of thumb of many data owners.
True for users  nothing: the counts that are shown are exact, so one person more is one more. Differences
                between releases, or a count that crosses k, show a single person for certain.
Source          common practice ("small-count suppression", "k-threshold").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shoal.privacy.noise import Noise
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """Counts of k visits and more, exact; others are set to zero."""

    k: float  # visits

    name = "threshold"
    takes = "all counts"

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts:
        visits = exact.units / exact.lattice
        return NoisyCounts(values=np.where(visits >= self.k, visits, 0.0), family="none", scale=0.0)

    def user_epsilon(self) -> float:
        return math.inf

    def true_guarantee(self) -> str:
        return (
            f"No guarantee: counts of {self.k:g} and more are published exactly, so one user's visit can be "
            "seen for certain."
        )
