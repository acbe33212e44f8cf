"""Synthetic events from noisy tables of homes, work places, commutes and hours of calls.

Guarantee    epsilon-DP, the sum over tables of LATTICE / scale; or rho-zCDP, that of LATTICE^2 / (2 sigma^2).
             It holds for the model and for any number of people drawn from it.
Unit         one user.        Neighbours   add or remove one user.
Requires     what each user adds to a table has norm at most LATTICE: the sum of absolute values for Laplace,
             the root of the sum of squares for Gaussian noise (checked by the engine).
Sensitivity  LATTICE for every table, reached by a user with one event (users, people, homes, hours, places),
             and by one with a home, a work place and a third site (the others); losses of tables add up.
Public       sites with coordinates, clock, parts of the day, classes, regions of sites, all scales.
Source       Mir, Isaacman, Caceres, Martonosi and Wright 2013 (DP-WHERE).
Deviations   Every user weighs the same in each table, where DP-WHERE bounds the calls of a day: a user with
             many calls costs no more. Classes of users follow a public rule (what was seen of home and work),
             where DP-WHERE clusters the users' hours of calling into two. Commutes are distances in the whole
             city and flows between regions, where DP-WHERE has distances for each coarse cell. Times are
             drawn by hours and kinds of day. None of it weakens the guarantee: each table is a sum over users
             of bounded norm.

>>> import numpy as np
>>> from shoal.space.clock import Clock
>>> xy_m = np.array([[0.0, 0.0], [3000.0, 0.0], [0.0, 4000.0]])
>>> setting = CommuteSetting(site_xy_m=xy_m, clock=Clock.week("2026-03-02", "UTC"))
>>> mechanism = SyntheticCommute.within(Budget.of(1.0, None), setting)
>>> mechanism.loss().pure_epsilon_nano, dict(mechanism.spends())["homes"].pure_epsilon_nano
(1000000000, 160000000)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from shoal.errors import GuaranteeError, PlanError
from shoal.postprocess.synthetic.commute_model import CommuteModel
from shoal.privacy.accounting import Budget, Loss
from shoal.privacy.noise import Adder, Composed, Noise, adder_within
from shoal.space.setting import CommuteSetting
from shoal.stages.commutes import LATTICE, ExactCommutes, NoisyCommutes

# Hundredths of the budget; chosen on a simulated town of another seed than the one figures are reported on.
SHARES = {
    "users": 4,
    "people": 10,
    "homes": 16,
    "works": 12,
    "distances": 12,
    "flows": 8,
    "hours": 18,
    "places": 10,
    "elsewhere": 6,
    "reach": 4,
}
OPTIONAL = ("works", "distances", "flows", "reach")  # a model can be made without them


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticCommute(Composed):
    """Adds noise to every table once and returns the model that people are drawn from."""

    adders: Mapping[str, Adder]  # in units of the lattice
    setting: CommuteSetting = field(repr=False)

    name = "synthetic-commute"
    takes = "commutes"

    def __call__(self, commutes: ExactCommutes, noise: Noise) -> CommuteModel:
        shapes = self.setting.shapes
        if commutes.norm != self.norm or any(commutes.tables[name].shape != shapes[name] for name in shapes):
            raise GuaranteeError("bound-not-held", "the tables are not those that the noise is for.")
        noisy = {name: adder.add(noise, name, commutes.tables[name]) for name, adder in self.adders.items()}
        tables = NoisyCommutes(
            tables={name: values / LATTICE for name, values in noisy.items()},
            deviations={name: adder.deviation / LATTICE for name, adder in self.adders.items()},
        )
        return CommuteModel(noisy=tables, setting=self.setting)

    @property
    def norm(self) -> int:
        """Norm in which the contribution of a user is bounded: 1 for Laplace noise, 2 for Gaussian."""
        return self.adders["users"].family.norm

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return tuple((name, adder.cost(LATTICE)) for name, adder in self.adders.items())

    def describe(self) -> dict[str, Any]:
        """Public parameters for the manifest."""
        return {
            "name": self.name,
            "sites": self.setting.sites,
            "regions": self.setting.region_count,
            "distances": self.setting.distances,
            "noise_users": {name: adder.deviation / LATTICE for name, adder in self.adders.items()},
        }

    @classmethod
    def within(
        cls, budget: Budget, setting: CommuteSetting, *, without: tuple[str, ...] = ()
    ) -> SyntheticCommute:
        """Splits all of the budget by `SHARES`; tables in `without` are not measured and have no share."""
        if not set(without) <= set(OPTIONAL):
            raise PlanError("commute-table", f"only these tables can be left out: {', '.join(OPTIONAL)}.")
        shares = {name: share for name, share in SHARES.items() if name not in without}
        left, adders = sum(shares.values()), {}
        for name, share in shares.items():
            allowance, budget = budget.take(name, Fraction(share, left))
            adders[name] = adder_within(allowance, LATTICE)
            left -= share
        return cls(adders=adders, setting=setting)
