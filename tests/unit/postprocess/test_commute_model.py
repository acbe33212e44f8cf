"""People drawn from noisy tables: repeatable, of their class, valid whatever the noise says."""

from collections import Counter
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from tests.loops import for_each

from shoal.errors import PlanError
from shoal.postprocess.synthetic.commute_fit import _shrunk, fit_commutes
from shoal.postprocess.synthetic.commute_model import CommuteModel
from shoal.space.clock import Clock
from shoal.space.setting import CommuteSetting
from shoal.stages.commutes import NoisyCommutes

ZONE = "Europe/Paris"
XY = np.array([[0.0, 0.0], [900.0, 0.0], [0.0, 2500.0], [4000.0, 100.0], [4100.0, 3900.0], [50.0, 50.0]])


def setting_of(clock=None, xy=XY):
    return CommuteSetting(site_xy_m=xy, clock=clock or Clock.week("2026-03-02", ZONE), regions=3, distances=5)


def noise_alone(setting, seed, deviation=50.0, without=()):
    chance = np.random.default_rng(seed)
    shapes = {name: shape for name, shape in setting.shapes.items() if name not in without}
    tables = {name: chance.normal(0, deviation, shape) for name, shape in shapes.items()}
    return NoisyCommutes(tables=tables, deviations=dict.fromkeys(tables, deviation))


def told(setting, **tables):
    """Tables that say what is given, and an even rest; next to no noise."""
    full = {name: np.ones(shape) for name, shape in setting.shapes.items()}
    full.update({name: np.asarray(values, float) for name, values in tables.items()})
    return NoisyCommutes(tables=full, deviations=dict.fromkeys(full, 1e-6))


def people(kind, calls_class, count, setting):
    table = np.zeros(setting.shapes["people"])
    table[kind, calls_class] = count
    return table


def seen(events, person):
    """Home and work place by plain counting on the local clock."""
    mine = np.flatnonzero(events.person == person)
    local = [datetime.fromtimestamp(us / 1e6, ZoneInfo(ZONE)) for us in events.time_us[mine]]
    site = events.site[mine].tolist()
    every = Counter(site)
    found = []
    for inside in (
        lambda t: t.hour >= 19 or t.hour < 7,
        lambda t: t.weekday() < 5 and 9 <= t.hour < 17,
    ):
        counts = Counter(s for s, t in zip(site, local, strict=True) if inside(t))
        found.append(max(counts, key=lambda s: (counts[s], every[s], -s)) if counts else None)
    return found


def test_people_depend_on_seed_and_number_alone():
    setting = setting_of()
    one = CommuteModel(noisy=noise_alone(setting, 3), setting=setting)
    again = CommuteModel(noisy=noise_alone(setting, 3), setting=setting)
    few, many = one.generate(40, 7), again.generate(300, 7)
    kept = many.person < 40
    assert (few.time_us == many.time_us[kept]).all()
    assert (few.site == many.site[kept]).all()
    other = one.generate(40, 8)
    assert other.count != few.count or (other.time_us != few.time_us).any()


@for_each("without", [(), ("works", "distances", "flows", "reach")])
@for_each("seed", range(5))
def test_noise_alone_makes_valid_events(seed, without):
    for clock in (
        None,
        Clock(start="2026-03-07", end="2026-03-09", time_zone=ZONE),  # a weekend
        Clock(start="2026-03-02T20:00", end="2026-03-02T23:00", time_zone=ZONE),  # one night
        Clock(start="2026-03-02T10:00", end="2026-03-02T12:00", time_zone=ZONE),  # one morning
    ):
        setting = setting_of(clock)
        model = CommuteModel(noisy=noise_alone(setting, seed, without=without), setting=setting)
        assert model.users >= 1
        events = model.generate(60, seed)
        assert set(events.person.tolist()) == set(range(60))
        assert (setting.clock.slot_of(events.time_us) >= 0).all()
        assert ((events.site >= 0) & (events.site < setting.sites)).all()
        order = np.lexsort((events.time_us, events.person))
        assert (order == np.arange(order.size)).all()


def test_one_site_is_enough_and_nobody_is_possible():
    setting = setting_of(xy=XY[:1])
    events = CommuteModel(noisy=noise_alone(setting, 1), setting=setting).generate(50, 1)
    assert events.count >= 50
    assert not events.site.any()
    setting = setting_of()
    model = CommuteModel(noisy=noise_alone(setting, 1), setting=setting)
    assert model.generate(0, 1).count == 0
    with pytest.raises(PlanError, match="people-range"):
        model.generate(-1, 1)


