"""Columns over slots for zones, learned from noisy regions: which shapes a day takes in this city."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.postprocess.basis import orthonormal
from shoal.space.clock import Clock
from shoal.space.rhythm import blocks_of_days, daily_waves, day_kinds, hours_of_day
from shoal.stages.noisy import NoisyMeasurement


@dataclass(frozen=True)
class ZoneColumns:
    """Orthonormal columns; the first is the city's profile, the first `learned` came from regions."""

    basis: np.ndarray  # float64 [slots, columns]
    learned: int


def region_dictionary(clock: Clock, profile: np.ndarray, waves: int) -> np.ndarray:
    """The weighted profile times kinds of days times waves of a day, orthonormal, the profile first."""
    kinds = day_kinds(clock)
    shapes = daily_waves(clock, waves)
    columns = [profile]
    for kind in np.unique(kinds):
        columns += [profile * (kinds == kind) * wave for wave in shapes]
    return orthonormal(columns)


def zone_columns(
    clock: Clock,
    dictionary: np.ndarray,
    regions: NoisyMeasurement,
    profile: np.ndarray,
    *,
    learned: int,
    hours: bool,
    blocks: bool,
) -> ZoneColumns:
    """The strongest directions of the regions' shapes, then (large populations) hours and thirds of days."""
    level = np.maximum(regions.values[:, 0], regions.sigma)
    shapes = regions.values[:, 1:] / np.sqrt(level)[:, None]
    columns = [profile]
    if shapes.size and learned > 1:
        _, _, directions = np.linalg.svd(shapes, full_matrices=False)
        columns += list(directions[: learned - 1] @ dictionary[:, 1:].T)
    count = len(columns)
    if hours:
        columns += [profile * (hours_of_day(clock) == hour) for hour in range(24)]
    if blocks:
        third = blocks_of_days(clock)
        columns += [profile * (third == block) for block in np.unique(third)]
    return ZoneColumns(orthonormal(columns), count)
