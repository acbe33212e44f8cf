"""The words and tables of the trajectory report, as escaped HTML made from the facts.

What the tracker measured beside its verdict, as rows for charts and tables.

Read from plain values, by name; a missing figure is left out, an unknown one is listed as it stands. Nothing
here is promised by a release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from shoal.kinds.trajectories.picture import local_zone
from shoal.metrics.trajectories import Granularity
from shoal.release.page.tables import UNDEFINED, flat, number, percent, plan_table, table, text, words

if TYPE_CHECKING:
    from shoal.kinds.trajectories.report import TrajectoryFacts


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


OWN_TABLES = (
    "candidates_quartiles",
    "leakage_by_lag",
    "more_knowledge",
    "same_record",
    "limits",
    "windows",
    "seed",
)


@dataclass(frozen=True, kw_only=True)
class MeasuredFigures:
    """Leakage by lag, what more knowledge does, recurring pairs; `rest` is what has no place of its own."""

    leakage: list[dict[str, Any]] = field(default_factory=list)  # label, share
    knowledge: list[dict[str, Any]] = field(default_factory=list)  # knows, fewer, one, quartiles
    candidates: tuple[float, float, float] | None = None
    pairs: Mapping[str, Any] = field(default_factory=dict)
    windows: int | None = None  # drawn at random, from `seed`
    seed: int | None = None
    rest: dict[str, Any] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.leakage or self.knowledge or self.candidates or self.pairs or self.rest)


def read_measured(measured: Mapping[str, Any], *, epoch_minutes: int) -> MeasuredFigures:
    """The figures of `Measured.to_plain()`, lags in hours and minutes."""
    pairs = measured.get("same_record")
    return MeasuredFigures(
        leakage=[
            {
                "label": lag_words(row["from_epochs"] * epoch_minutes, row["to_epochs"] * epoch_minutes),
                **_share(row),
            }
            for row in _rows(measured, "leakage_by_lag", "from_epochs", "to_epochs", "share")
        ],
        knowledge=[
            {
                "knows": str(row["knows"]),
                "fewer": row["fewer_than_k_share"],
                "one": row.get("only_one_share"),
                "quartiles": _three(row.get("quartiles")),
            }
            for row in _rows(measured, "more_knowledge", "knows", "fewer_than_k_share")
        ],
        candidates=_three(measured.get("candidates_quartiles")),
        pairs=pairs if isinstance(pairs, Mapping) else {},
        windows=measured.get("windows"),
        seed=measured.get("seed"),
        rest={name: value for name, value in measured.items() if name not in OWN_TABLES},
    )


def lag_words(first: float, last: float) -> str:
    """A range of minutes, in the largest unit both are whole in.

    >>> lag_words(0, 30), lag_words(30, 60), lag_words(60, 120), lag_words(2880, 5760)
    ('0-30 min', '30-60 min', '1-2 h', '2-4 d')
    """
    for minutes, unit in ((1440, "d"), (60, "h")):
        if first % minutes == last % minutes == 0:
            return f"{first // minutes:g}-{last // minutes:g} {unit}"
    return f"{first:g}-{last:g} min"


def measured_tables(measured: MeasuredFigures, k: int) -> str:
    """Every figure as a number, and those without a chart."""
    parts = []
    if measured.knowledge:
        rows = [
            [row["knows"], _percent(row["fewer"]), _percent(row["one"]), _quartiles(row["quartiles"])]
            for row in measured.knowledge
        ]
        head = [
            "An attacker who knows",
            f"Fewer than {k} fit",
            "Only one fits",
            "Records that fit, quartiles",
        ]
        parts.append(table(head, rows, numeric_from=1))
    if measured.leakage:
        sides = ("share", "before", "after")
        rows = [[row["label"], *(_percent(row[side]) for side in sides)] for row in measured.leakage]
        head = ["Leakage, by time from the known stretch", "Both sides", "Before", "After"]
        parts.append(table(head, rows, numeric_from=1))
    worst = [pair for pair in measured.pairs.get("worst") or [] if isinstance(pair, Mapping)]
    if worst:
        rows = [
            [_cell(pair.get("user")), _cell(pair.get("record")), *map(_percent, _both_ways(pair))]
            for pair in worst
        ]
        head = ["Person", "Other record", "Fits so many stretches of the person", "And the other way round"]
        parts.append(
            f"<details><summary>Pairs that recur most</summary>{table(head, rows, numeric_from=2)}</details>"
        )
    others = [[words(path), value] for path, value in flat(measured.rest)] if measured.rest else []
    return "".join(parts) + (table(["Measured", "Value"], others) if others else "")


def measured_words(measured: MeasuredFigures) -> str:
    if measured.empty:
        return '<p class="empty">Nothing was measured beyond the claim.</p>'
    drawn = (
        ""
        if measured.windows is None
        else f" on {measured.windows:,} random stretches (seed {measured.seed})"
    )
    lines = [f"Measured{drawn}, not promised."]
    if measured.candidates:
        low, middle, high = (number(each) for each in measured.candidates)
        lines.append(f"Records that fit a known stretch: {middle} in the median, quartiles {low} and {high}.")
    always, users = measured.pairs.get("always_same"), measured.pairs.get("users")
    if isinstance(always, int) and isinstance(users, int) and users:
        lines.append(
            f"One and the same other record fits every stretch of {always:,} of {users:,} people"
            + (": these pairs hide each other badly." if always else ".")
        )
    return f'<p class="note">{text(" ".join(lines))}</p>'


def _rows(measured: Mapping[str, Any], name: str, *needed: str) -> Iterable[Mapping[str, Any]]:
    rows = measured.get(name)
    if isinstance(rows, Sequence) and not isinstance(rows, str):
        yield from (
            row
            for row in rows
            if isinstance(row, Mapping) and all(row.get(each) is not None for each in needed)
        )


def _share(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of both sides, and of the time before and after the stretch where they were counted apart."""
    sides = {}
    for side in ("before", "after"):
        samples, covered = row.get(f"samples_{side}"), row.get(f"covered_{side}")
        sides[side] = covered / samples if samples and covered is not None else None
    return {"share": row["share"], **sides}


def _three(value: Any) -> tuple[float, float, float] | None:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 3:
        return value[0], value[1], value[2]
    return None


def _quartiles(value: tuple[float, float, float] | None) -> str:
    return "" if value is None else " / ".join(number(each) for each in value)


def _percent(value: Any) -> str:
    return "" if value is None else percent(float(value))


def _both_ways(pair: Mapping[str, Any]) -> tuple[Any, Any]:
    return pair.get("share"), pair.get("back")


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
