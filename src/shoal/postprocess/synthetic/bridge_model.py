"""A model of movement from noisy tables, and trips drawn from it: ends first, then exact bridges.

1. moves          noisy moves shrunk towards a prediction from moves around them
2. places         starts and ends from blocks down to cells; flows between regions fitted to both
3. probabilities  P(out | cell, in): one turn table fitted to the moves of every cell; noisy corners shrunk
                  towards that
4. trips          regions, start, end, number of moves given their distance, then the bridge; stays and times
                  last
5. calibration    trips are drawn and counted like the real ones, and probabilities adjusted until the counts
                  agree
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from shoal.postprocess.synthetic.bridge_tables import (
    ALL_PARTS,
    Parts,
    by_class,
    counted_moves,
    drawn,
    fall_of,
    falling,
    flows,
    inflow,
    on_grid,
    per_cell,
    shrunk_moves,
    shrunk_places,
    shrunk_to,
    visits_of,
)
from shoal.postprocess.synthetic.bridge_walk import possible_moves, walk
from shoal.postprocess.synthetic.numbers import conditional, onto_total, pick, shrunk, to_margins, uniforms
from shoal.postprocess.synthetic.path_points import place_stays, start_times, ticks_of
from shoal.space.cell_paths import DETOURS, DIRECTIONS, STAY_BINS, chebyshev, class_of_moves, distance_cuts
from shoal.stages.synthetic import NoisyEnds, NoisyMovement, NoisyTable, SyntheticPaths

DETOUR_PRIOR = falling(DETOURS, 0.7)  # public
STAY_PRIOR = falling(STAY_BINS, 0.75)
MOVELESS = 0.03  # prior mean of the share of trips that stay in one cell, and its standard deviation
UNEVEN = 0.7  # effective share of the places of a table that trips are spread over, about
CANDIDATES = 3  # pairs of ends drawn for each pair used
DISTANCE_SAMPLE = 20_000
MOST_WEIGHT = 20.0  # largest weight of pairs of ends at one distance relative to others
FAR = 8.0  # cells: scale of the prior exponential decay of trips with distance
LEAST_PROBABILITY = 1e-4  # of a move that stays on the grid
CALIBRATION_TRIPS = 60_000
PULLS = (0.45, 0.38, 0.33, 0.28, 0.24, 0.2)  # exponents of the rounds of calibration, decreasing
SLACK = 2.0  # standard deviation of counts of drawn moves, about


def shrunk_tables(noisy: NoisyEnds, parts: Parts = ALL_PARTS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Moves [cells, 8], starts [cells], ends [cells]."""
    grid = noisy.setting.grid
    beside = np.concatenate(
        [per_cell(grid, noisy.sides, each) for each in (noisy.starts, noisy.ends)], axis=1
    )
    mass = _mass(noisy)
    moves = shrunk_moves(grid, noisy.moves, _move_mass(noisy, mass), beside, parts)
    starts, ends = (
        tuple(scaled_to(table, mass, noisy) for table in tables) for tables in (noisy.starts, noisy.ends)
    )
    return moves, *shrunk_places(grid, noisy.sides, starts, ends, moves, mass, parts)


def scaled_to(table: NoisyTable, mass: float, noisy: NoisyEnds) -> NoisyTable:
    """Scales a fine table to the mass of coarse ones: units with many trips weigh more in it (norm 2)."""
    if noisy.setting.each_trip or noisy.norm == 1:
        return table
    factor = min(mass / max(float(table.values.sum()), 1e-9), 1.0)
    return NoisyTable(table.values * factor, table.deviation * factor)


def _mass(noisy: NoisyEnds) -> float:
    """Mass of all units in a table: all trips if each is a unit, else the sum of coarse starts or ends."""
    if noisy.setting.each_trip:
        return max(noisy.trips, 1.0)
    return max(float(noisy.starts[-1].values.sum() + noisy.ends[-1].values.sum()) / 2, 1.0)


