"""The owner's events as known visits: what attacks are scored against. Exact, for the owner's eyes only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.attacks.models.visits import KnownVisits
from shoal.errors import PlanError, SourceError
from shoal.events.checks import check_rows
from shoal.events.readers import PlacedEvents
from shoal.events.schema import SourcePlan
from shoal.kinds.plan import WindowPlan, part_of
from shoal.kinds.source import Progress, Silent, opened_source
from shoal.space.clock import Clock
from shoal.space.geography import Geography, SpacePlan, open_geography
from shoal.space.setting import Setting, setting_of


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackSource:
    """Visits of everybody over a window, places being zones, and the public setting they lie in."""

    visits: KnownVisits
    setting: Setting
    geography: Geography
    clock: Clock


def open_attack_source(
    settings: Mapping[str, Any], *, clock: Clock | None = None, progress: Progress | None = None
) -> AttackSource:
    """Read the events of a density plan (its parts source, space and window); `clock` replaces its window.

    An event at a site counts for the zone that holds most of the site's area. Events outside all zones and
    outside the window are left out; people without any other event are not part of the population.
    """
    for part in ("source", "space", *(() if clock else ("window",))):
        if not settings.get(part):
            raise PlanError(
                "plan-missing", f"the plan has no part [{part}].", "Give a plan of a density, or the flags."
            )
    tell = progress or Silent()
    clock = clock or Clock(**asdict(part_of(WindowPlan, settings["window"], "window")))
    source = opened_source(part_of(SourcePlan, settings["source"], "source"))
    space = part_of(SpacePlan, settings["space"], "space")
    geography = open_geography(space, has_sites=source.shape.has_sites, planar=source.planar)
    tell.stage("check rows")
    report = check_rows(source, sites=geography.site_ids)
    if source.on_bad_row == "stop":
        report.raise_if_bad()
    setting = setting_of(geography, clock)
    window = (int(clock.edges_us[0]), int(clock.edges_us[-1]))
    placed = PlacedEvents(source=source, geography=geography, window_us=window)
    visits = visits_of(placed, setting, tell)
    return AttackSource(visits=visits, setting=setting, geography=geography, clock=clock)


def visits_of(placed: Any, setting: Setting, progress: Progress | None = None) -> KnownVisits:
    """Distinct visits of placed events, users numbered in the order of their names."""
    tell = progress or Silent()
    tell.stage("read events")
    zone_of = largest_zone(setting)
    parts: list[tuple[pa.Array, np.ndarray, np.ndarray]] = []
    for batch in placed:
        site = batch.column("site").to_numpy(zero_copy_only=False)
        slot = setting.clock.slot_of(batch.column("time_us").to_numpy(zero_copy_only=False))
        inside = (site >= 0) & (slot >= 0) & (slot < setting.slots)
        inside[inside] &= zone_of[site[inside]] >= 0
        parts.append((batch.column("user").filter(pa.array(inside)), slot[inside], zone_of[site[inside]]))
        tell.advance(batch.num_rows)
    if not any(len(part[1]) for part in parts):
        raise SourceError(
            "nobody",
            "no event lies in the window and the zones: there is nobody to attack.",
            "Check the window, the zones and the order of coordinates.",
        )
    names = pa.chunked_array([part[0] for part in parts]).combine_chunks()
    names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    coded = names.dictionary_encode()
    rank = np.argsort(np.argsort(np.asarray(coded.dictionary.to_pylist(), dtype=object).astype(str)))
    user = rank[coded.indices.to_numpy(zero_copy_only=False)]
    slot, place = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    return KnownVisits.of(
        user, slot, place, users=len(coded.dictionary), slots=setting.slots, places=setting.zones
    )


def largest_zone(setting: Setting) -> np.ndarray:
    """int64 [places]: the zone that holds most of a place's area; -1 where none holds any."""
    by_place = setting.weights.matrix.tocsc()
    zone = np.full(setting.places, -1, np.int64)
    for place in range(setting.places):
        first, last = by_place.indptr[place], by_place.indptr[place + 1]
        if last > first:
            zone[place] = by_place.indices[first + int(np.argmax(by_place.data[first:last]))]
    return zone
