"""People per zone and slot by the scheme of Acs and Castelluccia, with the noise their papers print.

PublishedEfpag   2014: Gaussian coefficients, improved scaling, smoothed nights; claims (epsilon, delta).
PublishedEfpa    2014: the same with Laplace coefficients; claims epsilon.
PublishedLater   the later survey's form: zones instead of a cover, Gaussian totals with sqrt(ell).

Half of epsilon is for totals, half for the clusters' series; the latter is halved between the choice of k and
the coefficients (so their text and the variance it gives; line 4 of algorithm 4 prints half that deviation).

What the claims miss, and what is true instead (c the largest L1 norm of a visit over the cells, 1 if sound):
  N            divides the totals as it is. Totals are multiples of K-hat / N: an adversary who knows all
               others can distinguish N from N + 1, so nothing bounds a user's epsilon, whatever the noise.
               With N public, neighbours replace one user: the one-visit histogram moves by 2 in L1, the
               clusters by twice as much in L1 and about twice in squared L2; K moves by as much as before.
  choice of k  charged once, run once per cluster. Only sum d_E^2 <= ell c^2 is known of the clusters' moves
               d_E: zCDP (epsilon/2)^2 c^2 / 32 for all together; in pure epsilon sqrt(ell) c times the claim.
  Gaussian     rho = ell c^2 / (2 sigma^2) for all clusters together; sigma by a constant for epsilon <= 1.
  Laplace      scale sqrt(k ell) covers one cluster; a user in many pays sqrt(ell) c times the claim.
  cover        overlaps subtracted as printed give c > 1 (`subtracted_cells`).
  totals       later form: a user may put all ell visits in one zone, so L2 is ell, not sqrt(ell).
The number of visits K is sound: its noise is for 732 visits of a user, and ours has one per slot at most.
No interval comes with these numbers.

Cells of the scheme as published: a minimum cover whose sites lose what chosen zones hold of them.

A chosen zone has its count by area. A chosen site T has its count less sum_i X_Li size(Li and T) / size(T)
over the chosen zones Li (section 5.2: "trivial, but not optimal"). As printed X_Li is the whole count of the
zone, not its part from T; so a visit at one site lowers the counts of other sites of the zone too, and one
visit can move the cells by more than 1 in L1: `column_l1` says by how much on this map. The scheme needs 1.

The way back adds what was subtracted and then uses formula (1): without noise it is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np
import scipy.fft
import scipy.sparse

from shoal.privacy.accounting import NANO, Budget, Loss, ceil_nano, epsilon_for
from shoal.privacy.noise import Noise
from shoal.space.geography import Setting
from shoal.stages.bounded import BoundedVisits
from shoal.stages.noisy import NoisyCounts
from shoal_baselines.postprocess.scheme import cluster_cells, smooth_nights
from shoal_baselines.space.cover import cover_vertices, neighbour_graph

MOST_VISITS = 732  # of a user in their data, taken as a bound for all data
STEP = 2**20  # lattice of the noise of published methods, per visit or trip


@dataclass(frozen=True, kw_only=True)
class PublishedEfpag:
    """Totals by improved scaling with exact N; first k coefficients of clusters with Gaussian noise."""

    epsilon: float
    delta: float = 2e-6  # theirs
    ell: int
    setting: Setting = field(repr=False)

    name = "published"
    takes = "bounded"
    cap = MOST_VISITS

    @classmethod
    def of(cls, budget: Budget, setting: Setting, *, ell: int) -> Self:
        """At the epsilon of a budget."""
        return cls(epsilon=budget.left / NANO, ell=ell, setting=setting)

    def __call__(self, bounded: BoundedVisits, noise: Noise) -> NoisyCounts:
        totals = self.totals(bounded, noise)
        cluster_of = cluster_cells(totals, self.cells.xy_m, self.cells.neighbours, self.tau)
        series = np.zeros((int(cluster_of.max(initial=-1)) + 1, self.setting.slots))
        np.add.at(series, cluster_of, self.cells.to_cells @ bounded.counts)
        coefficients = np.asarray(scipy.fft.dct(series, norm="ortho", axis=1))
        chosen_k = self.choose(coefficients, noise)
        noisy = np.zeros_like(coefficients)
        for cluster, k in enumerate(chosen_k):
            noisy[cluster, :k] = self.perturb(coefficients[cluster, :k], noise)
        shapes = smooth_nights(
            _shapes(np.asarray(scipy.fft.idct(noisy, norm="ortho", axis=1))), self.setting.clock
        )
        people = self.cells.back @ (totals[:, None] * shapes[cluster_of])
        return NoisyCounts(values=np.asarray(people), family="as published", scale=0.0)

    @cached_property
    def cells(self) -> PublishedCells:
        return subtracted_cells(self.setting)

    def totals(self, bounded: BoundedVisits, noise: Noise) -> np.ndarray:
        """Section 5.4.1: (one-visit histogram + Lap(2 / e)) times K-hat / N, with e = epsilon / 2."""
        histogram = laplace_of(bounded.one_visit, 2 / (self.epsilon / 2), "totals", noise)
        visits = np.array([bounded.visits_capped])
        noisy_visits = laplace_of(visits, 2 * MOST_VISITS / (self.epsilon / 2), "visits", noise)
        return self.cells.to_cells @ histogram * (noisy_visits[0] / max(bounded.users, 1))

    def choose(self, coefficients: np.ndarray, noise: Noise) -> np.ndarray:
        """Algorithm 4, lines 2 and 3: P(k) ~ exp(-e u_k / (4 Delta)), for each cluster."""
        energy = np.cumsum((coefficients**2)[:, ::-1], axis=1)[:, ::-1]
        dropped = np.sqrt(np.column_stack([energy[:, 1:], np.zeros(len(coefficients))]))
        scores = -np.rint((dropped + self.noise_error()) * STEP).astype(np.int64)
        scale = 4 * self.shift / (self.epsilon / 2) * STEP
        return np.array([1 + noise.choose("select", row, scale) for row in scores], np.int64)

    def perturb(self, coefficients: np.ndarray, noise: Noise) -> np.ndarray:
        """Algorithm 4, line 4."""
        return noise.gaussian("coefficients", units_of(coefficients), self.sigma * STEP) / STEP

    def noise_error(self) -> np.ndarray:
        return self.sigma * np.sqrt(np.arange(1, self.setting.slots + 1))

    @property
    def sigma(self) -> float:
        """2 sqrt(2) Delta sqrt(ln(4 / delta)) / e: theorem 3 with half of e."""
        return 2 * math.sqrt(2 * math.log(4 / self.delta)) * self.shift / (self.epsilon / 2)

    @property
    def shift(self) -> float:
        """Delta_2 as they have it."""
        return math.sqrt(min(self.ell, self.setting.slots))

    @property
    def tau(self) -> float:
        """Least total of a cluster: sqrt(T) sigma / 0.01."""
        return math.sqrt(self.setting.slots) * self.sigma / 0.01

    def user_epsilon(self) -> float:
        return math.inf

    def epsilon_but_for_n(self) -> float:
        """Epsilon at delta of replacing a user, if N were public: totals and K pure, the rest in zCDP."""
        return _epsilon([self.epsilon / 2, self.epsilon / 4], self._series_rho(replaced=True), self.delta)

    def true_guarantee(self) -> str:
        return (
            f"No guarantee as published, which claims ({self.epsilon:g}, {self.delta:g}): the exact number "
            "of users can be read off the totals. If that number were public, replacing one user's records "
            f"would have epsilon {self.epsilon_but_for_n():.3g} at the same delta: it moves twice as many "
            f"visits as the noise is for, one visit moves the cells of the cover by "
            f"{self.cells.column_l1:.2f} instead of 1, and the choice of k is paid for across all clusters."
        )

    def _series_rho(self, *, replaced: bool) -> float:
        """Choice of k and coefficients of all clusters, one user added or removed, or replaced."""
        moved = self.cells.replaced_l2_squared if replaced else self.cells.column_l1**2
        return (self.epsilon / 2) ** 2 * moved / 32 + self.shift**2 * moved / (2 * self.sigma**2)


@dataclass(frozen=True, kw_only=True)
class PublishedEfpa(PublishedEfpag):
    """The same with Laplace noise of scale 2 sqrt(k) Delta / e on k coefficients."""

    name = "published-efpa"

    def perturb(self, coefficients: np.ndarray, noise: Noise) -> np.ndarray:
        return laplace_of(coefficients, self._scale(len(coefficients)), "coefficients", noise)

    def noise_error(self) -> np.ndarray:
        return 2 * np.arange(1, self.setting.slots + 1) * self.shift / (self.epsilon / 2)

    @property
    def sigma(self) -> float:
        """Deviation with all coefficients, which tau is set by."""
        return math.sqrt(2) * self._scale(self.setting.slots)

    def _scale(self, k: int) -> float:
        return 2 * math.sqrt(k) * self.shift / (self.epsilon / 2)

    def epsilon_but_for_n(self) -> float:
        """Pure: 2 quarters for totals, 1 for K, 2 sqrt(ell) c each for choice and coefficients."""
        quarter = self.epsilon / 4
        return 2 * quarter + quarter + 2 * 2 * quarter * self.shift * self.cells.column_l1

    def true_guarantee(self) -> str:
        return (
            f"No guarantee as published, which claims epsilon {self.epsilon:g}: the exact number of users "
            "can be read off the totals. If that number were public, replacing one user spread over many "
            f"clusters would have epsilon {self.epsilon_but_for_n():.3g}: it moves twice as many visits as "
            "the noise is for, the noise covers one cluster only, and one visit moves the cells of the cover "
            f"by {self.cells.column_l1:.2f} instead of 1."
        )


@dataclass(frozen=True, kw_only=True)
class PublishedLater(PublishedEfpag):
    """Zones as cells; totals of the bounded series with Gaussian noise for sqrt(ell) instead of ell."""

    name = "published-later"

    @cached_property
    def cells(self) -> PublishedCells:
        return zone_cells(self.setting)

    def totals(self, bounded: BoundedVisits, noise: Noise) -> np.ndarray:
        exact = (self.cells.to_cells @ bounded.counts).sum(axis=1)
        return noise.gaussian("totals", units_of(exact), self.sigma * STEP) / STEP

    @property
    def sigma(self) -> float:
        """2 sqrt(2 ell ln(2.5 / delta)) / epsilon, for totals and for coefficients."""
        return 2 * math.sqrt(2 * math.log(2.5 / self.delta)) * self.shift / self.epsilon

    def user_epsilon(self) -> float:
        """Totals move by ell in L2, which costs ell times what is claimed; no N is used."""
        totals = self.shift**4 / (2 * self.sigma**2)
        return _epsilon([], totals + self._series_rho(replaced=False), self.delta)

    def epsilon_but_for_n(self) -> float:
        return self.user_epsilon()

    def true_guarantee(self) -> str:
        return (
            f"Claims ({self.epsilon:g}, {self.delta:g}); a user really has epsilon {self.user_epsilon():.3g} "
            f"at that delta: totals over time move by ell = {min(self.ell, self.setting.slots)} where noise "
            "for its square root was added."
        )


def _shapes(series: np.ndarray) -> np.ndarray:
    """Algorithm 2, line 7: cut at zero and divided by their sums; flat where nothing is left."""
    series = np.maximum(series, 0.0)
    sums = series.sum(axis=1, keepdims=True)
    return np.divide(series, sums, out=np.full(series.shape, 1.0 / series.shape[1]), where=sums > 0)


def _epsilon(pure: Sequence[float], rho: float, delta: float) -> float:
    """Pure parts and a zCDP part together: the better of adding epsilons and of adding rhos."""
    rho_nano = ceil_nano(Fraction(rho))
    in_rho = sum(Loss.pure(ceil_nano(Fraction(part))).rho_nano for part in pure)
    return min(sum(pure) + epsilon_for(rho_nano, delta), epsilon_for(rho_nano + in_rho, delta))


def laplace_of(exact: np.ndarray, scale: float, name: str, noise: Noise) -> np.ndarray:
    """Values with discrete Laplace noise, on the lattice."""
    return noise.laplace(name, units_of(exact), scale * STEP) / STEP


def units_of(values: np.ndarray) -> np.ndarray:
    """int64: in steps of the lattice."""
    return np.rint(np.asarray(values, float) * STEP).astype(np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedCells:
    """Public weights from counts of places to counts of cells, and from those to zones."""

    to_cells: scipy.sparse.csr_array = field(repr=False)  # float64 [cells, places], may be negative
    back: scipy.sparse.csr_array = field(repr=False)  # float64 [zones, cells]
    xy_m: np.ndarray = field(repr=False)  # float64 [cells, 2]
    neighbours: scipy.sparse.csr_array = field(repr=False)

    @property
    def column_l1(self) -> float:
        """The most one visit moves the cells by in L1, and so all clusters of cells together."""
        return float(np.asarray(abs(self.to_cells).sum(axis=0)).max(initial=0.0))

    @property
    def replaced_l2_squared(self) -> float:
        """The most that one visit replaced by another moves clusters of cells by, in squared L2.

        A change whose positive and negative parts sum to P and N moves the clusters by at most P^2 + N^2.
        """
        size, net = (np.asarray(each.sum(axis=0)).ravel() for each in (abs(self.to_cells), self.to_cells))
        up, down = (size + net) / 2, (size - net) / 2
        return float(((up[:, None] + down) ** 2 + (down[:, None] + up) ** 2).max(initial=0.0))


def subtracted_cells(setting: Setting) -> PublishedCells:
    """Chosen zones first, then chosen sites less the chosen zones' share."""
    weights = scipy.sparse.csr_array(setting.weights.matrix / setting.weights.lattice)
    zone_chosen, place_chosen = cover_vertices(setting.weights)
    zones, places = np.flatnonzero(zone_chosen), np.flatnonzero(place_chosen)
    of_zones = weights[zones]
    at_places = scipy.sparse.csr_array(scipy.sparse.eye_array(setting.places, format="csr"))[places]
    # [places, zones]: share of a chosen site that lies in a chosen zone
    overlap = scipy.sparse.csr_array(of_zones[:, places].T)
    to_cells = scipy.sparse.csr_array(scipy.sparse.vstack([of_zones, at_places - overlap @ of_zones]))
    restored = scipy.sparse.hstack([overlap, scipy.sparse.eye_array(len(places))])  # site counts, from cells
    by_sites = weights[:, places] @ restored
    own = scipy.sparse.csr_array(
        (np.ones(len(zones)), (zones, np.arange(len(zones)))), shape=(setting.zones, len(zones) + len(places))
    )
    others = scipy.sparse.diags_array((~zone_chosen).astype(float))
    centres = np.concatenate([setting.zone_xy_m[zones], setting.place_xy_m[places]]).reshape(-1, 2)
    return PublishedCells(
        to_cells=to_cells,
        back=scipy.sparse.csr_array(own + others @ by_sites),
        xy_m=centres,
        neighbours=neighbour_graph(centres),
    )


def zone_cells(setting: Setting) -> PublishedCells:
    """Every zone a cell of its own, no cover: the later form of the scheme."""
    return PublishedCells(
        to_cells=scipy.sparse.csr_array(setting.weights.matrix / setting.weights.lattice),
        back=scipy.sparse.csr_array(scipy.sparse.eye_array(setting.zones, format="csr")),
        xy_m=setting.zone_xy_m,
        neighbours=neighbour_graph(setting.zone_xy_m),
    )
