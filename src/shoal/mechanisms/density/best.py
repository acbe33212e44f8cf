"""People per zone and slot, best effort: all visits, measured coarse to fine, each user clipped each time.

Guarantee    rho-zCDP for everything together, rho the sum of the named shares.
Unit         one user.        Neighbours   add or remove one user.
Requires     visits behind the query interface `UserVisits`: the number of users, and sums of users clipped
             in the norm of a view.
Sensitivity  users 1; visits, active, city, regions and zones: see ClippedGaussian, each its own clip.
             Removing a user changes each sum by that user's part alone, whose weight depends on that user's
             visits and on earlier noisy answers only; so the steps compose adaptively.
Public       zones, slots, the expected activity, all constants; the row of constants follows from declared
             users, or from the noisy number of users.
Source       own: specs of the package, "Density, the method of our own".
Deviations   none.

1. users     N, unless declared: picks the row of constants
2. visits    K, the visits in the zones; active: the same with very active users clipped later
3. city      slots weighted by expected activity -> profile
4. regions   profile x kinds of days x waves of a day -> singular vectors -> learned columns
5. zones     learned columns, and (large populations) all the rest, else a few probes of it; zones weighted
             by their public sizes, small ones up
Everything else is post-processing: `shoal.postprocess.density.best`.

Public constants end this file, by how much can be measured. nu = users x mu, mu = sqrt(2 rho), decides about
the city and its regions; nu x 1,000 / zones, what there is to a zone of a city of a thousand, decides about
zones. The rows were chosen on one simulated city (preset paris) and are used as they are elsewhere;
docs/results/density.md shows both.

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

from shoal.mechanisms.density.clipped_gaussian import ClippedGaussian
from shoal.postprocess.density.smoothing import (
    city_profile,
    complement,
    hour_weights,
    probes,
    region_dictionary,
    zone_columns,
)
from shoal.privacy.accounting import NANO, Budget, Loss
from shoal.privacy.noise import GAUSSIAN, Adder, Composed, Noise
from shoal.space.setting import Setting, activity, regions_of, zone_weights
from shoal.stages.exact import UserVisits, View, on_lattice
from shoal.stages.noisy import NoisyBest, NoisyMeasurement

# share, clip, weights of places in groups, columns over slots
Step = tuple[str, float, scipy.sparse.csr_array, np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class DensityBest(Composed):
    """Coarse to fine: visits, city, regions, zones; each in Gaussian noise."""

    shares: tuple[tuple[str, int], ...]  # name and rho in 1e-9, in order
    users: int | None  # declared; None: bought
    setting: Setting = field(repr=False)

    name = "density-best"
    takes = "visits"

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        """The shares add up; every step's noise is scaled to stay within its own."""
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
        """The rows of constants, by the declared or the bought number of users."""
        rho = self.loss().rho
        if self.users is not None:
            return constants_for(self.users, rho, self.setting.zones)
        adder = Adder.within(GAUSSIAN, self._rho("users"), 1)
        noisy = adder.add(noise, "users", np.array([visits.users], np.int64))
        return constants_for(float(noisy[0]), rho, self.setting.zones)

    def _city(self, visits: UserVisits, noise: Noise, row: Coarse):
        """The number of visits under two clips, and the city's slots weighted by what is expected of them."""
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
        dictionary = region_dictionary(self.setting.clock, profile * weight, row.waves)
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
        """Places summed to groups, slots to columns, every user clipped; each paid for by its share."""
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
        """All of the budget, in SHARES, each of 1e-9 at least.

        A declared number of users is not bought.
        """
        shares = []
        for name, share in SHARES.items():
            if name == "users" and users is not None:
                continue
            allowance, budget = budget.take(name, max(share, Fraction(1, max(budget.left, 1))))
            shares.append((name, allowance.rho_nano))
        return cls(shares=tuple(shares), users=users, setting=setting)

    def describe(self) -> dict:
        """For the manifest: what else is public about it."""
        return {
            "users_declared": self.users,
            "assumed": "days of the week in four kinds; quiet before dawn until the profile was bought",
            "shares_rho": {name: rho_nano / NANO for name, rho_nano in self.shares},
        }

    def reading(self) -> tuple[str, ...]:
        """For the recipient: how the numbers are to be read."""
        return (
            "All visits were counted. Before each sum every user was scaled down to a bounded size, so very "
            "active users count less in the fine detail; totals were then brought to a number of visits "
            "bought separately.",
            "What was measured with noise are the city's slots, regions over the kinds of days and hours of "
            "a day, and zones in the few courses over time that regions showed; the rest is smoothing over "
            "neighbouring zones.",
            "So a zone follows courses that are found elsewhere in the city, and a sudden event in one zone "
            "alone appears only where it was large against the noise.",
            "Days of the week are taken in four kinds (Monday to Thursday, Friday, Saturday, Sunday), and "
            "nights are taken to be quiet until the city's own course is known: nothing else is assumed "
            "about the window.",
            "Noise is shared by the slots of a zone: sums over slots do not average it out.",
            "`people_low` and `people_high` are the ends of a 95 % interval for the number before noise, "
            "made from the noise, from how unlike neighbouring zones are, and from how counts scatter; where "
            "few people were counted, the numbers are nearly flat and the interval says so.",
        )


