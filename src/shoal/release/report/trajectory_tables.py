"""The words and tables of the trajectory report, as escaped HTML made from the facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from shoal.metrics.trajectories import Granularity
from shoal.release.report.tables import UNDEFINED, number, percent, plan_table, table, text
from shoal.release.report.trajectory_picture import local_zone

if TYPE_CHECKING:
    from shoal.release.report.trajectories import TrajectoryFacts

LIMITS = (
    "No composition, no protection beyond the stated attacker. Who knows more than one such stretch of a "
    "person, or holds a second release about the same people, may find fewer records that fit, down to one."
)
RUN_COLUMNS = {
    "data": "Data",
    "users": "Users",
    "k": "k",
    "tau_min": "Tau, min",
    "epoch_min": "Epoch, min",
    "violations": "Violations",
    "suppressed": "Suppressed",
    "median_space_m": "Median space",
    "median_time_min": "Median time",
    "seconds": "Seconds",
}


def duration(minutes: float) -> str:
    """Minutes below two hours, else hours.

    >>> duration(30), duration(120), duration(90), duration(8.5)
    ('30 minutes', '2 hours', '90 minutes', '8.5 minutes')
    """
    if minutes >= 120 and minutes % 60 == 0:
        return f"{minutes / 60:,.0f} hours"
    return f"{number(float(minutes))} minute{'' if minutes == 1 else 's'}"


def distance(metres: float) -> str:
    """Kilometres with a decimal from one on, else metres.

    >>> distance(200.0), distance(1849.0), distance(float("nan"))
    ('200 m', '1.8 km', 'not defined')
    """
    if metres != metres:
        return UNDEFINED
    return f"{metres / 1000:,.1f} km" if metres >= 1000 else f"{metres:.0f} m"


def subtitle(facts: TrajectoryFacts) -> str:
    lattice, zone = facts.lattice, local_zone(facts.time_zone)
    first = lattice.start.astimezone(zone)
    last = (lattice.start + timedelta(minutes=lattice.minutes * lattice.steps - 1)).astimezone(zone)
    return text(
        f"{facts.users:,} people, {facts.utility.samples:,} samples, {facts.utility.boxes:,} published "
        f"boxes; {first:%a} {first.day} {first:%b %Y} to {last:%a} {last.day} {last:%b %Y} "
        f"({facts.time_zone}); lattice of {number(float(lattice.metres))} m and {duration(lattice.minutes)}."
    )


def claim(facts: TrajectoryFacts) -> str:
    """What is claimed, in plain words."""
    tau, epoch = duration(facts.tau_minutes), duration(facts.epoch_minutes)
    return text(
        f"Claim: whoever knows all samples of a person in any stretch of {tau}, and that there are no others "
        f"in it, finds at least {facts.k} published records that fit equally well (k = {facts.k}, "
        f"tau = {tau}, epoch = {epoch}). Records are truthful: every box holds a sample of its own person; "
        "what could not be hidden was left out."
    )


def verdict(facts: TrajectoryFacts) -> str:
    """Whether the claim was checked, on how many pairs, and what came out."""
    found = facts.verified
    if found is None:
        return '<p class="notice"><b>Not verified.</b> The claim was not checked on the published file.</p>'
    took = "" if found.seconds is None else f" in {found.seconds:,.0f} s"
    checked = f"{found.pairs:,} pairs of a person and a start of the stretch were checked{took}"
    if found.passed:
        return f'<p class="verdict"><b>Verified.</b> All {text(checked)}: the claim holds for every one.</p>'
    faults = f" Boxes or samples that break a rule of their own: {found.faults:,}." if found.faults else ""
    return (
        f'<p class="notice failed"><b>The claim does not hold.</b> {text(checked)}; '
        f"{found.violations:,} have fewer than {facts.k} records that fit.{text(faults)} Do not publish.</p>"
    )


def notices(facts: TrajectoryFacts) -> str:
    return "".join(f'<p class="notice">{text(line)}</p>' for line in facts.notices)


def tiles(facts: TrajectoryFacts) -> str:
    """The figures a reader looks for first."""
    own, density = facts.utility.granularity.per_sample, facts.utility.density
    rows = [
        ("Space, median", distance(own.space_m.median), _between(distance, own.space_m)),
        ("Time, median", _minutes(own.time_min.median), _between(_minutes, own.time_min)),
        ("Suppressed", percent(facts.utility.suppressed_share), "of all samples are in no box"),
        ("In a wrong cell", percent(density.total_variation), "of the people on a map of one slot"),
        ("People counted", percent(density.total_ratio), "of those per cell and slot in the raw data"),
    ]
    return "".join(
        f'<div class="tile"><dt>{text(name)}</dt><dd>{text(value)}</dd><p>{text(note)}</p></div>'
        for name, value, note in rows
    )


def granularity_table(granularity: Granularity) -> str:
    rows = []
    for spans, weighting in (
        (granularity.per_sample, "per retained sample"),
        (granularity.per_box, "per published box"),
    ):
        for name, spread, form in (("Space", spans.space_m, distance), ("Time", spans.time_min, _minutes)):
            values = (spread.mean, spread.q1, spread.median, spread.q3)
            rows.append([f"{name}, {weighting}", f"{spans.count:,}", *(form(value) for value in values)])
    return table(
        ["Span", "Count", "Mean", "Lower quartile", "Median", "Upper quartile"], rows, numeric_from=1
    )


def density_words(facts: TrajectoryFacts) -> str:
    density, lattice = facts.utility.density, facts.lattice
    return text(
        f"In cells of {distance(density.cell_cells * lattice.metres)} and slots of "
        f"{duration(density.slot_steps * lattice.minutes)}: mean absolute error "
        f"{percent(density.relative_error)} of the mean; "
        f"{percent(density.total_variation)} of the people of a slot stand in a wrong cell; "
        f"{percent(density.total_ratio)} of the raw presences are counted."
    )


def runs_table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    columns = [name for name in RUN_COLUMNS if any(name in row for row in rows)]
    lines = [[_run_cell(name, row.get(name)) for name in columns] for row in rows]
    return table([RUN_COLUMNS[name] for name in columns], lines, numeric_from=int("data" in columns))


def picture_words(facts: TrajectoryFacts) -> str:
    picture = facts.picture
    if picture is None:
        return '<p class="empty">No record was chosen for a picture.</p>'
    record = "" if picture.record is None else f", record {picture.record} of the published file"
    lost = int((~picture.retained).sum())
    return (
        f'<p class="note">Person {text(picture.user)}{text(record)}: {len(picture.samples):,} samples, '
        f"of which {lost:,} suppressed, became {len(picture.boxes):,} boxes. Kilometres from the lattice's "
        "origin.</p>"
    )


def public_table(public: Mapping[str, Any]) -> str:
    return plan_table({"public": dict(public)})


def _run_cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    forms = {"suppressed": percent, "median_space_m": distance, "median_time_min": _minutes}
    if name in forms:
        return forms[name](float(value))
    return value if isinstance(value, str) else f"{value:,.0f}" if name == "seconds" else number(value)


def _minutes(value: float) -> str:
    return UNDEFINED if value != value else f"{value:,.1f} min" if value % 1 else f"{value:,.0f} min"


def _between(form: Any, spread: Any) -> str:
    return f"quartiles {form(spread.q1)} and {form(spread.q3)}, mean {form(spread.mean)}"
