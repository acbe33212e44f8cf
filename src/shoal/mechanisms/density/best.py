"""People per zone and slot from all visits, measured coarse to fine; each measurement clips every user.

Guarantee    rho-zCDP for everything together, rho the sum of the named shares.
Unit         one user.        Neighbours   add or remove one user.
Requires     visits behind the query interface `UserVisits`: the number of users, and sums of users clipped
             in the norm of a view.
Sensitivity  users: 1. visits, active, city, regions and zones: see ClippedGaussian; each has its own clip.
             Removing a user changes each sum by that user's contribution alone. Its scaling depends only on
             that user's visits and on earlier noisy answers, so the steps compose adaptively.
Public       zones, slots, the expected activity, all constants; the row of constants follows from declared
             users, or from the noisy number of users.
Source       own: specs of the package, "Density, the method of our own".
Deviations   none.

1. users     number of users, unless declared: selects the row of constants
2. visits    number of visits in the zones; active: the same with a larger clip
3. city      totals of slots, weighted by expected activity -> profile of the city
4. regions   profile x kinds of days x Fourier components of a day -> singular vectors -> learned columns
5. zones     coefficients of the learned columns; for large populations also of all columns orthogonal to
             them, otherwise of a few probes; zones are weighted by their public sizes, small ones up
Everything else is post-processing: `shoal.postprocess.density.best`.

>>> from shoal.mechanisms.audit_size import AuditSize
>>> mechanism = DensityBest.within(Budget.of(1.0, 1e-6), AuditSize().setting, users=5_000)
>>> [(name, loss.rho_nano) for name, loss in mechanism.spends()]
[('visits', 1461358), ('active', 343419), ('city', 2255119), ('regions', 4059214), ('zones', 16236860)]
>>> mechanism.loss().epsilon(1e-6) <= 1.0
True
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import scipy.sparse

from shoal.mechanisms.density.best_constants import (
    ACTIVE_CLIP,
    SHARES,
    ZONES_PER_REGION,
    Coarse,
    Fine,
    constants_for,
    probes_of,
)
from shoal.mechanisms.density.clipped_gaussian import ClippedGaussian
from shoal.mechanisms.noise import GAUSSIAN, Adder, Composed
from shoal.postprocess.density.profile import (
    city_profile,
    complement,
    hour_weights,
    probes,
    region_dictionary,
    zone_columns,
)
from shoal.privacy.accounting import NANO, Budget, Loss
from shoal.privacy.noise import Noise
from shoal.space.setting import Setting, activity, regions_of, zone_weights
from shoal.stages.exact import UserVisits, View, on_lattice
from shoal.stages.noisy import NoisyBest, NoisyMeasurement

# name of the share, clip, weights of places in groups, columns over slots
Step = tuple[str, float, scipy.sparse.csr_array, np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class DensityBest(Composed):
    """Measures visits, city, regions and zones with Gaussian noise, each step from earlier noisy answers."""

    shares: tuple[tuple[str, int], ...]  # name and rho in 1e-9, in order
    users: int | None  # declared; None: measured
    setting: Setting = field(repr=False)

    name = "density-best"
    takes = "visits"

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        """The shares, which add up to the price; the noise of a step is scaled to stay within its share."""
        return tuple((name, Loss(rho_nano)) for name, rho_nano in self.shares)

    def __call__(self, visits: UserVisits, noise: Noise) -> NoisyBest:
        coarse, fine = self._rows(visits, noise)
        total, active, totals = self._city(visits, noise, coarse)
        expected = activity(self.setting.clock)
        profile = city_profile(
            totals.values[0],
            hour_weights(expected),
            totals.sigma,
            expected,
            1440 / self.setting.clock.slot_minutes,
        )
        weight = hour_weights(profile)
        regions_wanted = min(coarse.regions, max(1, self.setting.zones // ZONES_PER_REGION))
        region_of = regions_of(self.setting.zone_xy_m, regions_wanted)
        dictionary, regions = self._regions(visits, noise, coarse, region_of, profile, weight)
        return NoisyBest(
            visits=total,
            active=active,
            profile=profile,
            profile_deviation=totals.sigma / hour_weights(expected),
            weight=weight,
            region_of=region_of,
            dictionary=dictionary,
            regions=regions,
            **self._zones(visits, noise, fine, dictionary, regions, profile, weight),
            rest_weight=fine.rest_weight,
            outliers=fine.outliers,
        )

    def _rows(self, visits: UserVisits, noise: Noise) -> tuple[Coarse, Fine]:
        """The rows of constants for the declared or the measured number of users."""
        rho = self.loss().rho
        if self.users is not None:
            return constants_for(self.users, rho, self.setting.zones)
        adder = Adder.within(GAUSSIAN, self._rho("users"), 1)
        noisy = adder.add(noise, "users", np.array([visits.users], np.int64))
        return constants_for(float(noisy[0]), rho, self.setting.zones)

    def _city(self, visits: UserVisits, noise: Noise, row: Coarse):
        """Noisy numbers of visits under two clips, noisy totals of slots weighted by expected activity."""
        everywhere = _grouped(self.setting, np.zeros(self.setting.zones, np.int64))
        ones = np.ones((self.setting.slots, 1))
        weight = hour_weights(activity(self.setting.clock))
        return self._measure(
            visits,
            noise,
            ("visits", row.visits_clip, everywhere, ones),
            ("active", ACTIVE_CLIP, everywhere, ones),
            ("city", row.city_clip, everywhere, np.diag(weight)),
        )

    def _regions(self, visits, noise, row: Coarse, region_of, profile, weight):
        dictionary = region_dictionary(self.setting.clock, profile * weight, row.harmonics)
        time = weight[:, None] * dictionary
        step = ("regions", row.region_clip, _grouped(self.setting, region_of), time)
        return dictionary, self._measure(visits, noise, step)[0]

    def _zones(self, visits, noise, row: Fine, dictionary, regions, profile, weight) -> dict:
        basis = zone_columns(
            dictionary,
            regions,
            profile * weight,
            row.learned,
        )
        few = probes_of(self.setting.slots, row)
        rest = complement(basis) if row.rest else probes(basis, few)
        time = np.column_stack([basis, rest * row.rest_weight])
        space, counts, unit = _weighted(self.setting)
        step = ("zones", row.zone_clip * unit, space, weight[:, None] * time)
        noisy = self._measure(visits, noise, step)[0]
        values = noisy.values / counts[:, None]
        split = basis.shape[1]
        return {
            "basis": basis,
            "zones": values[:, :split],
            "zones_sigma": noisy.sigma / counts,
            "rest_basis": rest,
            "rest": values[:, split:],
        }

    def _measure(self, visits: UserVisits, noise: Noise, *steps: Step) -> list[NoisyMeasurement]:
        """Sums over users clipped per step, [groups of places, columns over slots], with Gaussian noise."""
        views = [
            View(
                space=space,
                space_lattice=self.setting.weights.lattice,
                time=on_lattice(time),
                clip=clip,
            )
            for _, clip, space, time in steps
        ]
        noisy = []
        for (name, clip, *_), view, exact in zip(steps, views, visits.clipped(*views), strict=True):
            groups, columns = view.shape
            mechanism = ClippedGaussian.within(self._rho(name), clip=clip, values=groups * columns)
            values = mechanism(exact, noise, name)
            noisy.append(NoisyMeasurement(values=values, sigma=mechanism.sigma))
        return noisy

    def _rho(self, name: str) -> int:
        return dict(self.shares)[name]

    @classmethod
    def within(cls, budget: Budget, setting: Setting, *, users: int | None = None) -> DensityBest:
        """Splits all of the budget by the shares of best_constants, at least 1e-9 each.

        A declared number of users is not measured and has no share.
        """
        shares = []
        for name, share in SHARES.items():
            if name == "users" and users is not None:
                continue
            allowance, budget = budget.take(name, max(share, Fraction(1, max(budget.left, 1))))
            shares.append((name, allowance.rho_nano))
        return cls(shares=tuple(shares), users=users, setting=setting)

    def describe(self) -> dict:
        """Public parameters for the manifest."""
        return {
            "users_declared": self.users,
            "assumed": "four kinds of days; low activity before dawn until the profile is measured",
            "shares_rho": {name: rho_nano / NANO for name, rho_nano in self.shares},
        }

    def reading(self) -> tuple[str, ...]:
        """How a recipient should read the numbers."""
        return (
            "All visits were counted. For each sum the contribution of every user was scaled down to a fixed "
            "norm, so very active users weigh less in the fine detail; all counts were then scaled to a "
            "separately measured number of visits.",
            "Measured with noise were totals of the city per slot, totals of regions by kind of day and hour "
            "of the day, and coefficients of each zone for the main profiles of the regions. The counts were "
            "computed from these and smoothed over neighbouring zones.",
            "A zone therefore follows profiles that occur elsewhere in the city. An event in a single zone "
            "appears only if it is large compared to the noise.",
            "Two assumptions about the window are built in: days are of four kinds (Monday to Thursday, "
            "Friday, Saturday, Sunday), and activity before dawn is low until the profile is measured.",
            "The slots of a zone share noise, so summing over slots does not average it out.",
            "`people_low` and `people_high` are the ends of a 95 % interval for the number before noise. Its "
            "width accounts for the noise, for differences between neighbouring zones, and for the residual "
            "variance of counts. Where few people were counted, the numbers are nearly flat and the interval "
            "is wide.",
        )


def _grouped(setting: Setting, group_of: np.ndarray) -> scipy.sparse.csr_array:
    """int64 [groups, places]: area weights, summed over the zones of each group."""
    zones = setting.zones
    groups = int(group_of.max(initial=0)) + 1
    member = scipy.sparse.csr_array(
        (np.ones(zones, np.int64), (group_of, np.arange(zones))), shape=(groups, zones)
    )
    return scipy.sparse.csr_array(member @ setting.weights.matrix)


def _weighted(setting: Setting) -> tuple[scipy.sparse.csr_array, np.ndarray, float]:
    """Weighted area weights, int64 [zones, places]; weights of zones, float64 [zones]; the factor in both.

    The factor scales all weights down so that no place counts for more than one visit.
    """
    weights = setting.weights
    weight = zone_weights(weights)
    heaviest = np.asarray(weights.matrix.T @ weight).max(initial=0.0) / weights.lattice
    unit = 1.0 / max(heaviest, 1.0)
    counts = weight * unit
    space = scipy.sparse.csr_array(weights.matrix, copy=True)
    space.data = np.floor(space.data * np.repeat(counts, np.diff(space.indptr))).astype(np.int64)
    return space, counts, unit
