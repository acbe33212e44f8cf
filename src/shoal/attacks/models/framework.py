"""Inference from priors and counts (Pyrgelis et al. 2017): errors of the adversary per user and per slot.

The eight priors of table 2, what the adversary knows of each user before the counts:

freq_roi        how often a user is at each place, over the observed time
roi_day         the same for each slot of a day; roi_day_week: of a week
time_day        in which slots of a day a user is seen, not where; time_day_week: of a week
last_hour       where the user was an hour, a day, a week before: a sliding window, up to just before the slot
last_day
last_week
"Not observed" is a place, `null`: how often a user is not seen is part of what is known. Where a time prior
says that a user is not seen, the user is at null.

One pass over the inferred slots per prior serves all inferences; slots run in threads. Memory holds one slot
of all users at a time, so it grows with users and visits, not with users x places x slots. The last functions
compute the privacy lost to counts, the share regained by a protected release, and the error of its counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from shoal.attacks.models.infer import INFERENCES, Ranking, SlotCounts, SlotResult, infer_slot
from shoal.attacks.models.visits import KnownVisits, Rows, TruthRows
from shoal.errors import PlanError

PROBABILISTIC = ("freq_roi", "roi_day", "roi_day_week", "time_day", "time_day_week")
ASSIGNMENT = ("last_hour", "last_day", "last_week")
PRIORS = (*PROBABILISTIC, *ASSIGNMENT)


@dataclass(frozen=True, kw_only=True)
class Periods:
    """Slots 0 to split - 1 were observed, split to slots - 1 are inferred; seasons begin with slot 0."""

    slots: int
    split: int
    slots_per_day: int

    def __post_init__(self) -> None:
        if self.slots_per_day < 1:
            raise PlanError(
                "attack-season",
                "slots must divide a day.",
                "Use 60, 30, 20, 15 or 10 minutes, or whole hours.",
            )
        if not 0 < self.split < self.slots:
            raise PlanError(
                "attack-periods",
                f"the observed time has {self.split} slots and the inferred {self.slots - self.split}; "
                "both need at least one.",
                "Move --split into the window, or take a longer window.",
            )

    @property
    def inferred(self) -> int:
        return self.slots - self.split


@dataclass(frozen=True, eq=False)
class Prior:
    """Rows of every inferred slot, by its key: slots with the same key have the same rows."""

    name: str
    key: Callable[[int], int]
    rows: Callable[[int], Rows]


def prior_named(name: str, visits: KnownVisits, periods: Periods) -> Prior:
    """The prior of that name, from the observed time (assignment priors: up to the slot itself)."""
    if name not in PRIORS:
        raise PlanError("attack-prior", f"there is no prior {name!r}.", f"Choose from {', '.join(PRIORS)}.")
    day = periods.slots_per_day
    cycle = {"hour": max(day // 24, 1), "day": day, "week": 7 * day}.get(name.split("_")[-1], 1)
    if periods.split < cycle:
        raise PlanError(
            "attack-observed",
            f"{name} needs {cycle} observed slots; there are {periods.split}.",
            "Observe longer, or leave this prior out with --prior.",
        )
    if name in ASSIGNMENT:
        truth, before = TruthRows(visits), periods.split - cycle
        return Prior(name, lambda slot: slot, lambda slot: truth.rows(before + slot))  # eq. 14
    rows = _by_time if name.startswith("time") else _by_place
    observed = visits.between(0, periods.split)
    return Prior(name, lambda slot: (periods.split + slot) % cycle, rows(observed, cycle))


def _by_place(visits: KnownVisits, cycle: int) -> Callable[[int], Rows]:
    """How often each user is at each place, null included, in each slot of the cycle (eqs. 7 to 9)."""
    users, rois = visits.users, visits.places + 1
    season = visits.slot.astype(np.int64) % cycle
    cells, times = np.unique((season * users + visits.user) * rois + visits.place, return_counts=True)
    active = np.unique((season * users + visits.user) * visits.slots + visits.slot) // visits.slots
    observed = np.bincount(np.arange(visits.slots) % cycle, minlength=cycle)
    away = np.repeat(observed, users) - np.bincount(active, minlength=cycle * users)
    unseen = np.flatnonzero(away)
    cells = np.concatenate([cells, unseen * rois + visits.places])
    times = np.concatenate([times, away[unseen]]).astype(np.float64)
    order = np.argsort(cells)
    row, roi = np.divmod(cells[order], rois)
    times, starts = times[order], np.searchsorted(row, np.arange(cycle * users + 1))

    def rows(key: int) -> Rows:
        first = starts[key * users : (key + 1) * users + 1]
        here = slice(first[0], first[-1])
        total = np.add.reduceat(times[here], first[:-1] - first[0])
        share = times[here] / np.repeat(total, np.diff(first))
        return Rows(first - first[0], roi[here].astype(np.int32), share)

    return rows


def _by_time(visits: KnownVisits, cycle: int) -> Callable[[int], Rows]:
    """Any place, null included, alike in the slots of the cycle in which a user is seen (eqs. 10 and 11)."""
    rois = visits.places + 1
    visited = np.zeros((cycle, visits.users), bool)
    visited[visits.slot % cycle, visits.user] = True

    def rows(key: int) -> Rows:
        count = np.where(visited[key], rois, 1)
        first = np.concatenate([[0], np.cumsum(count)])
        roi = np.arange(first[-1]) - np.repeat(first[:-1], count)
        roi[first[:-1][~visited[key]]] = rois - 1
        return Rows(first, roi.astype(np.int32), np.repeat(1.0 / count, count))

    return rows


READINGS = ("all", "pop")
Tell = Callable[[str, int, int], None]  # what, slots done, slots in all


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """Result of one adversary: errors between 0 (knows all) and 1, per user; and means per slot."""

    prior: str | None  # None: counts alone
    inference: str
    divergence: np.ndarray = field(repr=False)  # float64 [users]: mean Jensen-Shannon divergence
    distance: np.ndarray = field(repr=False)  # float64 [users]: mean of its root
    at_visits: np.ndarray = field(repr=False)  # float64 [users]: divergence in slots with a visit; nan: none
    localization: dict[str, np.ndarray] = field(repr=False)  # reading -> 1 - F1, float64 [users]
    divergence_by_slot: np.ndarray = field(repr=False)  # float64 [slots], mean over users

    def errors(self) -> dict[str, np.ndarray]:
        """Every measure of error by its name, float64 [users]."""
        profiling = {"divergence": self.divergence, "distance": self.distance, "seen": self.at_visits}
        return {**profiling, **self.localization}


def attack_counts(
    visits: KnownVisits,
    periods: Periods,
    *,
    priors: Sequence[str],
    inferences: Sequence[str] = INFERENCES,
    counts: np.ndarray | None = None,
    threads: int = 0,
    tell: Tell | None = None,
) -> list[Outcome]:
    """Outcomes of every inference under every prior; `counts` [places + 1, inferred slots], null last.

    Without `counts` the raw ones are attacked. `aggregates` uses no prior and is run once.
    """
    truth = TruthRows(visits)
    if counts is None:
        counts = truth.counts(periods.split, periods.slots)
    _check(counts, truth, periods, inferences)
    reports = visits.between(0, periods.split).per_user()
    order = np.lexsort((np.arange(visits.users), -reports)).astype(np.int32)
    slots = [SlotCounts.of(counts[:, slot], visits.users) for slot in range(periods.inferred)]
    run = _Run(truth, periods, slots, order, threads or os.cpu_count() or 1, tell)
    outcomes = []
    for number, name in enumerate(priors):
        chosen = [each for each in inferences if each != "aggregates" or number == 0]
        outcomes += run.prior(prior_named(name, visits, periods), chosen)
    return outcomes


def _check(counts: np.ndarray, truth: TruthRows, periods: Periods, inferences: Sequence[str]) -> None:
    expected = (truth.rois, periods.inferred)
    if counts.shape != expected:
        raise PlanError(
            "attack-counts",
            f"counts must be {expected[0]} places (null last) x {expected[1]} inferred slots; "
            f"got {' x '.join(map(str, counts.shape))}.",
        )
    if not np.isfinite(counts).all():
        raise PlanError("attack-counts", "counts must be finite numbers.")
    for each in inferences:
        if each not in INFERENCES:
            raise PlanError(
                "attack-inference",
                f"there is no inference {each!r}.",
                f"Choose from {', '.join(INFERENCES)}.",
            )


@dataclass(frozen=True, eq=False)
class _Run:
    truth: TruthRows
    periods: Periods
    slots: list[SlotCounts]
    order: np.ndarray
    threads: int
    tell: Tell | None

    def prior(self, prior: Prior, inferences: Sequence[str]) -> list[Outcome]:
        users, slots = self.truth.users, len(self.slots)
        sums = {each: (np.zeros((users, 7)), np.zeros(slots)) for each in inferences}
        places, at_slots = np.zeros((2, users), np.int64)
        seasons = len({prior.key(slot) for slot in range(slots)})

        @lru_cache(maxsize=1 if seasons == 1 else self.threads)
        def prepared(key: int):
            rows = prior.rows(key)
            ranked = Ranking.of(rows, self.truth.rois, self.order) if "max_roi" in inferences else None
            return rows, ranked

        def one(slot: int) -> tuple[int, dict[str, SlotResult], np.ndarray, np.ndarray]:
            rows, ranked = prepared(prior.key(slot))
            true = self.truth.rows(self.periods.split + slot)
            counts = self.slots[slot]
            results = {each: infer_slot(each, true, rows, counts, self.order, ranked) for each in inferences}
            return slot, results, np.diff(true.first), true.roi[true.first[:-1]] != self.truth.null

        with ThreadPoolExecutor(self.threads) as pool:
            for done, (slot, results, actual, observed) in enumerate(pool.map(one, range(slots))):
                places += actual
                at_slots += observed
                for each, result in results.items():
                    error = result.divergence
                    reached = (error, np.sqrt(error), error * observed, result.hits, result.predicted)
                    sums[each][0][:] += np.column_stack(reached)
                    sums[each][1][slot] = error.mean()
                if self.tell:
                    self.tell(prior.name, done + 1, slots)
        return [_outcome(prior.name, each, *total, places, at_slots) for each, total in sums.items()]


def _outcome(
    prior: str,
    inference: str,
    sums: np.ndarray,
    by_slot: np.ndarray,
    places: np.ndarray,
    at_slots: np.ndarray,
) -> Outcome:
    """Means over slots; `places` of the truth and `at_slots`, those with a visit, are summed over slots."""
    divergence, distance, at_visits, *taken = sums.T
    hits, predicted = np.split(np.array(taken), 2)
    f1 = 2 * hits / (predicted + places)
    whole = inference in ("max_roi", "max_user") or prior in ASSIGNMENT
    unseen = np.full(len(at_slots), np.nan)
    return Outcome(
        prior=None if inference == "aggregates" else prior,
        inference=inference,
        divergence=divergence / by_slot.size,
        distance=distance / by_slot.size,
        at_visits=np.divide(at_visits, at_slots, out=unseen, where=at_slots > 0),
        localization=dict(zip(READINGS[: 1 if whole else 2], 1.0 - f1, strict=False)),
        divergence_by_slot=by_slot,
    )


SANITY = 0.001  # of a slot's mean total: smaller counts are judged against this


def privacy_loss(error_prior: np.ndarray, error_counts: np.ndarray) -> np.ndarray:
    """Share of the adversary's error that the counts took away; 0 where they did not help (eq. 6).

    >>> privacy_loss(np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.75, 0.0])).tolist()
    [0.5, 0.0, 0.0]
    """
    helped = (error_prior > 0) & (error_counts < error_prior)
    return np.divide(error_prior - error_counts, error_prior, out=np.zeros_like(error_prior), where=helped)


def privacy_gain(error_raw: np.ndarray, error_protected: np.ndarray) -> np.ndarray:
    """Share of what the error with raw counts leaves up to 1 that protection gives back (eq. 16).

    >>> privacy_gain(np.array([0.5, 0.5, 1.0]), np.array([0.75, 0.25, 1.0])).tolist()
    [0.5, 0.0, 0.0]
    """
    protected = (error_raw < 1) & (error_protected > error_raw)
    return np.divide(
        error_protected - error_raw, 1 - error_raw, out=np.zeros_like(error_raw), where=protected
    )


def series_mre(exact: np.ndarray, published: np.ndarray) -> float:
    """Mean relative error of counts [places, slots] (eq. 17).

    A count is judged against itself, and against 0.1 % of what a slot has on average at least: of the
    readings of the paper's sanity bound this is the one its printed figures agree with.

    >>> series_mre(np.array([[1000.0, 0.0], [1000.0, 0.0]]), np.array([[500.0, 1.0], [1000.0, 0.0]]))
    0.375
    """
    least = SANITY * float(exact.sum(axis=0).mean())
    return float(np.mean(np.abs(published - exact) / np.maximum(exact, least if least > 0 else 1.0)))
