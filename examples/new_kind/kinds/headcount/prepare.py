"""A headcount, prepared: public things opened, the mechanism built, the price. No row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.events.schema import EventSource
from shoal.kinds.describe import Prepared, check_spends, window_of
from shoal.kinds.headcount.plan import HeadcountPlan
from shoal.kinds.headcount.published import FILES, LIMITS
from shoal.kinds.describe import opened_source, unit_of
from shoal.kinds.verdict import PER_MEAN, Verdict, from_size, unit_noise
from shoal.mechanisms.methods import METHODS
from shoal.privacy.guarantee import Guarantee
from shoal.space.clock import Clock
from shoal.space.places import Sites, read_sites


def prepare_headcount(plan: HeadcountPlan, engine: Any = None) -> PreparedHeadcount:
    """Open everything public and set the noise."""
    source, budget = opened_source(plan.source, engine), plan.budget()
    mechanism = METHODS["headcount"][plan.method].build(budget, None)
    check_spends(mechanism, budget)
    window = plan.window
    return PreparedHeadcount(
        plan=plan,
        source=source,
        sites=read_sites(plan.sites),
        clock=Clock(start=window.start, end=window.end, time_zone=window.time_zone),
        mechanism=mechanism,
        guarantee=Guarantee.of(mechanism.loss(), delta=None, unit=unit_of(plan.unit, plan.source, source)),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedHeadcount(Prepared):
    """A plan with its public things opened. Nothing here depends on a row of the source."""

    kind = "headcount"
    pays_for = {"users": "the number of users"}  # noqa: RUF012
    plan: HeadcountPlan
    source: EventSource
    sites: Sites = field(repr=False)
    clock: Clock
    mechanism: Any
    guarantee: Guarantee

    def what(self) -> str:
        return f"headcount from {self.clock.start:%Y-%m-%d}"

    def files(self) -> Mapping[str, Mapping[str, str]]:
        return FILES

    def public(self) -> dict[str, Any]:
        return {
            "kind": "headcount",
            **window_of(self.clock),
            "method": self.plan.method,
            "scale": self.mechanism.noise.scale,
        }

    def verdict(self) -> Verdict:
        noise = PER_MEAN * unit_noise(self.guarantee.to_manifest())
        return from_size("users", "", lambda users: noise / users, LIMITS)

    def rows(self) -> list[tuple[str, str]]:
        return [("counted", "users with an event in the window")]

    def key_parts(self) -> list[Any]:
        settings = {name: getattr(self.plan, name) for name in ("population", "epsilon", "unit", "run_id")}
        return ["headcount", settings, window_of(self.clock), self.sites.digest()]
