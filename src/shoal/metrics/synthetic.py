"""How well synthetic trips keep what real trips show: figures from two sets of paths on one grid.

    JSD             Jensen-Shannon divergence in bits, from 0 (alike) to 1 (nothing in common)
    distance_jsd    of the largest distance between two cells of a trip, 20 bins of 1 km, the last open
    length_jsd      of the number of moves: 0 to 39, then 40 and more
    stay_jsd        of all steps stayed in a trip: 0 to 18, then 19 and more
    stay_jsd_thesis the same in 20 bins of equal width from the least to the most of the real trips, what is
                    beyond counted in the end bins (a few long stays make such bins too wide to see much)
    duration_jsd    of the steps from start to end: 0 to 59, then 60 and more
    hour_jsd        of the hours at which trips start; NaN if trips of one side have no times (all at 0)
    tide_jsd        of start and end among 3 x 3 zones and the hour of start together; NaN as above
    visit_error     of visits per cell
    od_jsd          of pairs of start and end among 6 x 6 zones
    transition_jsd  of moves per cell and direction
    range_error     mean over 500 rectangles, drawn by a public seed, of |real - synthetic| / max(real, 1 % of
                    trips): trips with a visit inside, the synthetic count scaled to the real number of trips
    pattern_f1...   of the 1000 most frequent patterns of 2 to 5 cells, or 3 to 5: see patterns.py
    hotspot_ndcg    the 50 cells with most synthetic visits, worth their real visits / log2(1 + rank), as a
                    share of the best 50
    kendall_tau     tau-b of visits over the cells that either side visits

Where one side has nothing to count, a JSD is 1; F1, NDCG and tau are 0. Where neither has, they agree.

>>> round(jsd(np.array([1, 1]), np.array([2, 0])), 4)
0.3113
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.errors import PlanError
from shoal.metrics.patterns import (
    STAY_BINS,
    TOP,
    crossing_trips,
    distance_histogram,
    dtw_f1,
    duration_histogram,
    exact_f1,
    frechet_f1,
    length_histogram,
    od_matrix,
    stay_histogram,
    top_patterns,
    visits_per_cell,
    zone_pairs,
)
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import Rectangles, random_rectangles

RECTANGLES, RANGE_FLOOR = 500, 0.01
HOTSPOTS = 50
TIDE_ZONES = 3  # to a side
HOUR_US = 3_600_000_000


@dataclass(frozen=True, kw_only=True)
class SyntheticUtility:
    """All figures; NaN where one was not asked for."""

    distance_jsd: float
    length_jsd: float
    stay_jsd: float
    stay_jsd_thesis: float
    duration_jsd: float
    hour_jsd: float
    tide_jsd: float
    visit_error: float
    od_jsd: float
    transition_jsd: float
    range_error: float
    hotspot_ndcg: float
    kendall_tau: float
    pattern_f1: float = float("nan")
    pattern_f1_35: float = float("nan")
    pattern_f1_frechet: float = float("nan")
    pattern_f1_dtw: float = float("nan")


def synthetic_utility(
    real: CellPaths,
    synthetic: CellPaths,
    *,
    seed: int = 1,
    patterns: bool = True,
    start_slots: tuple[np.ndarray, np.ndarray] | None = None,
) -> SyntheticUtility:
    """Figures of synthetic against real trips; the seed draws the rectangles.

    `start_slots`: for every real and every synthetic trip a number from 0 that its start is counted under.
    Without it, the hour of day in UTC: a shift of whole hours does not change the figure.
    """
    if real.grid != synthetic.grid or real.step_s != synthetic.step_s:
        raise PlanError("metric-shape", "real and synthetic trips must have one grid and one step of time.")
    exact_visits, visits = visits_per_cell(real), visits_per_cell(synthetic)
    rectangles = random_rectangles(real.grid, RECTANGLES, seed)
    return SyntheticUtility(
        distance_jsd=jsd(distance_histogram(real), distance_histogram(synthetic)),
        length_jsd=jsd(length_histogram(real), length_histogram(synthetic)),
        stay_jsd=jsd(stay_histogram(real), stay_histogram(synthetic)),
        stay_jsd_thesis=stay_jsd_thesis(real, synthetic),
        duration_jsd=jsd(duration_histogram(real), duration_histogram(synthetic)),
        hour_jsd=_hour_jsd(real, synthetic, start_slots),
        tide_jsd=_hour_jsd(real, synthetic, start_slots, TIDE_ZONES),
        visit_error=jsd(exact_visits, visits),
        od_jsd=jsd(od_matrix(real), od_matrix(synthetic)),
        transition_jsd=_transition_jsd(real, synthetic),
        range_error=range_error(real, synthetic, rectangles),
        hotspot_ndcg=hotspot_ndcg(exact_visits, visits),
        kendall_tau=kendall_tau(exact_visits, visits),
        **(_pattern_figures(real, synthetic) if patterns else {}),
    )


def jsd(p: np.ndarray, q: np.ndarray) -> float:
    """Divergence in bits of two histograms of one shape, not its root; 1 if one of them is empty."""
    p, q = np.asarray(p, np.float64).ravel(), np.asarray(q, np.float64).ravel()
    if p.shape != q.shape:
        raise PlanError("metric-shape", f"histograms must have one shape; got {p.size} and {q.size} bins.")
    if not p.sum() > 0 or not q.sum() > 0:
        return float((p.sum() > 0) != (q.sum() > 0))
    p, q = p / p.sum(), q / q.sum()
    middle = (p + q) / 2
    terms = (part[part > 0] * np.log2(part[part > 0] / middle[part > 0]) for part in (p, q))
    return float(np.clip(sum(term.sum() for term in terms) / 2, 0.0, 1.0))


def range_error(real: CellPaths, synthetic: CellPaths, rectangles: Rectangles) -> float:
    """Mean relative error of trips crossing rectangles, above a floor of 1 % of the real trips.

    Where there are no real trips, 1 if there are synthetic ones.
    """
    exact, counted = crossing_trips(real, rectangles), crossing_trips(synthetic, rectangles)
    if not real.count:
        return float(synthetic.count > 0)
    scale = real.count / synthetic.count if synthetic.count else 0.0
    return float((np.abs(exact - scale * counted) / np.maximum(exact, RANGE_FLOOR * real.count)).mean())


def stay_jsd_thesis(real: CellPaths, synthetic: CellPaths) -> float:
    """JSD of all steps stayed, in 20 bins between the extremes of the real trips."""
    if not real.count:
        return jsd(stay_histogram(real), stay_histogram(synthetic))
    inner = np.linspace(real.total_stay.min(), real.total_stay.max(), STAY_BINS + 1)[1:-1]
    binned = (np.searchsorted(inner, paths.total_stay, "right") for paths in (real, synthetic))
    return jsd(*(np.bincount(bins, minlength=STAY_BINS) for bins in binned))


def hotspot_ndcg(exact_visits: np.ndarray, visits: np.ndarray, top: int = HOTSPOTS) -> float:
    """Gain of the most visited synthetic cells, as a share of the best; equal visits in order of cells."""

    def gain(ranking: np.ndarray) -> float:
        best = np.argsort(-ranking, kind="stable")[:top]
        best = best[ranking[best] > 0]
        return float((exact_visits[best] / np.log2(np.arange(best.size) + 2)).sum())

    best = gain(exact_visits)
    return gain(visits) / best if best else float(not visits.any())


def kendall_tau(exact_visits: np.ndarray, visits: np.ndarray) -> float:
    """tau-b over cells that either side visits; 0 where it is not defined."""
    from scipy.stats import kendalltau

    visited = (exact_visits > 0) | (visits > 0)
    if np.array_equal(exact_visits[visited], visits[visited]):
        return 1.0
    tau = float(np.asarray(kendalltau(exact_visits[visited], visits[visited]))[0])
    return 0.0 if np.isnan(tau) else tau


def _pattern_figures(real: CellPaths, synthetic: CellPaths) -> dict[str, float]:
    exact, generated = ([cells for cells, _ in top_patterns(paths, 2, 5, TOP)] for paths in (real, synthetic))
    long = ([cells for cells, _ in top_patterns(paths, 3, 5, TOP)] for paths in (real, synthetic))
    return {
        "pattern_f1": exact_f1(exact, generated),
        "pattern_f1_35": exact_f1(*long),
        "pattern_f1_frechet": frechet_f1(exact, generated, real.grid),
        "pattern_f1_dtw": dtw_f1(exact, generated, real.grid),
    }


def _transition_jsd(real: CellPaths, synthetic: CellPaths) -> float:
    """Only moves that occur are kept: a table of all cells would be large on a fine grid."""
    keys = (paths.cells[paths.move_at] * np.int64(9) + paths.directions + 1 for paths in (real, synthetic))
    (moves, times), (other_seen, other_times) = (np.unique(key, return_counts=True) for key in keys)
    every = np.union1d(moves, other_seen)
    table, other_table = np.zeros(every.size), np.zeros(every.size)
    table[np.searchsorted(every, moves)] = times
    other_table[np.searchsorted(every, other_seen)] = other_times
    return jsd(table, other_table)


def _hour_jsd(
    real: CellPaths, synthetic: CellPaths, slots: tuple[np.ndarray, np.ndarray] | None, zones: int = 1
) -> float:
    """JSD of the hours of starts, apart for every pair of `zones` x `zones` zones of the ends."""
    if slots is None:
        if any(paths.count and not paths.start_us.any() for paths in (real, synthetic)):
            return float("nan")
        slots = real.start_us // HOUR_US % 24, synthetic.start_us // HOUR_US % 24
    most = 1 + max((int(part.max()) for part in slots if part.size), default=0)
    pairs = (zone_pairs(paths, zones) for paths in (real, synthetic))
    size = most * zones**4
    return jsd(
        *(np.bincount(pair * most + slot, minlength=size) for pair, slot in zip(pairs, slots, strict=True))
    )
