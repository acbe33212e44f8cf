"""Night fits: as good as scipy's least squares, only on whole nights of the local clock, non-negative."""

import numpy as np
from scipy.optimize import least_squares
from tests.loops import for_each

from shoal.space.clock import Clock
from shoal_baselines.postprocess.scheme import fit_exponential, nights_of, smooth_nights

WEEK = Clock.week("2026-03-02", "Europe/Paris")


@for_each("seed", range(15))
def test_fit_is_the_least_squares_fit(seed):
    rng = np.random.default_rng(seed)
    x = np.arange(5.0)
    y = np.maximum(rng.uniform(5, 100) * np.exp(rng.uniform(-0.8, 0.8) * x) + rng.normal(0, 5, 5), 0)
    ours = ((fit_exponential(x, y[None])[0] - y) ** 2).sum()
    theirs = min(
        2 * least_squares(lambda p: p[0] * np.exp(p[1] * x) - y, [y.mean() + 0.1, b], max_nfev=2000).cost
        for b in (-0.5, 0.0, 0.5)
    )
    assert ours <= theirs * (1 + 1e-6) + 1e-9


def test_exponentials_zeros_and_spikes_are_fitted():
    x = np.arange(5.0)
    y = 40 * np.exp(-0.7 * x)
    np.testing.assert_allclose(fit_exponential(x, y[None])[0], y, rtol=1e-6)
    x = np.arange(5.0)
    rows = np.vstack([np.zeros(5), np.eye(5) * 7, [[1e12, 0, 0, 0, 0]]])
    fitted = fit_exponential(x, rows)
    assert np.isfinite(fitted).all()
    assert (fitted >= 0).all()
    assert (fitted[0] == 0).all()


def test_hours_of_day_are_left_alone_and_nights_are_smoothed():
    series = np.random.default_rng(1).uniform(1, 9, (4, 168))
    smooth = smooth_nights(series, WEEK)
    night = np.isin(WEEK.hours_local, range(6))
    assert (smooth[:, ~night] == series[:, ~night]).all()
    assert (smooth[:, night] != series[:, night]).all()
    assert len(nights_of(WEEK)) == 7


CLOCKS = {
    "two-hour slots": (Clock.week("2026-03-02", "UTC", slot_minutes=120), 0),
    "half hours": (Clock.week("2026-03-02", "UTC", slot_minutes=30), 7),
    "spring forward": (Clock.week("2026-03-23", "Europe/Paris"), 6),
    "autumn back": (Clock.week("2026-10-19", "Europe/Paris"), 6),
    "starts at 3 h": (Clock(start="2026-03-02T03:00", end="2026-03-04T05:00", time_zone="UTC"), 1),
    "one slot": (Clock(start="2026-03-02T00:00", end="2026-03-02T01:00", time_zone="UTC"), 0),
    "a noon": (Clock(start="2026-03-02T10:00", end="2026-03-02T14:00", time_zone="UTC"), 0),
}


@for_each("name", CLOCKS)
def test_only_whole_nights_of_the_clock_count(name):
    clock, nights = CLOCKS[name]
    assert len(nights_of(clock)) == nights
    series = np.random.default_rng(1).uniform(1, 9, (2, clock.slots))
    assert (smooth_nights(series, clock) == series).all() == (nights == 0)
