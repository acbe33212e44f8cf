"""Peaks planted in noisy answers of known weeks: found, taken out and added back; hostile answers."""

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest
from tests.loops import for_each

from shoal.postprocess.density import best, one_off
from shoal.postprocess.density.best import finish_best
from shoal.postprocess.density.one_off import Search, Windows, regular_profiles, robust_moments
from shoal.postprocess.density.smoothing import hour_weights, probes, region_dictionary, zone_columns
from shoal.space.clock import Clock
from shoal.space.geography import AreaWeights, Setting
from shoal.space.setting import activity, regions_of
from shoal.stages.noisy import NoisyBest, NoisyMeasurement, Total

FIRST = datetime(2026, 3, 2)
WEEK = Clock.week("2026-03-02", "Europe/Paris")
SIDE, SIGMA, CLIP = 9, 3.0, 0.8
ZONE, START, STOP = 40, 44, 48  # Tuesday evening


def setting_for(clock: Clock = WEEK) -> Setting:
    xy = 500.0 * np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE)), axis=-1).reshape(-1, 2)
    return Setting(weights=AreaWeights.identity(SIDE**2), zone_xy_m=xy, place_xy_m=xy, clock=clock)


def weeks(setting: Setting, rng: np.random.Generator) -> np.ndarray:
    """People per zone and slot: homes and offices in different proportions, Poisson."""
    hours = setting.clock.hours_local
    evening = activity(setting.clock)
    office = np.exp(-(((hours - 13) / 4) ** 2)) + 0.1
    share = rng.beta(2, 2, setting.zones)[:, None]
    level = 30 * np.exp(rng.normal(0, 0.4, setting.zones))[:, None]
    return rng.poisson(level * (share * evening + (1 - share) * 2 * office)).astype(float)


def answers(setting: Setting, people: np.ndarray, seed: int, clipped: float = 1.0) -> NoisyBest:
    """Noisy answers as the mechanism gives them, every visitor's visits scaled by `clipped` in the zones."""
    rng = np.random.default_rng([seed, 1])
    expected = activity(setting.clock)
    seen = hour_weights(expected)
    profile = people.sum(axis=0) / people.sum()
    weight = hour_weights(profile)
    dictionary = region_dictionary(setting.clock, profile * weight, 3)
    region_of = regions_of(setting.zone_xy_m, 9)
    sums = np.array([people[region_of == region].sum(axis=0) for region in range(region_of.max() + 1)])
    regions = (sums * weight) @ dictionary
    regions = NoisyMeasurement(values=regions + rng.normal(0, 20, regions.shape), sigma=20.0)
    basis = zone_columns(dictionary, regions, profile * weight, 6)
    rest = probes(basis, 6)
    zones, others = (clipped * (people * weight) @ columns for columns in (basis, rest))
    total = float(people.sum()) + rng.normal(0, 300)
    city = seen * people.sum(axis=0)
    return NoisyBest(
        total=Total(visits=total, low=0.97 * total, high=1.03 * total, deviation=0.015 * total),
        clips={"visits": (200.0,), "city": (20.0,), "regions": (6.0,), "zones": (CLIP,)},
        city=NoisyMeasurement(values=(city + rng.normal(0, 50, city.shape))[None], sigma=50.0),
        profile=profile,
        profile_deviation=50.0 / seen,
        profile_total=float(people.sum()),
        profile_noise_left=0.3,
        weight=weight,
        region_of=region_of,
        dictionary=dictionary,
        regions=regions,
        basis=basis,
        zones=zones + rng.normal(0, SIGMA, zones.shape),
        zones_sigma=np.full(setting.zones, SIGMA),
        rest_basis=rest,
        rest_weight=0.7,
        rest=0.7 * others + rng.normal(0, SIGMA, others.shape),
        outliers=True,
    )


def with_event(people: np.ndarray, size: float, hours: slice = slice(START, STOP)) -> np.ndarray:
    out = people.copy()
    out[ZONE, hours] += size
    return out


def test_an_event_is_found_and_leaves_the_rest_of_the_week_alone():
    setting = setting_for()
    people = weeks(setting, np.random.default_rng(5))
    truth = with_event(people, 700.0)
    noisy = answers(setting, truth, 5)
    after, before = finish_best(noisy, setting), best._finish(noisy, setting)
    assert [(peak.zone, peak.start, peak.stop, peak.days) for peak in after.peaks] == [(ZONE, START, STOP, 1)]
    assert abs(after.peaks[0].size - 700) < 3 * after.peaks[0].deviation < 500
    outside = np.delete(np.arange(168), np.arange(START, STOP))
    excess = [np.abs(each.people[ZONE, outside] - truth[ZONE, outside]).sum() for each in (before, after)]
    assert excess[1] < 0.4 * excess[0]
    inside = (after.low <= truth) & (truth <= after.high)
    assert inside[ZONE].mean() > 0.9
    assert inside[ZONE, START:STOP].all()
    assert after.doubt is not None
    doubt = after.doubt.peaks[0]
    half = (after.high - after.people)[ZONE, START:STOP]
    assert (half >= 1.9 * np.sqrt(doubt.together**2 + doubt.alone)[START:STOP]).all()


@for_each("seed", range(6))
def test_where_no_peak_is_found_nothing_changes(seed):
    setting = setting_for()
    noisy = answers(setting, weeks(setting, np.random.default_rng(seed)), seed)
    estimate, plain = finish_best(noisy, setting), best._finish(noisy, setting)
    assert estimate.peaks == ()
    assert (estimate.least_peak or 0) > 0
    for name in ("people", "low", "high"):
        assert np.array_equal(getattr(estimate, name), getattr(plain, name))


