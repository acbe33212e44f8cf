"""What all kinds of release made of trips share: check rows, read trips."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from shoal.engine.protocol import Encoder, Held
from shoal.engine.trip_watch import PointWatch
from shoal.errors import PlanError
from shoal.events.trip_reader import TripPoints
from shoal.kinds.run import Build
from shoal.kinds.source import any_row, checked_rows
from shoal.space.cells import CellGrid

NOBODY = (
    "No point lies in the window and the box, so the release would be noise alone. Are --box "
    "(west,south,east,north), the order of the coordinates, --start, --end and --time-zone right?"
)
ALL_TRIPS = 2**40  # no bound: for the owner's figures


class TripBuild(Build):
    """Raw points in, files of a release of trips out."""

    @property
    def sites(self) -> Sequence[str] | None:
        """Ids of the sites, where records name them."""
        return None

    def check(self) -> None:
        """Stop on bad rows before anything is spent."""
        rule = self.prepared.plan.trip_rule
        flagged = rule is not None and rule.flag
        report = checked_rows(self.prepared.source, self.tell, sites=self.sites, with_flag=flagged)
        self.rows, self.bad_rows = report.rows, report.bad
        if self.confirm and not self._anybody() and not self.confirm(NOBODY):
            raise PlanError(
                "nobody-counted",
                "no point lies in the window and the box; nothing was spent.",
                "Check --box (west,south,east,north), the order of coordinates, --start, --end, --time-zone.",
            )

    def _anybody(self) -> bool:
        """Whether any point would be counted; stops reading at the first one."""
        prepared = self.prepared
        return any_row(prepared.source, partial(_inside, prepared.grid), window_us=prepared.window_us)

    def hold(self, encoder: Encoder, stage: str, step_s: float | None = None) -> Held:
        """The source's trips, encoded where the engine keeps them."""
        prepared = self.prepared
        points = TripPoints(
            source=prepared.source, rule=prepared.plan.trip_rule, window_us=prepared.window_us
        )
        self.tell.stage(stage, self.rows)
        watch = PointWatch(grid=prepared.grid, step_s=step_s)
        return self.engine.hold(points, encoder, watch, lambda _, rows: self.tell.advance(rows))


def _inside(grid: CellGrid, batch: pa.RecordBatch) -> bool:
    return bool(grid.place(batch["x"].to_numpy(), batch["y"].to_numpy())[2].any())
