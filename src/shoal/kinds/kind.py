"""The kinds of release by name: what the command, the page, a recipient's check and the audit need to know.

The parts of a kind stand in the folder called like it: `build.py` with its `DensityBuild`, and `published.py`
with FILES, `problems`, `verdict` and, where there is a picture, `view`. They are imported when they are used,
so that the table itself loads no kind.

>>> sorted(KINDS)
['commute', 'density', 'histogram', 'query', 'synthetic', 'trajectories']
>>> KINDS["density"].plan.__name__, KINDS["density"].is_private
('DensityPlan', True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.kinds.run import Build
    from shoal.kinds.verdict import Verdict
    from shoal.mechanisms.method import Method
    from shoal.release.manifest import Manifest


def _part(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"shoal.kinds.{module}"), name)


@dataclass(frozen=True, kw_only=True)
class ViewRequest:
    """Which part of a release the page draws, where it does not draw all of it."""

    first: int = 0  # of the trips, or the number of the record
    count: int = 20
    boxes: Sequence[tuple[float, float, float, float]] = ()  # rectangles to be answered


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of release."""

    name: str
    title: str
    releases: str  # what it holds, and what protects it
    command: str  # that releases it
    shapes: tuple[str, ...]  # of the sources that it takes, those that it is made for first
    main_file: str  # the published file that a recipient opens first
    plan_at: str  # the plan; beside it prepare.py with `prepare_...`, called like the folder
    methods_at: str  # empty: not differentially private, so there is no mechanism to choose
    records: str = ""  # of a simulated city, that a release is made of; empty: there is no plan for one

    @property
    def plan(self) -> Any:
        """The class of its plans, with `from_settings`."""
        return _part(self.plan_at)

    @property
    def prepare(self) -> Callable[..., Any]:
        """Opens the public things of a plan and builds the mechanism; reads no row."""
        folder = self.plan_at.partition(".")[0]
        return _part(f"{folder}.prepare:prepare_{folder}")

    @property
    def build(self) -> type[Build]:
        """What a run does between reserve and commit, and the owner's report."""
        return _part(f"{self.name}.build:{self.name.capitalize()}Build")

    @property
    def is_private(self) -> bool:
        """Differentially private: has a price and may be asked to stop before it is paid."""
        return bool(self.methods_at)

    @property
    def methods(self) -> Mapping[str, Method]:
        """The methods that can be released, by name."""
        return _part(self.methods_at) if self.methods_at else {}

    @property
    def files(self) -> Mapping[str, Mapping[str, str]]:
        """Every file that a release may publish, with its columns and what they mean."""
        return _part(f"{self.name}.published:FILES")

    @property
    def problems(self) -> Callable[[Path, Manifest], Iterator[str]]:
        """Where a manifest disagrees with the files of its release."""
        return _part(f"{self.name}.published:problems")

    @property
    def verdict(self) -> Callable[[Path, Manifest], Verdict]:
        """What a release is good for, from its published numbers; before the run, `Prepared.verdict`."""
        return _part(f"{self.name}.published:verdict")

    @property
    def view(self) -> Callable[[Path, Path | None, ViewRequest], dict[str, Any]] | None:
        """What the page draws of a published folder, and of the owner's report beside it; None: nothing."""
        return _part(f"{self.name}.published:view") if self.is_drawn else None

    @property
    def script(self) -> Path:
        """The script of the page that draws what `view` returns."""
        return Path(__file__).parent / self.name / "view.js"

    @property
    def is_drawn(self) -> bool:
        """Whether the page has a picture of it, and so offers to make it."""
        return self.script.is_file()

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
            releases="How many people were in each zone in each slot. Differentially private for all that "
            "a person did in the window.",
            command="shoal density run",
            shapes=("site", "transit", "point", "planar", "trip-point", "trip-list"),
            main_file="density.parquet",
            plan_at="density.plan:DensityPlan",
            methods_at="density.plan:METHODS",
            records="events",
        ),
        Kind(
            name="trajectories",
            title="k-anonymous trajectories",
            releases="Real records, in boxes of space and time that at least k people share. Not "
            "differential privacy: it protects against somebody who tracked a person for a time "
            "tau.",
            command="shoal trajectories run",
            shapes=("site", "transit", "point", "planar", "trip-point"),
            main_file="records.parquet",
            plan_at="trajectories.plan:TrajectoryPlan",
            methods_at="",
            records="samples",
        ),
        Kind(
            name="histogram",
            title="Trips in rectangles",
            releases="One file that says how many distinct trips crossed any rectangle. Differentially "
            "private for all trips of a person.",
            command="shoal histogram run",
            shapes=("trip-point", "trip-list", "point", "planar"),
            main_file="histogram.parquet",
            plan_at="histogram.plan:HistogramPlan",
            methods_at="histogram.plan:METHODS",
            records="trips",
        ),
        Kind(
            name="synthetic",
            title="Synthetic trips",
            releases="Trips that nobody made, moving like the real ones. Differentially private for all "
            "that a person did.",
            command="shoal synthesize run",
            shapes=("trip-point", "trip-list", "point", "planar", "site"),
            main_file="trips.parquet",
            plan_at="synthetic.plan:SyntheticPlan",
            methods_at="synthetic.plan:TRIPS",
            records="trips",
        ),
        Kind(
            name="commute",
            title="Synthetic events at sites",
            releases="Events at sites of people who do not exist, who commute like the real ones. "
            "Differentially private for all that a person did.",
            command="shoal synthesize run --method commute",
            shapes=("site",),
            main_file="events.parquet",
            plan_at="synthetic.plan:SyntheticPlan",
            methods_at="synthetic.plan:EVENTS",
        ),
        Kind(
            name="query",
            title="Counting queries",
            releases="Numbers of visits in chosen zones and slots. Differentially private for all that a "
            "person did in the window.",
            command="shoal query",
            shapes=("site", "transit", "point", "planar", "trip-point", "trip-list"),
            main_file="answers.csv",
            plan_at="query.plan:QueryPlan",
            methods_at="query.plan:METHODS",
        ),
    )
}
