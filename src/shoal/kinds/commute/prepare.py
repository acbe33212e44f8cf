"""Synthetic site events, prepared: sites, classes, noise, price. No row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.engine.buckets import MOST_EVENTS
from shoal.errors import PlanError
from shoal.events.schema import EventSource
from shoal.kinds.commute.published import FILES, verdict_of
from shoal.kinds.describe import BASE, SMALL_FILES, Outcome, as_list, reading_of, window_of
from shoal.kinds.run import RunResult
from shoal.kinds.synthetic.plan import METHODS, MOST_UNASKED, SITES_PAY_FOR, SyntheticPlan
from shoal.kinds.trips import PreparedTrips, read_it
from shoal.kinds.verdict import Verdict
from shoal.release.staging import Needs
from shoal.space.places import Sites
from shoal.space.setting import CommuteSetting, commute_setting

HOW_TO_READ = as_list(
    (
        "**No person here exists.** All people were drawn from a model of homes, work places, commutes and "
        "hours of calls, whose measurements have noise.",
        "Homes and work places are the sites of records at night and in work hours.",
        "The model preserves counts by hour and by site, commutes and their lengths; a single person is no "
        "evidence about anybody.",
        "Any number of queries on these files costs no further budget.",
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
    sites = plan.space.read_sites()
    setting = commute_setting(sites, plan.clock())
    return PreparedCommute.of(plan, source, setting, METHODS.named(plan.method), sites=sites)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedCommute(PreparedTrips):
    """A plan of synthetic events at sites, opened."""

    kind = "commute"
    pays_for = SITES_PAY_FOR
    plan: SyntheticPlan
    sites: Sites = field(repr=False)
    setting: CommuteSetting = field(repr=False)

    def places(self) -> dict[str, Any]:
        return {"count": self.sites.count, "sha256": self.sites.digest()}

    def what(self) -> str:
        return self.line("synthetic site events", f"{self.sites.count} sites")

    def needs(self) -> Needs:
        return commute_needs(self.sites.count, self.setting.clock.slots, self.plan.count or MOST_UNASKED)

    def notes(self) -> list[str]:
        noise = self.mechanism.adders["users"].deviation / 2**20
        return [f"the number of {self.plan.unit}s is measured with noise of about {noise:,.1f}."]

    def files(self) -> Mapping[str, Mapping[str, str]]:
        return FILES

    def reading(self) -> str:
        return HOW_TO_READ

    def public(self) -> dict[str, Any]:
        return {
            "kind": "synthetic site events",
            "synthetic": True,
            "sites": self.places(),
            **window_of(self.setting.clock),
            "events_per_unit_cap": MOST_EVENTS,
            "count": self.plan.count,
            "method": self.plan.method,
            "mechanism": self.mechanism.describe(),
            "reading": reading_of(self.source),
        }

    def rows(self) -> list[tuple[str, str]]:
        plan = self.plan
        return [
            *self.first_rows(),
            ("sites", f"{self.sites.count:,}, in {self.setting.region_count} regions"),
            self.window_row(),
            ("kept", f"all records of a {plan.unit}, scaled to norm 1 per table"),
            ("written", "as many people" if plan.count is None else f"{plan.count:,} synthetic people"),
            self.source_row(),
        ]

    def verdict(self) -> Verdict:
        return verdict_of(None, self.mechanism.describe(), self.guarantee.to_manifest())

    def outcome(self, result: RunResult) -> Outcome:
        return Outcome(then=[read_it(result)])

    def key_parts(self) -> list[Any]:
        return self.key_parts_of("synthetic", unread="trips")


def commute_needs(sites: int, slots: int, people: int) -> Needs:
    """Tables over the sites and slots; the drawn people with their events.

    The number of events of a person is measured with noise, so with a small budget a run may need several
    times more or less.
    """
    return Needs(
        memory=BASE + 2_000 * sites + 1_000 * slots + 5_000 * people, disk=SMALL_FILES + 3_000 * people
    )
