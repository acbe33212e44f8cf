"""How many visits users have, from a noisy histogram; from it a clip, and the total of visits.

Everything here follows from noisy answers and public numbers. A user's size is the number of visits. Sizes
are modelled as log-normal, with a second group of more active users, such as a fleet among residents, which
is assumed absent unless the histogram shows it. The posterior is a set of weighted states on a grid of median
octave, width, number of users, and size and number of the second group.

clip     the clip of a number of visits that minimises the expected squared error relative to the total
total    posterior median and 95 % limits of the number of all visits: the noisy numbers of clipped visits,
         with what the model says the clip removed

The log-normal is a model: what it gives for visits below a clip is taken as off by KEPT_OFF, for visits above
it by EXCESS_OFF of their number.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtr

from shoal.stages.exact import SIZE_BINS, SIZES_PER_OCTAVE
from shoal.stages.noisy import NoisyMeasurement, Total

POINTS = 8  # per bin, at which sizes are evaluated
OCTAVES = np.arange(0.0, 12.01, 0.5)  # of the median size
WIDTHS = np.array([0.3, 0.5, 0.8, 1.1, 1.5, 2.0])  # standard deviations, in octaves
WIDTH_PRIOR = np.log([1.0, 1.0, 1.0, 1.0, 0.7, 0.2])
USUAL_OCTAVE, USUAL_OCTAVE_OFF = 7.0, 3.0  # prior of the median: ten to a thousand visits
USERS = np.exp(np.linspace(np.log(5.0), np.log(5e9), 140))
DECLARED_OFF, WRONGLY_OFF, WRONGLY = 0.35, 2.0, 0.05  # deviations of the log of a declared number of users;
# the second applies with probability WRONGLY, so that the histogram can overrule a declaration
COUNTED_OFF = 0.1  # a measured number of users and the histogram's may differ by so much
SHAPE_OFF = 0.25  # a bin may differ from the model by this share of itself
NEXT_BINS = (1.0, 0.3, 0.1)  # or by this share of the next bins' deviations: tails are not log-normal
SECOND = 0.1  # prior probability of a second group
SECOND_OCTAVES = np.arange(5.0, 12.01, 1.0)
SECOND_USERS = np.exp(np.linspace(np.log(4.0), np.log(1e6), 25))
SECOND_ABOVE = 2.5  # octaves above the first group
CLIPS = 2.0 ** np.arange(3.0, 12.01, 0.5)
KEPT_OFF, EXCESS_OFF, SECOND_OFF = 0.15, 0.35, 0.15
TAIL_OFF = 0.006  # of the visits below the clip: what a tail unlike the model may contain
LEAST_OFF = 0.3  # of the squared excess: how much of it stays unknown, when a clip is chosen
HARMLESS, USUAL_CLIP = 0.015, 256.0  # a clip up to the usual one is taken if its noise is below this share
NEGLIGIBLE = 14.0  # log-likelihood below the best at which a state is dropped
MOST_STATES, MOST_SECOND = 6_000, 500  # states, and states of the first group with a second one
MIXED, STEPS = 800, 300  # states and points for the limits of the total


@dataclass(frozen=True)
class Shapes:
    """Log-normal sizes on the grid of medians and widths."""

    bins: np.ndarray  # float64 [shapes, SIZE_BINS]: share of users per bin
    kept: np.ndarray  # float64 [shapes, clips]: mean of min(size, clip)
    mean: np.ndarray  # float64 [shapes]
    prior: np.ndarray  # float64 [shapes], logarithm
    octave: np.ndarray  # float64 [shapes]

    @classmethod
    def on_grid(cls) -> Shapes:
        x = (np.arange(SIZE_BINS * POINTS) + 0.5) / POINTS / SIZES_PER_OCTAVE
        size = np.floor(2.0**x)
        octave, width = np.repeat(OCTAVES, len(WIDTHS)), np.tile(WIDTHS, len(OCTAVES))
        density = np.exp(-0.5 * ((x - octave[:, None]) / width[:, None]) ** 2)
        density /= density.sum(axis=1, keepdims=True)
        usual = (octave - USUAL_OCTAVE) / USUAL_OCTAVE_OFF
        return cls(
            bins=density.reshape(len(octave), SIZE_BINS, POINTS).sum(axis=2),
            kept=density @ np.minimum(size[:, None], CLIPS),
            mean=density @ size,
            prior=np.tile(WIDTH_PRIOR, len(OCTAVES)) - 0.5 * usual**2,
            octave=octave,
        )


SHAPES = Shapes.on_grid()


@dataclass(frozen=True, kw_only=True)
class NumberOfVisits:
    """A noisy number of visits under a clip of CLIPS."""

    value: float
    sigma: float
    clip: float


@dataclass(frozen=True, kw_only=True, eq=False)
class UserSizes:
    """Weighted states of the population."""

    log_weight: np.ndarray = field(repr=False)  # float64 [states]
    shape: np.ndarray = field(repr=False)  # int64 [states], of SHAPES
    users: np.ndarray = field(repr=False)  # float64 [states]: of the first group
    second: np.ndarray = field(repr=False)  # float64 [states]: users of the second group
    second_size: np.ndarray = field(repr=False)  # float64 [states]: visits of each of them

    @classmethod
    def learn(cls, sizes: NoisyMeasurement, users: float, users_sigma: float | None) -> UserSizes:
        """Posterior given the histogram, and a number of users: declared (None), or measured with noise."""
        noisy = np.asarray(sizes.values, np.float64)
        known = 1.0 / (sizes.sigma**2 + _misfit(noisy) ** 2)
        first, cross = (SHAPES.bins**2 * known).sum(axis=1), SHAPES.bins @ (known * noisy)
        log = cross[:, None] * USERS - 0.5 * first[:, None] * USERS**2
        log += SHAPES.prior[:, None] + _log_prior(users, users_sigma)
        return cls._states(log, noisy, known)

    @classmethod
    def _states(cls, log: np.ndarray, noisy: np.ndarray, known: np.ndarray) -> UserSizes:
        """Those with and without a second group that are not negligible."""
        slots = np.clip((SECOND_OCTAVES * SIZES_PER_OCTAVE).astype(np.int64), 0, SIZE_BINS - 1)
        second = np.eye(SIZE_BINS)[slots] + np.eye(SIZE_BINS)[np.maximum(slots - 1, 0)]
        second /= second.sum(axis=1, keepdims=True)
        own, signal = (second**2 * known).sum(axis=1), second @ (known * noisy)
        overlap = (SHAPES.bins * known) @ second.T
        gain = signal - overlap[:, None, :] * USERS[:, None]  # [shapes, users, octaves]
        above = SHAPES.octave[:, None] + SECOND_ABOVE <= SECOND_OCTAVES
        peak = log[:, :, None] + 0.5 * np.maximum(gain, 0.0) ** 2 / own
        best = max(float(log.max()), float(peak[np.broadcast_to(above[:, None, :], peak.shape)].max()))
        alone = np.argwhere(log > best - NEGLIGIBLE)
        near = np.flatnonzero((peak > best - NEGLIGIBLE) & above[:, None, :])
        near = near[np.argsort(-peak.ravel()[near], kind="stable")[:MOST_SECOND]]
        g, n, m = np.unravel_index(near, peak.shape)
        many = SECOND_USERS * np.ones((len(near), 1))
        value = log[g, n, None] + gain[g, n, m, None] * many - 0.5 * own[m, None] * many**2
        value = np.where(many < USERS[n, None], value, -np.inf)
        value += np.log(SECOND / len(SECOND_OCTAVES) / len(SECOND_USERS))
        a, b = alone.T
        states = cls(
            log_weight=np.concatenate([log[a, b] + np.log(1 - SECOND), value.ravel()]),
            shape=np.concatenate([a, np.repeat(g, len(SECOND_USERS))]),
            users=np.concatenate([USERS[b], np.repeat(USERS[n], len(SECOND_USERS))]),
            second=np.concatenate([np.zeros(len(a)), many.ravel()]),
            second_size=np.concatenate(
                [np.ones(len(a)), np.repeat(2.0 ** SECOND_OCTAVES[m], len(SECOND_USERS))]
            ),
        )
        return states.likeliest()

    def likeliest(self) -> UserSizes:
        """Without negligible states."""
        order = np.argsort(-self.log_weight, kind="stable")[:MOST_STATES]
        order = order[self.log_weight[order] > self.log_weight[order[0]] - NEGLIGIBLE]
        parts = {name: getattr(self, name)[order] for name in self.__dataclass_fields__}
        return replace(self, **parts)

    @property
    def weight(self) -> np.ndarray:
        """float64 [states], sums to 1."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        return weight / weight.sum()

    def total(self) -> np.ndarray:
        """float64 [states]: all visits."""
        return self.users * SHAPES.mean[self.shape] + self.second * self.second_size

    def kept(self, clip: float) -> np.ndarray:
        """float64 [states]: visits under a clip of CLIPS."""
        column = int(np.argmin(np.abs(CLIPS - clip)))
        return self.users * SHAPES.kept[self.shape, column] + self.second * np.minimum(self.second_size, clip)

    def best_clip(self, noise_per_clip: float) -> float:
        """The clip with the least expected squared error relative to the total, each at most 1."""
        weight, total = self.weight, self.total()
        octave = np.log(SHAPES.mean[self.shape])
        unknown = float(weight @ (octave - weight @ octave) ** 2)
        unknown = min(max(unknown, LEAST_OFF), 1.0)
        losses = [
            weight
            @ np.minimum(((noise_per_clip * c) ** 2 + unknown * (total - self.kept(c)) ** 2) / total**2, 1.0)
            for c in CLIPS
        ]
        middle = _quantile(total, weight, 0.5)
        harmless = CLIPS[(noise_per_clip * CLIPS <= HARMLESS * middle) & (CLIPS <= USUAL_CLIP)]
        return float(max(CLIPS[int(np.argmin(losses))], harmless.max(initial=0.0)))

    def given(self, number: NumberOfVisits) -> UserSizes:
        """Posterior after a noisy number of visits."""
        model = self.kept(number.clip)
        variance = number.sigma**2 + (KEPT_OFF * model) ** 2
        log = self.log_weight - 0.5 * (number.value - model) ** 2 / variance - 0.5 * np.log(variance)
        return replace(self, log_weight=log).likeliest()

    def total_given(self, numbers: tuple[NumberOfVisits, ...]) -> Total:
        """Median and 95 % limits, from states that are already given the numbers."""
        known = np.zeros(len(self.users))
        mean = np.zeros(len(self.users))
        for number in numbers:
            model = self.kept(number.clip)
            precision = 1 / number.sigma**2 + 1 / (KEPT_OFF * model) ** 2
            kept = (number.value / number.sigma**2 + 1 / (KEPT_OFF**2 * model)) / precision
            second = self.second * np.maximum(self.second_size - number.clip, 0.0)
            first = self.total() - model - second
            beyond = (EXCESS_OFF * first + TAIL_OFF * kept) ** 2 + (SECOND_OFF * second) ** 2
            variance = 1 / precision + beyond
            known += 1 / variance
            mean += (kept + first + second) / variance
        return _limits(self.weight, mean / known, 1 / np.sqrt(known))


