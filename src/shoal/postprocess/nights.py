"""Night hours replaced by fitted exponentials: a exp(b x), falling to 4 h and rising to 6 h, day by day.

Acs and Castelluccia 2014, section 5.4.2. x runs over the slots of 0 to 4 h and of 4 to 6 h, both ends
included (with hourly slots five points and three); the slot at 4 h, which belongs to both, gets the mean of
the two fits, the slot at 6 h only helps to fit. Least squares: for a given b the best a is known, so one
number is searched, on a grid and then by golden section, for all series at once.

Only where the clock makes these hours nights: slots of at most 60 minutes that divide the hours, and days of
which the window holds the whole span from 0 h to 6 h. Other days stay as they are.
"""

from __future__ import annotations

import numpy as np

from shoal.space.clock import Clock

SPANS = ((0.0, 4.0), (4.0, 6.0))  # local hours
STEEPEST = 3.0  # of b, per hour: a factor of 20 from one hour to the next
_GRID = np.linspace(-STEEPEST, STEEPEST, 61)
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def smooth_nights(series: np.ndarray, clock: Clock) -> np.ndarray:
    """float64 [rows, slots]: the same series with fitted nights; non-negative in, non-negative out."""
    result = series.copy()
    hours = clock.hours_local
    for falling, rising in nights_of(clock):
        first = fit_exponential(hours[falling], series[:, falling])
        second = fit_exponential(hours[rising], series[:, rising])
        result[:, falling[:-1]] = first[:, :-1]
        result[:, rising[0]] = (first[:, -1] + second[:, 0]) / 2.0
        result[:, rising[1:-1]] = second[:, 1:-1]
    return result


def nights_of(clock: Clock) -> list[tuple[np.ndarray, np.ndarray]]:
    """Slots of 0 to 4 h and of 4 to 6 h, ends included, of every day that has them all."""
    if clock.slot_minutes > 60 or 60 % clock.slot_minutes:
        return []
    per_hour = 60 // clock.slot_minutes
    minutes = np.rint(clock.hours_local * 60).astype(np.int64)
    day_of_slot = clock.day_of_slot
    nights = []
    for day in range(len(clock.days)):
        of_day = np.flatnonzero(day_of_slot == day)
        spans = [of_day[(minutes[of_day] >= a * 60) & (minutes[of_day] <= b * 60)] for a, b in SPANS]
        # A day on which the clocks change has other slots; so has a day the window cuts.
        if all(len(span) == int(b - a) * per_hour + 1 for span, (a, b) in zip(spans, SPANS, strict=True)):
            nights.append((spans[0], spans[1]))
    return nights


def fit_exponential(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """float64 [rows, points]: the least-squares a exp(b x) of each row, |b| <= STEEPEST; a >= 0."""
    x = x - x.mean()
    on_grid = _explained(np.broadcast_to(_GRID, (len(y), _GRID.size)), x, y)
    best = on_grid.argmax(axis=1)
    low, high = _GRID[np.maximum(best - 1, 0)], _GRID[np.minimum(best + 1, _GRID.size - 1)]
    for _ in range(40):
        inner = np.stack([high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)], axis=1)
        value = _explained(inner, x, y)
        left = value[:, 0] > value[:, 1]
        low, high = np.where(left, low, inner[:, 0]), np.where(left, inner[:, 1], high)
    curve = np.exp((low + high)[:, None] / 2.0 * x)
    height = np.maximum((curve * y).sum(axis=1) / (curve * curve).sum(axis=1), 0.0)
    return height[:, None] * curve


def _explained(b: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """[rows, candidates]: the part of sum y^2 that the best a exp(b x) explains."""
    curve = np.exp(b[:, :, None] * x)
    along = np.maximum((curve * y[:, None, :]).sum(axis=2), 0.0)
    return along**2 / (curve * curve).sum(axis=2)
