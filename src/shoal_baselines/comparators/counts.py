"""Counts per zone and slot with Laplace noise that hides one visit, not the user who made it.

As published    Lap(1 / epsilon) on each count: "event-level" epsilon-DP: neighbours differ in one visit.
True for users  a user with v visits is protected with v * epsilon only; nothing bounds v but places x slots.
Source          Pyrgelis, Troncoso, De Cristofaro 2017, section 5.2: SCM with Lap(1 / epsilon).

Counts per zone and slot with Laplace noise that hides a user in each zone's series taken alone.

As published    Lap(T / epsilon) on each count: epsilon-DP for the series of one zone, |S| epsilon for all.
True for users  for all zones what the source says: a user counted at every place of every slot moves the
                counts by |S| T visits, so |S| epsilon. For one zone it holds only where the zone is one
                place: a user counted at each of its sites moves the zone's count by the sum of their area
                weights, and has that many times epsilon. (Where a user is counted once per slot, it would
                be plain Laplace noise for a cap of T visits: that is `laplace` with ell = T.)
Source          Pyrgelis, Troncoso, De Cristofaro 2017, section 5.2: SCM with Lap(|T'| / epsilon).

Counts per site and slot from randomised answers of every user, with the bias of the answers removed.

As published    each user, asked of every site and slot "were you there?", says yes with probability p, else
                the truth; epsilon = ln((|S| - (|S| - 1) p) / p) per slot is claimed.
True for users  nothing: a user who was there never says no, so a single "no" proves that they were absent.
                The likelihood ratio of "no" is 1 - p to 0; no epsilon is finite. (The claim holds where a
                user must name one of |S| sites, which is another scheme.)
Aggregate       the number of yes is x + Binomial(N - x, p), x those present, N all users; the estimate
                (yes - N p) / (1 - p) has mean x and variance (N - x) p / (1 - p). It is drawn here as such:
                one binomial per site and slot has the distribution of the sum of all answers, exactly.
Source          Quercia et al. 2011 (SpotME); Pyrgelis, Troncoso, De Cristofaro 2017, section 5.3.

Answers come from numpy's generator, keyed by 16 bytes of the noise object: good enough to measure the error
of a scheme that is never released.

Counts per zone and slot as they are, where they are at least k; zero elsewhere.

As published    "small counts are suppressed", the rule of thumb of many data owners.
True for users  nothing: the counts that are shown are exact, so one person more is one more. Differences
                between releases, or a count that crosses k, show a single person for certain.
Source          common practice ("small-count suppression", "k-threshold").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from shoal.privacy.accounting import NANO, Budget
from shoal.privacy.noise import Noise
from shoal.space.geography import AreaWeights, Setting
from shoal.stages.bounded import ExactDensity
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts


@dataclass(frozen=True, kw_only=True)
class _Scm:
    """Zone x slot counts plus discrete Laplace noise."""

    epsilon: float

    takes = "all counts"
    scale: ClassVar[Any]  # of the noise, in visits

    def __call__(self, exact: ExactCounts, noise: Noise) -> NoisyCounts:
        noisy = noise.laplace("counts", exact.units, self.scale * exact.lattice)
        return NoisyCounts(values=noisy / exact.lattice, family="discrete laplace", scale=self.scale)


@dataclass(frozen=True, kw_only=True)
class ScmEvent(_Scm):
    """Noise of scale 1 / epsilon visits; epsilon is of one visit."""

    visits: int  # a user may have: once per place and slot, so places x slots

    name = "scm-event"
    scale = property(lambda self: 1 / self.epsilon)

    @classmethod
    def of(cls, budget: Budget, setting: Setting) -> ScmEvent:
        """At the epsilon of a budget."""
        return cls(epsilon=budget.left / NANO, visits=setting.places * setting.slots)

    def user_epsilon(self) -> float:
        """The losses of a user's visits add up."""
        return self.visits * self.epsilon

    def true_guarantee(self) -> str:
        return (
            f"Hides one visit with epsilon {self.epsilon:g}. A user with v visits has v times that: up to "
            f"{self.user_epsilon():g}, for one at every place and slot."
        )


@dataclass(frozen=True, kw_only=True)
class ScmZone(_Scm):
    """Noise of scale slots / epsilon visits; epsilon is of one user in one zone."""

    slots: int
    places: int  # where a user may be counted within one slot
    zone_visits: float  # most by which one user moves one zone's count of a slot: its places' weights summed

    name = "scm-zone"
    scale = property(lambda self: self.slots / self.epsilon)

    @classmethod
    def of(cls, budget: Budget, setting: Setting) -> ScmZone:
        """At the epsilon of a budget."""
        return cls(
            epsilon=budget.left / NANO,
            slots=setting.slots,
            places=setting.places,
            zone_visits=setting.weights.row_l1 / setting.weights.lattice,
        )

    def user_epsilon(self) -> float:
        """L1 of a user's whole record over the scale of the noise."""
        return self.slots * self.places / self.scale

    def zone_epsilon(self) -> float:
        """The same for the series of one zone."""
        return self.zone_visits * self.epsilon

    def true_guarantee(self) -> str:
        return (
            f"Claims epsilon {self.epsilon:g} for a user in one zone's series. Counted at every place of a "
            f"zone, a user has up to {self.zone_epsilon():g} there, and over all zones together up to "
            f"{self.user_epsilon():g}."
        )


@dataclass(frozen=True, kw_only=True)
class SpotMe:
    """De-biased counts of "yes", spread from sites to zones."""

    p: float  # probability of a "yes" whatever the truth
    weights: AreaWeights = field(repr=False)

    name = "spotme"
    takes = "all visits"

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, p: float) -> SpotMe:
        """On the places and zones of a setting, whatever the budget."""
        return cls(p=p, weights=setting.weights)

    def __call__(self, density: ExactDensity, noise: Noise) -> NoisyCounts:
        there, users = density.counts, density.users
        said_yes = there + _coins(users - there, self.p, noise)
        sites = (said_yes - users * self.p) / (1 - self.p)
        share = scipy.sparse.csr_array(self.weights.matrix / self.weights.lattice)
        gain = np.sqrt(np.asarray(share.power(2).sum(axis=1)).reshape(-1, 1))
        deviation = math.sqrt(users * self.p / (1 - self.p))
        return NoisyCounts(values=share @ sites, family="binomial", scale=deviation, gain=gain)

    def user_epsilon(self) -> float:
        return math.inf

    def true_guarantee(self) -> str:
        return (
            f'No differential privacy: users say "yes" with probability {self.p:g} whatever the truth, else '
            'the truth, so a "no" proves absence.'
        )


def _coins(trials: np.ndarray, p: float, noise: Noise) -> np.ndarray:
    """int64: how many of `trials` independent coins show heads, for each entry."""
    generator = np.random.Generator(np.random.Philox(key=int.from_bytes(noise.run_key(), "little")))
    return generator.binomial(trials, p)


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """Counts of k visits and more, exact; others are set to zero."""

    k: float  # visits

    name = "threshold"
    takes = "all counts"

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, k: float) -> Threshold:
        """Whatever the budget."""
        return cls(k=k)

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
