"""Events counted under a bound: each bound once, however many methods and repetitions ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from shoal.engine.clipped import EngineVisits
from shoal.engine.density import bound_visits, exact_people
from shoal.engine.protocol import Engine
from shoal.engine.visits import VisitKernel
from shoal.kinds.progress import Progress
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
