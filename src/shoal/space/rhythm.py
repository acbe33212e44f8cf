"""What is publicly expected of a window's time: when people are awake, which days are alike.

Everything comes from the clock. The activity curve is a rough guess of how phones are used through a day
(low before dawn, high in the evening); a method weighs hours by it before anything was measured, and
replaces it by a bought profile after. Where slots are longer than three hours the curve is flat.
"""

from __future__ import annotations

import numpy as np

from shoal.space.clock import Clock

# Relative activity at 0, 1, ... 23 h: an assumption, not a measurement.
ACTIVITY = (
    *(0.45, 0.25, 0.15, 0.10, 0.10, 0.15, 0.30, 0.60, 0.95, 1.20, 1.30, 1.35),
    *(1.40, 1.35, 1.30, 1.30, 1.35, 1.45, 1.55, 1.60, 1.55, 1.40, 1.10, 0.75),
)
CURVE_UP_TO_MINUTES = 180


def activity(clock: Clock) -> np.ndarray:
    """float64 [slots]: expected activity, with mean 1."""
    if clock.slot_minutes > CURVE_UP_TO_MINUTES:
        return np.ones(clock.slots)
    middle = clock.hours_local + clock.slot_minutes / 120
    expected = np.interp(middle - 0.5, np.arange(25), (*ACTIVITY, ACTIVITY[0]))
    return expected / expected.mean()


def day_kinds(clock: Clock) -> np.ndarray:
    """int64 [slots]: Monday to Thursday, Friday, Saturday, Sunday, numbered as they occur."""
    weekday = (clock.start.weekday() + clock.day_of_slot - clock.day_of_slot.min()) % 7
    return np.unique(np.maximum(weekday - 3, 0), return_inverse=True)[1]


def daily_waves(clock: Clock, highest: int) -> list[np.ndarray]:
    """Ones, and the cosines and sines of a day up to `highest` periods, where slots are short enough."""
    hours = clock.hours_local + clock.slot_minutes / 120
    per_day = 1440 // clock.slot_minutes
    waves = [np.ones(clock.slots)]
    for k in range(1, min(highest, (per_day - 1) // 2) + 1):
        waves += [np.cos(2 * np.pi * k * hours / 24), np.sin(2 * np.pi * k * hours / 24)]
    return waves
