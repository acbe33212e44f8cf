"""Public constants of the density method `best`, by how much can be measured: nu = users x mu.

mu = sqrt(2 rho). The rows were chosen on one simulated city (preset paris) and are used as they are
elsewhere; docs/results/density.md shows both.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

SHARES = {  # of what is left when it is their turn
    "users": Fraction(1, 200),
    "visits": Fraction(3, 50),
    "city": Fraction(1, 10),
    "regions": Fraction(1, 5),
    "zones": Fraction(1),
}


@dataclass(frozen=True, kw_only=True)
class Constants:
    """One row: clips in visits, sizes of the bases, weights of their columns."""

    least_nu: float
    visits_clip: float  # visits of a user that enter the number of visits
    city_clip: float
    region_clip: float
    zone_clip: float
    regions: int
    waves: int  # periods of a day in the regions' dictionary
    learned: int  # columns of the zones' basis that are learned from regions, the profile included
    hours: bool  # columns for the hours of the day
    blocks: bool  # columns for the thirds of the days
    learned_weight: float
    fixed_weight: float
    rest_weight: float  # of all that the basis leaves out; 0: not measured
    outliers: bool


ROWS = (
    Constants(
        least_nu=300_000,
        visits_clip=250,
        city_clip=32,
        region_clip=12,
        zone_clip=2.4,
        regions=80,
        waves=3,
        learned=12,
        hours=True,
        blocks=True,
        learned_weight=1,
        fixed_weight=1,
        rest_weight=0.6,
        outliers=True,
    ),
    Constants(
        least_nu=100_000,
        visits_clip=250,
        city_clip=20,
        region_clip=8,
        zone_clip=1.4,
        regions=80,
        waves=3,
        learned=12,
        hours=True,
        blocks=False,
        learned_weight=1,
        fixed_weight=0.8,
        rest_weight=0,
        outliers=True,
    ),
    Constants(
        least_nu=30_000,
        visits_clip=250,
        city_clip=14,
        region_clip=6,
        zone_clip=0.9,
        regions=40,
        waves=2,
        learned=8,
        hours=False,
        blocks=False,
        learned_weight=1,
        fixed_weight=0,
        rest_weight=0,
        outliers=True,
    ),
    Constants(
        least_nu=10_000,
        visits_clip=200,
        city_clip=10,
        region_clip=4,
        zone_clip=0.5,
        regions=20,
        waves=2,
        learned=5,
        hours=False,
        blocks=False,
        learned_weight=0.8,
        fixed_weight=0,
        rest_weight=0,
        outliers=False,
    ),
    Constants(
        least_nu=2_000,
        visits_clip=200,
        city_clip=7,
        region_clip=3,
        zone_clip=0.35,
        regions=20,
        waves=2,
        learned=5,
        hours=False,
        blocks=False,
        learned_weight=0.4,
        fixed_weight=0,
        rest_weight=0,
        outliers=False,
    ),
    Constants(
        least_nu=0,
        visits_clip=100,
        city_clip=5,
        region_clip=3,
        zone_clip=0.35,
        regions=8,
        waves=1,
        learned=1,
        hours=False,
        blocks=False,
        learned_weight=0.4,
        fixed_weight=0,
        rest_weight=0,
        outliers=False,
    ),
)


def constants_for(users: float, rho: float) -> Constants:
    """The row for a population of about `users` at a budget of `rho`.

    >>> constants_for(2_000_000, 0.0259).rest_weight
    0.6
    >>> constants_for(500, 0.0259).learned
    1
    """
    nu = max(users, 0.0) * (2 * rho) ** 0.5
    return next(row for row in ROWS if nu >= row.least_nu)
