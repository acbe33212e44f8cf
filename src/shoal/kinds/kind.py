"""The kinds of release by name: what the page and the audit need to know of each.

A part of a kind is given as "module:name" below `shoal.kinds` and imported when it is used, so that the table
itself loads no kind.

>>> sorted(KINDS)
['commute', 'density', 'histogram', 'query', 'synthetic', 'trajectories']
>>> KINDS["density"].plan.__name__, KINDS["density"].is_private
('DensityPlan', True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


def _part(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"shoal.kinds.{module}"), name)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of release."""

    name: str
    releases: str  # one sentence for the owner
    main_file: str  # the published file that a recipient opens first
    is_private: bool = True  # differentially private: has a price and may be asked to stop before it is paid
    plan_at: str
    prepare_at: str
    run_at: str
    dry_run_at: str
    methods_at: str

    @property
    def plan(self) -> Any:
        """The class of its plans, with `from_settings`."""
        return _part(self.plan_at)

    @property
    def prepare(self) -> Callable[..., Any]:
        """Opens the public things of a plan and builds the mechanism; reads no row."""
        return _part(self.prepare_at)

    @property
    def run(self) -> Callable[..., Any]:
        """Check, reserve, build, commit, report."""
        return _part(self.run_at)

    @property
    def dry_run(self) -> Callable[..., dict[str, Any]]:
        """What a run would do, spend and leave, from public parameters and the ledger."""
        return _part(self.dry_run_at)

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods that can be released; trajectories have one, without a name."""
        return tuple(_part(self.methods_at)) if self.methods_at else ()


KINDS: dict[str, Kind] = {
    each.name: each
    for each in (
        Kind(
            name="density",
            releases="People per zone and slot.",
            main_file="density.parquet",
            plan_at="density.plan:DensityPlan",
            prepare_at="density.prepare:prepare_density",
            run_at="density.build:run_density",
            dry_run_at="dry_run:density_dry_run",
            methods_at="density.methods:METHODS",
        ),
        Kind(
            name="trajectories",
            releases="Real records, generalised until k people look alike.",
            main_file="records.parquet",
            is_private=False,
            plan_at="trajectories.plan:TrajectoryPlan",
            prepare_at="trajectories.build:prepare_trajectories",
            run_at="trajectories.build:run_trajectories",
            dry_run_at="dry_run:trajectories_dry_run",
            methods_at="",
        ),
        Kind(
            name="histogram",
            releases="Distinct trips in any rectangle.",
            main_file="histogram.parquet",
            plan_at="histogram.plan:HistogramPlan",
            prepare_at="histogram.prepare:prepare_histogram",
            run_at="histogram.build:run_histogram",
            dry_run_at="dry_run:histogram_dry_run",
            methods_at="histogram.methods:METHODS",
        ),
        Kind(
            name="synthetic",
            releases="Synthetic trips.",
            main_file="trips.parquet",
            plan_at="synthetic.plan:SyntheticPlan",
            prepare_at="synthetic.prepare:prepare_synthetic",
            run_at="synthetic.build:run_synthetic",
            dry_run_at="dry_run:synthetic_dry_run",
            methods_at="synthetic.methods:TRIPS",
        ),
        Kind(
            name="commute",
            releases="Synthetic events at sites.",
            main_file="events.parquet",
            plan_at="synthetic.plan:SyntheticPlan",
            prepare_at="synthetic.prepare:prepare_synthetic",
            run_at="synthetic.build:run_synthetic",
            dry_run_at="dry_run:synthetic_dry_run",
            methods_at="synthetic.methods:EVENTS",
        ),
        Kind(
            name="query",
            releases="Answers to counting queries.",
            main_file="answers.csv",
            plan_at="query.prepare:QueryPlan",
            prepare_at="query.prepare:prepare_query",
            run_at="query.build:run_query",
            dry_run_at="dry_run:query_dry_run",
            methods_at="query.prepare:METHODS",
        ),
    )
}
