"""Counting questions: how many visits lie in a set of zones and slots. Public, and what one user can change.

Q(S, T) is the sum of a table [zones, slots] over the zones S and the slots T. Where each user has at most
`ell` visits, at most one per slot, one user changes it by at most

    min(ell, |T|) * max over places of (share of a visit there that falls into S)

so a question about one slot moves by at most one visit, whatever ell is.

>>> from shoal.space.weights import AreaWeights
>>> asked = Questions.of(
...     [Question(zones=(0, 1), slots=(3,)), Question(zones=(1,), slots=tuple(range(24)))],
...     AreaWeights.identity(2), slots=24, ell=5)
>>> [each // asked.lattice for each in asked.sensitivity]
[1, 5]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import shapely

from shoal.errors import GuaranteeError, PlanError
from shoal.space.weights import AreaWeights
from shoal.space.zones import Zones

LARGEST = 2.0**61  # of sums in lattice units, as in the noise


@dataclass(frozen=True, kw_only=True)
class Question:
    """Visits in these zones during these slots; both by their number, each once."""

    zones: tuple[int, ...]
    slots: tuple[int, ...]
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "zones", tuple(sorted(set(self.zones))))
        object.__setattr__(self, "slots", tuple(sorted(set(self.slots))))
        for what, chosen in (("zone", self.zones), ("slot", self.slots)):
            if not chosen:
                raise PlanError("query-empty", f"the query{_called(self.name)} covers no {what}.")


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Questions about one table, and by how much one user can change each, in lattice units."""

    each: tuple[Question, ...] = field(repr=False)
    reach: tuple[int, ...] = field(repr=False)  # units of one visit that fall into the zones, at most
    ell: int
    zones: int
    slots: int
    lattice: int
    column_l1: int
    column_l2_squared: int

    @classmethod
    def of(cls, each: Iterable[Question], weights: AreaWeights, *, slots: int, ell: int) -> Questions:
        each = tuple(each)
        zones = weights.shape[0]
        for question in each:
            query = f"the query{_called(question.name)}"
            if question.zones[0] < 0 or question.zones[-1] >= zones:
                raise PlanError("query-zones", f"{query} names zones that are not there.")
            if question.slots[0] < 0 or question.slots[-1] >= slots:
                outside = f"{query} names slots outside the window (0 to {slots - 1})."
                raise PlanError("query-slots", outside)
        chosen = _indicators([question.zones for question in each], zones)
        by_place = np.asarray(weights.matrix.T @ chosen.T.astype(np.int64))  # [places, questions]
        return cls(
            each=each,
            reach=tuple(int(most) for most in by_place.max(axis=0, initial=0)),
            ell=ell,
            zones=zones,
            slots=slots,
            lattice=weights.lattice,
            column_l1=weights.column_l1,
            column_l2_squared=weights.column_l2_squared,
        )

    @property
    def count(self) -> int:
        return len(self.each)

    @property
    def sensitivity(self) -> tuple[int, ...]:
        """What one user can change each answer by, in lattice units; never zero, so that noise is due."""
        return tuple(
            max(1, min(self.ell, len(question.slots)) * reach)
            for question, reach in zip(self.each, self.reach, strict=True)
        )

    @property
    def whole_sensitivity(self) -> int:
        """The same of the sum over all zones and slots."""
        return max(1, min(self.ell, self.slots) * self.column_l1)

    @cached_property
    def in_zones(self) -> np.ndarray:
        """bool [questions, zones]"""
        return _indicators([question.zones for question in self.each], self.zones)

    @cached_property
    def in_slots(self) -> np.ndarray:
        """bool [questions, slots]"""
        return _indicators([question.slots for question in self.each], self.slots)

    def values(self, table: np.ndarray) -> np.ndarray:
        """The sum of `table` [zones, slots] in each question: exact where the table is of integers."""
        if table.shape != (self.zones, self.slots):
            raise GuaranteeError("query-table", "the table has other zones or slots than the questions.")
        if np.abs(table).sum(dtype=np.float64) >= LARGEST:
            raise GuaranteeError("query-overflow", "the counts are too large for 64-bit integer sums.")
        return (self.in_zones.astype(table.dtype) @ table * self.in_slots).sum(axis=1)


def zones_in_box(zones: Zones, box: tuple[float, float, float, float]) -> tuple[int, ...]:
    """Zones whose centre lies in west, south, east, north: longitude and latitude, or planar as the zones."""
    west, south, east, north = box
    shown = zones if zones.crs is None else zones.to_lonlat()
    x, y = shapely.get_coordinates(shapely.centroid(shown.geometry)).T
    return tuple(np.flatnonzero((x >= west) & (x <= east) & (y >= south) & (y <= north)).tolist())


def _indicators(chosen: list[tuple[int, ...]], size: int) -> np.ndarray:
    inside = np.zeros((len(chosen), size), bool)
    for row, numbers in enumerate(chosen):
        inside[row, list(numbers)] = True
    return inside


def _called(name: str) -> str:
    return f' "{name}"' if name else ""
