"""Probabilities from noisy tables of commutes: shrunk towards coarser tables, non-negative, consistent.

Noisy numbers are shrunk towards a prediction: a site towards the mean of its region, the flow between two
regions towards the flow implied by homes, work places and distances, an hour of a class towards the hour of
all classes. The amount follows from the standard deviation of the noise, which is public. Only noisy numbers
and public values are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from shoal.postprocess.synthetic.numbers import onto_total
from shoal.space.clock import HOUR_KINDS
from shoal.space.setting import (
    AT_WORK,
    CALLS,
    CLASSES,
    COMMUTER,
    HOME_ONLY,
    NIGHT,
    NO_HOME,
    STAYER,
    WORK_HOURS,
    CommuteSetting,
    part_of_kind,
)
from shoal.stages.commutes import NoisyCommutes

ROUNDS = 30  # of proportional fitting
TINY = 1e-300
UNLIKELY = (
    1e-6  # people, or probability, added where a table has none, so that everything possible can be drawn
)
LEAST_SPREAD, MOST_SPREAD = 0.02, 2.0  # of values around their prediction, as a share of it
PART_OF_KIND = part_of_kind()
_MEANS = np.linspace(0.0, 6.0, 49)  # of the logarithm of calls, for the log-normal shape
_SPREADS = np.linspace(0.3, 2.0, 18)


@dataclass(frozen=True, kw_only=True, eq=False)
class CommuteFit:
    """Expected numbers of people, and probabilities; all non-negative."""

    users: float
    people: np.ndarray = field(repr=False)  # [class, calls]
    homes: np.ndarray = field(repr=False)  # [kind of anchor, sites]; commuters' as `pairs` has them
    pairs: np.ndarray = field(repr=False)  # [home, work], of commuters
    hours: np.ndarray = field(repr=False)  # [class, many calls or not, 48]
    places: np.ndarray = field(repr=False)  # [class, activity, part, place]
    elsewhere: np.ndarray = field(repr=False)  # [sites]
    reach: np.ndarray | None = field(repr=False)  # [anchor, part, distance]


def fit_commutes(noisy: NoisyCommutes, setting: CommuteSetting) -> CommuteFit:
    """Fits all tables, coarse ones first."""
    tables, sd = noisy.tables, noisy.deviations
    users = _users(noisy)
    people = _people(tables["people"], sd["people"], users, setting)
    commuters = float(people[COMMUTER].sum())
    region = setting.region_of_site
    totals = np.array([commuters, people[[STAYER, HOME_ONLY]].sum(), people[NO_HOME].sum()])
    homes = _homes(tables["homes"], sd["homes"], totals, region)
    works = np.full(setting.sites, commuters / setting.sites)
    if "works" in tables:
        works = _sites(tables["works"], sd["works"], commuters, region)
    pairs = _pairs(noisy, setting, homes[0], works, commuters)
    away = max(float(tables["elsewhere"].sum()), 1.0)
    return CommuteFit(
        users=users,
        people=people,
        homes=homes + UNLIKELY,
        pairs=pairs,
        hours=_hours(tables["hours"], sd["hours"], setting),
        places=_places(tables["places"], sd["places"]),
        elsewhere=_sites(tables["elsewhere"], sd["elsewhere"], away, region) + UNLIKELY,
        reach=_reach(tables["reach"], sd["reach"]) if "reach" in tables else None,
    )


def _users(noisy: NoisyCommutes) -> float:
    """The number of users, from two tables weighted by their inverse noise variance; at least 1."""
    known = [
        (float(noisy.tables[n].sum()), noisy.tables[n].size * noisy.deviations[n] ** 2)
        for n in ("users", "people")
    ]
    weight = [1 / max(variance, 1e-18) for _, variance in known]
    return max(1.0, sum(w * value for w, (value, _) in zip(weight, known, strict=True)) / sum(weight))


def _people(noisy: np.ndarray, sd: float, users: float, setting: CommuteSetting) -> np.ndarray:
    """People by class and calls, shrunk to a log-normal shape: one spurious person may have 1,000 calls."""
    possible = _possible(setting)
    noisy = np.where(possible, noisy, 0.0)
    some = np.asarray(possible.any(axis=1))
    total = _onto(noisy.sum(axis=1), users, some)
    fitted = np.zeros(noisy.shape)
    for kind in np.flatnonzero(some):
        shape = _usual_calls(noisy[kind], total[kind], possible[kind])
        fitted[kind] = _onto(_shrunk(noisy[kind], shape, sd), total[kind], possible[kind])
    return fitted


def _onto(values: np.ndarray, total: float, possible: np.ndarray) -> np.ndarray:
    """As `onto_total` over the possible places, and 0 elsewhere."""
    out = np.zeros(values.shape)
    out[possible] = onto_total(values[possible], total)
    return out


def _possible(setting: CommuteSetting) -> np.ndarray:
    """bool [class, calls]: what the rules of the classes allow. Two anchors take at least two calls."""
    parts = set(setting.part_of_slot.tolist())
    possible = np.ones((CLASSES, CALLS.size), bool)
    possible[[STAYER, COMMUTER], 0] = False
    possible[[STAYER, COMMUTER]] &= {NIGHT, WORK_HOURS} <= parts
    possible[COMMUTER] &= setting.sites > 1
    possible[HOME_ONLY] &= NIGHT in parts
    possible[NO_HOME] &= bool(parts - {NIGHT})
    return possible


def _usual_calls(noisy: np.ndarray, total: float, possible: np.ndarray) -> np.ndarray:
    """The log-normal histogram of a total nearest to a noisy one, restricted to what is possible."""
    from scipy.special import ndtr

    ends = np.log(np.concatenate([[0.5], CALLS[:-1] + 0.5]))
    above = ndtr(-(ends - _MEANS[:, None, None]) / _SPREADS[:, None])  # [mean, spread, calls]: that or more
    share = above - np.concatenate([above[..., 1:], np.zeros((*above.shape[:2], 1))], axis=-1)
    share *= possible
    share /= np.maximum(share.sum(axis=-1, keepdims=True), TINY)
    miss = ((share * total - noisy) ** 2).sum(axis=-1)
    return share[np.unravel_index(int(np.argmin(miss)), miss.shape)] * total


def _sites(noisy: np.ndarray, sd: float, total: float, region: np.ndarray) -> np.ndarray:
    """People per site: regions shrunk towards a uniform city, then sites towards the mean of their region."""
    sites = np.bincount(region)
    even = total * sites / sites.sum()
    sums = np.bincount(region, noisy)
    regions = onto_total(_shrunk(sums, even, sd * np.sqrt(sites)), total)
    mean = (regions / sites)[region]
    return onto_total(_shrunk(noisy, mean, sd), total)


def _homes(noisy: np.ndarray, sd: float, totals: np.ndarray, region: np.ndarray) -> np.ndarray:
    """[kind of anchor, sites]: all anchors first, then each kind, shrunk towards all."""
    every = _sites(noisy.sum(axis=0), sd * np.sqrt(len(noisy)), float(totals.sum()), region)
    usual = every / max(float(every.sum()), TINY)
    rows = [_shrunk(row, usual * total, sd) for row, total in zip(noisy, totals, strict=True)]
    return np.stack([onto_total(row, total) for row, total in zip(rows, totals, strict=True)])


def _pairs(
    noisy: NoisyCommutes, setting: CommuteSetting, homes: np.ndarray, works: np.ndarray, total: float
) -> np.ndarray:
    """[home, work]: independence fitted to the noisy homes, works, distances and flows."""
    xy, region = setting.site_xy_m, setting.region_of_site
    if total <= 0 or setting.sites < 2:
        return np.zeros((setting.sites, setting.sites))
    metres = np.hypot(*(np.subtract.outer(axis, axis) for axis in xy.T))
    far = np.searchsorted(setting.distance_ends_m, metres)
    pairs = np.outer(homes + UNLIKELY, works + UNLIKELY)
    np.fill_diagonal(pairs, 0.0)
    pairs *= total / max(pairs.sum(), TINY)
    targets: list[tuple[np.ndarray, np.ndarray]] = []
    cells = region[:, None] * setting.region_count + region[None, :]
    for name, group in (("distances", far), ("flows", cells)):
        if name not in noisy.tables:
            continue
        values = noisy.tables[name].ravel()
        expected = np.bincount(group.ravel(), pairs.ravel(), values.size)
        if name == "distances":
            expected = _decayed(expected, values, group, metres)
        fitted = _shrunk(values, expected, noisy.deviations[name])
        targets.append((group, _onto(fitted, total, expected > 0) + UNLIKELY * expected))
        pairs = _fitted(pairs, homes, works, targets)
    return pairs if targets else _fitted(pairs, homes, works, targets)


def _decayed(expected: np.ndarray, noisy: np.ndarray, far: np.ndarray, metres: np.ndarray) -> np.ndarray:
    """Expected commuters by distance, times the exponential decay that fits a noisy histogram best."""
    pairs = np.maximum(np.bincount(far.ravel(), minlength=expected.size), 1)
    middle = np.bincount(far.ravel(), metres.ravel(), expected.size) / pairs / max(float(metres.max()), 1e-9)
    shapes = expected * np.exp(-np.linspace(-2.0, 20.0, 221)[:, None] * middle)
    shapes *= expected.sum() / np.maximum(shapes.sum(axis=1, keepdims=True), TINY)
    return shapes[int(np.argmin(((shapes - noisy) ** 2).sum(axis=1)))]


def _fitted(
    pairs: np.ndarray,
    homes: np.ndarray,
    works: np.ndarray,
    targets: list[tuple[np.ndarray, np.ndarray]],
) -> np.ndarray:
    """Proportional fitting to work places, to homes, and to sums over groups of pairs."""
    pairs = pairs.copy()
    for _ in range(ROUNDS):
        pairs *= ((homes + UNLIKELY) / np.maximum(pairs.sum(axis=1), TINY))[:, None]
        pairs *= (works + UNLIKELY) / np.maximum(pairs.sum(axis=0), TINY)
        for group, sums in targets:
            now = np.bincount(group.ravel(), pairs.ravel(), sums.size)
            pairs *= np.where(now > 0, sums / np.maximum(now, TINY), 0.0)[group]
    return pairs


def _hours(noisy: np.ndarray, sd: float, setting: CommuteSetting) -> np.ndarray:
    """[class, many calls or not, 48]: all users first, then classes, then both."""
    open_slots = np.bincount(setting.kind_of_slot, minlength=HOUR_KINDS) > 0
    closed = np.zeros((CLASSES, HOUR_KINDS), bool)  # what the classes exclude
    closed[HOME_ONLY] = PART_OF_KIND == WORK_HOURS
    closed[NO_HOME] = PART_OF_KIND == NIGHT
    noisy = np.where(open_slots & ~closed[:, None], noisy, 0.0)
    every = open_slots / open_slots.sum()
    for wide in (7, 3, 1):  # neighbouring hours are similar: wide means first
        smooth = _around(noisy.sum(axis=(0, 1)), open_slots, wide)
        every = _shrunk_shares(smooth, every, sd * np.sqrt(2 * CLASSES / wide))
    out = np.empty(noisy.shape)
    for kind in range(CLASSES):
        usual = _shrunk_shares(noisy[kind].sum(axis=0), np.where(closed[kind], 0.0, every), sd * np.sqrt(2))
        out[kind] = [_shrunk_shares(row, usual, sd) for row in noisy[kind]]
        out[kind] += np.where(open_slots & ~closed[kind], UNLIKELY, 0.0)
    return out


def _around(hours: np.ndarray, open_slots: np.ndarray, wide: int) -> np.ndarray:
    """Means over `wide` hours around each, circular, separately for weekdays and weekends."""
    beside = range(-(wide // 2), wide // 2 + 1)
    both = np.stack([np.where(open_slots, hours, 0.0), open_slots.astype(np.float64)]).reshape(2, 2, 24)
    sums, hours_open = np.sum([np.roll(both, by, axis=2) for by in beside], axis=0).reshape(2, HOUR_KINDS)
    return np.where(open_slots, sums / np.maximum(hours_open, 1.0), 0.0)


def _shrunk_shares(noisy: np.ndarray, usual: np.ndarray, sd: float) -> np.ndarray:
    """Shares of a noisy histogram, shrunk towards `usual` ones; they sum to 1."""
    total = max(float(noisy.sum()), 1.0)
    expected = usual * total / max(float(usual.sum()), TINY)
    return onto_total(_shrunk(noisy, expected, sd), total) / total


def _shrunk(noisy: np.ndarray, expected: np.ndarray, sd: float | np.ndarray) -> np.ndarray:
    """Noisy values shrunk towards `expected`, with one relative residual variance for all."""
    beyond = float(np.where(expected > 0, (noisy - expected) ** 2 - np.square(sd), 0.0).sum())
    share = np.sqrt(np.clip(beyond / max(float((expected**2).sum()), TINY), LEAST_SPREAD**2, MOST_SPREAD**2))
    trust = (share * expected) ** 2 / np.maximum((share * expected) ** 2 + np.square(sd), TINY)
    return expected + trust * (noisy - expected)


def _places(noisy: np.ndarray, sd: float) -> np.ndarray:
    """[class, activity, part, place]: probabilities of places, shrunk towards all activities."""
    noisy = noisy.copy()
    noisy[np.arange(CLASSES) != COMMUTER, ..., AT_WORK] = 0.0  # only commuters have a work place of their own
    out = np.empty(noisy.shape)
    for kind in range(noisy.shape[0]):
        for part in range(noisy.shape[2]):
            even = np.array([1.0, float(kind == COMMUTER), 1.0])
            usual = _shrunk_shares(noisy[kind, :, part].sum(axis=0), even, sd * np.sqrt(noisy.shape[1]))
            for activity in range(noisy.shape[1]):
                out[kind, activity, part] = _shrunk_shares(noisy[kind, activity, part], usual, sd)
    return out


def _reach(noisy: np.ndarray, sd: float) -> np.ndarray:
    """[anchor, part, distance]: distances of calls elsewhere, shrunk towards all parts."""
    out = np.empty(noisy.shape)
    noise = sd * np.sqrt(noisy.shape[0] * noisy.shape[1])
    every = _shrunk_shares(noisy.sum(axis=(0, 1)), np.ones(noisy.shape[2]), noise)
    for anchor in range(noisy.shape[0]):
        usual = _shrunk_shares(noisy[anchor].sum(axis=0), every, sd * np.sqrt(noisy.shape[1]))
        for part in range(noisy.shape[1]):
            weight = max(float(noisy[anchor, part].sum()), 1.0)  # weighs the two anchors of commuters
            out[anchor, part] = weight * _shrunk_shares(noisy[anchor, part], usual, sd)
    return out
