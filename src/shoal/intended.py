"""Texts that were meant as numbers: with a decimal comma, a percent sign or a unit."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class IntendedNumber:
    """A text that was meant as a number."""

    value: float
    why: str  # it is none


_NUMBER = re.compile(r"\s*([-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?)\s*(%|[a-z\u00b2\u00b5]*)\s*", re.I)


def number_in(value: Any) -> IntendedNumber | None:
    """A number with a decimal comma, commas between thousands, a percent sign or a unit.

    >>> number_in("0,5").value, number_in("20,000").value, number_in("5 %").value, number_in("500m").why
    (0.5, 20000, 0.05, 'which has the unit m in it')
    >>> number_in("1e400") is None
    True
    """
    match = _NUMBER.fullmatch(value[:100]) if isinstance(value, str) else None
    if match is None:
        return None
    digits, unit = match.groups()
    why = []
    if re.fullmatch(r"[-+]?[1-9]\d{0,2}(,\d{3})+", digits):
        digits, why = digits.replace(",", ""), ["commas between the digits"]
    elif digits.count(",") == 1 and "." not in digits:
        digits, why = digits.replace(",", "."), ["a decimal comma"]
    try:
        number = float(digits) / (100 if unit == "%" else 1)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    if unit:
        why.append("a percent sign" if unit == "%" else f"the unit {unit} in it")
    number = int(number) if number == int(number) and abs(number) < 1e15 else number
    return IntendedNumber(number, f"which has {' and '.join(why)}" if why else "which is text")
