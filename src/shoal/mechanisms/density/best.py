"""People per zone and slot from all visits, measured coarse to fine; each measurement clips every user.

Guarantee    rho-zCDP for everything together, rho the sum of the named shares.
Unit         one user.        Neighbours   add or remove one user.
Requires     visits behind the query interface `UserVisits`: the number of users, users by number of visits,
             and sums of users clipped in the norm of a view.
Sensitivity  users: 1. sizes: L2 <= 1, since every user is in exactly one bin. visits, city, regions and
             zones: see ClippedGaussian; each has its own clip. Removing a user changes each sum by that
             user's contribution alone. Its scaling depends only on that user's visits and on earlier noisy
             answers, so the steps compose adaptively.
Public       zones, slots, the expected activity, all constants; the row of constants follows from declared
             users, or from the noisy number of users; the clip of visits from earlier noisy answers.
Source       own: specs of the package, "Density, the method of our own".
Deviations   none.

1. users     number of users, unless declared: selects the row of constants
2. sizes     number of users per half-octave of their number of visits -> clip of the number of visits
3. visits    number of visits in the zones
4. city      totals of slots, weighted by expected activity -> profile of the city
5. regions   profile x kinds of days x Fourier components of a day -> singular vectors -> learned columns
6. zones     where the noisy answers leave the total unknown by more than 4 %, a quarter of the share pays
             for a second number of visits, under another clip; the rest: coefficients of the learned
             columns; for large populations also of all columns orthogonal to them, otherwise of a few
             probes; zones are weighted by their public sizes, small ones up
Everything else is post-processing: `shoal.postprocess.density.best`.

The public constants are at the end of this file, selected by the signal-to-noise ratio. nu = users x mu,
mu = sqrt(2 rho), selects those of the city and its regions; nu x 1,000 / zones, the same ratio normalised to
1,000 zones, selects those of zones. The rows were chosen on one simulated city (preset paris) and are used
unchanged elsewhere; docs/results/density.md has results for both.

>>> from shoal.mechanisms.audit_size import AuditSize
>>> mechanism = DensityBest.within(Budget.of(1.0, 1e-6), AuditSize().setting, users=5_000)
>>> [(name, loss.rho_nano) for name, loss in mechanism.spends()]
[('sizes', 700361), ('visits', 1638847), ('city', 2567527), ('regions', 4621548), ('zones', 18486196)]
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
from shoal.postprocess.density.user_sizes import NumberOfVisits, UserSizes
from shoal.privacy.accounting import NANO, Budget, Loss
from shoal.privacy.noise import GAUSSIAN, Adder, Composed, Noise
from shoal.space.geography import Setting
from shoal.space.setting import activity, regions_of, zone_weights
from shoal.stages.exact import UserVisits, View, on_lattice
from shoal.stages.noisy import NoisyBest, NoisyMeasurement, Total

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
        return tuple((name, Loss.gaussian(rho_nano)) for name, rho_nano in self.shares)

    def __call__(self, visits: UserVisits, noise: Noise) -> NoisyBest:
        coarse, fine, users = self._rows(visits, noise)
        total, numbers, left = self._total(visits, noise, users)
        expected = activity(self.setting.clock)
        slot_weight = hour_weights(expected)
        city = ("city", coarse.city_clip, self._everywhere(), np.diag(slot_weight))
        totals = self._measure(visits, noise, city)
        profile, noise_left = city_profile(
            totals.values[0],
            slot_weight,
            totals.sigma,
            expected,
            1440 / self.setting.clock.slot_minutes,
        )
        weight = hour_weights(profile)
        regions_wanted = min(coarse.regions, max(1, self.setting.zones // ZONES_PER_REGION))
        region_of = regions_of(self.setting.zone_xy_m, regions_wanted)
        dictionary, regions = self._regions(visits, noise, coarse, region_of, profile, weight)
        return NoisyBest(
            total=total,
            clips={
                "visits": tuple(number.clip for number in numbers),
                "city": (coarse.city_clip,),
                "regions": (coarse.region_clip,),
                "zones": (fine.zone_clip,),
            },
            city=totals,
            profile=profile,
            profile_deviation=totals.sigma / slot_weight,
            profile_total=float((totals.values[0] / slot_weight).sum()),
            profile_noise_left=noise_left,
            weight=weight,
            region_of=region_of,
            dictionary=dictionary,
            regions=regions,
            **self._zones(visits, noise, fine, left, dictionary, regions, profile, weight),
            rest_weight=fine.rest_weight,
            outliers=fine.outliers,
        )

    def _rows(self, visits: UserVisits, noise: Noise) -> tuple[Coarse, Fine, tuple[float, float | None]]:
        """The rows of constants for the declared or the measured number of users, and this with its noise."""
        rho = self.loss().rho
        if self.users is not None:
            return *constants_for(self.users, rho, self.setting.zones), (self.users, None)
        adder = Adder.within(GAUSSIAN, self._rho("users"), 1)
        noisy = float(adder.add(noise, "users", np.array([visits.users], np.int64))[0])
        return *constants_for(noisy, rho, self.setting.zones), (noisy, adder.scale)

    def _total(
        self, visits: UserVisits, noise: Noise, users: tuple[float, float | None]
    ) -> tuple[Total, tuple[NumberOfVisits, ...], int]:
        """All visits, from users by size and one or two clipped numbers; and what is left for the zones."""
        weights = self.setting.weights
        adder = Adder.within(GAUSSIAN, self._rho("sizes"), 1)
        exact = visits.sizes(np.asarray(weights.matrix.sum(axis=0), np.int64), weights.lattice)
        counted = NoisyMeasurement(values=adder.add(noise, "sizes", exact), sigma=adder.scale)
        sizes = UserSizes.learn(counted, *users)
        numbers: tuple[NumberOfVisits, ...] = ()
        left = self._rho("zones")
        for name, rho in (("visits", self._rho("visits")), ("zones", int(left * AGAIN))):
            clip = sizes.given(*numbers).best_clip((2 * rho / NANO) ** -0.5)
            step = (name, clip, self._everywhere(), np.ones((self.setting.slots, 1)))
            number = self._measure(visits, noise, step, rho)
            numbers += (NumberOfVisits(value=float(number.values[0, 0]), sigma=number.sigma, clip=clip),)
            total = sizes.total_given(*numbers)
            left -= rho if name == "zones" else 0
            if total.deviation <= AGAIN_ABOVE * total.visits:
                break
        return total, numbers, left

    def _everywhere(self) -> scipy.sparse.csr_array:
        return _grouped(self.setting, np.zeros(self.setting.zones, np.int64))

    def _regions(self, visits, noise, row: Coarse, region_of, profile, weight):
        dictionary = region_dictionary(self.setting.clock, profile * weight, row.harmonics)
        time = weight[:, None] * dictionary
        step = ("regions", row.region_clip, _grouped(self.setting, region_of), time)
        return dictionary, self._measure(visits, noise, step)

    def _zones(self, visits, noise, row: Fine, rho: int, dictionary, regions, profile, weight) -> dict:
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
        noisy = self._measure(visits, noise, step, rho)
        values = noisy.values / counts[:, None]
        split = basis.shape[1]
        return {
            "basis": basis,
            "zones": values[:, :split],
            "zones_sigma": noisy.sigma / counts,
            "rest_basis": rest,
            "rest": values[:, split:],
        }

    def _measure(
        self, visits: UserVisits, noise: Noise, step: Step, rho: int | None = None
    ) -> NoisyMeasurement:
        """Sums over users clipped in a step's norm, [groups of places, columns over slots], with noise.

        Without `rho`, the step's whole share is spent.
        """
        name, clip, space, time = step
        view = View(space=space, space_lattice=self.setting.weights.lattice, time=on_lattice(time), clip=clip)
        (exact,) = visits.clipped(view)
        groups, columns = view.shape
        rho = self._rho(name) if rho is None else rho
        mechanism = ClippedGaussian.within(rho, clip=clip, values=groups * columns)
        return NoisyMeasurement(values=mechanism(exact, noise, name), sigma=mechanism.sigma)

    def _rho(self, name: str) -> int:
        return dict(self.shares)[name]

    @classmethod
    def within(cls, budget: Budget, setting: Setting, *, users: int | None = None) -> DensityBest:
        """Splits all of the budget by `SHARES`, at least 1e-9 each.

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
            "norm (`clip_of_...` in the manifest, in visits), so very active users weigh less in the fine "
            "detail.",
            "All counts were then scaled to the number of all visits. It was measured under a clip of its "
            "own, and the visits beyond this clip were estimated from noisy numbers of users by how many "
            "visits they have. `visits_with_noise` in the manifest is the result; `visits_with_noise_low` "
            "and `visits_with_noise_high` are its 95 % interval, which is part of the interval of every "
            "count.",
            "`second_group_with_noise` in the manifest is the expected share of visits by a second group of "
            "users who are far more active than the others, such as a fleet of vehicles. Their visits follow "
            "the profile of all users. Where the share is more than a few per cent, intervals of sums over "
            "many zones, such as totals of the city per slot or day, are too narrow.",
            "Also measured with noise were totals of the city per slot, totals of regions by kind of day and "
            "hour of the day, and coefficients of each zone for the main profiles of the regions. The counts "
            "were computed from these and smoothed over neighbouring zones.",
            "A zone therefore follows profiles that occur elsewhere in the city, apart from peaks of a few "
            "hours that clearly exceed the noise. Other events in a zone are lost or spread over its week.",
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


