"""The kernel of commutes against a slow version in plain Python, and its bounds."""

import math
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.loops import for_each
from tests.unit.engine.conftest import event_batch as batch

from shoal.engine.commute import CommuteKernel, _add, sum_commutes
from shoal.engine.engine import DuckEngine
from shoal.errors import GuaranteeError
from shoal.space.clock import Clock
from shoal.space.setting import CommuteSetting
from shoal.stages.commutes import LATTICE

KEY = bytes(range(16))
ZONE = "Europe/Paris"
START = datetime(2026, 3, 2, tzinfo=ZoneInfo(ZONE))
WEEK_S = 7 * 86_400
XY = np.array([[0.0, 0.0], [900.0, 0.0], [0.0, 2500.0], [4000.0, 100.0], [4100.0, 3900.0]])
SETTING = CommuteSetting(site_xy_m=XY, clock=Clock.week("2026-03-02", ZONE), regions=3, distances=5)
CALL_ENDS = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 24, 30, 38, 48, 60, 76, 96, 120, 152, 192, 240, 304, 384]
CALL_ENDS += [480, 608, 768, 1024]


def moment(second):
    return int((START.astimezone(UTC) + timedelta(seconds=second)).timestamp()) * 1_000_000


def random_rows(seed, users=30, rows=400):
    chance = np.random.default_rng(seed)
    favourite = chance.integers(0, 5, (users, 2))
    out = []
    for _ in range(rows):
        user = int(chance.integers(users))
        site = int(favourite[user, chance.integers(2)] if chance.random() < 0.7 else chance.integers(-1, 5))
        out.append((user, moment(int(chance.integers(-9000, WEEK_S + 9000))), site))
    return out


def slow_sums(rows, norm):
    """From the words of the docstrings alone: dictionaries and local clock times."""
    by_user = defaultdict(list)
    for user, time_us, site in rows:
        local = datetime.fromtimestamp(time_us / 1e6, UTC).astimezone(ZoneInfo(ZONE))
        if site >= 0 and START <= local < START + timedelta(days=7):
            by_user[user].append((local, site))
    total = {name: Counter() for name in SETTING.shapes}
    for events in by_user.values():
        for name, entries in slow_user(events).items():
            size = sum(entries.values()) if norm == 1 else math.sqrt(sum(n * n for n in entries.values()))
            for place, n in entries.items():
                total[name][place] += n / size
    return total


def slow_user(events):
    def part(local):
        if local.hour >= 19 or local.hour < 7:
            return 0
        if local.weekday() >= 5:
            return 3
        return 1 if 9 <= local.hour < 17 else 2

    def most(which):
        counts, every = Counter(s for t, s in events if part(t) == which), Counter(s for _, s in events)
        return max(counts, key=lambda s: (counts[s], every[s], -s)) if counts else None

    def far(a, b):
        extent = math.hypot(*(XY.max(axis=0) - XY.min(axis=0)))
        metres = math.hypot(*(XY[a] - XY[b]))
        return sum(metres > extent * (i / 5) ** 2 for i in range(1, 5))

    home, work = most(0), most(1)
    anchor = home if home is not None else work
    if anchor is None:
        every = Counter(s for _, s in events)
        anchor = max(every, key=lambda s: (every[s], -s))
    kind = 3 if home is None else 2 if work is None else int(home != work)
    calls = len(events)
    activity = (calls > 4) + (calls > 16)
    found = {name: Counter() for name in SETTING.shapes}
    found["users"][0] += 1
    found["people"][kind, next((i for i, end in enumerate(CALL_ENDS) if calls <= end), 28)] += 1
    found["homes"][{1: 0, 3: 2}.get(kind, 1), anchor] += 1
    if kind == 1:
        region = SETTING.region_of_site
        found["works"][work] += 1
        found["distances"][far(home, work)] += 1
        found["flows"][int(region[home]), int(region[work])] += 1
    for local, site in events:
        found["hours"][kind, int(activity == 2), local.hour + 24 * (local.weekday() >= 5)] += 1
        place = 0 if site == anchor else 1 if kind == 1 and site == work else 2
        found["places"][kind, activity, part(local), place] += 1
        if place == 2:
            near, row = anchor, int(kind == 1)
            if kind == 1 and math.dist(XY[site], XY[work]) < math.dist(XY[site], XY[anchor]):
                near, row = work, 2
            found["elsewhere"][site] += 1
            found["reach"][row, part(local), far(near, site)] += 1
    return found


