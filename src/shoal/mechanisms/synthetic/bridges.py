"""Synthetic trips: noisy tables of movement, and paths drawn from a Markov model conditioned on both ends.

Guarantee    epsilon-DP for everything together, epsilon = sum of the spends; or rho-zCDP, rho = their sum.
             Trips drawn from the model are post-processing, however many there are.
Unit         one user by default, or one trip where declared.  Neighbours  add or remove one unit.
Requires     trips behind the query interface `UserPaths`: the contribution of a unit to a table, over all its
             trips, is scaled to norm 1 and rounded down on the lattice (checked by the engine).
Sensitivity  each table: L1 at most 1 (Laplace) or L2 at most 1 (Gaussian), since the contribution of a unit
             is scaled as a whole. Number of trips: `cap`, or 1 where the unit is a trip.
Public       grid, step, window, cap, the shares below. The regions of flows, and whether corners are
             measured, follow from noisy tables alone.
Source       own: specs of the package, "Synthetic trajectories, the generator of our own".
Deviations   none.

1. trips              number of trips, unless declared
2. moves, places      moves by cell and direction; starts and ends by blocks of 1, 3, 9, ... cells
3. flows              origin-destination counts between regions of equal mass, as many as the noise allows
4. lengths, stays     moves beyond the distance between the ends; steps stayed, and their cells
5. turns, corners     pairs of directions in and out, over all cells; per cell only where trips are many
6. times              days and hours of starts; parts of the week by region of start and end; duration, pace

>>> from shoal.mechanisms.audit_size import path_setting
>>> mechanism = SyntheticBridges.within(Budget.of(1.0, None), path_setting(each_trip=True))
>>> sum(loss.pure_epsilon_nano for _, loss in mechanism.spends()) <= 10**9
True
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from shoal.errors import PlanError
from shoal.mechanisms.trip_totals import PathTotals, TableNoise, check_queries
from shoal.postprocess.synthetic.bridge_model import BridgeModel, flow_mass, shrunk_tables
from shoal.postprocess.synthetic.bridge_tables import (
    ALL_PARTS,
    FEWEST_REGIONS,
    MOST_REGIONS,
    Parts,
    block_sides,
    blocks_of,
    regions,
)
from shoal.privacy.accounting import Allowance, Budget, Loss
from shoal.privacy.noise import Composed, Noise, family_of
from shoal.space.cell_paths import (
    Corners,
    Days,
    Durations,
    Flows,
    Hours,
    Lengths,
    Moves,
    Paces,
    PathTable,
    Places,
    StayPlaces,
    Stays,
    Tides,
    Turns,
)
from shoal.space.trip_setting import WEEK_PARTS, PathSetting
from shoal.stages.synthetic import NoisyEnds, NoisyMovement, NoisyTable
from shoal.stages.trips import UserPaths

# Relative shares; the share of a table that is not measured goes to the others.
SHARES = {
    "moves": 0.365,
    "starts": 0.12,
    "ends": 0.12,
    "flows": 0.155,
    "lengths": 0.05,
    "stays": 0.05,
    "stay_places": 0.02,
    "turns": 0.04,
    "corners": 0.06,
    "days": 0.01,
    "hours": 0.02,
    "start_tides": 0.0125,
    "end_tides": 0.0125,
    "durations": 0.01,
    "paces": 0.01,
}
LEVEL_SHARES = (0.5, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1)  # of places, finest blocks first
TRIPS_SHARE = 0.01
CORNERS_FROM = 3_500  # corners are measured from this mass of trips on, in deviations of their noise
SQUARES_MASS = 2.5  # approximate mass of a trip in a table of norm 2
REGION_NOISE = 3.0  # least mean flow between regions, in deviations of a flow's noise


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticBridges(Composed):
    """Measures noisy tables, each with a share of the budget, and fits the model behind the trips."""

    totals: PathTotals
    tables: Allowance
    setting: PathSetting = field(repr=False)
    parts: Parts = ALL_PARTS
    corners_from: float = CORNERS_FROM

    name = "synthetic-bridges"
    takes = "paths"

    def __call__(self, paths: UserPaths, noise: Noise) -> BridgeModel:
        return BridgeModel.fit(self.measure(paths, noise), self.parts)

    def measure(self, paths: UserPaths, noise: Noise) -> NoisyMovement:
        """Measures every table once; regions, and whether corners are measured, follow from noisy values."""
        check_queries(paths, self.setting)
        trips = self.totals(paths, noise)
        ask = _Asking(self.noises(trips), paths, noise)
        grid, setting, wanted = self.setting.grid, self.setting, self.parts
        moves = ask("moves", Moves(grid))
        sides = block_sides(grid) if wanted.levels else (1,)
        starts, ends = (self._places(ask, name, sides) for name in ("starts", "ends"))
        measured = NoisyEnds(
            setting=setting,
            trips=trips,
            moves=moves,
            sides=sides,
            starts=starts,
            ends=ends,
            norm=1 if self.tables.pure else 2,
        )
        region, wide = self._regions(ask, measured)
        block, count = blocks_of(grid, block_sides(grid)[-1])
        return NoisyMovement(
            **vars(measured),
            region_of_cell=region,
            flows=ask("flows", Flows(region, int(region.max()) + 1)),
            lengths=ask("lengths", Lengths(grid)),
            stays=ask("stays", Stays()),
            stay_places=ask("stay_places", StayPlaces(grid)),
            turns=ask("turns", Turns()),
            corners=ask("corners", Corners(grid)),
            days=ask("days", Days(setting)),
            hours=ask("hours", Hours(setting)),
            tide_region_of_cell=wide,
            start_tides=ask("start_tides", Tides(setting, wide, int(wide.max()) + 1)),
            end_tides=ask("end_tides", Tides(setting, wide, int(wide.max()) + 1, last=True)),
            durations=ask("durations", Durations()),
            paces=ask("paces", Paces(block, count)),
        )

    def _places(self, ask: _Asking, name: str, sides: tuple[int, ...]) -> tuple[NoisyTable, ...]:
        return tuple(
            ask(f"{name}_{level}", Places(*blocks_of(self.setting.grid, side), last=name == "ends"))
            for level, side in enumerate(sides)
        )

    def _regions(self, ask: _Asking, measured: NoisyEnds) -> tuple[np.ndarray, np.ndarray]:
        """Regions of cells for flows and for tides, as many as the noise allows; one if not measured."""
        _, begin, end = shrunk_tables(measured, self.parts)
        region_of_cell, wanted = [], np.arange(FEWEST_REGIONS, MOST_REGIONS + 1)
        for name, places in (("flows", wanted**2), ("start_tides", WEEK_PARTS * wanted)):
            many = 1
            if name in ask.noises:
                mean = flow_mass(measured, np.sqrt(places)) / places
                clear = mean >= REGION_NOISE * ask.noises[name].deviation
                many = int(wanted[clear].max(initial=FEWEST_REGIONS))
            region_of_cell.append(regions(self.setting.grid, begin + end, many))
        return region_of_cell[0], region_of_cell[1]

    def noises(self, trips: float) -> dict[str, TableNoise]:
        """Noise of every table that is measured, given the noisy number of trips."""
        wanted = self.parts
        off = set() if wanted.flows else {"flows"}
        off |= set() if wanted.turns else {"turns", "corners"}
        tides = {"start_tides", "end_tides"}
        off |= set() if wanted.times else {"days", "hours", "durations", "paces"} | tides
        off |= set() if wanted.tides else tides
        with_corners = self._shared({name: share for name, share in SHARES.items() if name not in off})
        corners = with_corners.get("corners")
        mass = trips if self.tables.pure else SQUARES_MASS * trips
        few = corners is None or mass < self.corners_from * corners.deviation
        if few or not wanted.corners or not self.setting.each_trip:
            off |= {"corners"}
        return self._shared({name: share for name, share in SHARES.items() if name not in off})

    def _shared(self, shares: dict[str, float]) -> dict[str, TableNoise]:
        total = sum(Fraction(share) for share in shares.values())
        levels = LEVEL_SHARES[: len(block_sides(self.setting.grid)) if self.parts.levels else 1]
        whole = sum(Fraction(part) for part in levels)
        parts: dict[str, Fraction] = {}
        for name, share in shares.items():
            if name not in ("starts", "ends"):
                parts[name] = Fraction(share) / total
                continue
            for level, part in enumerate(levels):
                parts[f"{name}_{level}"] = Fraction(share) / total * Fraction(part) / whole
        return {name: self._noise(part) for name, part in parts.items()}

    def _noise(self, part: Fraction) -> TableNoise:
        amount = int(self.tables.amount * part)
        if amount < 1:
            raise PlanError("share-empty", "nothing is left for a table.", "Raise --epsilon.")
        return TableNoise.within(replace(self.tables, amount=amount))

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        """Spends of the number of trips and of all tables together, whose shares sum to at most 1."""
        amount = self.tables.amount
        return (*self.totals.spends(), ("tables", family_of(self.tables).as_loss(amount)))

    @classmethod
    def within(
        cls,
        budget: Budget,
        setting: PathSetting,
        *,
        parts: Parts = ALL_PARTS,
        corners_from: float = CORNERS_FROM,
        calibrate: bool = True,
    ) -> SyntheticBridges:
        """Splits a budget: the number of trips, unless declared, and the remainder for the tables."""
        totals, budget = PathTotals.within(budget, setting, TRIPS_SHARE)
        tables, _ = budget.take("tables", 1)
        parts = replace(parts, calibrate=parts.calibrate and calibrate)
        mechanism = cls(totals=totals, tables=tables, setting=setting, parts=parts, corners_from=corners_from)
        mechanism.noises(0.0)  # refuses a budget that is too small before anything is spent
        return mechanism

    def describe(self) -> dict[str, Any]:
        """Public parameters for the manifest."""
        return {
            "trips_declared": self.setting.trips,
            "shares": dict(SHARES),
            "parts": vars(self.parts),
        }


@dataclass(frozen=True, eq=False)
class _Asking:
    """Measures tables by name; None for those without a share."""

    noises: dict[str, TableNoise]
    paths: UserPaths
    noise: Noise

    def __call__(self, name: str, table: PathTable) -> Any:
        if name not in self.noises:
            return None
        return self.noises[name](self.paths, table, self.noise)
