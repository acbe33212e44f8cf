"""Utility figures of a release against the raw numbers: for the owner's eyes, never published.

A figure computed on raw numbers is itself a leak; it goes to the owner's report, not to the release.
"""

from shoal.metrics.density import (
    BoxFigures,
    DensityUtility,
    HourProfile,
    affordable_slots,
    box_figures,
    density_utility,
    emd_m,
    every_seventh,
)

__all__ = [
    "BoxFigures",
    "DensityUtility",
    "HourProfile",
    "affordable_slots",
    "box_figures",
    "density_utility",
    "emd_m",
    "every_seventh",
]