def _misfit(noisy: np.ndarray) -> np.ndarray:
    """float64 [bins]: deviation of the number of users of a bin from the model."""
    users = np.pad(np.maximum(noisy, 0.0), len(NEXT_BINS) - 1)
    shifts = range(-len(NEXT_BINS) + 1, len(NEXT_BINS))
    near = [NEXT_BINS[abs(k)] * np.roll(users, k) for k in shifts]
    return SHAPE_OFF * np.max(near, axis=0)[len(NEXT_BINS) - 1 : -len(NEXT_BINS) + 1]


def _log_prior(users: float, sigma: float | None) -> np.ndarray:
    """float64 [USERS]: logarithm of the prior of the number of users."""
    if sigma is not None:
        return -0.5 * ((users - USERS) / np.hypot(sigma, COUNTED_OFF * USERS)) ** 2
    off = np.log(USERS / max(users, 1.0))
    right, wrong = (np.exp(-0.5 * (off / d) ** 2) / d for d in (DECLARED_OFF, WRONGLY_OFF))
    return np.log((1 - WRONGLY) * right + WRONGLY * wrong + 1e-300)


def _quantile(values: np.ndarray, weight: np.ndarray, share: float) -> float:
    order = np.argsort(values)
    at = int(np.searchsorted(np.cumsum(weight[order]), share))
    return float(values[order[min(at, len(order) - 1)]])


def _limits(weight: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> Total:
    """Median and limits of a mixture of normal distributions, each cut at zero.

    Of many states, those at even steps of their cumulative weight stand for all.
    """
    order = np.argsort(mean, kind="stable")
    at = np.searchsorted(np.cumsum(weight[order]), (np.arange(MIXED) + 0.5) / MIXED)
    chosen, times = np.unique(order[np.minimum(at, len(order) - 1)], return_counts=True)
    weight, mean, deviation = times / MIXED, mean[chosen], deviation[chosen]
    below = ndtr(-mean / deviation)
    inside = np.maximum(1 - below, 1e-300)
    low, high = max(float((mean - 6 * deviation).min()), 1e-3), float((mean + 6 * deviation).max())
    low, high = min(low, 1e12), max(min(high, 1e13), 2 * min(low, 1e12))
    at = np.linspace(low, high, STEPS) if high < 20 * low else np.geomspace(low, high, STEPS)
    probability = ((ndtr((at[:, None] - mean) / deviation) - below) / inside) @ weight
    limits = np.interp([0.025, 0.5, 0.975], np.maximum.accumulate(np.clip(probability, 0, 1)), at)
    return Total(visits=float(limits[1]), low=float(limits[0]), high=float(limits[2]))