SHARES = {  # of the budget that the earlier ones leave
    "users": Fraction(1, 200),
    "sizes": Fraction(1, 40),
    "visits": Fraction(3, 50),
    "city": Fraction(1, 10),
    "regions": Fraction(1, 5),
    "zones": Fraction(1),
}
AGAIN, AGAIN_ABOVE = Fraction(1, 4), 0.04  # of the zones' share; relative deviation of the total
USUAL_ZONES = 1000
ZONES_PER_REGION = 6  # at least
PROBES, SLOTS_PER_PROBE, PROBE_WEIGHT = 6, 28, 0.7  # of the rest, where not all of it is measured


@dataclass(frozen=True, kw_only=True)
class Coarse:
    """Constants for the city and its regions; clips in visits."""

    least_nu: float
    city_clip: float
    region_clip: float
    regions: int
    harmonics: int  # Fourier components of a day in the regions' dictionary: harmonics 1 to this


@dataclass(frozen=True, kw_only=True)
class Fine:
    """Constants for zones: the clip, the columns measured, their weights."""

    least_nu: float
    zone_clip: float
    learned: int  # columns that are learned from regions, the profile included
    rest: bool  # all columns orthogonal to the learned ones are measured, not only probes
    rest_weight: float  # of these columns or probes; 0: none are measured, since noise would dominate them
    outliers: bool


COARSE = (
    Coarse(least_nu=300_000, city_clip=48, region_clip=10, regions=80, harmonics=11),
    Coarse(least_nu=100_000, city_clip=30, region_clip=8, regions=80, harmonics=11),
    Coarse(least_nu=30_000, city_clip=20, region_clip=6, regions=40, harmonics=7),
    Coarse(least_nu=10_000, city_clip=10, region_clip=4, regions=20, harmonics=5),
    Coarse(least_nu=5_000, city_clip=7, region_clip=3, regions=20, harmonics=5),
    Coarse(least_nu=2_000, city_clip=7, region_clip=3, regions=20, harmonics=2),
    Coarse(least_nu=0, city_clip=5, region_clip=3, regions=8, harmonics=1),
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
    """Number of probes measured outside the learned columns; they estimate the residual variance of zones."""
    return min(PROBES, -(-slots // SLOTS_PER_PROBE)) if row.rest_weight > 0 else 0
