"""Peaks seen once: found in a zone's noisy answers, taken out of all of them, added back to the estimate.

A zone's week is assumed to be level x (1, mu) in its measured columns, with covariance S of the shares between
zones (robust moments over zones, noise taken off). A window of a few hours, on one day or at the same hours of
two or three days in a row, is a peak where

1. it raises the log-likelihood over the best smooth week, for any level and for S enlarged, by LEAST_GAIN
2. it does so by OVER_REGULAR more than the same hours on all days, on working days, or on a day of every week
3. it is OVER_USUAL times the zone's usual count at these hours

A peak in a window of one week may return in the next one: one week cannot tell. Its size follows from the zone
and from the gap of its region, since both are clipped differently. Everything here is computed from noisy
answers and public settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal.postprocess.density.numbers import Z95
from shoal.postprocess.density.smoothing import city_profile, hour_weights
from shoal.space.clock import Clock
from shoal.space.setting import Setting, activity
from shoal.stages.noisy import DensityEstimate, NoisyBest, NoisyMeasurement, Peak

MOST_HOURS = 12  # of a window
MOST_DAYS = 3
MOST_WINDOW_HOURS = 24 * 35  # longer releases are not searched
MOST_PROBES = 12  # more columns than that outside the learned ones: their covariance is taken as diagonal
LEAST_GAIN = 16.0  # log-likelihood
OVER_REGULAR = 6.0
OVER_USUAL = 2.0
MORE_DAYS = 3.0  # log-likelihood that more than one day costs
NEARLY = 5.0  # a plain window within this of LEAST_GAIN is examined with all windows
PER_ZONE, PER_RELEASE = 3, 20  # peaks
MOST_EXAMINED, ZONES_PER_EXAMINED = 30, 10  # zones with the largest gains: so many, or one in so many
EDGES = ((1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (0.5, 0.5))  # of the first and last hour: people come and go
LEVELS, COARSE = 24, 12  # of the smooth week that are tried, from 1 to 130 % of the measured one
LEVELS_WITHIN = 8.0  # log-likelihood of the best level: at the others only plain windows are tried
CLEAR_ZONES, CLEAR = 20, 4.0  # zones that far above their noise, at least
TAIL = 2.0  # zones differ more than normally
FREE = (10.0, 100.0)  # ... and some are unlike all others in the learned columns: variances so much larger
FREEDOM, ROUNDS = 4.0, 8  # of the robust covariance
MISFIT = 0.15  # relative deviation of a peak from its window, spread over the columns
AT_ONCE = 32  # zones
ALIKE = (0.0, 0.3, 0.6, 0.9)  # how visitors are clipped: as new users (0) or like the usual visit (1)
STAYS = (0.5, 0.75, 1.0)  # share of a peak's hours that its visitors are there
DISAGREE = 0.1  # of a size: deviation between zone and region besides noise
CLIPPED_DOUBT = 0.05  # of a size: its deviation besides
SURE = 20.0  # deviations of the noise of a plain window: nearly all such peaks are found
WITHIN = 0.12  # relative deviation of a peak's hours from its window
LEAST_REGIONS = 3  # without peaks, to tell how well regions fit
CHI_MEDIAN = 0.455  # median of a squared normal variable
LEAST_LEFT = 0.3  # of all visits stay when peaks are taken out


@dataclass(frozen=True)
class Windows:
    """Runs of hours, on one day or the same hours of days in a row, as indices of slots."""

    start: np.ndarray  # int64: first slot
    stop: np.ndarray  # int64: slot after the last one of the first day
    days: np.ndarray  # int64
    first: np.ndarray  # float64: share of the first hour, and of the last
    last: np.ndarray

    @classmethod
    def of(cls, clock: Clock) -> Windows:
        """Windows begin and end on whole hours, or on slots where these are longer."""
        hour, day = max(1, 60 // clock.slot_minutes), 1440 // clock.slot_minutes
        hours = clock.slots // hour
        longest = max(1, min(MOST_HOURS * 60 // (clock.slot_minutes * hour), hours // 4))
        rows = []
        for days in range(1, MOST_DAYS + 1):
            for length in range(1, longest + 1):
                edges = EDGES[:1] if days > 1 or length < 2 else EDGES[:3] if length == 2 else EDGES
                starts = np.arange(hours - length + 1) * hour
                starts = starts[starts + length * hour + (days - 1) * day <= clock.slots]
                for edge in edges:
                    one = np.ones(len(starts))
                    rows.append((starts, starts + length * hour, days * one, edge[0] * one, edge[1] * one))
        start, stop, days, first, last = (np.concatenate(each) for each in zip(*rows, strict=True))
        return cls(start.astype(np.int64), stop.astype(np.int64), days.astype(np.int64), first, last)

    @property
    def plain(self) -> np.ndarray:
        return np.flatnonzero((self.days == 1) & (self.first == 1) & (self.last == 1))

    def profiles(self, chosen: np.ndarray, clock: Clock) -> np.ndarray:
        """float64 [chosen, slots]: 1 inside, less in the first and last hour."""
        hour, day = max(1, 60 // clock.slot_minutes), 1440 // clock.slot_minutes
        slot = np.arange(clock.slots)
        out = np.zeros((len(chosen), clock.slots))
        start, stop = self.start[chosen, None], self.stop[chosen, None]
        for number in range(MOST_DAYS):
            after = slot - number * day
            inside = (after >= start) & (after < stop) & (number < self.days[chosen, None])
            edge = np.where(after < start + hour, self.first[chosen, None], 1.0)
            out += inside * np.minimum(edge, np.where(after >= stop - hour, self.last[chosen, None], 1.0))
        return out

    def columns(self, time: np.ndarray, clock: Clock) -> np.ndarray:
        """float64 [windows, columns]: sums of `time` [slots, columns] over each window."""
        hour, day = max(1, 60 // clock.slot_minutes), 1440 // clock.slot_minutes
        sums = np.concatenate([np.zeros((1, time.shape[1])), np.cumsum(time, axis=0)])
        out = np.zeros((len(self.start), time.shape[1]))
        for number in range(MOST_DAYS):
            on = number < self.days
            start, stop = (np.minimum(each[on] + number * day, clock.slots) for each in (self.start, self.stop))
            ends = sums[start + hour] - sums[start], sums[stop] - sums[stop - hour]
            less = (1 - self.first[on, None]) * ends[0] + (1 - self.last[on, None]) * ends[1]
            out[on] += sums[stop] - sums[start] - less
        return out


def regular_profiles(clock: Clock) -> np.ndarray:
    """float64 [patterns, slots]: the same hours on days that make a habit."""
    hours, day, step = clock.hours_local, clock.day_of_slot, clock.slot_minutes / 60
    weekday = (clock.start.weekday() + day - day.min()) % 7
    habits = [np.isin(weekday, range(last)) for last in (7, 5, 4, 6)]
    habits = [on for on in habits if len(np.unique(day[on])) > MOST_DAYS]
    habits += [on for on in (weekday == each for each in range(7)) if len(np.unique(day[on])) > 1]
    step = max(step, 1.0)
    starts, lengths = np.arange(0, 24, step), np.arange(step, MOST_HOURS + 1e-9, step)
    lengths = lengths if len(lengths) else np.array([step])
    rows = [on & ((hours - start) % 24 < length - 1e-9) for on in habits for start in starts for length in lengths]
    return np.unique(np.array(rows, np.float64), axis=0) if rows else np.zeros((0, clock.slots))


@dataclass(frozen=True)
class Answers:
    """What was measured of zones, in people, and how a smooth week would look in it."""

    values: np.ndarray  # float64 [zones, columns]: learned columns, then the others over their weight
    noise: np.ndarray  # float64 [zones, columns]: variance
    linear: np.ndarray  # float64 [zones, columns]: residual variance, times the level
    squared: np.ndarray  # float64 [columns]: residual variance, times the squared level
    time: np.ndarray  # float64 [slots, columns]: weighted columns
    course: np.ndarray  # float64 [slots]: people of a zone of level 1
    learned: int
    joint: int  # leading columns whose covariance is full
    scale: float  # visits for a clipped visit

    @classmethod
    def of(cls, noisy: NoisyBest, setting: Setting, visits: float, phi: float, kappa: float) -> Answers:
        learned, others = noisy.basis.shape[1], noisy.rest_basis.shape[1]
        columns = np.column_stack([noisy.basis, noisy.rest_basis])
        counted = float((noisy.zones @ (noisy.basis / noisy.weight[:, None]).sum(axis=0)).sum())
        scale = max(visits / counted, 1.0) if counted > 0 else 1.0
        unit = np.repeat([1.0, 1.0 / noisy.rest_weight], [learned, others])
        course = np.maximum(noisy.basis[:, 0] / noisy.weight, 0.0)
        square = noisy.weight[:, None] ** 2 * columns**2
        return cls(
            values=np.column_stack([noisy.zones, noisy.rest / noisy.rest_weight]) * scale,
            noise=(unit * noisy.zones_sigma[:, None] * scale) ** 2,
            linear=setting.weights.site_share[:, None] * (phi * course @ square),
            squared=kappa**2 * np.sqrt(course**3 * course.mean()) @ square,
            time=noisy.weight[:, None] * columns,
            course=course,
            learned=learned,
            joint=learned + others if others <= MOST_PROBES else learned,
            scale=scale,
        )


@dataclass(frozen=True)
class Shapes:
    """Mean of a zone's columns as shares of its level, and covariances of the leading ones: as is, enlarged."""

    mean: np.ndarray  # float64 [columns]
    covariances: np.ndarray  # float64 [1 + 2 FREE, joint, joint]
    tail: np.ndarray  # float64 [columns - joint]: variances of the others

    @classmethod
    def of(cls, answers: Answers) -> Shapes | None:
        """None where too few zones are clear of their noise."""
        joint, squared = answers.joint, answers.squared
        clear = answers.values[:, 0] > CLEAR * np.sqrt(answers.noise[:, 0])
        if clear.sum() < CLEAR_ZONES:
            return None
        level = answers.values[clear, :1]
        shares = answers.values[clear, :joint] / level
        noise = (answers.noise + answers.linear * answers.values[:, :1])[clear, :joint] / level**2
        mean, covariance = robust_moments(shares, noise)
        whole = TAIL * covariance
        whole += np.diag(np.minimum(squared[:joint], 0.25 * np.diag(covariance)))
        whole[0, 0] = squared[0]
        freer = [_freer(whole, answers.learned, times, follow) for times in FREE for follow in (True, False)]
        rest = np.zeros(len(squared) - joint)
        return cls(np.concatenate([mean, rest]), np.array([whole, *freer]), squared[joint:])


