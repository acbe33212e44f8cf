"""What requests to the page's server hold; everything else is refused before it is looked at."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from shoal.events.schema import ROLES

Kind = Literal["density", "trajectories", "histogram", "synthetic"]
Line = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
MaybeLine = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]{1,64}$")]
ReleaseId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
RelativePath = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Amount = Annotated[float, Field(gt=0, le=1000)]
Delta = Annotated[float, Field(ge=0, lt=1)]
Box = tuple[
    Annotated[float, Field(ge=-1e8, le=1e8)],
    Annotated[float, Field(ge=-1e8, le=1e8)],
    Annotated[float, Field(ge=-1e8, le=1e8)],
    Annotated[float, Field(ge=-1e8, le=1e8)],
]
Role = Annotated[str, StringConstraints(pattern="^(" + "|".join(ROLES) + ")$")]


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class CityForm(Form):
    city: Literal["town", "trips", "walks"] = "town"


class SourceForm(Form):
    """A source: files of this machine under the page's folder, and what their columns are."""

    name: Line
    paths: Annotated[list[RelativePath], Field(min_length=1, max_length=50)]
    columns: dict[Role, Line] = Field(default_factory=dict)
    time_zone: MaybeLine | None = None
    time_unit: Literal["s", "ms", "us"] | None = None
    time_format: MaybeLine | None = None
    delimiter: Annotated[str, StringConstraints(max_length=1)] | None = None
    on_bad_row: Literal["stop", "drop"] | None = None
    zones: RelativePath | None = None
    zone_id: MaybeLine | None = None
    zone_name: MaybeLine | None = None
    sites: RelativePath | None = None
    site_id: MaybeLine | None = None
    site_lon: MaybeLine | None = None
    site_lat: MaybeLine | None = None
    start: MaybeLine | None = None
    end: MaybeLine | None = None
    users: Annotated[int, Field(ge=1, le=10**10)] | None = None
    population: MaybeLine | None = None


class PlanForm(Form):
    """One release, as the sliders stand."""

    kind: Kind
    source: Id
    population: Line
    name: Name
    epsilon: Amount | None = None
    delta: Delta | None = None
    method: Name | None = None
    start: MaybeLine | None = None
    end: MaybeLine | None = None
    time_zone: MaybeLine | None = None
    slot_minutes: Annotated[int, Field(ge=1, le=10_080)] | None = None
    map: Literal["zones", "squares", "h3"] | None = None
    cell_m: Annotated[float, Field(ge=10, le=100_000)] | None = None
    h3: Annotated[int, Field(ge=0, le=12)] | None = None
    box: Box | None = None
    users: Annotated[int, Field(ge=1, le=10**10)] | None = None
    unit: Literal["user", "trip"] | None = None
    k: Annotated[int, Field(ge=2, le=100)] | None = None
    tau_minutes: Annotated[int, Field(ge=1, le=10_080)] | None = None
    epoch_minutes: Annotated[int, Field(ge=1, le=10_080)] | None = None
    origin: tuple[float, float] | None = None
    cells: Annotated[int, Field(ge=1, le=512)] | None = None
    trips_per_user: Annotated[int, Field(ge=1, le=100_000)] | None = None
    trips_cap: Annotated[int, Field(ge=1, le=100_000)] | None = None
    trips: Annotated[int, Field(ge=1, le=10**10)] | None = None
    gap_minutes: Annotated[float, Field(gt=0, le=10_080)] | None = None
    step_s: Annotated[float, Field(ge=1, le=86_400)] | None = None
    count: Annotated[int, Field(ge=1, le=10**7)] | None = None
    compose_with: Annotated[list[ReleaseId], Field(max_length=100)] | None = None
    licence: MaybeLine | None = None
    run_id: MaybeLine | None = None


class ReleaseForm(Form):
    plan: PlanForm
    even_if_nobody: bool = False
    again: bool = (
        False  # a run that was stopped: what it committed comes back for free, so nothing is refused yet
    )


class ViewForm(Form):
    """Which part of a release is drawn."""

    first: Annotated[int, Field(ge=0, le=10**12)] = 0
    count: Annotated[int, Field(ge=1, le=200)] = 20
    boxes: Annotated[list[Box], Field(max_length=100)] = Field(default_factory=list)
    raw: bool = True


class OpenForm(Form):
    """Which file of a release is opened in a tab, or saved."""

    what: Literal["report", "attack", "folder"]
    adversary: Name | None = None


class PublishForm(Form):
    name: Name


class AttackForm(Form):
    release: ReleaseId
    adversary: Literal["inference", "membership", "recovery", "unicity", "synthetic", "tracker"]
    prior: Literal["freq_roi", "roi_day", "roi_day_week", "last_day", "last_week"] = "freq_roi"
    known_from: MaybeLine | None = None


class AuditForm(Form):
    release: ReleaseId


class EvidenceForm(Form):
    release: ReleaseId
    annex: bool = False


class BudgetForm(Form):
    """A lifetime budget: epsilon at a delta (counted in rho), or pure epsilon."""

    epsilon: Amount
    delta: Delta | None = None  # None or 0: pure
    note: MaybeLine = ""


class PopulationForm(BudgetForm):
    population: Annotated[
        str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")
    ]


class VerifyForm(Form):
    head: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None


class Problem(BaseModel):
    """What an error says: a code, what is wrong, what to do."""

    code: str
    message: str
    remedy: str
