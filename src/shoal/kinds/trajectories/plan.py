"""The plan of a trajectory release: all that shapes it, given by the owner, none of it read off the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from shoal.errors import PlanError
from shoal.events.schema import SourcePlan
from shoal.kinds.plan import StretchPlan, check_common, check_settings, check_whole, part_of
from shoal.privacy.guarantee import Unit
from shoal.space.clock import Clock
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import PRICE

if TYPE_CHECKING:
    from shoal.anonymise.kte import Kte

FEWEST_IN_BLOCK = 5000  # smaller blocks find too few who look alike
DAY_MINUTES = 1440
# the plan for a simulated city; `shoal simulate` fills in what its card says
CITY_PLAN = """# Records of this simulated city: shoal trajectories run --plan trajectories.toml
population = "{population}"
k = 2
tau_minutes = 30        # how long the adversary tracked somebody
epoch_minutes = 30      # people are grouped anew every so often
out = "records"
owner = "records-owner"

[source]
paths = ["{paths}"]

[space]
origin = {origin}  # corner of the lattice, south-west of the city
cell_m = 100.0

[window]
start = "{start}"
end = "{end}"
time_zone = "{time_zone}"
"""


@dataclass(frozen=True, kw_only=True)
class PlacesPlan:
    """The lattice of places, and the sites where records name sites instead of coordinates."""

    origin: tuple[float, float] | None = None  # lon, lat; x, y in metres where planar
    cell_m: float = 100.0
    sites: str | None = None
    site_id: str | None = None
    site_lon: str | None = None
    site_lat: str | None = None
    sites_crs: str | None = None


@dataclass(frozen=True, kw_only=True)
class TrajectoryPlan:
    """Truthful records that k people share: against whom, where, when, from what, to where."""

    population: str
    source: SourcePlan
    window: StretchPlan
    space: PlacesPlan = field(default_factory=PlacesPlan)
    k: int = 2
    tau_minutes: int = 30  # how long the adversary tracked a target
    epoch_minutes: int | None = None  # None: tau
    full_length: bool = False  # k people alike over the whole window: k-anonymity
    step_minutes: int = 1  # of the lattice
    price: float = PRICE  # of suppressing a sample, in cells of width over an epoch
    forget_days: int | None = None  # two people may hide each other again after so many days; None: never
    block_users: int | None = None  # each block of so many users is a release of its own; None: one block
    unit: str = "user"
    out: str = "release"
    owner: str = "owner"
    run_id: str = ""
    supersedes: str = ""
    compose_with: tuple[str, ...] = ()  # earlier releases that overlap: folders, or hashes of manifests
    licence: str = ""
    keep_unsafe: bool = False  # write a release that the verifier refuted, marked as such
    seed: ClassVar[None] = None  # there is no noise to repeat

    def __post_init__(self) -> None:
        Unit(self.unit)
        check_whole("k", self.k, 2, 1000, "Pass --k 2, say.")
        check_whole("step-minutes", self.step_minutes, 1, DAY_MINUTES, "Pass --step-minutes 1, say.")
        if self.forget_days is not None:
            check_whole("forget-days", self.forget_days, 1, 3650, "Pass --forget-days 1, say.")
        if self.block_users is not None:
            remedy = f"Pass --block-users {FEWEST_IN_BLOCK} or more: in small blocks few look alike."
            check_whole("block-users", self.block_users, FEWEST_IN_BLOCK, 10**9, remedy)
        if not self.price > 0 or not self.price < 1e9:
            raise PlanError("plan-range", f"price must be above 0; got {self.price}.", "Pass --price 45.")
        check_common(self)
        if not all(isinstance(each, str) and each for each in self.compose_with):
            raise PlanError("plan-type", "compose_with must be a list of folders of earlier releases.")
        object.__setattr__(self, "compose_with", tuple(self.compose_with))
        _ = self.anonymiser()  # tau and epoch are checked now

    def clock(self) -> Clock:
        return Clock(**asdict(self.window))

    def lattice(self, *, planar: bool) -> Lattice:
        """The public lattice; its origin is said, never found."""
        if self.space.origin is None:
            raise PlanError(
                "lattice-origin",
                "the plan does not say where its lattice begins.",
                "Pass --origin LON,LAT (X,Y for planar metres), a round place south-west of the area.",
            )
        first, last = self._edges_us()
        if (last - first) % (self.step_minutes * 60_000_000):
            raise PlanError(
                "lattice-steps",
                f"the window must be whole steps; it lasts {(last - first) // 60_000_000} minutes, a step "
                f"{self.step_minutes}.",
                "Pass a --step-minutes that divides it, as 1, 5 or 10.",
            )
        return Lattice(
            start=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=first),
            steps=(last - first) // (self.step_minutes * 60_000_000),
            origin=(float(self.space.origin[0]), float(self.space.origin[1])),
            planar=planar,
            minutes=self.step_minutes,
            metres=float(self.space.cell_m),
        )

    def anonymiser(self) -> Kte:
        """k, tau and epoch in steps of the lattice."""
        from shoal.anonymise.kte import Kte  # its kernels load numba

        tau, epoch = self.minutes()
        for name, value in (("tau", tau), ("epoch", epoch)):
            if value < 1 or value % self.step_minutes:
                near = self.step_minutes * max(1, round(value / self.step_minutes))
                raise PlanError(
                    f"trajectories-{name}",
                    f"{name}-minutes must be a multiple of the lattice's step of {self.step_minutes} min and "
                    f"above 0; got {value}.",
                    f"Pass --{name}-minutes {near}, say.",
                )
        if tau % epoch:
            parts = max(1, round(tau / epoch))
            shorter = tau // parts if tau % (parts * self.step_minutes) == 0 else tau
            raise PlanError(
                "trajectories-tau",
                f"tau must be a multiple of the epoch; got {tau} and {epoch} minutes.",
                f"Pass --epoch-minutes {shorter}, or --tau-minutes {epoch * -(-tau // epoch)}.",
            )
        step = self.step_minutes
        forget = None if self.forget_days is None else self.forget_days * DAY_MINUTES // step
        return Kte(
            k=self.k, tau_steps=tau // step, epoch_steps=epoch // step, price=self.price, forget_steps=forget
        )

    def minutes(self) -> tuple[int, int]:
        """tau and the epoch in minutes."""
        if not self.full_length:
            check_whole("tau-minutes", self.tau_minutes, 1, 10**7, "Pass --tau-minutes 30, say.")
            epoch = self.tau_minutes if self.epoch_minutes is None else self.epoch_minutes
            check_whole("epoch-minutes", epoch, 1, 10**7, "Pass --epoch-minutes 30, say.")
            return self.tau_minutes, epoch
        first, last = self._edges_us()
        whole = -(-(last - first) // (60_000_000 * self.step_minutes)) * self.step_minutes
        return whole, whole

    def _edges_us(self) -> tuple[int, int]:
        edges = np.asarray(self.clock().edges_us)
        return int(edges[0]), int(edges[-1])

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> TrajectoryPlan:
        """From nested settings, as a TOML file or flags give them; unknown names are refused."""
        values = dict(settings)
        check_settings(cls, values, "")
        for name in ("source", "window", "population"):
            if name not in values:
                raise PlanError("plan-incomplete", f"the plan does not say its {name}.", _HOW[name])
        values["source"] = part_of(SourcePlan, values["source"], "source")
        values["window"] = part_of(StretchPlan, values["window"], "window")
        space = values.get("space", {})
        if isinstance(space, Mapping) and space.get("origin") is not None:
            space = {**space, "origin": _two_numbers(space["origin"])}
        values["space"] = part_of(PlacesPlan, space, "space")
        return cls(**values)


_HOW = {
    "source": "Name the files of records, as arguments or under [source] paths in the plan.",
    "window": "Pass --start, --end and --time-zone; the window is public and never read off the records.",
    "population": "Pass --population NAME; `shoal ledger create NAME` makes one.",
}


def _two_numbers(value: Any) -> tuple[float, float]:
    ok = isinstance(value, list | tuple) and len(value) == 2
    if not ok or not all(isinstance(each, int | float) and not isinstance(each, bool) for each in value):
        raise PlanError(
            "lattice-origin", f"the origin must be two numbers; got {value!r}.", "Write [lon, lat]."
        )
    return float(value[0]), float(value[1])
