"""Fields of requests to the page's server; a request with any other field is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model

from shoal.attacks.runs.adversaries import ADVERSARIES
from shoal.errors import Fault, respelled
from shoal.events.schema import ROLES
from shoal.kinds import KINDS
from shoal.kinds.setting_forms import form_fields
from shoal.kinds.simulated import CITIES

if TYPE_CHECKING:
    Kind = City = AdversaryName = str
else:
    Kind = Literal[tuple(name for name, kind in KINDS.items() if kind.is_drawn)]
    City = Literal[tuple(CITIES)]
    AdversaryName = Literal[tuple(name for name, each in ADVERSARIES.items() if each.kinds)]
Line = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
MaybeLine = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]{1,64}$")]
ReleaseId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
RelativePath = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Amount = Annotated[float, Field(gt=0, le=1000)]
Delta = Annotated[float, Field(ge=0, lt=1)]
Number = Annotated[float, Field(ge=-1e300, le=1e300)]
Side = Annotated[float, Field(ge=-1e8, le=1e8)]
Box = tuple[Side, Side, Side, Side]
Role = Annotated[str, StringConstraints(pattern="^(" + "|".join(ROLES) + ")$")]


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class CityForm(Form):
    city: City = "town"


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


class ChosenForm(Form):
    """Fields of a release's form beside the settings of its plan."""

    kind: Kind
    source: Id
    population: Line
    name: Name
    map: Literal["zones", "squares", "h3"] | None = None
    compose_with: Annotated[list[ReleaseId], Field(max_length=100)] | None = None


# A value as the page sends it: the plan says what is wrong with it, whatever its type
Value = bool | int | Number | MaybeLine | Annotated[list[Number | MaybeLine], Field(max_length=50)] | None
PLANS = {name: kind.plan for name, kind in KINDS.items() if kind.is_drawn}
FIELDS = {kind: form_fields(plan) for kind, plan in PLANS.items()}
if TYPE_CHECKING:

    class PlanForm(ChosenForm):
        """One release, as the form stands."""

else:
    PlanForm = create_model(
        "PlanForm",
        __base__=ChosenForm,
        __doc__="One release, as the form stands: the settings of plans that have a label, by their names.",
        **{
            name: (Value, None)
            for name in dict.fromkeys(each for fields in FIELDS.values() for each in fields)
            if name not in ChosenForm.model_fields
        },
    )


class ReleaseForm(Form):
    plan: PlanForm
    allow_empty: bool = False
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
    adversary: AdversaryName
    prior: Literal["freq_roi", "roi_day", "roi_day_week", "last_day", "last_week"] = "freq_roi"
    known_from: MaybeLine | None = None


class AuditForm(Form):
    release: ReleaseId


class EvidenceForm(Form):
    release: ReleaseId
    annex: bool = False


class BudgetForm(Form):
    """A lifetime budget: epsilon at a delta, half of it pure unless `pure` says how much; or pure epsilon."""

    epsilon: Amount
    delta: Delta | None = None  # None or 0: pure
    pure: Annotated[float, Field(ge=0, le=1000)] | None = None
    note: MaybeLine = ""


class PopulationForm(BudgetForm):
    population: Annotated[Line, StringConstraints(max_length=100)]


class VerifyForm(Form):
    head: ReleaseId | None = None  # a hash, as a release's


class FieldProblem(BaseModel):
    """What is wrong with one field of a form."""

    field: str
    code: str
    message: str
    remedy: str


class Problem(BaseModel):
    """An error: code, message, remedy, and the fields concerned if they are known."""

    code: str
    message: str
    remedy: str
    faults: list[FieldProblem] = []


LABELS = {each.flag: each.label for fields in FIELDS.values() for each in fields.values()}
_COMMAND = re.compile(r"`shoal ledger (?:create|raise|lower)[^`]*`")


def for_page(text: str) -> str:
    """A text in which settings are the labels of their fields.

    >>> for_page("Pass --epsilon 0.5, say.")
    'Set "Epsilon" to 0.5, say.'
    >>> for_page("Check --start and --zones.")
    'Check "Window from" and "zones".'
    """

    def spell(verb: str, name: str, value: str | None) -> str:
        label = f'"{LABELS.get(name) or name.replace("-", " ")}"'
        if not verb:
            return label if value is None else f"{label} {value}"
        verb = "Set" if verb[0].isupper() else "set"
        return f"{verb} {label}" if value is None else f"{verb} {label} to {value}"

    return respelled(_COMMAND.sub("the ledger view", text), spell)


def field_problems(faults: Iterable[Fault]) -> list[dict[str, str]]:
    """The faults of a plan by the fields of the form."""
    fields = {each.path: name for fields in FIELDS.values() for name, each in fields.items()}
    return [
        {
            "field": fields.get(each.setting, each.setting),
            "code": each.code,
            "message": for_page(each.message),
            "remedy": for_page(each.remedy),
        }
        for each in faults
    ]
