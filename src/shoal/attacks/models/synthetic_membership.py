"""Membership inference on synthetic trips by adversaries who know all trips of a person.

The adversary knows all trips of the target, the grid and the method, and a sample of other people, none of
them in the release. The method is run on groups of the sample, to learn what releases without the target
look like: means and variances. Four statistics, each the higher the surer:

cells     sum over cells of (target's visits) (count - mean) / variance, in standard deviations: the
          likelihood ratio for small Gaussian shifts, cells taken as independent
runs      the same for runs of 3 cells one after the other: ways, not places
starts    the same for cells that the target visits and synthetic trips start in: a generator may let trips
          begin only where somebody was
nearest   how much nearer the nearest synthetic trip is than in the learnt releases, mean over the target's
          trips, as a share of that distance and half a cell

Experiment as for counts (membership.py): a pool of 2 n units, of which each world publishes n, drawn anew.
The interval of an AUC comes from drawing worlds and targets again, both with replacement.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_matrix

from shoal.attacks.models.known_trips import KnownTrips, evenly, run_keys, taken
from shoal.attacks.models.membership import Worlds, roc
from shoal.attacks.models.nearest_record import nearest
from shoal.errors import PlanError
from shoal.space.cell_paths import CellPaths

Publish = Callable[[KnownTrips, int], CellPaths]  # trips of a group, number of the run
RUNS = {"cells": 1, "runs": 3, "starts": 1}  # statistic -> cells of a target's run
STATISTICS = (*RUNS, "nearest")
TRIPS_LOOKED_AT = 5  # of a target, for the nearest
LEAST_RATE = 0.5  # times assumed where a run was never seen
PRIOR_RUNS = 4.0  # weight of the average variance when that of a run is learnt from few releases
REDRAWN = 300


@dataclass(frozen=True, kw_only=True, eq=False)
class ReferenceCounts:
    """A statistic's counts in releases without the target."""

    keys: np.ndarray = field(repr=False)  # of all runs that a target has, in increasing order
    known: csr_matrix = field(repr=False)  # [targets, keys]: how often
    mean: np.ndarray = field(repr=False)
    variance: np.ndarray = field(repr=False)

    def scores(self, counts: np.ndarray) -> np.ndarray:
        """float64 [targets]: in standard deviations; 0 for a target without any run.

        >>> known, mean = csr_matrix([[1.0, 1.0], [0.0, 0.0]]), np.array([1.0, 2.0])
        >>> two = ReferenceCounts(keys=np.arange(2), known=known, mean=mean, variance=np.ones(2))
        >>> two.scores(np.array([2.0, 3.0])).round(3).tolist()
        [1.414, 0.0]
        """
        lead = self.known @ ((counts - self.mean) / self.variance)
        spread = np.sqrt(self.known.power(2) @ (1 / self.variance))
        return np.divide(lead, spread, out=np.zeros_like(lead), where=spread > 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Adversary:
    """Knowledge learnt before the release is looked at."""

    reference: dict[str, ReferenceCounts] = field(repr=False)
    target_trips: KnownTrips = field(repr=False)  # trips of the targets
    usual_m: np.ndarray = field(repr=False)  # of each of these trips, to the nearest in learnt releases

    def scores(self, release: CellPaths) -> dict[str, np.ndarray]:
        """Each statistic of each target."""
        scores = {
            name: each.scores(counts_of(name, release, each.keys)) for name, each in self.reference.items()
        }
        near = self.usual_m - _reached(self.target_trips.paths, release)
        near /= self.usual_m + min(release.grid.cell_m) / 2
        trips = np.bincount(self.target_trips.unit, minlength=self.target_trips.units)
        scores["nearest"] = np.bincount(self.target_trips.unit, near, self.target_trips.units) / np.maximum(
            trips, 1
        )
        return scores


def learn(
    trips: KnownTrips,
    worlds: Worlds,
    targets: np.ndarray,
    publish: Publish,
    *,
    runs: int = 8,
    seed: int = 0,
    tell: Callable[[int], None] = lambda runs: None,
) -> Adversary:
    """Runs the method on groups of the adversary's sample; `targets` are increasing places in the pool."""
    if runs < 2:
        raise PlanError("attack-learn", "variances cannot be learnt from fewer than 2 releases.")
    sample, known = trips.of_units(worlds.sample), trips.of_units(worlds.pool[targets])
    target_trips = _few_of_each(known)
    tables = {name: _known_runs(known, length) for name, length in RUNS.items()}
    counts = {name: [] for name in RUNS}
    reached = []
    generator = np.random.default_rng(seed)
    for run in range(runs):
        release = publish(sample.of_units(generator.permutation(sample.units)[: worlds.group]), run)
        for name, (keys, _) in tables.items():
            counts[name].append(counts_of(name, release, keys))
        reached.append(_reached(target_trips.paths, release))
        tell(1)
    reference = {name: _reference(*tables[name], np.array(counts[name], float)) for name in RUNS}
    return Adversary(reference=reference, target_trips=target_trips, usual_m=np.mean(reached, axis=0))


def counts_of(name: str, release: CellPaths, keys: np.ndarray) -> np.ndarray:
    """int64 [keys]: how often each run occurs; or, of starts, how many trips start in each cell."""
    key = release.starts.astype(np.int64) if name == "starts" else run_keys(release, RUNS[name])[0]
    if not keys.size:
        return np.zeros(0, np.int64)
    place = np.minimum(np.searchsorted(keys, key), keys.size - 1)
    return np.bincount(place[keys[place] == key], minlength=keys.size)


def rareness(trips: KnownTrips, worlds: Worlds) -> np.ndarray:
    """float64 [pool]: how seldom people of the sample visit a unit's cells; higher is rarer."""
    others = trips.of_units(worlds.sample).paths
    visits = np.bincount(others.cells, minlength=others.grid.count)
    pool = trips.of_units(worlds.pool)
    each = -np.log((visits + LEAST_RATE) / (visits.sum() + LEAST_RATE))[pool.paths.cells]
    unit = pool.unit[pool.paths.trip_of_visit]
    size = np.bincount(unit, minlength=pool.units)
    return np.bincount(unit, each, pool.units) / np.maximum(size, 1)


def alone(trips: KnownTrips, worlds: Worlds) -> np.ndarray:
    """bool [pool]: whether a unit visits a cell that nobody of the sample visits."""
    others = trips.of_units(worlds.sample).paths
    empty = np.bincount(others.cells, minlength=others.grid.count) == 0
    pool = trips.of_units(worlds.pool)
    return np.bincount(pool.unit[pool.paths.trip_of_visit], empty[pool.paths.cells], pool.units) > 0


def auc_interval(scores: np.ndarray, inside: np.ndarray, *, seed: int = 0) -> tuple[float, float]:
    """95 % of the AUCs when worlds and targets [worlds, targets] are drawn again."""
    generator = np.random.default_rng(seed)
    areas = []
    worlds, targets = scores.shape
    for _ in range(REDRAWN):
        at = np.ix_(generator.integers(worlds, size=worlds), generator.integers(targets, size=targets))
        part, members = scores[at], inside[at]
        if members.any() and not members.all():
            areas.append(roc(part[members], part[~members]).auc)
    low, high = np.quantile(areas, [0.025, 0.975])
    return float(low), float(high)


def _known_runs(known: KnownTrips, length: int) -> tuple[np.ndarray, csr_matrix]:
    key, trip = run_keys(known.paths, length)
    keys, place = np.unique(key, return_inverse=True)
    ones = np.ones(key.size)
    return keys, csr_matrix((ones, (known.unit[trip], place)), shape=(known.units, keys.size))


def _reference(keys: np.ndarray, known: csr_matrix, counts: np.ndarray) -> ReferenceCounts:
    """Means and variances: a run's own variance, and the average one, mean + a mean^2 as of gamma rates."""
    runs = len(counts)
    mean = counts.mean(axis=0)
    spread = ((counts - mean) ** 2).sum(axis=0) / (runs - 1)
    uneven = max(float((spread - mean).sum() / max((mean**2).sum(), LEAST_RATE)), 0.0)
    usual = mean + LEAST_RATE + uneven * mean**2
    variance = ((runs - 1) * spread + PRIOR_RUNS * usual) / (runs - 1 + PRIOR_RUNS)
    return ReferenceCounts(keys=keys, known=known, mean=mean, variance=variance)


def _few_of_each(known: KnownTrips) -> KnownTrips:
    """At most so many trips of each target."""
    first = np.searchsorted(known.unit, np.arange(known.units + 1))
    rows = np.concatenate(
        [first[u] + evenly(int(first[u + 1] - first[u]), TRIPS_LOOKED_AT) for u in range(known.units)]
    )
    return KnownTrips(paths=taken(known.paths, rows), unit=known.unit[rows], units=known.units)


def _reached(trips: CellPaths, release: CellPaths) -> np.ndarray:
    """Metres to the nearest trip of the release; the whole map where it has none."""
    width_m, height_m = trips.grid.cell_m
    far = float(np.hypot(width_m * trips.grid.columns, height_m * trips.grid.rows))
    return np.minimum(nearest(trips, release).distance_m, far)
