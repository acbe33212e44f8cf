"""Synthetic trips and the noisy model they come from: what post-processing, files and reports may see."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shoal.space.cell_paths import CellPaths
from shoal.space.trip_setting import PathSetting


@dataclass(frozen=True, kw_only=True, eq=False)
class SyntheticPaths(CellPaths):
    """Paths drawn from a noisy model; they are post-processing, however many are drawn."""


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """A table after noise, in units of one contribution; may be negative."""

    values: np.ndarray = field(repr=False)  # float64
    deviation: float  # of the noise of each value


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyEnds:
    """Measurements before regions are formed: moves, and the ends of trips by blocks."""

    setting: PathSetting = field(repr=False)
    trips: float
    moves: NoisyTable
    sides: tuple[int, ...]  # of blocks, in cells
    starts: tuple[NoisyTable, ...]
    ends: tuple[NoisyTable, ...]
    norm: int  # of a unit's contribution: 1 or 2


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyMovement(NoisyEnds):
    """All measurements of trips; None for tables without a share of the budget."""

    region_of_cell: np.ndarray = field(repr=False)
    flows: NoisyTable | None
    lengths: NoisyTable
    stays: NoisyTable
    stay_places: NoisyTable
    turns: NoisyTable | None
    corners: NoisyTable | None
    days: NoisyTable | None
    hours: NoisyTable | None
    tide_region_of_cell: np.ndarray = field(repr=False)
    start_tides: NoisyTable | None  # by region and part of the week
    end_tides: NoisyTable | None
    durations: NoisyTable | None
    paces: NoisyTable | None
