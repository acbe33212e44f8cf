"""The kinds of release by name: what the page and the audit need to know of each.

A part of a kind is given as "module:name" below `shoal.kinds` and imported when it is used, so that the table
itself loads no kind.

>>> sorted(KINDS)
['commute', 'density', 'histogram', 'query', 'synthetic', 'trajectories']
>>> KINDS["density"].plan.__name__, KINDS["density"].is_private
('DensityPlan', True)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.kinds.run import Build


def _part(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"shoal.kinds.{module}"), name)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of release."""

    name: str
    title: str
    releases: str  # one sentence for the owner
    main_file: str  # the published file that a recipient opens first
    is_private: bool = True  # differentially private: has a price and may be asked to stop before it is paid
    plan_at: str
    prepare_at: str
    build_at: str
    methods_at: str
    records: str = ""  # of a simulated city, that a release is made of; empty: there is no plan for one

    @property
    def plan(self) -> Any:
        """The class of its plans, with `from_settings`."""
        return _part(self.plan_at)

    @property
    def prepare(self) -> Callable[..., Any]:
        """Opens the public things of a plan and builds the mechanism; reads no row."""
        return _part(self.prepare_at)

    @property
    def build(self) -> type[Build]:
        """What a run does between reserve and commit, and the owner's report."""
        return _part(self.build_at)

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods that can be released; trajectories have one, without a name."""
        return tuple(_part(self.methods_at)) if self.methods_at else ()

    @property
    def city_plan(self) -> Mapping[str, Any]:
        """Settings of the plan for a simulated city; None: the default, or what the card of the city says."""
        return _part(f"{self.plan_at.partition(':')[0]}:CITY_PLAN")


KINDS: dict[str, Kind] = {
    each.name: each
    for each in (
        Kind(
            name="density",
            title="Density",
            releases="People per zone and slot.",
            main_file="density.parquet",
            plan_at="density.plan:DensityPlan",
            prepare_at="density.prepare:prepare_density",
            build_at="density.build:DensityBuild",
            methods_at="density.methods:METHODS",
            records="events",
        ),
        Kind(
            name="trajectories",
            title="Records among k",
            releases="Real records, generalised until k people look alike.",
            main_file="records.parquet",
            is_private=False,
            plan_at="trajectories.plan:TrajectoryPlan",
            prepare_at="trajectories.prepare:prepare_trajectories",
            build_at="trajectories.build:TrajectoryBuild",
            methods_at="",
            records="samples",
        ),
        Kind(
            name="histogram",
            title="Trips in rectangles",
            releases="Distinct trips in any rectangle.",
            main_file="histogram.parquet",
            plan_at="histogram.plan:HistogramPlan",
            prepare_at="histogram.prepare:prepare_histogram",
            build_at="histogram.build:HistogramBuild",
            methods_at="histogram.methods:METHODS",
            records="trips",
        ),
        Kind(
            name="synthetic",
            title="Synthetic trips",
            releases="Synthetic trips.",
            main_file="trips.parquet",
            plan_at="synthetic.plan:SyntheticPlan",
            prepare_at="synthetic.prepare:prepare_synthetic",
            build_at="synthetic.build:SyntheticBuild",
            methods_at="synthetic.methods:TRIPS",
            records="trips",
        ),
        Kind(
            name="commute",
            title="Synthetic events at sites",
            releases="Synthetic events at sites.",
            main_file="events.parquet",
            plan_at="synthetic.plan:SyntheticPlan",
            prepare_at="synthetic.prepare:prepare_synthetic",
            build_at="commute.build:CommuteBuild",
            methods_at="synthetic.methods:EVENTS",
        ),
        Kind(
            name="query",
            title="Counting queries",
            releases="Answers to counting queries.",
            main_file="answers.csv",
            plan_at="query.plan:QueryPlan",
            prepare_at="query.prepare:prepare_query",
            build_at="query.build:QueryBuild",
            methods_at="query.plan:METHODS",
        ),
    )
}
