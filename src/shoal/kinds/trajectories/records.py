"""The owner's records as samples on the public lattice. Exact, for the owner's eyes only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.engine.protocol import Engine
from shoal.errors import PlanError, SourceError
from shoal.events.readers import scan
from shoal.events.schema import EventSource
from shoal.kinds.source import Progress, Silent, checked_rows, opened_source, unit_of
from shoal.kinds.trajectories.plan import PlacesPlan, TrajectoryPlan
from shoal.space.lattice import Lattice
from shoal.space.sites import Sites, named_sites
from shoal.stages.trajectories import LatticeSamples

FAR_M = 1_000_000.0


@dataclass(frozen=True, kw_only=True, eq=False)
class TrajectorySource:
    """A source, its lattice, and the sites its places are named by; no row is read yet."""

    source: EventSource
    lattice: Lattice
    sites: Sites | None = field(default=None, repr=False)

    @property
    def site_ids(self) -> tuple[str, ...] | None:
        return None if self.sites is None else self.sites.ids


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenSamples:
    """Samples of the window; `names` are the users' ids, user j is names[j]."""

    samples: LatticeSamples
    names: pa.Array = field(repr=False)
    lattice: Lattice
    rows: int  # in the window, before equal ones became one sample


def open_trajectories(plan: TrajectoryPlan, engine: Engine | None = None) -> TrajectorySource:
    """Headers and public files; no row is read."""
    source = opened_source(plan.source, engine)
    _ = unit_of(plan.unit, plan.source, source)  # refused before any row is read
    sites = _sites(plan.space) if source.shape.has_sites else None
    planar = source.planar if sites is None else sites.crs is None
    return TrajectorySource(source=source, lattice=plan.lattice(planar=planar), sites=sites)


def read_samples(
    opened: TrajectorySource, progress: Progress | None = None, rows: int | None = None
) -> OpenSamples:
    """All samples of the window: unsorted and repeated rows are welcome, users are numbered by their ids."""
    tell, lattice = progress or Silent(), opened.lattice
    tell.stage("read records", rows)
    begin = lattice.start_us
    window = (begin, begin + lattice.steps * lattice.minutes * 60_000_000)
    users: list[Any] = []
    columns: list[list[np.ndarray]] = [[], [], []]
    for batch in scan(opened.source, sites=opened.site_ids, window_us=window):
        first, second = _places(batch, opened)
        placed = (
            lattice.step_of(batch["time_us"].to_numpy()).astype(np.int32),
            *lattice.cell_of(first, second),
        )
        users.append(batch["user"])
        for column, values in zip(columns, placed, strict=True):
            column.append(values)
        tell.advance(batch.num_rows)
    if not users:
        raise SourceError(
            "nobody",
            "no record lies in the window: there is nobody to hide.",
            "Check --start, --end and --time-zone.",
        )
    names, user = _numbered(users)
    users.clear()
    t, x, y = (np.concatenate(column) for column in columns)
    _check_origin(x, y, lattice)
    samples = LatticeSamples.of(user, t, x, y, users=len(names), steps=lattice.steps)
    return OpenSamples(samples=samples, names=names, lattice=lattice, rows=len(t))


def open_samples(
    plan: TrajectoryPlan, progress: Progress | None = None
) -> tuple[LatticeSamples, pa.Array, Lattice]:
    """Checked and read in one call: samples, the users' ids, the lattice."""
    opened = open_trajectories(plan)
    report = checked_rows(opened.source, progress or Silent(), sites=opened.site_ids)
    read = read_samples(opened, progress, report.rows)
    return read.samples, read.names, read.lattice


def _check_origin(x: np.ndarray, y: np.ndarray, lattice: Lattice) -> None:
    """Most samples lie north-east of the origin and not a continent away, or something is mixed up."""
    far = FAR_M / lattice.metres
    if not all(0 <= float(np.median(column)) < far for column in (x, y)):
        raise PlanError(
            "lattice-origin",
            "most samples lie south or west of the origin, or more than 1,000 km from it.",
            "Check --origin LON,LAT, a place south-west of the area, and that longitude and latitude are not "
            "swapped in the records.",
        )


def _places(batch: pa.RecordBatch, opened: TrajectorySource) -> tuple[np.ndarray, np.ndarray]:
    if opened.sites is None:
        return batch["x"].to_numpy(), batch["y"].to_numpy()
    site = batch["site"].to_numpy()
    return opened.sites.x[site], opened.sites.y[site]


def _numbered(users: list[Any]) -> tuple[pa.Array, np.ndarray]:
    """Distinct ids in their own order, and the number of each row's."""
    coded = pa.chunked_array(users).combine_chunks()
    coded = (coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded).dictionary_encode()
    order = pc.call_function("array_sort_indices", [coded.dictionary]).to_numpy()
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return coded.dictionary.take(pa.array(order)), rank[coded.indices.to_numpy(zero_copy_only=False)]


def _sites(space: PlacesPlan) -> Sites:
    if space.sites is None:
        raise PlanError(
            "sites-missing", "the records name sites; their places are not known.", "Pass --sites FILE."
        )
    sites = named_sites(
        space.sites,
        site_id=space.site_id,
        site_lon=space.site_lon,
        site_lat=space.site_lat,
        sites_crs=space.sites_crs,
    )
    if sites.crs not in (None, "EPSG:4326"):
        raise PlanError(
            "sites-crs",
            f"the sites are in {sites.crs}; a lattice takes longitude and latitude, or planar metres.",
            "Give their lon and lat.",
        )
    return sites