def test_commuters_are_seen_at_the_homes_and_works_that_were_told():
    setting = setting_of()
    flows = np.zeros(setting.shapes["flows"])
    homes, works = np.zeros((3, 6)), np.zeros(6)
    homes[0, 2], works[3] = 500, 500
    region = setting.region_of_site
    flows[region[2], region[3]] = 500
    distances = np.zeros(5)
    distances[np.searchsorted(setting.distance_ends_m, np.hypot(4000, 2400))] = 500
    places = np.zeros(setting.shapes["places"])
    places[1] = [[8, 0.5, 1.5], [0.5, 8, 1.5], [1, 1, 1], [5, 1, 4]]
    noisy = told(
        setting,
        people=people(1, 9, 500, setting),
        users=[500],
        homes=homes,
        works=works,
        flows=flows,
        distances=distances,
        places=places,
    )
    events = CommuteModel(noisy=noisy, setting=setting).generate(200, 5)
    assert all(11 <= calls <= 12 for calls in Counter(events.person.tolist()).values())
    found = Counter(tuple(seen(events, person)) for person in range(200))
    assert found[2, 3] >= 190


@pytest.mark.parametrize(("kind", "home", "work"), [(0, True, True), (2, True, False), (3, False, None)])
def test_other_classes_are_seen_as_such(kind, home, work):
    setting = setting_of()
    noisy = told(setting, people=people(kind, 5, 300, setting), users=[300])
    events = CommuteModel(noisy=noisy, setting=setting).generate(100, 2)
    found = [seen(events, person) for person in range(100)]
    assert all((one is not None) == home for one, _ in found)
    if work is not None:
        assert all((two is not None) == work for _, two in found)
    if kind == 0:
        assert sum(one == two for one, two in found) >= 95


def test_hours_follow_the_table():
    setting = setting_of()
    hours = np.zeros(setting.shapes["hours"])
    hours[3, :, 12], hours[3, :, 36] = 300, 100  # noon on weekdays and on weekends
    noisy = told(setting, people=people(3, 3, 400, setting), users=[400], hours=hours)
    events = CommuteModel(noisy=noisy, setting=setting).generate(2000, 1)
    kind = setting.kind_of_slot[setting.clock.slot_of(events.time_us)]
    share = np.bincount(kind, minlength=48) / kind.size
    assert share[12] == pytest.approx(0.75, abs=0.03)
    assert share[36] == pytest.approx(0.25, abs=0.03)


def test_exact_tables_are_fitted_as_they_are():
    """Homes, works and flows of a joint table come back where noise is next to nothing."""
    setting = setting_of()
    joint = np.random.default_rng(2).integers(1, 50, (6, 6)).astype(float)
    np.fill_diagonal(joint, 0)
    region = setting.region_of_site
    flows = np.zeros((3, 3))
    np.add.at(flows, (region[:, None].repeat(6, 1), region[None].repeat(6, 0)), joint)
    far = np.searchsorted(setting.distance_ends_m, np.hypot(*(np.subtract.outer(a, a) for a in XY.T)))
    homes = np.ones((3, 6))
    homes[0] = joint.sum(axis=1)
    noisy = told(
        setting,
        people=people(1, 4, joint.sum(), setting),
        users=[joint.sum()],
        homes=homes,
        works=joint.sum(axis=0),
        flows=flows,
        distances=np.bincount(far.ravel(), joint.ravel(), 5),
    )
    fit = fit_commutes(noisy, setting)
    assert fit.pairs.sum(axis=0) == pytest.approx(joint.sum(axis=0), rel=0.03)
    assert fit.pairs.sum(axis=1) == pytest.approx(joint.sum(axis=1), rel=0.03)
    fitted = np.bincount(far.ravel(), fit.pairs.ravel(), 5)
    assert fitted == pytest.approx(noisy.tables["distances"], rel=0.03, abs=0.1)
    assert not np.diag(fit.pairs).any()


def test_noise_is_drawn_to_what_is_expected_and_a_signal_is_kept():
    chance = np.random.default_rng(0)
    expected = np.full(400, 100.0)
    noise = chance.normal(0, 30, 400)
    assert np.abs(_shrunk(expected + noise, expected, 30.0) - expected).mean() < 10
    signal = expected * chance.uniform(0, 2, 400)
    kept = _shrunk(signal + noise, expected, 30.0)
    assert np.abs(kept - signal).mean() < np.abs(noise).mean()
    assert _shrunk(signal, expected, 1e-6) == pytest.approx(signal)
