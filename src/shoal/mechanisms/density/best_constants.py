"""Public constants of the density method `best`, selected by the signal-to-noise ratio.

nu = users x mu, mu = sqrt(2 rho), selects the constants of the city and its regions; nu x 1,000 / zones, the
same ratio normalised to 1,000 zones, selects those of zones. The rows were chosen on one simulated city
(preset paris) and are used unchanged elsewhere; docs/results/density.md has results for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

SHARES = {  # of the budget that the earlier ones leave
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
    """Constants for the number of visits, the city and its regions; clips in visits."""

    least_nu: float
    visits_clip: float  # visits of a user that enter the number of visits
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
    Coarse(least_nu=300_000, visits_clip=250, city_clip=48, region_clip=10, regions=80, harmonics=11),
    Coarse(least_nu=100_000, visits_clip=250, city_clip=30, region_clip=8, regions=80, harmonics=11),
    Coarse(least_nu=30_000, visits_clip=250, city_clip=20, region_clip=6, regions=40, harmonics=7),
    Coarse(least_nu=10_000, visits_clip=200, city_clip=10, region_clip=4, regions=20, harmonics=5),
    Coarse(least_nu=5_000, visits_clip=200, city_clip=7, region_clip=3, regions=20, harmonics=5),
    Coarse(least_nu=2_000, visits_clip=200, city_clip=7, region_clip=3, regions=20, harmonics=2),
    Coarse(least_nu=0, visits_clip=100, city_clip=5, region_clip=3, regions=8, harmonics=1),
)
FINE = (
    Fine(
        least_nu=300_000,
        zone_clip=2.4,
        learned=12,
        rest=True,
        rest_weight=0.6,
        outliers=True,
    ),
    Fine(
        least_nu=100_000,
        zone_clip=1.4,
        learned=6,
        rest=False,
        rest_weight=PROBE_WEIGHT,
        outliers=True,
    ),
    Fine(
        least_nu=30_000,
        zone_clip=0.8,
        learned=6,
        rest=False,
        rest_weight=PROBE_WEIGHT,
        outliers=True,
    ),
    Fine(
        least_nu=10_000,
        zone_clip=0.4,
        learned=5,
        rest=False,
        rest_weight=PROBE_WEIGHT,
        outliers=False,
    ),
    Fine(
        least_nu=2_000,
        zone_clip=0.25,
        learned=3,
        rest=False,
        rest_weight=0,
        outliers=False,
    ),
    Fine(
        least_nu=0,
        zone_clip=0.25,
        learned=1,
        rest=False,
        rest_weight=0,
        outliers=False,
    ),
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
