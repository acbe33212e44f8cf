"""Planted bugs where all visits count and users are clipped: in the query interface, and in `best`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.auditing.pairs import NEW, Pair, at, crowd_pair
from shoal.auditing.pipelines.pipeline import Pipeline, WholeTable
from shoal.auditing.pipelines.visits import ClippedPipeline, VisitQueries, VisitsPipeline
from shoal.auditing.planted.bug import Bug, Families, Shown, interface_bug, method_bug, recast, spread_bug
from shoal.auditing.planted.calls import bare
from shoal.auditing.replay import ArbitraryNoise
from shoal.engine.clipped import Measure, user_weights
from shoal.engine.engine import Progress, Sums, UserKernel, add_sums
from shoal.mechanisms.density.best import DensityBest, constants_for
from shoal.stages.exact import STEP, WEIGHT, ClippedSum, View
from shoal.stages.noisy import NoisyMeasurement

MANY = 3  # of the arbitrary answers: so many users that the basis is learned
FEW, LARGE = 5, 10**7  # more users than a few stand for a large population, where a small table has none


def interface_bugs(true: Pipeline) -> list[Bug]:
    """In how users are clipped and summed."""
    measures: dict[str, Callable[[Measure], Measure]] = {
        "clip after projection forgotten": _norm_of_visits,
        "clip after projection forgotten, unchecked": lambda true: _weighing(
            _norm_of_visits(true), _unchecked
        ),
        "weights rounded up, unchecked": lambda true: _weighing(true, _rounded_up),
        "users not clipped, unchecked": lambda true: _weighing(true, _not_clipped),
        "each visit clipped instead of each user, unchecked": lambda true: _weighing(true, _each_visit),
    }
    sums: dict[str, Callable[..., list[ClippedSum]]] = {
        "clip from the data": _clip_from_data,
        "clip looser than the noise is for, as declared": _twice_the_clip,
        "clip looser than the noise is for": _twice_the_clip_undeclared,
    }
    return [
        *(spread_bug(name, partial(_measuring, change=change)) for name, change in measures.items()),
        *(interface_bug(name, clipped=clipped) for name, clipped in sums.items()),
        spread_bug("users clipped batch by batch", lambda queries: replace(queries, engine=_BatchByBatch())),
    ]


def best_bugs(true: Pipeline) -> list[Bug]:
    """In what the method `best` makes of its answers."""
    crowd = tuple((user, at(slot), (user + slot) % 4) for user in range(9) for slot in range(1 + user % 3))
    learned = Shown(Pair("a crowd and one more", crowd, ((NEW, at(3), 3),)), lambda: ArbitraryNoise(MANY))
    crossing = Shown(crowd_pair(FEW, true.world.size.ell))
    return [
        method_bug("rows of constants by the exact number of users", shown=crossing, _rows=_exact_rows),
        method_bug("basis from the exact regions", shown=learned, _measure=_keep_exact, _zones=_exact_basis),
        method_bug("profile from the exact city", shown=learned, _measure=_exact_city),
        method_bug("clip and total from the exact sizes", shown=crossing, _total=_exact_sizes),
        method_bug("second number of visits for free", _total=_second_for_free),
        interface_bug("a user in two bins of sizes", sizes=_in_two_bins),
        method_bug("zones weighted by the exact crowd", shown=crossing, _measure=_exact_zone_weights),
    ]


def _norm_of_visits(true: Measure) -> Measure:
    """The weight from |x| instead of |M x|; the check of the weights still stands."""
    return replace(true, gram=np.eye(len(true.gram)), quad=np.eye(len(true.quad)))


def _weighing(true: Measure, weights: Callable[..., np.ndarray]) -> Measure:
    """A measure with other weights of visits, past their check."""
    return recast(true, {"weights": weights})


def _unchecked(self: Measure, user: np.ndarray, slot: np.ndarray, place: np.ndarray) -> np.ndarray:
    columns = self.time.shape[1]
    return user_weights(user, slot, place, self.gram, *self.lists, self.quad, columns, self.clip)


def _rounded_up(self: Measure, *visits: np.ndarray) -> np.ndarray:
    return np.minimum(_unchecked(self, *visits) + 1, WEIGHT)


def _not_clipped(self: Measure, user: np.ndarray, *_: np.ndarray) -> np.ndarray:
    return np.full(user.size, WEIGHT)


def _each_visit(self: Measure, user: np.ndarray, *where: np.ndarray) -> np.ndarray:
    return _unchecked(self, np.arange(user.size, dtype=user.dtype), *where)


def _measuring(queries: VisitQueries, change: Callable[[Measure], Measure]) -> VisitQueries:
    """The same visits behind a query interface that gives users their weights in another way."""
    return recast(
        queries, {"_sums": lambda self, measures: VisitQueries._sums(self, tuple(map(change, measures)))}
    )


def _clip_from_data(queries: VisitQueries, *views: View) -> list[ClippedSum]:
    """Clipped at the mean of what users add, if that is less: one user changes everybody's weight."""
    sums = []
    for view in views:
        whole = float(np.linalg.norm(queries.clipped(replace(view, clip=1e6))[0].values)) / STEP
        mean = max(min(view.clip, whole / max(queries.users, 1)), 1e-3)
        sums.append(replace(queries.clipped(replace(view, clip=mean))[0], clip=view.clip))
    return sums


