"""What a verifier measured beside its verdict, brought into rows for a chart and words, whatever is present.

Figures are read by name from plain values; a missing one is left out, an unknown one is listed as it stands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LAG_NAMES = ("lag", "label", "lag_minutes", "lag_min", "to_minutes", "up_to_minutes")
SHARE_NAMES = ("share", "covered_share", "leakage", "mean", "fewer_than_k", "below_k", "unique")
QUARTILES = (("q1", "lower", "p25"), ("median", "p50", "q2"), ("q3", "upper", "p75"))


@dataclass(frozen=True, kw_only=True)
class MeasuredFigures:
    """Shares with a label each, quartiles of candidates, and the rest as it came."""

    leakage: list[dict[str, Any]] = field(default_factory=list)
    knowledge: list[dict[str, Any]] = field(default_factory=list)
    candidates: tuple[float, float, float] | None = None
    rest: dict[str, Any] = field(default_factory=dict)


def read_measured(measured: Mapping[str, Any]) -> MeasuredFigures:
    """The figures of a verifier's plain values.

    >>> read_measured({"leakage": {"30 min": 0.2}, "candidates": [2, 3, 5]}).leakage
    [{'label': '30 min', 'share': 0.2}]
    """
    rest = dict(measured)
    leakage = labelled_shares(rest.pop("leakage", None))
    knowledge = labelled_shares(rest.pop("knowledge", None))
    candidates = quartiles(rest.get("candidates"))
    if candidates:
        rest.pop("candidates")
    return MeasuredFigures(leakage=leakage, knowledge=knowledge, candidates=candidates, rest=rest)


def labelled_shares(value: Any) -> list[dict[str, Any]]:
    """Rows label, share, from rows, from two lists or from a mapping of labels to shares."""
    return [{"label": label, "share": share} for label, share in _pairs(value) if _is_number(share)]


def _pairs(value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        label, share = _first(value, LAG_NAMES), _first(value, SHARE_NAMES)
        if isinstance(label, Sequence) and isinstance(share, Sequence) and not isinstance(label, str):
            yield from zip(map(_label, label), share, strict=False)
        else:
            yield from ((str(key), item) for key, item in value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for row in value:
            if isinstance(row, Mapping):
                yield _label(_first(row, LAG_NAMES)), _first(row, SHARE_NAMES)


def quartiles(value: Any) -> tuple[float, float, float] | None:
    """Three numbers from named quartiles or a list of three; None where there are none."""
    if isinstance(value, Mapping):
        value = [_first(value, names) for names in QUARTILES]
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 3:
        return None
    return (value[0], value[1], value[2]) if all(_is_number(each) for each in value) else None


def _first(row: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((row[name] for name in names if name in row), None)


def _label(value: Any) -> str:
    return f"{value:g} min" if _is_number(value) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
