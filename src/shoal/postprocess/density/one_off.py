"""Peaks seen once: windows of a few hours in one zone that no smooth week explains, found in noisy answers.

A zone's week is level x (1, mu) in its measured columns; mu and S, the covariance of shares between zones,
are robust moments over zones with the noise taken off. A window, on one day or at the same hours of two or
three days in a row, is a peak where

1. it raises the log-likelihood over the best smooth week by LEAST_GAIN, for any level and for S enlarged
2. it does so by OVER_REGULAR more than the same hours on all days, on working days, or on a day of every week
3. it is OVER_USUAL times the zone's usual count at these hours

One week cannot tell whether a peak returns in the next. Everything here is computed from noisy answers and
public settings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.space.clock import Clock
from shoal.space.geography import Setting
from shoal.stages.noisy import NoisyBest

MOST_HOURS = 12  # of a window
MOST_DAYS = 3
MOST_WINDOW_HOURS = 24 * 35  # longer releases are not searched
MOST_PROBES = 12  # more columns than that outside the learned ones: their covariance is taken as diagonal
LEAST_GAIN = 14.0  # log-likelihood
OVER_REGULAR = 5.0
OVER_USUAL = 2.0
MORE_DAYS = 3.0  # log-likelihood that more than one day costs
NEARLY = 5.0  # a plain window within this of LEAST_GAIN is examined with all windows
PER_ZONE, PER_RELEASE = 3, 20  # peaks
MOST_EXAMINED, ZONES_PER_EXAMINED = 30, 10  # zones with the largest gains: so many, or one in so many
LEVELS, COARSE = 24, 12  # of the smooth week that are tried, from 1 to 130 % of the measured one
CLEAR_ZONES, CLEAR = 20, 4.0  # zones that far above their noise, at least
TAIL = 2.0  # zones differ more than normally
FREE = (10.0, 100.0)  # ... and some are unlike all others in the learned columns: variances so much larger
FREEDOM, ROUNDS = 4.0, 8  # of the robust covariance
PHI, KAPPA = 1.3, 0.19  # residual variance of a zone's slots around its smooth week, as usual in `best`
MOST_SCALE = 1000.0  # visits for a clipped visit: beyond, noise is all there is
MISFIT = 0.15  # relative deviation of a peak from its window, spread over the columns
AT_ONCE = 32  # zones
SURE = 20.0  # deviations of the noise of a plain window: nearly all such peaks are found


@dataclass(frozen=True)
class Windows:
    """Runs of whole hours or longer slots, on one day or at the same hours of days in a row."""

    start: np.ndarray  # int64: first slot
    stop: np.ndarray  # int64: slot after the last one of the first day
    days: np.ndarray  # int64, in order
    per_day: int  # slots

    @classmethod
    def of(cls, clock: Clock) -> Windows:
        hour, day = max(1, 60 // clock.slot_minutes), max(1, 1440 // clock.slot_minutes)
        longest = max(1, min(MOST_HOURS * 60 // (clock.slot_minutes * hour), clock.slots // hour // 4))
        rows = [
            (start, start + length * hour, days)
            for days in range(1, MOST_DAYS + 1)
            for length in range(1, longest + 1)
            for start in range(0, clock.slots - length * hour - (days - 1) * day + 1, hour)
        ]
        start, stop, days = np.array(rows, np.int64).T
        return cls(start, stop, days, day)

    @property
    def plain(self) -> int:
        """Number of windows of one day, which come first."""
        return int(np.searchsorted(self.days, 1, "right"))

    def sums(self, time: np.ndarray, chosen: np.ndarray | slice = slice(None)) -> np.ndarray:
        """float64 [windows, columns]: `time` [slots, columns] summed over each window."""
        until = np.concatenate([np.zeros((1, time.shape[1])), np.cumsum(time, axis=0)])
        start, stop, days = self.start[chosen], self.stop[chosen], self.days[chosen]
        out = np.zeros((len(start), time.shape[1]))
        for number in range(MOST_DAYS):
            on, later = days > number, number * self.per_day
            out[on] += until[stop[on] + later] - until[start[on] + later]
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
    rows = [
        on & ((hours - start) % 24 < length - 1e-9) for on in habits for start in starts for length in lengths
    ]
    return np.unique(np.array(rows, np.float64), axis=0) if rows else np.zeros((1, clock.slots))


@dataclass(frozen=True)
class Answers:
    """What was measured of zones, in people, and how a smooth week would look in it."""

    values: np.ndarray  # float64 [zones, columns]: learned columns, then the others over their weight
    noise: np.ndarray  # float64 [zones, columns]: variance
    linear: np.ndarray  # float64 [zones, columns]: residual variance, times the level
    squared: np.ndarray  # float64 [columns]: residual variance, times the squared level
    time: np.ndarray  # float64 [slots, columns]: weighted columns
    profile: np.ndarray  # float64 [slots]: people of a zone of level 1
    learned: int
    joint: int  # leading columns whose covariance is full
    scale: float  # visits for a clipped visit

    @classmethod
    def of(cls, noisy: NoisyBest, setting: Setting) -> Answers:
        learned, others = noisy.basis.shape[1], noisy.rest_basis.shape[1]
        columns = np.column_stack([noisy.basis, noisy.rest_basis])
        counted = float((noisy.zones @ (noisy.basis / noisy.weight[:, None]).sum(axis=0)).sum())
        scale = max(noisy.total.visits / counted, 1.0) if counted > 0 else 1.0
        unit = np.repeat([1.0, 1.0 / noisy.rest_weight], [learned, others])
        profile = np.maximum(noisy.basis[:, 0] / noisy.weight, 0.0)
        square = noisy.weight[:, None] ** 2 * columns**2
        return cls(
            values=np.column_stack([noisy.zones, noisy.rest / noisy.rest_weight]) * scale,
            noise=(unit * noisy.zones_sigma[:, None] * scale) ** 2,
            linear=setting.weights.site_share[:, None] * (PHI * profile @ square),
            squared=KAPPA**2 * np.sqrt(profile**3 * profile.mean()) @ square,
            time=noisy.weight[:, None] * columns,
            profile=profile,
            learned=learned,
            joint=learned + others if others <= MOST_PROBES else learned,
            scale=scale,
        )


@dataclass(frozen=True)
class Shapes:
    """Mean of a zone's columns as shares of its level, and their covariances: as is, and enlarged."""

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
    """Learned columns vary more; the others follow them by the same regression, or do not depend on them."""
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
    """Columns of windows and their products: scores of many levels and zones are matrix products."""

    columns: np.ndarray  # float64 [windows, columns]
    products: np.ndarray  # float64 [windows, pairs of joint columns, then squares of the others]
    log_prior: np.ndarray
    lowest: np.ndarray  # least size in a zone of level 1

    @classmethod
    def of(
        cls,
        columns: np.ndarray,
        joint: int,
        log_prior: np.ndarray | float = 0.0,
        lowest: np.ndarray | float = 0.0,
    ) -> Design:
        row, col = np.triu_indices(joint)
        pairs = columns[:, row] * columns[:, col] * np.where(row == col, 1.0, 2.0)
        products = np.column_stack([pairs, columns[:, joint:] ** 2])
        return cls(columns, products, *(np.broadcast_to(each, len(columns)) for each in (log_prior, lowest)))

    def first(self, count: int) -> Design:
        return Design(**{name: each[:count] for name, each in vars(self).items()})


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
    def of(
        cls, answers: Answers, shapes: Shapes, zones: np.ndarray, values: np.ndarray, levels: int
    ) -> Weeks:
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

    def with_windows(self, design: Design) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
        best = along @ design.columns.T / precision
        size = np.maximum(best, self.level[..., None] * design.lowest)
        base = (-0.5 * quadratic - half_log - self.least[:, None])[..., None]
        return base + (best - 0.5 * size) * size * precision + design.log_prior, size, 1.0 / precision