def test_what_returns_every_evening_is_no_peak():
    setting = setting_for()
    people = weeks(setting, np.random.default_rng(7))
    people[ZONE] += 300.0 * ((setting.clock.hours_local >= 20) & (setting.clock.hours_local < 23))
    noisy = answers(setting, people, 7)
    assert finish_best(noisy, setting).peaks == ()
    search = Search.of(noisy, setting)
    assert search is not None
    assert ZONE not in search._screen()


def test_the_size_allows_for_clipping_of_the_zones_answers():
    setting = setting_for()
    people = weeks(setting, np.random.default_rng(9))
    noisy = answers(setting, with_event(people, 900.0), 9, clipped=0.5)
    (peak,) = finish_best(noisy, setting).peaks
    assert abs(peak.size - 900) < 3 * peak.deviation


def test_nothing_is_searched_without_probes_or_clear_zones():
    setting = setting_for()
    noisy = answers(setting, weeks(setting, np.random.default_rng(1)), 1)
    few = replace(noisy, zones=noisy.zones * np.r_[np.ones(19), np.zeros(62)][:, None])
    for blind in (replace(noisy, rest_weight=0.0), few):
        assert Search.of(blind, setting) is None
        assert finish_best(blind, setting).least_peak is None


@for_each("kind", ["large", "tiny", "negative", "spikes", "zero", "alternating"])
def test_arbitrary_answers_give_finite_counts(kind):
    setting = setting_for()
    rng = np.random.default_rng(3)
    noisy = answers(setting, weeks(setting, rng), 3)
    change = {
        "large": lambda x: x + rng.normal(0, 1e12, x.shape),
        "tiny": lambda x: 1e-9 * x,
        "negative": lambda x: -x,
        "spikes": lambda x: x * np.where(rng.random(x.shape) < 0.2, 1e6, 1.0),
        "zero": lambda x: 0 * x,
        "alternating": lambda x: 1e5 * np.where(rng.random(x.shape) < 0.5, 1.0, -1.0),
    }[kind]
    measured = {name: getattr(noisy, name) for name in ("city", "regions")}
    hostile = replace(
        noisy,
        zones=change(noisy.zones),
        rest=change(noisy.rest),
        **{name: replace(each, values=change(each.values)) for name, each in measured.items()},
    )
    for total in (noisy.total, Total(visits=1e-3, low=0.0, high=1e3, deviation=1e-3)):
        answer = replace(hostile, total=total)
        estimate = finish_best(answer, setting)
        assert len(estimate.peaks) <= one_off.PER_RELEASE
        for each in (estimate.people, estimate.low, estimate.high):
            assert np.isfinite(each).all()
            assert (each >= 0).all()
        assert (estimate.low <= estimate.people).all()
        assert (estimate.people <= estimate.high).all()


def test_zones_examined_are_bounded(monkeypatch):
    setting = setting_for()
    noisy = answers(setting, weeks(setting, np.random.default_rng(2)), 2)
    search = Search.of(noisy, setting)
    assert search is not None
    monkeypatch.setattr(one_off, "LEAST_GAIN", -1e9)
    monkeypatch.setattr(one_off, "OVER_REGULAR", -1e9)
    assert search._screen().size == one_off.MOST_EXAMINED


@for_each("clock", [
    Clock.week("2026-03-23", "Europe/Paris"),
    Clock.week("2026-03-02", "UTC", slot_minutes=15),
    Clock.week("2026-03-02", "UTC", slot_minutes=180),
    Clock(start=FIRST, end=FIRST + timedelta(days=28), time_zone="UTC", slot_minutes=1440),
    Clock(start=FIRST, end=FIRST + timedelta(days=1), time_zone="UTC"),
])  # fmt: skip
def test_windows_are_runs_of_hours_inside_the_clock(clock):
    windows = Windows.of(clock)
    inside = windows.sums(np.eye(clock.slots))
    assert set(np.unique(inside)) <= {0.0, 1.0}
    hours = inside.sum(axis=1) * clock.slot_minutes / 60
    assert np.allclose(hours, windows.days * (windows.stop - windows.start) * clock.slot_minutes / 60)
    assert len(np.unique(inside, axis=0)) == len(inside)
    assert regular_profiles(clock).shape[1] == clock.slots


def test_a_habit_is_the_same_hours_on_days_that_no_window_has():
    patterns = regular_profiles(WEEK)
    days = patterns.reshape(len(patterns), 7, 24).any(axis=2).sum(axis=1)
    assert set(days) == {4, 5, 6, 7}
    weekend_of_two = Clock(start=FIRST, end=FIRST + timedelta(days=14), time_zone="UTC")
    both = np.zeros((14, 24))
    both[[5, 12], 9:13] = 1
    assert (regular_profiles(weekend_of_two) == both.ravel()).all(axis=1).any()


def test_robust_moments_are_those_of_most_zones():
    rng = np.random.default_rng(8)
    mean, root = np.array([1.0, 0.3, -0.2]), np.array([[0, 0, 0], [0, 0.1, 0], [0, 0.04, 0.05]])
    shares = mean + rng.normal(size=(4000, 3)) @ root.T + rng.normal(0, 0.02, (4000, 3))
    shares[:100] += 5.0
    centre, covariance = robust_moments(shares, np.full_like(shares, 0.02**2))
    assert centre == pytest.approx(mean, abs=0.01)
    ratio = covariance[1:, 1:] / (root @ root.T)[1:, 1:]
    assert ratio == pytest.approx(np.full((2, 2), ratio[0, 0]), rel=0.15)
    assert 0.5 < ratio[0, 0] < 1.0  # Student's weights shrink it; TAIL makes up for that
