"""The error to expect of a density, from public parameters alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from shoal.mechanisms.density_gaussian import DensityGaussian


@dataclass(frozen=True, kw_only=True)
class ExpectedError:
    """How far released counts lie from the bounded ones, before post-processing; all in people."""

    mean_absolute: float  # of one zone and slot
    half_interval: float  # 95 %
    city_slot: float  # standard deviation of a slot's total over all zones


def expected_error(mechanism: Any, zones: int) -> ExpectedError:
    """Of the noise as it will be drawn: Gaussian E|z| = sigma sqrt(2 / pi), Laplace E|z| = b."""
    if isinstance(mechanism, DensityGaussian):
        sigma = mechanism.sigma / mechanism.lattice
        mean, half = sigma * math.sqrt(2 / math.pi), 1.959964 * sigma
    else:
        scale = mechanism.scale / mechanism.lattice
        sigma, mean, half = scale * math.sqrt(2), scale, scale * math.log(20)
    return ExpectedError(
        mean_absolute=mean,
        half_interval=half,
        city_slot=sigma * math.sqrt(zones),
    )