def _gaussian(
    covariance: np.ndarray, variance: np.ndarray, residual: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
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
    """A zone and the windows that may be its peak, with the size of each, in people by `Answers.scale`."""

    zone: int
    gain: float
    window: tuple[int, ...]  # the most probable: first slot, slot after the last of the first day, days
    probability: np.ndarray  # float64 [m]
    size: np.ndarray
    variance: np.ndarray  # of the size
    columns: np.ndarray  # float64 [m, columns]
    profiles: np.ndarray  # float64 [m, slots]

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
    design: Design  # of the windows
    regular: Design
    visits: float

    @classmethod
    def of(cls, noisy: NoisyBest, setting: Setting) -> Search | None:
        """None where zones tell too little: no probes, or few zones clear of their noise."""
        clock, hours = setting.clock, setting.slots * setting.clock.slot_minutes / 60
        if noisy.rest_weight <= 0 or not noisy.rest.size or hours > MOST_WINDOW_HOURS or setting.slots < 2:
            return None
        answers = Answers.of(noisy, setting)
        shapes = Shapes.of(answers) if answers.scale < MOST_SCALE else None
        if shapes is None:
            return None
        windows = Windows.of(clock)
        design = Design.of(
            windows.sums(answers.time), answers.joint, np.where(windows.days > 1, -MORE_DAYS, 0.0)
        )
        habits = regular_profiles(clock)
        usual = habits @ answers.profile / np.maximum(habits.sum(axis=1), 1.0)
        regular = Design.of(habits @ answers.time, answers.joint, lowest=-usual)
        return cls(answers, shapes, windows, design, regular, noisy.total.visits)

    def hits(self) -> list[Hit]:
        """At most PER_RELEASE of them, the clearest first."""
        hits = [hit for zone in self._screen() for hit in self._in_zone(int(zone))]
        return sorted(hits, key=lambda hit: -hit.gain)[:PER_RELEASE]

    def least_peak(self, hours: float = 4.0) -> float:
        """People at a time for `hours` that are found in most zones: SURE deviations of noise."""
        answers, slots = self.answers, len(self.answers.time)
        noise = float(np.median(np.sqrt(answers.noise.mean(axis=1))))
        inside = min(max(hours * self.windows.per_day / 24, 1.0), slots)
        return SURE * noise * float(np.sqrt(slots / (answers.values.shape[1] * inside)))

    def _screen(self) -> np.ndarray:
        """Zones in which a window of one day is nearly a peak; a bounded number of them."""
        values = self.answers.values
        plain = self.design.first(self.windows.plain)
        gain = np.full(len(values), -np.inf)
        for start in range(0, len(gain), AT_ONCE):
            zones = np.arange(start, min(start + AT_ONCE, len(gain)))
            weeks = Weeks.of(self.answers, self.shapes, zones, values[zones], COARSE)
            unlike = np.flatnonzero(weeks.most - weeks.least >= LEAST_GAIN)
            weeks = weeks.only(unlike)
            one = weeks.with_windows(plain)[0].max(axis=(1, 2))
            over = one - weeks.with_windows(self.regular)[0].max(axis=(1, 2))
            gain[zones[unlike]] = np.where(over >= OVER_REGULAR - NEARLY, one, -np.inf)
        order = np.argsort(-gain, kind="stable")[: max(MOST_EXAMINED, len(gain) // ZONES_PER_EXAMINED)]
        return order[gain[order] >= LEAST_GAIN - NEARLY]

    def _in_zone(self, zone: int) -> list[Hit]:
        hits, values = [], self.answers.values[[zone]].copy()
        while len(hits) < PER_ZONE and (hit := self._best(zone, values)) is not None:
            hits.append(hit)
            values = values - hit.mean
        return hits

    def _best(self, zone: int, values: np.ndarray) -> Hit | None:
        """The peak of largest gain in a zone, if it is one."""
        weeks = Weeks.of(self.answers, self.shapes, np.array([zone]), values, LEVELS)
        gain, size, variance = (each[0] for each in weeks.with_windows(self.design))
        regular = weeks.with_windows(self.regular)[0].max()
        level, best = np.unravel_index(np.argmax(gain), gain.shape)
        largest, everything = float(gain[level, best]), np.eye(len(self.answers.time))
        inside = self.windows.sums(everything, np.array([best]))[0]
        usual = weeks.level[0, level] * float(self.answers.profile @ inside / inside.sum())
        clear = largest >= LEAST_GAIN and largest - max(regular, 0.0) >= OVER_REGULAR
        if not (clear and size[level, best] >= OVER_USUAL * usual):
            return None
        weight = np.exp(gain - largest)
        total = np.maximum(weight.sum(axis=0), 1e-300)
        mean = (weight * size).sum(axis=0) / total
        spread = (weight * (size**2 + variance)).sum(axis=0) / total - mean**2
        probable = np.argsort(-total, kind="stable")
        probable = probable[total[probable] > 1e-4 * total.sum()]
        return Hit(
            zone=zone,
            gain=largest,
            window=tuple(
                int(each[probable[0]]) for each in (self.windows.start, self.windows.stop, self.windows.days)
            ),
            probability=total[probable] / total[probable].sum(),
            size=mean[probable],
            variance=np.maximum(spread[probable], 0.0),
            columns=self.design.columns[probable],
            profiles=self.windows.sums(everything, probable),
        )
