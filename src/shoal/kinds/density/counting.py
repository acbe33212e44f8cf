"""Events counted under a bound: each bound once, however many methods and repetitions ask for it.

The stage a mechanism takes, counted from the events: exact zone counts, visits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.baselines import part
from shoal.engine.clipped import EngineVisits
from shoal.engine.protocol import Engine
from shoal.engine.visits import (
    VisitKernel,
    all_counts,
    bound_visits,
    exact_counts,
    exact_people,
    scalable_counts,
)
from shoal.errors import PlanError
from shoal.kinds.density.methods import MethodOptions
from shoal.kinds.source import Progress
from shoal.space.setting import Setting
from shoal.stages.bounded import BoundedVisits, ExactDensity

NAMES = {"read": "read events", "count": "count visits"}


class Counting:
    """Bounded sums of one set of events under one run key, kept for the next to ask."""

    def __init__(
        self,
        engine: Engine,
        events: Callable[[], Iterable[pa.RecordBatch]],
        setting: Setting,
        *,
        run_key: bytes,
        progress: Progress,
        rows: int | None = None,
    ) -> None:
        self.engine = engine
        self.events = events
        self.setting = setting
        self.run_key = run_key
        self.tell = progress
        self.rows = rows  # for the bars
        self.exact: ExactDensity | None = None  # uncapped: for the owner's eyes
        self._bounded: dict[tuple[int, int], BoundedVisits] = {}

    def bounded(self, ell: int, cap: int) -> BoundedVisits:
        """At most `ell` visits per user in the counts, at most `cap` in the number of visits."""
        if (ell, cap) not in self._bounded:
            self._bounded[ell, cap], self.exact = self._count(ell, cap)
        return self._bounded[ell, cap]

    def people(self) -> np.ndarray:
        """Raw people per zone and slot, for the owner's report and for comparisons."""
        return exact_people(self.all_visits(), self.setting.weights)

    def all_visits(self) -> ExactDensity:
        """Visits without a cap, once per user, place and slot: for the owner's eyes and for comparisons."""
        if self.exact is None:
            _, self.exact = self._count(1, 1)
        return self.exact

    def _count(self, ell: int, cap: int) -> tuple[BoundedVisits, ExactDensity]:
        kernel = VisitKernel(
            edges_us=self.setting.clock.edges_us,
            sites=self.setting.places,
            ell=ell,
            cap=cap,
            run_key=self.run_key,
        )
        return bound_visits(self.engine, self.events(), kernel, self._advance())

    def visits(self, cap: int) -> EngineVisits:
        """All visits, for a mechanism that asks for clipped sums in several passes."""
        return EngineVisits(
            engine=self.engine,
            events=self.events,
            edges_us=self.setting.clock.edges_us,
            places=self.setting.places,
            run_key=self.run_key,
            count_users=lambda: self.bounded(1, cap).users,
            progress=self._advance(),
        )

    def _advance(self) -> Callable[[str, int], None]:
        current = ""

        def advance(what: str, rows: int) -> None:
            nonlocal current
            if what != current:
                current = what
                self.tell.stage(NAMES[what], self.rows)
            self.tell.advance(rows)

        return advance


def stage_for(mechanism: Any, counting: Counting, setting: Setting, options: MethodOptions) -> Any:
    """What `mechanism` is called with: bounded by its own ell and cap where it has them."""
    if mechanism.takes in STAGES:
        return STAGES[mechanism.takes](mechanism, counting, setting, options)
    theirs = part("counting:STAGES", {})
    if mechanism.takes not in theirs:
        raise PlanError("stage", f"no stage of a density is called {mechanism.takes!r}.")
    return theirs[mechanism.takes](mechanism, counting, bounds_of(mechanism, options))


def bounds_of(mechanism: Any, options: MethodOptions) -> tuple[int, int]:
    """ell and cap the events are counted under: the mechanism's own, else as declared."""
    return getattr(mechanism, "ell", options.ell), getattr(mechanism, "cap", options.cap)


def _counts(mechanism, counting, setting, options):
    return exact_counts(counting.bounded(*bounds_of(mechanism, options)), setting.weights)


def _scalable(mechanism, counting, setting, options):
    return scalable_counts(counting.bounded(*bounds_of(mechanism, options)), setting.weights)


def _all_counts(mechanism, counting, setting, options):
    return all_counts(counting.all_visits(), setting.weights)


def _all_visits(mechanism, counting, setting, options):
    return counting.all_visits()


def _bounded(mechanism, counting, setting, options):
    return counting.bounded(*bounds_of(mechanism, options))


def _visits(mechanism, counting, setting, options):
    return counting.visits(options.cap)


STAGES = {
    "counts": _counts,
    "scalable": _scalable,
    "bounded": _bounded,
    "visits": _visits,
    # for comparators, which no release can be made of
    "all counts": _all_counts,
    "all visits": _all_visits,
}
