"""How near synthetic site events are to real ones: commutes, hours of calls, homes and work places.

home               a user's site with most events from 19 to 7 h; ties by most in all, then the first site
work               the same on weekdays from 9 to 17 h
commute_emd_km     earth mover's distance between distributions of home-work distance, users with both seen
commute_jsd        the same distributions in bins of 1 km, the first for home = work; Jensen-Shannon, base 2
commuters_error    |difference| of the share of users seen with a home and another work place
hours_error        mean over 24 hours of |difference| of the share of calls
hours_week_error   the same over hours apart for weekdays and weekends, 48
hours_emd_km       mean over 24 hours of the earth mover's distance between maps of calls
homes_jsd, works_jsd   Jensen-Shannon between homes (work places) per site
flows_jsd          between pairs of regions of home and work place
calls_jsd          between numbers of calls per user, in the model's classes

Everything here is exact and for the owner's eyes. Homes are found by sorting, not by the engine's kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shoal.metrics.density import emd_m
from shoal.metrics.synthetic import jsd as divergence
from shoal.space.clock import HOUR_KINDS
from shoal.space.setting import CALLS, NIGHT, WORK_HOURS, CommuteSetting


@dataclass(frozen=True, kw_only=True, eq=False)
class SiteEvents:
    """Rows of events; users are numbers, in any order."""

    user: np.ndarray = field(repr=False)  # int64
    time_us: np.ndarray = field(repr=False)
    site: np.ndarray = field(repr=False)  # -1: outside the list


@dataclass(frozen=True, kw_only=True, eq=False)
class Lives:
    """What is seen of the users of some events."""

    home: np.ndarray = field(repr=False)  # [users], -1: not seen
    work: np.ndarray = field(repr=False)
    calls: np.ndarray = field(repr=False)
    maps: np.ndarray = field(repr=False)  # [sites, 48]: calls

    @property
    def both(self) -> np.ndarray:
        return (self.home >= 0) & (self.work >= 0)


def commute_figures(real: SiteEvents, synthetic: SiteEvents, setting: CommuteSetting) -> dict[str, float]:
    """All errors; NaN where one side has nobody to measure."""
    one, two = lives_of(real, setting), lives_of(synthetic, setting)
    by_hour = [lives.maps.reshape(setting.sites, 2, 24).sum(axis=1) for lives in (one, two)]
    far = [commute_km(lives, setting) for lives in (one, two)]
    steps = max((int(km.max()) for km in far if km.size), default=0) + 2
    bins = [np.bincount(np.where(km > 0, km.astype(np.int64) + 1, 0), minlength=steps) for km in far]
    emd = emd_m(by_hour[0], by_hour[1], setting.site_xy_m)
    return {
        "commute_emd_km": emd_line(far[0], far[1]),
        "commute_jsd": jsd(bins[0], bins[1]),
        "commuters_error": abs(_commuters(one) - _commuters(two)),
        "hours_error": _share_error(by_hour[0].sum(axis=0), by_hour[1].sum(axis=0)),
        "hours_week_error": _share_error(one.maps.sum(axis=0), two.maps.sum(axis=0)),
        "hours_emd_km": float(np.nanmean(emd)) / 1000 if np.isfinite(emd).any() else float("nan"),
        "homes_jsd": jsd(_per_site(one.home, setting), _per_site(two.home, setting)),
        "works_jsd": jsd(_per_site(one.work, setting), _per_site(two.work, setting)),
        "flows_jsd": jsd(_flows(one, setting), _flows(two, setting)),
        "calls_jsd": jsd(_per_calls(one), _per_calls(two)),
    }


def lives_of(events: SiteEvents, setting: CommuteSetting) -> Lives:
    """Homes, work places and calls of all users with an event in the window."""
    slot = setting.clock.slot_of(events.time_us)
    inside = (slot >= 0) & (events.site >= 0)
    site, slot = events.site[inside].astype(np.int64), slot[inside]
    names, user = np.unique(events.user[inside], return_inverse=True)
    kind, part = setting.kind_of_slot[slot], setting.part_of_slot[slot]
    maps = np.bincount(site * HOUR_KINDS + kind, minlength=setting.sites * HOUR_KINDS)
    pair, of_pair = np.unique(user * setting.sites + site, return_inverse=True)
    every = np.bincount(of_pair, minlength=pair.size)
    return Lives(
        home=_most(of_pair[part == NIGHT], pair, every, names.size, setting),
        work=_most(of_pair[part == WORK_HOURS], pair, every, names.size, setting),
        calls=np.bincount(user, minlength=names.size),
        maps=maps.reshape(setting.sites, HOUR_KINDS),
    )


def _most(
    chosen: np.ndarray, pair: np.ndarray, every: np.ndarray, users: int, setting: CommuteSetting
) -> np.ndarray:
    """int64 [users]: the site with most of the chosen events, then of all, then the first; -1 without any."""
    counts = np.bincount(chosen, minlength=pair.size)
    user, site = pair // setting.sites, pair % setting.sites
    best = np.full(users, -1, np.int64)
    order = np.lexsort((-site, every, counts, user))  # the last row of each user is the best
    order = order[counts[order] > 0]
    best[user[order]] = site[order]
    return best


def commute_km(lives: Lives, setting: CommuteSetting) -> np.ndarray:
    """Home-work distance of users with both, 0 where they are the same site."""
    xy = setting.site_xy_m
    return np.hypot(*(xy[lives.home[lives.both]] - xy[lives.work[lives.both]]).T) / 1000


def emd_line(one: np.ndarray, two: np.ndarray) -> float:
    """Earth mover's distance of two samples on a line; NaN where one is empty.

    >>> emd_line(np.array([0.0, 2.0]), np.array([1.0, 1.0]))
    1.0
    """
    from scipy.stats import wasserstein_distance

    return float(wasserstein_distance(one, two)) if one.size and two.size else float("nan")


def jsd(one: np.ndarray, two: np.ndarray) -> float:
    """Jensen-Shannon divergence of two histograms, base 2: 0 the same, 1 nothing in common; NaN without any.

    >>> jsd(np.array([1, 1]), np.array([3, 3])), jsd(np.array([1, 0]), np.array([0, 1]))
    (0.0, 1.0)
    """
    return divergence(one, two) if min(one.sum(), two.sum()) > 0 else float("nan")


def _share_error(one: np.ndarray, two: np.ndarray) -> float:
    if one.sum() <= 0 or two.sum() <= 0:
        return float("nan")
    return float(np.abs(one / one.sum() - two / two.sum()).mean())


def _commuters(lives: Lives) -> float:
    return float((lives.both & (lives.home != lives.work)).mean()) if lives.home.size else float("nan")


def _per_site(site: np.ndarray, setting: CommuteSetting) -> np.ndarray:
    return np.bincount(site[site >= 0], minlength=setting.sites)


def _flows(lives: Lives, setting: CommuteSetting) -> np.ndarray:
    region, count = setting.region_of_site, setting.region_count
    pairs = region[lives.home[lives.both]] * count + region[lives.work[lives.both]]
    return np.bincount(pairs, minlength=count**2)


def _per_calls(lives: Lives) -> np.ndarray:
    at = np.minimum(np.searchsorted(CALLS, lives.calls), CALLS.size - 1)
    return np.bincount(at, minlength=CALLS.size)
