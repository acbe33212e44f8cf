"""The plan of a trajectory release: settings given by the owner, none read from the data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from shoal.errors import PlanError
from shoal.kinds.plan import ReleasePlan, StretchPlan
from shoal.setting import rule, setting
from shoal.space.plan import SitesPlan

if TYPE_CHECKING:
    from shoal.anonymise.kte import Kte
    from shoal.space.clock import Clock
    from shoal.space.lattice import Lattice

FEWEST_IN_BLOCK = 5000  # smaller blocks have too few similar people
DAY_MINUTES = 1440
LONGEST_MINUTES = 10**7
# settings of the plan for a simulated city; None: the default, or what the card of the city says
CITY_PLAN = {
    **dict.fromkeys(("population", "k", "tau_minutes", "epoch_minutes")),
    "out": "records",
    "owner": "records-owner",
    **dict.fromkeys(("source.paths", "space.origin", "space.cell_m")),
    **dict.fromkeys(("window.start", "window.end", "window.time_zone")),
}


@dataclass(frozen=True, kw_only=True)
class PlacesPlan(SitesPlan):
    """The lattice of places, and the sites where records name sites instead of coordinates."""

    origin: tuple[float, float] | None = setting(
        None,
        "lon,lat of the lattice's corner (x,y for planar metres), south-west of the area; public.",
        example=(2.2, 48.8),
        code="lattice-origin",
        type_code="lattice-origin",
        label="Origin",
    )
    cell_m: float = setting(
        100.0,
        "Side of a lattice cell in metres.",
        above=0,
        below=1e6,
        code="lattice-unit",
        label="Size of a cell",
        unit="m",
    )


@dataclass(frozen=True, kw_only=True)
class TrajectoryPlan(ReleasePlan):
    """Truthful records that k people share: against whom, where, when, from what, to where."""

    population: str = setting(
        "Population whose records these are; see `shoal ledger create`. Its ledger lists the release; "
        "nothing is spent.",
        key=True,
        remedy="Pass --population NAME; `shoal ledger create NAME` makes one.",
    )
    k: int = setting(2, "Number of records that fit an observation.", (2, 1000), key=True, label="k")
    tau_minutes: int = setting(
        30, "How long the adversary tracked a target.", (1, LONGEST_MINUTES), label="Tau", unit="minutes"
    )
    epoch_minutes: int | None = setting(
        None,
        "People are grouped anew every so often; tau is a multiple.",
        (1, LONGEST_MINUTES),
        shown="tau",
        example=30,
        label="Epoch",
        unit="minutes",
    )
    full_length: bool = setting(
        False, "k records fit a person over the whole window; tau and epoch are the window.", key=True
    )
    window: StretchPlan = setting(
        "The period that is released.",
        remedy="Pass --start, --end and --time-zone; the window is public and never read off the records.",
    )
    space: PlacesPlan = setting(PlacesPlan, "The lattice of places.")
    step_minutes: int = setting(1, "Step of the lattice in time.", (1, DAY_MINUTES), unit="minutes")
    price: float = setting(
        70.0,
        "Price of losing a sample, in cells of width over an epoch: higher keeps more, in larger boxes.",
        above=0,
        below=1e9,
        key=True,
    )
    forget_days: int | None = setting(
        None,
        "Two people may hide each other again after so many days.",
        (1, 3650),
        shown="never",
        example=1,
        key=True,
        unit="days",
    )
    block_users: int | None = setting(
        None,
        "Hide among blocks of so many users; each block is a release of its own.",
        (FEWEST_IN_BLOCK, 10**9),
        shown="all",
        example=FEWEST_IN_BLOCK,
        key=True,
    )
    unit: str = setting("user", "What a record stands for.", key=True)
    owner: str = setting("owner", "Folder for record key and report.", file=True, last=2)
    run_id: str = setting("", "Another id makes another release of the same plan.", key=True, last=2)
    compose_with: tuple[str, ...] = setting(
        (),
        "Folder of an earlier release of the same people whose window overlaps (or the SHA-256 of its "
        "manifest); repeatable. The promise is then replaced by the measured result of linking them.",
        file=True,
        metavar="RELEASE",
        last=2,
        label="Earlier releases to combine with",
    )
    # a release that the verifier refuted is marked as such
    keep_unsafe: bool = setting(False, "Write what the verifier refuted, marked so.", key=True, last=2)
    seed: ClassVar[None] = None  # there is no noise to repeat

    @rule("compose_with")
    def _check_compose_with(self) -> None:
        if not all(self.compose_with):
            raise PlanError("plan-type", "compose_with must be a list of folders of earlier releases.")

    @rule(
        "k", "tau_minutes", "epoch_minutes", "full_length", "window", "step_minutes", "price", "forget_days"
    )
    def _check_epochs(self) -> None:
        _ = self.anonymiser()

    def clock(self) -> Clock:
        from shoal.space.clock import Clock

        return Clock(**asdict(self.window))

    def lattice(self, *, planar: bool) -> Lattice:
        """The public lattice; its origin is declared, never read off the data."""
        from shoal.space.lattice import Lattice

        if self.space.origin is None:
            raise PlanError(
                "lattice-origin",
                "the plan does not state where its lattice begins.",
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
            epoch = self.tau_minutes if self.epoch_minutes is None else self.epoch_minutes
            return self.tau_minutes, epoch
        first, last = self._edges_us()
        whole = -(-(last - first) // (60_000_000 * self.step_minutes)) * self.step_minutes
        return whole, whole

    def _edges_us(self) -> tuple[int, int]:
        edges = self.clock().edges_us
        return int(edges[0]), int(edges[-1])
