"""Synthetic site events, prepared: sites, classes, noise, price. No row is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shoal.engine.protocol import MOST_EVENTS
from shoal.errors import PlanError
from shoal.events.schema import EventSource
from shoal.kinds.commute.files import FILES
from shoal.kinds.needs import commute_needs
from shoal.kinds.source import READING, unit_of
from shoal.kinds.spends import check_spends, spends_of
from shoal.kinds.synthetic.methods import SITES_PAY_FOR, Method, synthetic_method
from shoal.kinds.synthetic.plan import MOST_UNASKED, SyntheticPlan
from shoal.kinds.trip_prepare import PreparedTrips, trip_manifest, window_us
from shoal.mechanisms.synthetic.commute import SyntheticCommute
from shoal.privacy.guarantee import Guarantee
from shoal.release.manifest import Manifest
from shoal.release.resources import Needs
from shoal.space.commute_setting import CommuteSetting, commute_setting
from shoal.space.sites import Sites

ASKED = ("population", "epsilon", "delta", "method", "unit", "count", "run_id")
HOW_TO_READ = "\n".join(
    f"- {point}"
    for point in (
        "**No person here exists.** All were drawn from a model of homes, work places, commutes and hours of "
        "calls that noise was added to before anything was published.",
        "Homes and work places are where records are: at night, and in work hours.",
        "Counts by hour and by site, commutes and their lengths are what the model keeps; a single person "
        "proves nothing.",
        "Any number of questions may be asked of these files: the privacy was paid for once.",
    )
)


def prepare_commute(plan: SyntheticPlan, source: EventSource) -> PreparedCommute:
    """Open everything public and set the noise."""
    if not source.shape.has_sites:
        raise PlanError(
            "commute-needs-sites",
            f'commute learns from records that name sites; the shape of this source is "{source.shape}".',
            "Choose another --method, or a source with user, time and site.",
        )
    clock, sites = plan.clock(), plan.space.read_sites()
    setting = commute_setting(sites, clock)
    method, budget = synthetic_method(plan.method), plan.budget()
    mechanism = method.build(budget, setting)
    check_spends(mechanism, budget)
    unit = unit_of(plan.unit, plan.source, source)
    return PreparedCommute(
        plan=plan,
        source=source,
        sites=sites,
        setting=setting,
        window_us=window_us(clock),
        method=method,
        mechanism=mechanism,
        guarantee=Guarantee(epsilon=plan.epsilon, delta=plan.delta or 0.0, loss=mechanism.loss(), unit=unit),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedCommute(PreparedTrips):
    """A plan with its public things opened. Nothing here depends on a row of the source."""

    plan: SyntheticPlan
    source: EventSource
    sites: Sites = field(repr=False)
    setting: CommuteSetting = field(repr=False)
    window_us: tuple[int, int]
    method: Method
    mechanism: SyntheticCommute
    guarantee: Guarantee

    def places(self) -> dict[str, Any]:
        return {"count": self.sites.count, "sha256": self.sites.digest()}

    def what(self) -> str:
        """The release in a line, for the ledger."""
        return self.line("synthetic site events", f"{self.sites.count} sites")

    def needs(self) -> Needs:
        """Memory and disk, from the sites, the slots and the number of synthetic people, where it is set."""
        return commute_needs(self.sites.count, self.setting.clock.slots, self.plan.count or MOST_UNASKED)

    def notes(self) -> list[str]:
        """What the owner should know of the settings before the run; none of it stops it."""
        noise = self.mechanism.adders["users"].deviation / 2**20
        return [f"the number of {self.plan.unit}s is bought: its noise is about {noise:,.1f}."]

    def asked(self) -> tuple[Any, ...]:
        return "synthetic", ASKED

    def public(self) -> dict[str, Any]:
        """Every parameter that shapes the output, all of them configured."""
        clock = self.setting.clock
        return {
            "kind": "synthetic site events",
            "synthetic": True,
            "sites": self.places(),
            "window": {"start": clock.start.isoformat(), "end": clock.end.isoformat()},
            "time_zone": clock.time_zone,
            "events_per_unit_cap": MOST_EVENTS,
            "count": self.plan.count,
            "method": self.plan.method,
            "mechanism": self.mechanism.describe(),
            "reading": {name: getattr(self.source, name) for name in READING},
        }

    def spends(self) -> list[dict]:
        return spends_of(self.mechanism, SITES_PAY_FOR)

    def manifest(
        self, users: float | None = None, people: int | None = None, *, reproducible: bool = False
    ) -> Manifest:
        """What the release says of itself, before its files are hashed; noisy totals once there are."""
        known: dict[str, float | None] = {}
        if users is not None:
            known = {"users_with_noise": round(users, 3), "synthetic_people": people}
        return trip_manifest(
            self,
            public=self.public(),
            spends=self.spends(),
            columns={name: dict(columns) for name, columns in FILES.items()},
            reproducible=reproducible,
            **known,
        )
