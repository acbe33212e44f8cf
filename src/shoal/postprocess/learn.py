"""Columns over slots for zones, learned from noisy regions: which shapes a day takes in this city."""

from __future__ import annotations

import numpy as np

from shoal.postprocess.basis import orthonormal
from shoal.space.clock import Clock
from shoal.space.rhythm import daily_waves, day_kinds
from shoal.stages.noisy import NoisyMeasurement


def region_dictionary(clock: Clock, profile: np.ndarray, waves: int) -> np.ndarray:
    """The weighted profile times kinds of days times waves of a day, orthonormal, the profile first."""
    kinds = day_kinds(clock)
    shapes = daily_waves(clock, waves)
    columns = [profile]
    for kind in np.unique(kinds):
        columns += [profile * (kinds == kind) * wave for wave in shapes]
    return orthonormal(columns)


def zone_columns(
    dictionary: np.ndarray, regions: NoisyMeasurement, profile: np.ndarray, learned: int
) -> np.ndarray:
    """float64 [slots, at most learned]: the city's profile, the strongest directions of regions' shapes."""
    level = np.maximum(regions.values[:, 0], regions.sigma)
    shapes = regions.values[:, 1:] / np.sqrt(level)[:, None]
    columns = [profile]
    if shapes.size and learned > 1:
        _, _, directions = np.linalg.svd(shapes, full_matrices=False)
        columns += list(directions[: learned - 1] @ dictionary[:, 1:].T)
    return orthonormal(columns)