def flow_mass(noisy: NoisyEnds, regions: np.ndarray) -> np.ndarray:
    """Approximate mass of all units in a table of flows between so many regions.

    Norm 1: one per unit. Norm 2: a unit with k trips weighs up to the square root of k, and of the number of
    places it is spread over. The number of units is estimated from coarse starts and the number of trips.
    """
    mass = _mass(noisy)
    if noisy.setting.each_trip or noisy.norm == 1:
        return np.full(regions.shape, mass)
    coarse = np.maximum(noisy.starts[-1].values + noisy.ends[-1].values, 0.0)
    # blocks that starts are spread over
    spread = max(float(coarse.sum() ** 2 / max(float((coarse**2).sum()), 1e-12)), 1.0)
    trips = (noisy.trips / mass) ** 2
    units = noisy.trips / max(trips, 1.0)
    if trips > spread:
        units = mass / np.sqrt(spread)
        trips = noisy.trips / units
    return units * np.minimum(np.sqrt(max(trips, 1.0)), UNEVEN * regions)


def _move_mass(noisy: NoisyEnds, mass: float) -> float:
    """The sum of noisy moves; with norm 1, averaged with a prior from the mass of all units."""
    own = float(noisy.moves.values.sum())
    if noisy.norm != 1:
        return max(own, 1.0)
    own_variance = noisy.moves.values.size * noisy.moves.deviation**2
    prior = (1 - MOVELESS) * mass
    prior_variance = (MOVELESS * mass) ** 2
    return max((own * prior_variance + prior * own_variance) / (prior_variance + own_variance), 1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class BridgeModel:
    """Tables fitted to noisy numbers alone."""

    noisy: NoisyMovement = field(repr=False)
    moves: np.ndarray = field(repr=False)  # float64 [cells, 8]
    starts: np.ndarray = field(repr=False)  # float64 [cells]
    ends: np.ndarray = field(repr=False)
    flows: np.ndarray = field(repr=False)  # float64 [regions, regions]
    probabilities: np.ndarray = field(repr=False)  # float64 [cells, 8, 8]
    first_probabilities: np.ndarray = field(repr=False)  # float64 [cells, 8]

    parts: Parts = ALL_PARTS

    @classmethod
    def fit(cls, noisy: NoisyMovement, parts: Parts = ALL_PARTS, *, seed: int = 1) -> BridgeModel:
        grid = noisy.setting.grid
        moves, starts, ends = shrunk_tables(noisy, parts)
        between = np.ones((1, 1))
        if noisy.flows is not None:
            table = scaled_to(noisy.flows, float(starts.sum()), noisy)
            between = flows(grid, noisy.region_of_cell, table, starts, ends, parts)
        probabilities, first = move_probabilities(noisy, moves)
        model = cls(
            noisy=noisy,
            moves=moves,
            starts=starts,
            ends=ends,
            flows=between,
            probabilities=probabilities,
            first_probabilities=first,
            parts=parts,
        )
        for turn, pull in enumerate(PULLS if parts.calibrate else ()):
            model = model.calibrated(pull, seed + turn)
        return model

    @property
    def trips(self) -> float:
        return self.noisy.trips

    def numbers(self) -> dict[str, np.ndarray]:
        numbers = {"trips": np.array([self.noisy.trips]), "region_of_cell": self.noisy.region_of_cell}
        numbers["tide_region_of_cell"] = self.noisy.tide_region_of_cell
        for name, value in vars(self.noisy).items():
            for part, table in enumerate(value if isinstance(value, tuple) else (value,)):
                if isinstance(table, NoisyTable):
                    numbers[f"{name}_{part}" if isinstance(value, tuple) else name] = table.values
        return numbers

    def calibrated(self, pull: float, seed: int) -> BridgeModel:
        """Adjusts the probabilities of moves by the ratio of fitted moves to those of drawn trips.

        The results are weights that need not sum to 1: a bridge is drawn in proportion to their product, so a
        cell that drawn trips pass too rarely gets more weight for every way of leaving it.
        """
        count = int(np.clip(self.noisy.trips, 1_000, CALIBRATION_TRIPS))
        drawn_moves = counted_moves(
            *self._paths(count, seed)[:2], self.noisy, self.first_probabilities.shape[0]
        )
        drawn_moves *= self.moves.sum() / max(drawn_moves.sum(), 1e-12)
        slack = self.noisy.moves.deviation + SLACK
        factor = ((self.moves + slack) / (drawn_moves + slack)) ** pull
        return replace(
            self,
            probabilities=_weights(self.probabilities * factor[:, None, :], self._inside[:, None, :]),
            first_probabilities=_weights(self.first_probabilities * factor, self._inside),
        )

    def generate(self, count: int, seed: int) -> SyntheticPaths:
        first, cells, moves = self._paths(count, seed)
        noisy, setting = self.noisy, self.noisy.setting
        rows = by_class(noisy.stays, STAY_PRIOR)
        total = drawn(rows, class_of_moves(moves), fall_of(noisy.stays, STAY_BINS), seed, 31)
        stay = place_stays(first, cells, total, self.stay_rate, seed)
        tick = ticks_of(first, cells, stay, setting.grid, noisy, seed)
        return SyntheticPaths(
            grid=setting.grid,
            step_s=setting.step_s,
            first=first,
            cells=cells,
            tick=tick,
            stay=stay,
            start_us=start_times(noisy, cells[first[:-1]], cells[first[1:] - 1], seed),
        )

    def _paths(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        grid = self.noisy.setting.grid
        begin, end = self._draw_ends(count, seed)
        apart = chebyshev(begin, end, grid.columns)
        rows = self._detours
        which = np.searchsorted(distance_cuts(grid), apart)
        fall = fall_of(self.noisy.lengths, DETOURS)
        moves = apart + drawn(rows, which, fall, seed, 21)
        moves = np.minimum(moves, 4 * (grid.columns + grid.rows))
        moves = possible_moves(begin, end, moves, grid.columns, grid.rows)
        first, cells = walk(
            self.probabilities, self.first_probabilities, grid.columns, begin, end, moves, seed
        )
        return first, cells, moves

    def _draw_ends(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Starts and ends of trips: candidates resampled so that distances follow the table of lengths."""
        grid = self.noisy.setting.grid
        begin, end = self._candidates(CANDIDATES * count, seed)
        which = np.searchsorted(distance_cuts(grid), chebyshev(begin, end, grid.columns))
        weight = self._distance_weights[which]
        chosen = np.minimum(
            pick(weight, (np.arange(count) + uniforms(seed, 4, count)) / count), weight.size - 1
        )
        order = np.argsort(uniforms(seed, 5, count), kind="stable")
        return begin[chosen][order], end[chosen][order]

    def _candidates(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        region, side = self.noisy.region_of_cell, self.flows.shape[0]
        pair = pick(self.flows.ravel(), uniforms(seed, 1, count))
        begin = _within(self.starts, region, pair // side, uniforms(seed, 2, count))
        end = _within(self.ends, region, pair % side, uniforms(seed, 3, count))
        return begin, end

    @cached_property
    def _distance_weights(self) -> np.ndarray:
        """float64 [classes of distance]: wanted share of each class over its share in pairs from flows.

        Where noise hides the ends of trips, pairs from flows are too far apart: most trips are short.
        """
        grid = self.noisy.setting.grid
        cuts = distance_cuts(grid)
        begin, end = self._candidates(DISTANCE_SAMPLE, 1)
        apart = chebyshev(begin, end, grid.columns)
        have = np.bincount(np.searchsorted(cuts, apart), minlength=cuts.size + 1) / DISTANCE_SAMPLE
        if not self.parts.by_distance:
            return np.ones(have.size)
        table = self.noisy.lengths
        by_distance = NoisyTable(
            table.values.reshape(-1, DETOURS).sum(axis=1), table.deviation * np.sqrt(DETOURS)
        )
        total = max(float(by_distance.values.sum()), 1.0)
        hidden = (
            by_distance.deviation**2 * have.size / (0.3 * total) ** 2
        )  # large where noise hides everything
        near = np.exp(-np.append(cuts, cuts[-1]) / FAR * hidden / (1 + hidden))
        prior = total * (have * near + 1e-9) / (have * near + 1e-9).sum()
        # Scaled, not shifted to the total: a shift would send trips to distances that hardly any ends have.
        wanted = np.maximum(shrunk(by_distance, prior, 0.5), 0.0)
        weight = wanted / max(float(wanted.sum()), 1e-300) / np.maximum(have, 1 / DISTANCE_SAMPLE)
        return np.clip(weight, 1e-9, MOST_WEIGHT)

    @cached_property
    def _detours(self) -> np.ndarray:
        rows = by_class(self.noisy.lengths, DETOUR_PRIOR, alike=not self.parts.by_distance)
        rows[0, 1] = 0.0  # no trip is back after one move
        return conditional(rows, np.where(np.arange(DETOURS) == 1, 0.0, DETOUR_PRIOR))

    @cached_property
    def _inside(self) -> np.ndarray:
        return on_grid(self.noisy.setting.grid)

    @cached_property
    def stay_rate(self) -> np.ndarray:
        """float64 [cells]: relative rate of stays per visit."""
        grid, table = self.noisy.setting.grid, self.noisy.stay_places
        visits = visits_of(grid, self.moves) + 1e-9
        total = max(float(table.values.sum()), 1.0)
        usual = total * visits / visits.sum()
        stays = np.maximum(shrunk_to(table, usual, self.parts), 0.05 * usual)
        return stays / visits


def move_probabilities(noisy: NoisyMovement, moves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P(out | cell, in) and P(out | cell) for the first move."""
    grid = noisy.setting.grid
    inside = on_grid(grid)
    first = conditional(moves, inside.astype(np.float64))
    turns = np.ones((DIRECTIONS, DIRECTIONS))
    if noisy.turns is not None:
        table = noisy.turns
        turns = onto_total(table.values, max(float(table.values.sum()), 1.0)).reshape(8, 8)
    turns = conditional(turns + 1e-3 * turns.sum() / turns.size, np.ones((8, 8)))
    seed = turns[None] * inside[:, None, :]
    into, out = inflow(grid, moves), moves
    fitted = to_margins(seed + 1e-12 * inside[:, None, :], into + 1e-9, out + 1e-9 * inside, 15)
    usual = turns[None] * (first + 1e-6)[:, None, :]
    if noisy.corners is not None:
        values = noisy.corners.values.reshape(-1, 8, 8) * inside[:, None, :]
        fitted = fitted * (max(float(values.sum()), 1.0) / max(float(fitted.sum()), 1e-300))
        table = replace(noisy.corners, values=values.ravel())
        fitted = np.maximum(shrunk(table, fitted.ravel()), 0.0).reshape(fitted.shape)
    return _safe(conditional(fitted, usual), inside[:, None, :]), _safe(first, inside)


def _safe(probabilities: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Rows that sum to 1, with a positive minimum for every move that stays on the grid."""
    probabilities = np.where(inside, probabilities, 0.0)
    probabilities = conditional(
        probabilities, np.broadcast_to(inside.astype(np.float64), probabilities.shape)
    )
    even = inside / np.maximum(inside.sum(axis=-1, keepdims=True), 1)
    return (1 - LEAST_PROBABILITY) * probabilities + LEAST_PROBABILITY * even


def _weights(probabilities: np.ndarray, inside: np.ndarray) -> np.ndarray:
    return np.clip(probabilities, LEAST_PROBABILITY / 10, 1e3) * inside


def _within(mass: np.ndarray, region: np.ndarray, which: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """A cell of region `which` for each of `draws` in [0, 1), in proportion to mass."""
    order = np.argsort(region, kind="stable")
    ends = np.cumsum(mass[order] + 1e-12)
    count = int(region.max()) + 1
    stop = np.searchsorted(region[order], np.arange(count), side="right")
    high = ends[stop - 1]
    low = np.concatenate([[0.0], high[:-1]])
    place = np.searchsorted(ends, low[which] + draws * (high - low)[which], side="right")
    begin = np.concatenate([[0], stop[:-1]])
    return order[np.clip(place, begin[which], stop[which] - 1)].astype(np.int64)
