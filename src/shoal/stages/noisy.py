"""Noisy counts: what post-processing, reports and releases may see."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, kw_only=True)
class NoisyCounts:
    """Zone x slot counts after noise, in visits; `scale` and `family` describe the noise (public)."""

    values: np.ndarray = field(repr=False)  # float64 [zones, slots]
    family: str  # "discrete laplace" | "discrete gaussian" | "gaussian waves" | "laplace waves" | ...
    scale: float  # b of "discrete laplace", else a standard deviation, in visits
    gain: np.ndarray | float = field(default=1.0, repr=False)  # noise of a cell in scales, broadcast to values


@dataclass(frozen=True, kw_only=True)
class DensityEstimate:
    """Released numbers: people per zone and slot with a 95 % interval."""

    people: np.ndarray = field(repr=False)  # float64 [zones, slots], non-negative
    low: np.ndarray = field(repr=False)
    high: np.ndarray = field(repr=False)