@for_each("norm", [1, 2])
@for_each("seed", range(4))
def test_the_kernel_is_the_slow_version(seed, norm):
    rows = random_rows(seed)
    sums = CommuteKernel(setting=SETTING, norm=norm, run_key=KEY)(batch(rows))
    slow = slow_sums(rows, norm)
    assert min(sum(slow[name].values()) for name in ("works", "reach")) > 3
    for name, shape in SETTING.shapes.items():
        wanted = np.zeros(shape)
        for place, value in slow[name].items():
            wanted[place] = value
        # every entry of every user is rounded down by less than a unit and a part in 10^9
        short = wanted * LATTICE - sums[name]
        assert ((short >= -1e-3) & (short <= 30 + 1e-8 * wanted * LATTICE)).all(), name


events = st.lists(
    st.tuples(st.integers(0, WEEK_S - 1), st.integers(0, 4), st.integers(1, 40)), min_size=1, max_size=25
)


@settings(max_examples=60, deadline=None)
@given(events, st.sampled_from([1, 2]))
def test_no_user_is_above_the_bound(calls, norm):
    rows = [(1, moment(second), site) for second, site, times in calls for _ in range(times)]
    sums = CommuteKernel(setting=SETTING, norm=norm, run_key=KEY)(batch(rows))
    for name, values in sums.items():
        size = int(values.sum()) if norm == 1 else math.isqrt(sum(int(v) ** 2 for v in values.ravel()))
        assert 0 <= size <= LATTICE, name
        if name in ("users", "people", "homes"):
            assert size == LATTICE
        if name in ("hours", "places"):
            assert size >= LATTICE - 200  # scaled up to the bound, not only cut down to it


def test_a_commuter_with_a_third_site_reaches_every_bound():
    night, day = moment(2 * 3600), moment(11 * 3600)
    rows = [(7, night, 0), (7, night, 0), (7, day, 3), (7, day, 3), (7, day + 1, 1)]
    sums = CommuteKernel(setting=SETTING, norm=1, run_key=KEY)(batch(rows))
    assert all(LATTICE - 4 <= values.sum() <= LATTICE for values in sums.values())


def test_the_check_sees_what_is_above_the_bound():
    """The last line of defence is code of its own: entries that were counted before are too much."""
    cells, total = np.array([0, 1], np.int64), np.zeros(2, np.int64)
    assert _add(cells, np.zeros(2, np.int64), False, total)
    assert _add(cells, np.zeros(2, np.int64), True, total)
    assert not _add(cells, np.array([5, 5]), False, total)
    assert not _add(cells, np.array([5, 5]), True, total)


def test_one_user_with_many_events_weighs_as_one():
    chance = np.random.default_rng(0)
    calls = zip(chance.integers(0, WEEK_S, 200_000), chance.integers(0, 5, 200_000), strict=True)
    big = batch([(1, moment(int(second)), int(site)) for second, site in calls])
    for norm in (1, 2):
        for values in CommuteKernel(setting=SETTING, norm=norm, run_key=KEY)(big).values():
            assert int(values.sum() if norm == 1 else (values**2).sum()) <= LATTICE**norm


def test_sums_do_not_depend_on_order_split_or_threads():
    rows = random_rows(9, users=200, rows=3000)
    wanted = CommuteKernel(setting=SETTING, norm=1, run_key=KEY)(batch(rows))
    chance = np.random.default_rng(1)
    for threads, pieces in ((1, 1), (2, 7), (3, 40)):
        mixed = [rows[i] for i in chance.permutation(len(rows))]
        batches = [batch(mixed[i::pieces]) for i in range(pieces)]
        kernel = CommuteKernel(setting=SETTING, norm=1, run_key=chance.bytes(16))
        exact = sum_commutes(DuckEngine(threads=threads), batches, kernel)
        assert exact.norm == 1
        for name, values in wanted.items():
            assert (exact.tables[name] == values).all(), name


def test_nobody_is_all_zeros_and_a_site_outside_the_list_stops_the_run():
    kernel = CommuteKernel(setting=SETTING, norm=2, run_key=KEY)
    outside = batch([(1, moment(-5), 0), (2, moment(WEEK_S), 1), (3, moment(50), -1)])
    for batches in ([], [batch([])], [outside]):
        exact = sum_commutes(DuckEngine(), batches, kernel)
        assert all(not values.any() for values in exact.tables.values())
    with pytest.raises(GuaranteeError, match="site-out-of-list"):
        CommuteKernel(setting=SETTING, norm=1, run_key=KEY)(batch([(1, moment(5), 5)]))


def test_sums_above_the_bound_of_all_users_are_refused():
    class Doubled:
        name = "doubled"

        def sum_users(self, events, kernel, progress=None):
            sums = kernel(events)
            return {**sums, "homes": 2 * sums["homes"]}

    kernel = CommuteKernel(setting=SETTING, norm=2, run_key=KEY)
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        sum_commutes(Doubled(), batch([(1, moment(5), 1)]), kernel)