def _grouped(setting: Setting, group_of: np.ndarray) -> scipy.sparse.csr_array:
    """int64 [groups, places]: area weights of zones added up to their groups."""
    zones = setting.zones
    groups = int(group_of.max(initial=0)) + 1
    member = scipy.sparse.csr_array(
        (np.ones(zones, np.int64), (group_of, np.arange(zones))), shape=(groups, zones)
    )
    return scipy.sparse.csr_array(member @ setting.weights.matrix)


def _weighted(setting: Setting) -> tuple[scipy.sparse.csr_array, np.ndarray, float]:
    """int64 [zones, places]: area weights times the weight of their zone; what a visit of a zone counts.

    And the unit: all of it is scaled down so that no place counts for more than one visit.
    """
    weights = setting.weights
    weight = zone_weights(weights)
    heaviest = np.asarray(weights.matrix.T @ weight).max(initial=0.0) / weights.lattice
    unit = 1.0 / max(heaviest, 1.0)
    counts = weight * unit
    space = scipy.sparse.csr_array(weights.matrix, copy=True)
    space.data = np.floor(space.data * np.repeat(counts, np.diff(space.indptr))).astype(np.int64)
    return space, counts, unit


SHARES = {  # of what is left when it is their turn
    "users": Fraction(1, 200),
    "visits": Fraction(3, 50),
    "active": Fraction(3, 200),
    "city": Fraction(1, 10),
    "regions": Fraction(1, 5),
    "zones": Fraction(1),
}
ACTIVE_CLIP = 1000  # visits of a user that enter the second number of visits
USUAL_ZONES = 1000
ZONES_PER_REGION = 6  # at least
PROBES, SLOTS_PER_PROBE, PROBE_WEIGHT = 6, 28, 0.7  # of the rest, where not all of it is measured


@dataclass(frozen=True, kw_only=True)
class Coarse:
    """For the number of visits, the city and its regions; clips in visits."""

    least_nu: float
    visits_clip: float  # visits of a user that enter the number of visits
    city_clip: float
    region_clip: float
    regions: int
    waves: int  # periods of a day in the regions' dictionary


@dataclass(frozen=True, kw_only=True)
class Fine:
    """For zones: the clip, the columns measured, their weights."""

    least_nu: float
    zone_clip: float
    learned: int  # columns that are learned from regions, the profile included
    rest: bool  # all that the columns leave out is measured, not only probes of it
    rest_weight: (
        float  # of the rest, or of its probes; 0: there are none, for noise would hide what they tell
    )
    outliers: bool


COARSE = (
    Coarse(least_nu=300_000, visits_clip=250, city_clip=48, region_clip=10, regions=80, waves=11),
    Coarse(least_nu=100_000, visits_clip=250, city_clip=30, region_clip=8, regions=80, waves=11),
    Coarse(least_nu=30_000, visits_clip=250, city_clip=20, region_clip=6, regions=40, waves=7),
    Coarse(least_nu=10_000, visits_clip=200, city_clip=10, region_clip=4, regions=20, waves=5),
    Coarse(least_nu=5_000, visits_clip=200, city_clip=7, region_clip=3, regions=20, waves=5),
    Coarse(least_nu=2_000, visits_clip=200, city_clip=7, region_clip=3, regions=20, waves=2),
    Coarse(least_nu=0, visits_clip=100, city_clip=5, region_clip=3, regions=8, waves=1),
)
FINE = (
    Fine(least_nu=300_000, zone_clip=2.4, learned=12, rest=True, rest_weight=0.6, outliers=True),
    Fine(least_nu=100_000, zone_clip=1.4, learned=6, rest=False, rest_weight=PROBE_WEIGHT, outliers=True),
    Fine(least_nu=30_000, zone_clip=0.8, learned=6, rest=False, rest_weight=PROBE_WEIGHT, outliers=True),
    Fine(least_nu=10_000, zone_clip=0.4, learned=5, rest=False, rest_weight=PROBE_WEIGHT, outliers=False),
    Fine(least_nu=2_000, zone_clip=0.25, learned=3, rest=False, rest_weight=0, outliers=False),
    Fine(least_nu=0, zone_clip=0.25, learned=1, rest=False, rest_weight=0, outliers=False),
)


def constants_for(users: float, rho: float, zones: int) -> tuple[Coarse, Fine]:
    """The rows for a population of about `users` in `zones` zones at a budget of `rho`.

    >>> constants_for(2_000_000, 0.0259, 1_000)[1].rest
    True
    >>> constants_for(500, 0.0259, 40)[1].learned
    3
    """
    nu = max(users, 0.0) * (2 * rho) ** 0.5
    coarse = next(row for row in COARSE if nu >= row.least_nu)
    fine = next(row for row in FINE if nu * USUAL_ZONES / max(zones, 1) >= row.least_nu)
    return coarse, fine


def probes_of(slots: int, row: Fine) -> int:
    """How many probes of the rest are measured: they tell how far zones are from smooth."""
    return min(PROBES, -(-slots // SLOTS_PER_PROBE)) if row.rest_weight > 0 else 0
