"""Targets of attacks on synthetic trips: copies of real trips, TGM, and every mechanism."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.attacks.models.known_trips import KnownTrips
from shoal.attacks.models.synthetic_membership import Publish
from shoal.baselines import lacks, missing, needed
from shoal.engine.path_trips import PathQueries
from shoal.errors import PlanError
from shoal.kinds.synthetic.plan import COMMUTES, METHODS
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.cell_paths import CellPaths
from shoal.space.trip_setting import PathSetting
from shoal.stages.trips import ExactPaths

if TYPE_CHECKING:
    from shoal.attacks.runs.plans import SyntheticAttackPlan
    from shoal.kinds.synthetic.prepare import PreparedSynthetic

RAW = "raw"
RUN_STEP = 1_000_003  # between the seeds of two attacks


@dataclass(frozen=True)
class Defence:
    """How a group's trips are published. Only a sound one holds the epsilon it is set at."""

    name: str
    switches: dict[str, Any] = field(default_factory=dict, hash=False)  # of TGM

    @property
    def sound(self) -> bool:
        return self.name in METHODS

    @property
    def label(self) -> str:
        """The name in a table; what protects no person, but is set at an epsilon, is marked."""
        return self.name if self.sound or self.name == RAW else f"{self.name} (no guarantee)"

    @property
    def set_by_epsilon(self) -> bool:
        return self.name != RAW and self.switches.get("private", True)

    def publisher(
        self,
        prepared: PreparedSynthetic,
        plan: SyntheticAttackPlan,
        epsilon: float | None,
        *,
        count: int,
        share: float,
    ) -> Publish:
        """A group's trips to a release of `count` trips, by seeded noise; `share` of all units is a group."""
        if self.name == RAW:
            return lambda group, run: group.paths
        if not self.sound:
            return self._tgm(prepared, epsilon, count, plan.seed)
        assert epsilon is not None
        declared = prepared.setting.trips
        trips = None if declared is None else max(round(declared * share), 1)
        setting = replace(prepared.setting, trips=trips)
        mechanism = METHODS[self.name].build(Budget.of(epsilon, plan.delta), setting)

        def publish(group: KnownTrips, run: int) -> CellPaths:
            seed = plan.seed * RUN_STEP + run
            model = mechanism(PathQueries(exact_of(group, setting)), SeededNoise(seed))
            return model.generate(count, seed)

        return publish

    def _tgm(self, prepared: PreparedSynthetic, epsilon: float | None, count: int, seed: int) -> Publish:
        published = needed("comparators.tgm:PublishedTgm", f"the defence {self.name}")
        tgm = replace(published(**self.switches), **({} if epsilon is None else {"epsilon": epsilon}))
        setting = prepared.setting
        return lambda group, run: tgm(exact_of(group, setting), SeededNoise(seed * RUN_STEP + run), count)


DEFENCES = {
    each.name: each
    for each in (
        Defence(RAW),  # the real trips themselves, without names
        Defence("tgm"),  # as published
        Defence("tgm-counts", {"utilities": "counts"}),
        Defence("tgm-np", {"private": False}),  # without its noise, trips in proportion
        *(Defence(each.name) for each in METHODS.values() if each.takes != COMMUTES),
    )
}


def defence_named(name: str) -> Defence:
    if name not in DEFENCES and lacks("synthetic", name):
        raise missing(f"the defence {name}")
    if name not in DEFENCES:
        near = difflib.get_close_matches(name, DEFENCES, 1)
        hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(DEFENCES)}."
        raise PlanError("attack-defence", f"no synthetic trips are made by {name!r}.", hint)
    return DEFENCES[name]


def exact_of(trips: KnownTrips, setting: PathSetting) -> ExactPaths:
    """Trips of a group, for the query interface of a mechanism."""
    own = {each.name: getattr(trips.paths, each.name) for each in fields(CellPaths)}
    counted = np.minimum(np.bincount(trips.unit, minlength=trips.units), setting.cap)
    return ExactPaths(
        **own,
        unit=trips.unit,
        units=trips.units,
        all_trips=int(counted.sum()),
        cap=setting.cap,
        each_trip=setting.each_trip,
    )