def robust_moments(shares: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance with Student's weights, noise variances taken off; the first share is always 1."""
    mean = np.median(shares, axis=0)
    spread = (1.4826 * np.median(np.abs(shares - mean), axis=0)) ** 2
    covariance = np.diag(np.maximum(spread - np.median(noise, axis=0), 0.05 * spread))
    steps = np.arange(shares.shape[1])
    for _ in range(ROUNDS):
        total = np.repeat(covariance[None], len(shares), axis=0)
        total[:, steps, steps] += noise
        rest = (shares - mean)[:, 1:, None]
        far = (rest * np.linalg.solve(total[:, 1:, 1:], rest)).sum(axis=(1, 2))
        weight = (FREEDOM + len(steps) - 1) / (FREEDOM + far)
        trust = weight / (np.trace(covariance[1:, 1:]) + noise[:, 1:].sum(axis=1))
        trust = trust / trust.sum()
        mean = trust @ shares
        rest = shares - mean
        square = np.einsum("z,zi,zj->ij", trust * weight / weight.mean(), rest, rest)
        value, vector = np.linalg.eigh(square - np.diag(trust @ noise))
        covariance = (vector * np.maximum(value, 1e-3 * value.max())) @ vector.T
    covariance[0, :] = covariance[:, 0] = 0.0
    return np.concatenate([[1.0], mean[1:]]), covariance


def _freer(covariance: np.ndarray, learned: int, times: float, follow: bool) -> np.ndarray:
    """Learned columns vary more; the others follow them by the same regression, or are independent of them."""
    own, across = covariance[1:learned, 1:learned], covariance[1:learned, learned:]
    out = covariance.copy()
    out[1:learned, 1:learned] = times * own
    out[1:learned, learned:] = times * follow * across
    out[learned:, 1:learned] = times * follow * across.T
    if follow:
        out[learned:, learned:] += (times - 1) * across.T @ np.linalg.pinv(own, hermitian=True) @ across
    return out


@dataclass(frozen=True)
class Design:
    """Columns of windows, and their products, such that scores of many levels and zones are matrix products."""

    columns: np.ndarray  # float64 [windows, columns]
    products: np.ndarray  # float64 [windows, pairs of joint columns, then squares of the others]
    log_prior: np.ndarray

    @classmethod
    def of(cls, columns: np.ndarray, joint: int, log_prior: np.ndarray | float = 0.0) -> Design:
        row, col = np.triu_indices(joint)
        pairs = columns[:, row] * columns[:, col] * np.where(row == col, 1.0, 2.0)
        products = np.column_stack([pairs, columns[:, joint:] ** 2])
        return cls(columns, products, np.broadcast_to(log_prior, len(columns)))

    def only(self, chosen: np.ndarray) -> Design:
        return Design(self.columns[chosen], self.products[chosen], self.log_prior[chosen])


@dataclass(frozen=True)
class Weeks:
    """Smooth weeks of zones at some levels: log-likelihoods of answers under them."""

    residual: np.ndarray  # float64 [zones, levels, columns]
    variance: np.ndarray  # float64 [zones, levels, columns]: of noise and of the zone's own residuals
    covariance: np.ndarray  # float64 [zones, levels, joint, joint]: of shapes
    level: np.ndarray  # float64 [zones, levels]
    least: np.ndarray  # float64 [zones]: log-likelihood of the best smooth week
    most: np.ndarray  # float64 [zones]: log-likelihood if a window explained everything

    @classmethod
    def of(cls, answers: Answers, shapes: Shapes, zones: np.ndarray, values: np.ndarray, levels: int) -> Weeks:
        joint, noise = answers.joint, answers.noise[zones]
        top = 1.3 * np.maximum(values[:, 0], np.sqrt(noise[:, 0]))
        level = top[:, None] * np.geomspace(0.01, 1.0, levels)
        residual = values[:, None] - level[..., None] * shapes.mean
        variance = noise[:, None] + level[..., None] * answers.linear[zones][:, None]
        variance[..., joint:] += level[..., None] ** 2 * shapes.tail
        least, most = np.full(len(zones), -np.inf), np.full(len(zones), -np.inf)
        for covariance in shapes.covariances:
            whole = level[..., None, None] ** 2 * covariance
            quadratic, half_log = _gaussian(whole, variance, residual)
            least = np.maximum(least, (-0.5 * quadratic - half_log).max(axis=1))
            most = np.maximum(most, (-half_log).max(axis=1))
        whole = level[..., None, None] ** 2 * shapes.covariances[0]
        return cls(residual, variance, whole, level, least, most)

    def only(self, chosen: np.ndarray) -> Weeks:
        """The weeks of some of the zones."""
        return Weeks(**{name: value[chosen] for name, value in vars(self).items()})

    def at(self, levels: np.ndarray) -> Weeks:
        """The weeks at some of the levels."""
        by_level = {name: value[:, levels] for name, value in vars(self).items() if value.ndim > 1}
        return replace(self, **by_level)

    def with_windows(self, design: Design, signed: bool = True) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Gain in log-likelihood, size and its variance, each float64 [zones, levels, windows]."""
        joint = self.covariance.shape[-1]
        misfit = MISFIT**2 * (self.residual**2).mean(axis=-1, keepdims=True)
        variance = self.variance + misfit
        quadratic, half_log = _gaussian(self.covariance, variance, self.residual)
        inverse = np.linalg.inv(_with_diagonal(self.covariance, variance[..., :joint]))
        lean = (inverse @ self.residual[..., :joint, None])[..., 0]
        row, col = np.triu_indices(joint)
        known = 1.0 / variance[..., joint:]
        along = np.concatenate([lean, known * self.residual[..., joint:]], axis=-1)
        weights = np.concatenate([inverse[..., row, col], known], axis=-1)
        precision = np.maximum(weights @ design.products.T, 1e-300)
        size = along @ design.columns.T / precision
        if signed:
            size = np.maximum(size, 0.0)
        base = (-0.5 * quadratic - half_log - self.least[:, None])[..., None]
        return base + 0.5 * size**2 * precision + design.log_prior, size, 1.0 / precision


def _gaussian(covariance: np.ndarray, variance: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared length of residuals and half the log-determinant; variances beyond the covariance are alone."""
    joint = covariance.shape[-1]
    lower = np.linalg.cholesky(_with_diagonal(covariance, variance[..., :joint]))
    white = np.linalg.solve(lower, residual[..., :joint, None])[..., 0]
    half_log = np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum(axis=-1)
    quadratic = (white**2).sum(axis=-1) + (residual[..., joint:] ** 2 / variance[..., joint:]).sum(axis=-1)
    return quadratic, half_log + 0.5 * np.log(variance[..., joint:]).sum(axis=-1)


def _with_diagonal(covariance: np.ndarray, variance: np.ndarray) -> np.ndarray:
    steps = np.arange(covariance.shape[-1])
    out = covariance.copy()
    out[..., steps, steps] += variance
    return out


@dataclass(frozen=True)
class Hit:
    """A zone and the windows that may be its peak: probability, size in people by `Answers.scale`, its variance."""

    zone: int
    gain: float
    windows: np.ndarray  # int64 [m], the likeliest first
    probability: np.ndarray  # float64 [m]
    size: np.ndarray
    variance: np.ndarray
    columns: np.ndarray  # float64 [m, columns]

    @property
    def mean(self) -> np.ndarray:
        """float64 [columns]: what the peak adds to the zone's columns."""
        return (self.probability * self.size) @ self.columns

    @property
    def doubt(self) -> np.ndarray:
        """float64 [columns]: its variance."""
        apart = self.size[:, None] * self.columns - self.mean
        return self.probability @ (apart**2 + self.variance[:, None] * self.columns**2)


@dataclass(frozen=True)
class Search:
    """Everything that looking for peaks in one zone needs."""

    answers: Answers
    shapes: Shapes
    windows: Windows
    design: Design
    regular: Design
    clock: Clock
    visits: float

    @classmethod
    def of(cls, answers: Answers, shapes: Shapes, clock: Clock, visits: float) -> Search:
        windows = Windows.of(clock)
        prior = np.where(windows.days > 1, -MORE_DAYS, 0.0)
        design = Design.of(windows.columns(answers.time, clock), answers.joint, prior)
        regular = Design.of(regular_profiles(clock) @ answers.time, answers.joint)
        return cls(answers, shapes, windows, design, regular, clock, visits)

    def hits(self) -> list[Hit]:
        """At most PER_RELEASE of them, the clearest first."""
        found = [hit for zone in self._screen() for hit in self._in_zone(int(zone))]
        return sorted(found, key=lambda hit: -hit.gain)[:PER_RELEASE]

    def others(self, hits: Sequence[Hit]) -> float:
        """Number of visits without those of the peaks."""
        hours = self.windows.columns(np.ones((self.clock.slots, 1)), self.clock)[:, 0]
        gone = sum(float(hit.probability @ (hit.size * hours[hit.windows])) for hit in hits)
        return max(self.visits - gone / self.answers.scale, LEAST_LEFT * self.visits)

    def least_peak(self) -> float:
        """People at a time for four hours that are found in most zones: SURE deviations of noise."""
        answers = self.answers
        hours = min(4.0 * 60 / self.clock.slot_minutes, self.clock.slots)
        noise = float(np.median(np.sqrt(answers.noise.mean(axis=1))))
        return SURE * noise * float(np.sqrt(self.clock.slots / (answers.values.shape[1] * max(hours, 1.0))))

    def _screen(self) -> np.ndarray:
        """Zones in which a plain window is nearly a peak; a bounded number of them."""
        answers, plain = self.answers, self.design.only(self.windows.plain)
        gain = np.full(len(answers.values), -np.inf)
        for start in range(0, len(gain), AT_ONCE):
            zones = np.arange(start, min(start + AT_ONCE, len(gain)))
            weeks = Weeks.of(answers, self.shapes, zones, answers.values[zones], COARSE)
            unlike = np.flatnonzero(weeks.most - weeks.least >= LEAST_GAIN)
            weeks = weeks.only(unlike)
            one = weeks.with_windows(plain)[0].max(axis=(1, 2))
            over = one - weeks.with_windows(self.regular, signed=False)[0].max(axis=(1, 2), initial=0.0)
            gain[zones[unlike]] = np.where(over >= OVER_REGULAR - NEARLY, one, -np.inf)
        most = max(MOST_EXAMINED, len(gain) // ZONES_PER_EXAMINED)
        order = np.argsort(-gain, kind="stable")[:most]
        return order[gain[order] >= LEAST_GAIN - NEARLY]

    def _in_zone(self, zone: int) -> list[Hit]:
        found, values = [], self.answers.values[[zone]].copy()
        while len(found) < PER_ZONE:
            hit = self._best(zone, values)
            if hit is None:
                break
            found.append(hit)
            values = values - hit.mean
        return found

    def _best(self, zone: int, values: np.ndarray) -> Hit | None:
        """The peak of largest gain in a zone, if it is one."""
        weeks = Weeks.of(self.answers, self.shapes, np.array([zone]), values, LEVELS)
        if weeks.most[0] - weeks.least[0] < LEAST_GAIN:
            return None
        near = weeks.with_windows(self.design.only(self.windows.plain))[0][0].max(axis=1)
        weeks = weeks.at(near >= near.max() - LEVELS_WITHIN)
        gain, size, variance = (each[0] for each in weeks.with_windows(self.design))
        level, best = np.unravel_index(np.argmax(gain), gain.shape)
        largest = float(gain[level, best])
        regular = weeks.with_windows(self.regular, signed=False)[0].max() if len(self.regular.columns) else 0.0
        if not (largest >= LEAST_GAIN and largest - max(regular, 0.0) >= OVER_REGULAR):
            return None
        course = self.answers.course[:, None]
        window = self.windows.columns(np.column_stack([course, np.ones_like(course)]), self.clock)[best]
        if size[level, best] < OVER_USUAL * weeks.level[0, level] * window[0] / window[1]:
            return None
        weight = np.exp(gain - largest)
        total = np.maximum(weight.sum(axis=0), 1e-300)
        mean = (weight * size).sum(axis=0) / total
        spread = (weight * (size**2 + variance)).sum(axis=0) / total - mean**2
        share = total / total.sum()
        kept = np.flatnonzero(share > 1e-4)
        kept = kept[np.argsort(-share[kept], kind="stable")]
        return Hit(
            zone=zone,
            gain=largest,
            windows=kept,
            probability=share[kept] / share[kept].sum(),
            size=mean[kept],
            variance=np.maximum(spread[kept], 0.0),
            columns=self.design.columns[kept],
        )


@dataclass(frozen=True)
class PeakPart:
    """A peak as it enters the estimate and the noisy answers."""

    peak: Peak
    course: np.ndarray  # float64 [slots], people
    variance: np.ndarray  # float64 [slots]
    hit: Hit


def find_peaks(noisy: NoisyBest, setting: Setting, visits: float, residual: tuple[float, float]) -> Search | None:
    """A search over all zones; None where zones tell too little: no probes, or few zones clear of their noise.

    Args:
        visits: number of all visits.
        residual: phi and kappa of the residual variance around a smooth week.
    """
    hours = setting.slots * setting.clock.slot_minutes / 60
    if noisy.rest_weight <= 0 or not noisy.rest.size or hours > MOST_WINDOW_HOURS or setting.slots < 2:
        return None
    answers = Answers.of(noisy, setting, visits, *residual)
    shapes = Shapes.of(answers)
    return None if shapes is None else Search.of(answers, shapes, setting.clock, visits)


def size_peaks(
    search: Search, hits: Sequence[Hit], noisy: NoisyBest, counts: np.ndarray
) -> list[PeakPart]:
    """Peaks in people, their sizes from zones and regions; `counts` is the estimate without the peaks."""
    profiles = [search.windows.profiles(hit.windows, search.clock) for hit in hits]
    expected = np.array([hit.probability @ profile for hit, profile in zip(hits, profiles, strict=True)])
    in_regions, of_region = _in_regions(noisy, counts, np.array([hit.zone for hit in hits]), expected)
    scales = search.answers.scale, of_region, max(search.visits / max(noisy.profile_total, 1e-9), 1.0)
    unit = np.repeat([1.0, noisy.rest_weight], [search.answers.learned, noisy.rest_basis.shape[1]])
    parts = []
    for hit, profile, from_region in zip(hits, profiles, in_regions, strict=True):
        stay = float(np.linalg.norm(hit.columns[0] * unit)) / noisy.zones_clip
        size, variance = _size_in_people(hit, stay, scales, from_region)
        size = max(size, 0.0)
        relative = hit.size / max(float(hit.probability @ hit.size), 1e-9)  # a longer window has a smaller size
        inside = (hit.probability * relative) @ profile
        squares = (hit.probability * relative**2) @ profile**2
        course = size * inside
        doubt = size**2 * np.maximum(squares - inside**2, 0.0) + (WITHIN * course) ** 2 + course
        likeliest = hit.windows[0]
        start, stop, days = (int(each[likeliest]) for each in (search.windows.start, search.windows.stop, search.windows.days))
        peak = Peak(zone=hit.zone, start=start, stop=stop, days=days, size=size, deviation=float(np.sqrt(variance)))
        parts.append(PeakPart(peak, course, variance * inside**2 + doubt, hit))
    return parts


def _size_in_people(
    hit: Hit, stay: float, scales: tuple[float, float, float], from_region: tuple[float, float] | None
) -> tuple[float, float]:
    """Size and variance of a peak, from its zone and its region.

    Visitors are clipped, those who come for long more than others, in the zone more than in the region. Both
    measurements must give one size: it is averaged over how much visitors are clipped (as ALIKE) and how long
    they stay (STAYS), weighted by the likelihood of the difference of the two.

    Args:
        stay: norm of the whole peak as one visitor's, in clips of the zone.
        scales: visits for a clipped visit of zones, of regions, of the city.
    """
    of_zones, of_regions, of_city = scales
    a = float(hit.probability @ hit.size)
    variance = float(hit.probability @ (hit.variance + hit.size**2) - a**2)
    alike, stays = (each.ravel() for each in np.meshgrid(ALIKE, STAYS))
    to = np.hypot(max(of_zones / of_regions, 1.0) ** alike, stays * stay) / of_zones
    sizes, doubts = a * to, variance * to**2
    chance = np.ones(len(to))
    if from_region is not None:
        to = max(of_regions / of_city, 1.0) ** alike / of_regions
        other, doubt = from_region[0] * to, from_region[1] * to**2
        both = doubts + doubt + (DISAGREE * sizes) ** 2
        log_chance = -0.5 * ((sizes - other) ** 2 / both + np.log(both))
        chance = np.exp(log_chance - log_chance.max())
        trust = doubts / (doubts + doubt + (DISAGREE * sizes) ** 2)
        sizes, doubts = sizes + trust * (other - sizes), doubts * (1 - trust)
    chance = chance / chance.sum()
    size = float(chance @ sizes)
    doubt = float(chance @ (doubts + sizes**2) - size**2)
    return size, doubt + (CLIPPED_DOUBT * size) ** 2


def _in_regions(
    noisy: NoisyBest, counts: np.ndarray, zones: np.ndarray, profiles: np.ndarray
) -> tuple[list[tuple[float, float] | None], float]:
    """Size and variance of each peak as its region measured it, in visits times the scale, and the scale.

    The variance is the larger one of two: that of the fit, and what the same fit gives in regions without peaks.
    """
    region_of = noisy.region_of
    sums = np.zeros((int(region_of.max()) + 1, counts.shape[1]))
    np.add.at(sums, region_of, counts)
    implied = (sums * noisy.weight) @ noisy.dictionary
    touched = np.unique(region_of[zones])
    others = np.setdiff1d(np.arange(len(sums)), touched)
    measured, expected = (float(each[others, 0].sum()) for each in (noisy.regions.values, implied))
    if len(others) < LEAST_REGIONS or measured <= 0 or expected <= 0:
        return [None] * len(zones), 1.0
    scale = expected / measured
    gap = noisy.regions.values * scale - implied
    level = np.sqrt(np.maximum(implied[:, :1], 1e-9))
    usual = gap[others] / level[others]
    spread = 1.4826 * np.median(np.abs(usual), axis=0)
    answers: list[tuple[float, float] | None] = [None] * len(zones)
    for region in touched:
        mine = np.flatnonzero(region_of[zones] == region)
        design = (profiles[mine] * noisy.weight) @ noisy.dictionary
        variance = np.maximum((spread * level[region]) ** 2, (noisy.regions.sigma * scale) ** 2)
        covariance = np.linalg.pinv((design / variance) @ design.T)
        read = covariance @ (design / variance)
        tried = ((usual * level[region]) @ read.T) ** 2
        tried = np.minimum(tried, 9 * np.median(tried, axis=0) / CHI_MEDIAN).mean(axis=0)
        for number, peak in enumerate(mine):
            doubt = float(max(covariance[number, number], tried[number]))
            answers[peak] = (float(read[number] @ gap[region]), doubt)
    return answers, max(scale, 1.0)


def zones_without(noisy: NoisyBest, hits: Sequence[Hit], scale: float) -> NoisyBest:
    """Answers about zones without the peaks, whose variance is added to the noise of the learned columns."""
    learned = noisy.basis.shape[1]
    zones, rest = noisy.zones.copy(), noisy.rest.copy()
    doubt = np.zeros_like(zones)
    for hit in hits:
        zones[hit.zone] -= hit.mean[:learned] / scale
        rest[hit.zone] -= hit.mean[learned:] / scale * noisy.rest_weight
        doubt[hit.zone] += hit.doubt[:learned] / scale**2
    return replace(noisy, zones=zones, rest=rest, zones_doubt=doubt)


def without(noisy: NoisyBest, setting: Setting, parts: Sequence[PeakPart], scale: float) -> NoisyBest:
    """All noisy answers without what the peaks add to them."""
    regions = noisy.regions.values.copy()
    for part in parts:
        regions[noisy.region_of[part.peak.zone]] -= (part.course * noisy.weight) @ noisy.dictionary
    gone, doubt = (sum(each) for each in zip(*((p.course, p.variance) for p in parts), strict=True))
    expected = activity(setting.clock)
    seen = hour_weights(expected)
    visits = float(noisy.visits.values[0, 0])
    city = noisy.city.values[0] - seen * gone
    per_day = 1440 / setting.clock.slot_minutes
    less = min(float(gone.sum()), (1 - LEAST_LEFT) * max(visits, 0.0))
    return replace(
        zones_without(noisy, [part.hit for part in parts], scale),
        regions=NoisyMeasurement(values=regions, sigma=noisy.regions.sigma),
        visits=replace(noisy.visits, values=noisy.visits.values - less),
        active=replace(noisy.active, values=noisy.active.values - less),
        profile=city_profile(city, seen, noisy.city.sigma, expected, per_day),
        profile_deviation=np.sqrt(noisy.profile_deviation**2 + doubt),
        profile_total=float((city / seen).sum()),
    )


def with_peaks(rest: DensityEstimate, parts: Sequence[PeakPart]) -> DensityEstimate:
    """The estimate of everything else, plus the peaks."""
    people, low, high = (each.copy() for each in (rest.people, rest.low, rest.high))
    for part in parts:
        zone = part.peak.zone
        below, above = (np.abs(end[zone] - people[zone]) for end in (low, high))
        people[zone] += part.course
        low[zone] = np.maximum(people[zone] - np.sqrt(below**2 + Z95**2 * part.variance), 0.0)
        high[zone] = people[zone] + np.sqrt(above**2 + Z95**2 * part.variance)
    return replace(rest, people=people, low=low, high=high, peaks=tuple(part.peak for part in parts))