def _twice_the_clip(queries: VisitQueries, *views: View) -> list[ClippedSum]:
    return queries.clipped(*(replace(view, clip=2 * view.clip) for view in views))


def _twice_the_clip_undeclared(queries: VisitQueries, *views: View) -> list[ClippedSum]:
    sums = _twice_the_clip(queries, *views)
    return [replace(each, clip=view.clip) for each, view in zip(sums, views, strict=True)]


class _BatchByBatch(WholeTable):
    """An engine that does not bring the events of a user together."""

    def sum_users(
        self, events: Iterable[pa.RecordBatch], kernel: UserKernel, progress: Progress | None = None
    ) -> Sums:
        total = kernel.zero()
        for batch in events:
            add_sums(total, kernel(batch))
        return total


def _exact_rows(self: DensityBest, visits: Any, noise: Any) -> Any:
    """Measures the number of users with noise and does not use it (a small table stands for a large one)."""
    *_, users = DensityBest._rows(self, visits, noise)
    many = LARGE * (visits.users > FEW)
    return *constants_for(many, self.loss().rho, self.setting.zones), users


def _keep_exact(self: DensityBest, visits: Any, noise: Any, step: Any, *rho: int) -> NoisyMeasurement:
    noisy = DensityBest._measure(self, visits, noise, step, *rho)
    if step[0] == "regions":
        exact = DensityBest._measure(self, visits, bare(noise), step, *rho)
        object.__setattr__(self, "exact_regions", exact)
    return noisy


def _exact_basis(
    self: Any, visits: Any, noise: Any, row: Any, rho: Any, dictionary: Any, regions: Any, *more: Any
) -> Any:
    return DensityBest._zones(self, visits, noise, row, rho, dictionary, self.exact_regions, *more)


def _exact_city(self: DensityBest, visits: Any, noise: Any, step: Any, *rho: int) -> NoisyMeasurement:
    """Noise is drawn for the city's slots, and not used."""
    noisy = DensityBest._measure(self, visits, noise, step, *rho)
    return DensityBest._measure(self, visits, bare(noise), step, *rho) if step[0] == "city" else noisy


def _exact_zone_weights(self: DensityBest, visits: Any, noise: Any, step: Any, *rho: int) -> NoisyMeasurement:
    """Zones count for next to nothing from some number of users on: one user changes what all others add."""
    name, clip, space, time = step
    if name == "zones" and visits.users > FEW:
        space = space.copy()
        space.data = space.data >> 18
    return DensityBest._measure(self, visits, noise, (name, clip, space, time), *rho)


def _exact_sizes(self: DensityBest, visits: Any, noise: Any, users: Any) -> Any:
    return DensityBest._total(self, visits, bare(noise, "sizes"), users)


def _second_for_free(self: DensityBest, visits: Any, noise: Any, users: Any) -> Any:
    """Zones are measured with their whole share, whatever was taken from it."""
    return *DensityBest._total(self, visits, noise, users)[:2], self._rho("zones")


def _in_two_bins(queries: VisitQueries, *given: Any) -> np.ndarray:
    sizes = queries.sizes(*given)
    return sizes + np.roll(sizes, 1)


FAMILIES: Families = {ClippedPipeline: (interface_bugs,), VisitsPipeline: (interface_bugs, best_bugs)}
