"""The part of a release that all kinds made of trips share: check rows, read trips, reserve, commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal.engine.duck import DuckEngine
from shoal.engine.protocol import Encoder, Held, TripEngine
from shoal.engine.trip_watch import PointWatch
from shoal.errors import PlanError
from shoal.events.trip_reader import TripPoints
from shoal.flows.opened import any_row
from shoal.flows.progress import Progress
from shoal.flows.row_checks import checked_rows
from shoal.privacy.ledger import Ledger
from shoal.privacy.noise import Noise, OsNoise, SeededNoise
from shoal.release.folder import Committed, ReleaseRequest, preflight, release, write_for_owner
from shoal.release.manifest import Manifest
from shoal.release.verify import sha256_file
from shoal.space.cells import CellGrid

NOBODY = (
    "No point lies in the window and the box, so the release would be noise alone. Are --box "
    "(west,south,east,north), the order of the coordinates, --start, --end and --time-zone right?"
)
ALL_TRIPS = 2**40  # no bound: for the owner's figures


@dataclass(frozen=True, kw_only=True)
class TripResult:
    """Where the release lies and the owner's report; `rows` and `bad_rows` are for the owner's eyes."""

    release: Path
    report: Path
    reused: bool
    publishable: bool
    rows: int | None  # None: stored before, so not read again
    bad_rows: int | None


class TripBuild:
    """The part between reserve and commit: raw points in, files of the release out."""

    seeded_look = "a seeded release on private data"  # for the ledger
    sites: Sequence[str] | None = None  # where records name sites

    def __init__(
        self,
        prepared: Any,
        progress: Progress,
        confirm: Callable[[str], bool] | None = None,
        engine: TripEngine | None = None,
    ) -> None:
        self.prepared, self.tell, self.confirm = prepared, progress, confirm
        self.engine: TripEngine = engine or DuckEngine()
        self.rows: int | None = None
        self.bad_rows: int | None = None

    def __call__(self, folder: Path, noise: Noise) -> Manifest:
        raise NotImplementedError

    def manifest(self) -> Manifest:
        """As far as it is known before anything is counted."""
        raise NotImplementedError

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

    def made(self, ledger: Ledger, owner: Path) -> Committed:
        """The release, or a seeded run in the owner's folder."""
        ledger.state().population(self.prepared.plan.population)  # a wrong name is said before any work
        return self._release(ledger) if self.prepared.plan.seed is None else self._experiment(ledger, owner)

    def result(self, made: Committed, report: Path) -> TripResult:
        return TripResult(
            release=made.path,
            report=report,
            reused=made.reused,
            publishable=self.prepared.plan.seed is None,
            rows=self.rows,
            bad_rows=self.bad_rows,
        )

    def _release(self, ledger: Ledger) -> Committed:
        prepared, plan = self.prepared, self.prepared.plan
        request = ReleaseRequest(
            population=plan.population,
            loss=prepared.mechanism.loss(),
            key=prepared.key(),
            out=Path(plan.out),
            what=prepared.what(),
        )
        preflight(ledger, request, self.manifest())
        if ledger.find(plan.population, request.key) is None:
            self.check()
        noise = OsNoise()
        return release(ledger, request, lambda folder: self(folder, noise))

    def _experiment(self, ledger: Ledger, owner: Path) -> Committed:
        """A seeded run: to the owner's folder, without a spend, marked in manifest and ledger."""
        plan, what = self.prepared.plan, self.prepared.what()
        noise = SeededNoise(plan.seed or 0)
        self.check()
        out = owner / f"seeded-{plan.seed}"
        ledger.disclose(
            plan.population, f"seeded, not for publication: {what}", str(out)
        )  # before it is seen
        ledger.remember_tuning(plan.population, self.seeded_look)  # its figures may choose
        tuned = ledger.is_tuned(plan.population)
        path = write_for_owner(out, lambda folder: replace(self(folder, noise), tuned_on_private_data=tuned))
        return Committed(path=path, manifest_sha256=sha256_file(path / "manifest.json"), reused=False)


def _inside(grid: CellGrid, batch: pa.RecordBatch) -> bool:
    return bool(grid.place(batch["x"].to_numpy(), batch["y"].to_numpy())[2].any())
