"""What the tracker measured beside its verdict, as rows for charts and tables.

Read from plain values, by name; a missing figure is left out, an unknown one is listed as it stands. Nothing
here is promised by a release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.release.report.tables import flat, number, percent, table, text, words

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
