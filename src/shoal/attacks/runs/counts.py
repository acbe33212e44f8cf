"""Input of attacks on counts: the owner's events as known visits, and counts as they are published.

Known visits are exact: for the owner's eyes only. Published counts come from any density method run on known
visits, or from the file of a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.attacks.models.visits import KnownVisits
from shoal.attacks.runs.plans import InferencePlan, MembershipPlan, RecoveryAttackPlan
from shoal.engine.engine import DuckEngine
from shoal.errors import PlanError, SourceError
from shoal.events.readers import PlacedEvents, check_rows
from shoal.events.schema import SourcePlan
from shoal.kinds.density.build import Counting, stage_for
from shoal.kinds.density.plan import METHODS, MethodOptions, any_method
from shoal.kinds.describe import opened_source
from shoal.kinds.plan import WindowPlan
from shoal.kinds.run import Progress, Silent
from shoal.privacy.accounting import Budget, check_epsilon
from shoal.privacy.noise import OsNoise, SeededNoise
from shoal.setting import part_of
from shoal.space.clock import Clock
from shoal.space.geography import AreaWeights, Geography, Setting, open_geography, setting_of
from shoal.space.plan import SpacePlan


@dataclass(frozen=True, kw_only=True, eq=False)
class AttackSource:
    """Visits of everybody over a window, places being zones, and the public setting they lie in."""

    visits: KnownVisits
    setting: Setting
    geography: Geography
    clock: Clock


def open_attack_source(settings: Mapping[str, Any], *, progress: Progress | None = None) -> AttackSource:
    """Read the events of a density plan, by its parts source, space and window.

    An event at a site counts for the zone that holds most of the site's area. Events outside all zones and
    outside the window are left out; people without any other event are not part of the population.
    """
    for part in ("source", "space", "window"):
        if not settings.get(part):
            raise PlanError(
                "plan-missing", f"the plan has no part [{part}].", "Give a plan of a density, or the flags."
            )
    tell = progress or Silent()
    clock = Clock(**asdict(part_of(WindowPlan, settings["window"], "window")))
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
    zone = np.asarray(setting.weights.matrix.argmax(axis=0)).ravel()
    return np.where(np.asarray(setting.weights.matrix.sum(axis=0)).ravel() > 0, zone, -1)


def clock_from(clock: Clock, slot: int) -> Clock:
    """The clock from a slot on."""
    return replace(clock, start=datetime.fromisoformat(clock.starts_local()[slot]).replace(tzinfo=None))


BATCH = 1_000_000
RELEASE = "release"
AttackPlan = InferencePlan | RecoveryAttackPlan | MembershipPlan


def publisher(
    visits: KnownVisits,
    setting: Setting,
    clock: Clock,
    *,
    delta: float,
    options: MethodOptions | None = None,
    seed: int | None = None,
) -> Callable[[Protection], np.ndarray]:
    """People per zone and slot as density methods would publish them, float64 [zones, slots].

    The visits lie in the zones of `setting` and the slots of `clock`; each call is fresh noise.
    """
    options = options or MethodOptions(users=visits.users)
    weights = AreaWeights.identity(setting.zones)  # zones are places
    placed = replace(setting, weights=weights, place_xy_m=setting.zone_xy_m, clock=clock)

    def noise() -> OsNoise | SeededNoise:
        return OsNoise() if seed is None else SeededNoise(seed)

    def events() -> Iterator[pa.RecordBatch]:
        """The visits as events at the start of their slots."""
        for first in range(0, len(visits.user), BATCH):
            part = slice(first, first + BATCH)
            user, time_us = visits.user[part].astype(np.int64), clock.edges_us[visits.slot[part]]
            yield pa.record_batch({"user": user, "time_us": time_us, "site": visits.place[part]})

    key, rows = noise().run_key(), len(visits.user)
    counting = Counting(DuckEngine(), events, placed, run_key=key, progress=Silent(), rows=rows)

    def people(protection: Protection) -> np.ndarray:
        assert protection.method is not None
        assert protection.set_at is not None
        chosen = any_method(protection.method)
        budget = Budget.of(check_epsilon(protection.set_at), None if chosen.pure else delta)
        mechanism = chosen.build(budget, placed, options)
        stage = stage_for(mechanism, counting, placed, options)
        return chosen.finish(mechanism(stage, noise()), placed, options).people

    return people


@dataclass(frozen=True)
class Protection:
    """How counts are protected: not at all, as in a release, or by a density method.

    >>> Protection().text(), Protection("gaussian", 0.1).text()
    ('raw counts', 'counts by gaussian at epsilon 0.1')
    """

    method: str | None = None  # None: raw counts; RELEASE: as they were released
    set_at: float | None = None  # what the method was set at; None: raw, or a release

    @property
    def epsilon(self) -> float | None:
        """The guarantee for a person: methods for comparison have none, whatever they were set at."""
        return self.set_at if self.method in METHODS else None

    @property
    def name(self) -> str:
        """The counts in a table; methods without a guarantee are marked."""
        if self.method in (None, RELEASE) or self.method in METHODS:
            return self.method or "raw"
        return f"{self.method} (no guarantee)"

    @property
    def label(self) -> str:
        """The same with what the method was set at."""
        return self.name if self.set_at is None else f"{self.name} {self.set_at:g}"

    def text(self, of: str = "") -> str:
        """The counts in a sentence; `of` says of whom."""
        if self.set_at is None:
            return "the release" if self.method == RELEASE else f"raw counts{of}"
        if self.epsilon is None:
            return f"counts{of} by {self.method} set at {self.set_at:g} (no guarantee for a person)"
        return f"counts{of} by {self.method} at epsilon {self.set_at:g}"


def protection_of(row: Mapping[str, Any]) -> Protection:
    """The protection that a row of figures names, under `counts` or `defence`; raw counts are raw or None."""
    method = row.get("counts", row.get("defence"))
    return Protection(None if method == "raw" else method, row["set_at"])


def counts_name(row: Mapping[str, Any]) -> str:
    """The counts of a row in a table."""
    return protection_of(row).name


def protections(plan: AttackPlan) -> list[Protection]:
    """Each method of the plan at each epsilon; once where the noise does not follow from an epsilon."""
    return [
        Protection(name, epsilon)
        for name in plan.defences
        for epsilon in (plan.epsilons if any_method(name).set_by_epsilon else plan.epsilons[:1])
    ]


def protected_counts(
    visits: KnownVisits,
    setting: Setting,
    clock: Clock,
    plan: AttackPlan,
    *,
    options: MethodOptions | None = None,
    progress: Progress,
) -> Iterator[tuple[Protection, np.ndarray]]:
    """The visits as each method of the plan would publish them, [zones, slots]."""
    if plan.defences:
        people = publisher(visits, setting, clock, delta=plan.delta, options=options, seed=plan.seed)
        for each in protections(plan):
            progress.stage(f"protect, {each.label}")
            yield each, people(each)


def released_people(release: str | Path, zone_ids: list[str], clock: Clock) -> np.ndarray:
    """People of a density release, float64 [zones, slots], zones as in `zone_ids`; it must fit the window."""
    path = Path(release) / "density.parquet"
    try:
        table = pq.read_table(path, columns=["zone", "slot", "slot_start", "people"])
    except (OSError, pa.ArrowException, KeyError) as error:
        raise PlanError(
            "attack-release",
            f"{release} holds no density that can be read.",
            "Give the folder of a release that `shoal density run` wrote.",
        ) from error
    zones = np.asarray(table["zone"].cast(pa.string()).to_pylist(), dtype=str)
    slots = table["slot"].to_numpy()
    starts = dict(zip(slots.tolist(), table["slot_start"].cast(pa.string()).to_pylist(), strict=True))
    if [starts.get(i) for i in range(len(starts))] != clock.starts_local():
        raise PlanError(
            "attack-release-slots",
            f"the release has {len(starts)} slots from {starts.get(0)}; the inferred time has {clock.slots} "
            f"from {clock.starts_local()[0]}.",
            "Observed time must come before the release: give a window that begins earlier (--start), and "
            "--split where the release begins; or attack a release of the last part of the window.",
        )
    number = {zone: i for i, zone in enumerate(zone_ids)}
    unknown = set(zones.tolist()) - set(number)
    if unknown or len(table) != len(zone_ids) * clock.slots:
        raise PlanError(
            "attack-release-zones",
            "the zones of the release are not those of the plan.",
            "Attack with the zones that the release was made with.",
        )
    people = np.full((len(zone_ids), clock.slots), np.nan)
    people[[number[zone] for zone in zones.tolist()], slots] = table["people"].to_numpy()
    if np.isnan(people).any():
        raise PlanError(
            "attack-release", "the release lacks a zone in some slot.", "Run `shoal verify` on it."
        )
    return people


def with_null(people: np.ndarray, observed: KnownVisits) -> np.ndarray:
    """Counts with a row for users not seen, which no release publishes: the adversary guesses it.

    From the observed time it is known how many places a seen user has in a slot; the others are unseen.
    """
    user_slots = np.unique(observed.user.astype(np.int64) * observed.slots + observed.slot).size
    places_each = len(observed.user) / user_slots if user_slots else 1.0
    published = np.clip(people, 0.0, None)
    null = np.clip(observed.users - published.sum(axis=0) / places_each, 0.0, observed.users)
    return np.vstack([published, null])
