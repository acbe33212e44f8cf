"""When people are seen: chance of a record by kind of place and hour, and each site's own whims."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import norm

from shoal.errors import PlanError
from shoal.events.simulate.geography import City
from shoal.events.simulate.presets import CityPreset

# Share of a full hour's activity, local clock 0 h to 23 h.
_HOME = "30 17 10 6.5 4.5 6.5 18 42 62 68 70 74 82 78 74 78 88 100 116 122 118 104 82 54"
_WORK = "25 14 9 6 4.5 8 25 70 96 104 108 112 118 110 106 108 110 112 104 90 75 60 45 34"
_OUT = "78 62 44 22 8 9 20 52 82 92 96 102 112 108 104 108 114 122 130 130 124 116 106 94"


class Rhythm(NamedTuple):
    """Tables for the compiled code; hours are local."""

    hour_running: np.ndarray  # float64 [168], running sums of the envelope over kinds of place
    accept: np.ndarray  # float64 [kinds, 168], rate over envelope
    factor: np.ndarray  # float32 [sites, hours of the window], own factor over the largest one


def make_rhythm(city: City, preset: CityPreset, crowds: np.ndarray, seed: int) -> Rhythm:
    """Rates by kind and hour; factors per site and hour, raised where a crowd gathers."""
    rates = _rates()
    envelope = rates.max(axis=0)
    running = np.cumsum(envelope) / envelope.sum()
    running[-1] = 1.0
    return Rhythm(hour_running=running, accept=rates / envelope, factor=_factors(city, preset, crowds, seed))


def _rates() -> np.ndarray:
    """[kinds, 168]: home, work, errand, leisure, night life, on the road."""
    home, work, out = (np.array(curve.split(), float) / 100 for curve in (_HOME, _WORK, _OUT))
    weekday = np.stack([home, work, out, out, 1.15 * out, 1.1 * out])
    hours = np.arange(24)
    weekend = np.stack([np.interp(hours - 1.2, hours, curve, left=curve[0] * 1.2) for curve in weekday])
    weekend[:, 3:6] = 0.5 * (weekend[:, 3:6] + weekday[:, 3:6])  # later mornings, the same low at 4 h
    friday = weekday * np.where(hours >= 18, 1.12, 1.0)
    return np.concatenate([weekday] * 4 + [friday, 0.92 * weekend, 0.78 * weekend], axis=1)


def _factors(city: City, preset: CityPreset, crowds: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 3])
    hours = 168 * preset.weeks
    day = np.repeat(rng.normal(0, 0.25 * preset.irregularity, hours // 24), 24)
    own = rng.normal(0, preset.irregularity, size=(len(city.site_ids), hours))
    factor = np.exp(np.clip(own + day, -2.5 * preset.irregularity, 2.5 * preset.irregularity))
    for when, hour, site in crowds:
        start = when * 24 + hour
        stop = min(start + 3, hours)
        factor[city.near[site, :3], start:stop] *= 2.5
    return (factor / factor.max()).astype(np.float32)


def hour_starts(preset: CityPreset) -> np.ndarray:
    """UTC seconds at which every local hour of the window begins.

    In a week when clocks go forward the lost hour's records fall into the next one; when they go back the
    repeated hour is filled once.
    """
    zone = ZoneInfo(preset.time_zone)
    first = datetime(preset.start.year, preset.start.month, preset.start.day)
    hours = (first + timedelta(hours=h) for h in range(168 * preset.weeks))
    return np.array([int(hour.replace(tzinfo=zone).timestamp()) for hour in hours], dtype=np.int64)


def count_running(mean: float, sd: float, largest: int) -> np.ndarray:
    """Running probabilities of 1, 2, .. `largest` visits: a cut log-normal with this mean and sd.

    >>> table = count_running(13.55, 18.33, 732)
    >>> chance, visits = np.diff(table, prepend=0), np.arange(1, 733)
    >>> round(float(chance @ visits), 2), round(float((chance @ visits**2 - 13.55**2) ** 0.5), 2)
    (13.55, 18.33)
    """
    visits = np.arange(1, largest + 1)

    def running(shape):
        table = norm.cdf((np.log(visits + 0.5) - shape[0]) / np.exp(shape[1]))
        low = norm.cdf((np.log(0.5) - shape[0]) / np.exp(shape[1]))
        return (table - low) / max(table[-1] - low, 1e-300)

    def misfit(shape):
        chance = np.diff(running(shape), prepend=0)
        m = chance @ visits
        return [m / mean - 1, np.sqrt(max(chance @ (visits - m) ** 2, 0)) / sd - 1]

    spread = np.sqrt(np.log(1 + (sd / mean) ** 2))
    found = least_squares(misfit, [np.log(mean) - spread**2 / 2, np.log(spread)], xtol=1e-12, ftol=1e-14)
    if np.abs(found.fun).max() > 1e-3:
        raise PlanError(
            "simulate-visits",
            f"no cut log-normal has mean {mean}, sd {sd} and maximum {largest}.",
            "Bring the sd nearer to the mean, or raise the maximum.",
        )
    table = running(found.x)
    table[-1] = 1.0
    return table
