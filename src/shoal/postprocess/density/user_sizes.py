"""How many visits users have, from a noisy histogram; from it a clip, and the total of visits.

Everything here follows from noisy answers and public numbers. A user's size is the number of visits. Sizes
are modelled as log-normal, with a second group of more active users, such as a fleet among residents, which
is assumed absent unless the histogram shows it. The posterior is a set of weighted states on a grid of median
octave, width, number of users, and size and number of the second group.

clip     the clip of a number of visits that minimises the expected squared error relative to the total
total    posterior median and 95 % limits of the number of all visits: the noisy numbers of clipped visits,
         with what the model says the clip removed

The log-normal is a model: what it gives for visits below a clip is taken as off by CLIPPED_OFF, for visits
above it by EXCESS_OFF of their number.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtr

from shoal.space.setting import SIZE_BINS, SIZES_PER_OCTAVE
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
NEXT_BINS = (1.0, 0.3, 0.1, 0.03)  # or by this share of the next bins' deviations: tails are not log-normal
SECOND = 0.15  # prior probability of a second group; its share of visits is log-uniform
SECOND_SPREAD = ((0.75, 0.25), (1.0, 0.5), (1.3, 0.25))  # its sizes over the middle one, and their shares
SECOND_OCTAVES = np.arange(5.0, 12.01, 0.5)
SECOND_ABOVE = 2.5  # octaves above the first group
SECOND_NODES, SECOND_DEVIATIONS = 8, 3.0  # numbers of its users that are tried, and how far from the best one
LEAST_SECOND, MOST_SECOND = 0.01, 1.0  # visits of the second group over those of the first
CLIPS = 2.0 ** np.arange(3.0, 12.01, 0.5)
CLIPPED_OFF, EXCESS_OFF, SECOND_OFF = 0.15, 0.35, 0.3
TAIL_OFF = 0.006  # of the visits below the clip: what a tail unlike the model may contain
LEAST_OFF = 0.3  # of the squared excess: how much of it stays unknown, when a clip is chosen
HARMLESS, USUAL_CLIP = 0.015, 256.0  # a clip up to the usual one is taken if its noise is below this share
NEGLIGIBLE = 14.0  # log-likelihood below the best at which a state is dropped
FIRST_LOOK = 40.0  # the same before the exact likelihood
MOST_STATES, SECOND_STATES = 6_000, 600  # states, and states of the first group with a second one
MIXED, STEPS = 800, 300  # states and points for the limits of the total


@dataclass(frozen=True)
class Shapes:
    """Log-normal sizes on the grid of medians and widths."""

    bins: np.ndarray  # float64 [shapes, SIZE_BINS]: share of users per bin
    clipped: np.ndarray  # float64 [shapes, clips]: mean of min(size, clip)
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
            clipped=density @ np.minimum(size[:, None], CLIPS),
            mean=density @ size,
            prior=np.tile(WIDTH_PRIOR, len(OCTAVES)) - 0.5 * usual**2,
            octave=octave,
        )


SHAPES = Shapes.on_grid()


def _second_bins() -> np.ndarray:
    """float64 [octaves, SIZE_BINS]: the two bins on either side of a size."""
    at = np.clip((SECOND_OCTAVES * SIZES_PER_OCTAVE).astype(np.int64), 0, SIZE_BINS - 1)
    return (np.eye(SIZE_BINS)[at] + np.eye(SIZE_BINS)[at - 1]) / 2


SECOND_BINS = _second_bins()


@dataclass(frozen=True, kw_only=True)
class NumberOfVisits:
    """A noisy number of visits under a clip of CLIPS."""

    value: float
    sigma: float
    clip: float


@dataclass(frozen=True, eq=False)
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
        noisy = np.clip(np.asarray(sizes.values, np.float64), -USERS[-1], USERS[-1])
        known = 1.0 / (sizes.sigma**2 + _misfit(noisy) ** 2)
        first, cross = (SHAPES.bins**2 * known).sum(axis=1), SHAPES.bins @ (known * noisy)
        log = cross[:, None] * USERS - 0.5 * first[:, None] * USERS**2
        prior = SHAPES.prior[:, None] + _log_prior(users, users_sigma)
        g, n = np.argwhere(log + prior >= (log + prior).max() - FIRST_LOOK).T
        zero = np.zeros(len(g))
        alone = cls(prior[g, n] + np.log(1 - SECOND), g, USERS[n], zero, zero + 1.0)
        states = alone.and_(cls._with_second(log + prior, prior, noisy, known))
        return states._weighed(noisy, sizes.sigma)

    @classmethod
    def _with_second(
        cls, log: np.ndarray, prior: np.ndarray, noisy: np.ndarray, known: np.ndarray
    ) -> UserSizes:
        """The most probable states with a second group, with their prior weights."""
        bins = SECOND_BINS
        own, signal = (bins**2 * known).sum(axis=1), bins @ (known * noisy)
        gain = signal - ((SHAPES.bins * known) @ bins.T)[:, None, :] * USERS[:, None]
        above = SHAPES.octave[:, None] + SECOND_ABOVE <= SECOND_OCTAVES
        peak = log[:, :, None] + 0.5 * np.maximum(gain, 0.0) ** 2 / own
        peak = np.where(above[:, None, :], peak, -np.inf)
        near = np.argpartition(-peak.ravel(), SECOND_STATES)[:SECOND_STATES]
        g, n, m = np.unravel_index(near, peak.shape)
        mean, off = gain[g, n, m] / own[m], SECOND_DEVIATIONS / np.sqrt(own[m])
        equal = USERS[n] * SHAPES.mean[g] / 2.0 ** SECOND_OCTAVES[m]  # as many visits as the first group
        most = np.minimum(USERS[n], MOST_SECOND * equal)
        low = np.clip(mean - off, LEAST_SECOND * equal, most)
        high = np.clip(np.maximum(mean, 0.0) + off, low, most)
        steps = (np.arange(SECOND_NODES) + 0.5) / SECOND_NODES
        many = low[:, None] * (high / low)[:, None] ** steps
        share = np.log(np.maximum(high / low, 1.0 + 1e-9)) / np.log(MOST_SECOND / LEAST_SECOND) / SECOND_NODES
        weight = prior[g, n] + np.log(SECOND / len(SECOND_OCTAVES) * share)
        repeated = (np.repeat(each, SECOND_NODES) for each in (weight, g, USERS[n], 2.0 ** SECOND_OCTAVES[m]))
        log_weight, shape, first, size = repeated
        return cls(log_weight, shape, first, many.ravel(), size)

    def and_(self, other: UserSizes) -> UserSizes:
        """The states of both."""
        names = self.__dataclass_fields__
        both = {name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in names}
        return replace(self, **both)

    def _weighed(self, noisy: np.ndarray, sigma: float) -> UserSizes:
        """Weights by the likelihood of the histogram; a bin is off by a share of what the state expects."""
        octave = np.searchsorted(SECOND_OCTAVES, np.log2(self.second_size) - 1e-9)
        second = self.second[:, None] * SECOND_BINS[np.minimum(octave, len(SECOND_OCTAVES) - 1)]
        expected = self.users[:, None] * SHAPES.bins[self.shape] + second
        variance = sigma**2 + _misfit(expected) ** 2
        log = -0.5 * ((noisy - expected) ** 2 / variance + np.log(variance)).sum(axis=1)
        return replace(self, log_weight=self.log_weight + log).pruned()

    def pruned(self) -> UserSizes:
        """The most probable states."""
        order = np.argsort(-self.log_weight, kind="stable")[:MOST_STATES]
        order = order[self.log_weight[order] >= self.log_weight[order[0]] - NEGLIGIBLE]
        parts = {name: getattr(self, name)[order] for name in self.__dataclass_fields__}
        return replace(self, **parts)

    @property
    def weight(self) -> np.ndarray:
        """float64 [states], sums to 1."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        return weight / weight.sum()

    def total(self) -> np.ndarray:
        """float64 [states]: all visits."""
        return self.users * SHAPES.mean[self.shape] + self._second_clipped(np.inf)

    def _second_clipped(self, clip: float) -> np.ndarray:
        """float64 [states]: visits of the second group under a clip."""
        return self.second * sum(
            share * np.minimum(size * self.second_size, clip) for size, share in SECOND_SPREAD
        )

    def clipped(self, clip: float) -> np.ndarray:
        """float64 [states]: visits under a clip of CLIPS."""
        column = int(np.argmin(np.abs(CLIPS - clip)))
        return self.users * SHAPES.clipped[self.shape, column] + self._second_clipped(clip)

    def best_clip(self, noise_per_clip: float) -> float:
        """The clip with the least expected squared error relative to the total, each at most 1."""
        weight, total = self.weight, self.total()
        octave = np.log(SHAPES.mean[self.shape])
        unknown = float(weight @ (octave - weight @ octave) ** 2)
        unknown = min(max(unknown, LEAST_OFF), 1.0)
        losses = [
            weight
            @ np.minimum(
                ((noise_per_clip * c) ** 2 + unknown * (total - self.clipped(c)) ** 2) / total**2, 1.0
            )
            for c in CLIPS
        ]
        middle = _quantile(total, weight, 0.5)
        harmless = CLIPS[(noise_per_clip * CLIPS <= HARMLESS * middle) & (CLIPS <= USUAL_CLIP)]
        return float(max(CLIPS[int(np.argmin(losses))], harmless.max(initial=0.0)))

    def given(self, *numbers: NumberOfVisits) -> UserSizes:
        """Posterior after noisy numbers of visits."""
        return replace(self, log_weight=self.log_weight + self._given(numbers)[0]).pruned()

    def total_given(self, *numbers: NumberOfVisits) -> Total:
        """Posterior median and 95 % limits of all visits."""
        log, clipped, variance = self._given(numbers)
        clip = max(number.clip for number in numbers)
        second = self._second_clipped(np.inf) - self._second_clipped(clip)
        first = self.total() - self.clipped(clip) - second
        variance = variance + (EXCESS_OFF * first + TAIL_OFF * clipped) ** 2 + (SECOND_OFF * second) ** 2
        weight = replace(self, log_weight=self.log_weight + log).weight
        total = _limits(weight, clipped + first + second, np.sqrt(variance))
        share = self._second_clipped(np.inf) / np.maximum(self.total(), 1e-300)
        return replace(total, second=float(weight @ share))

    def _given(self, numbers: tuple[NumberOfVisits, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Log-likelihood of the numbers; mean and variance of the visits under their largest clip; [states].

        What lies between two clips is off by EXCESS_OFF of the first group's part, so that visits which only
        the larger clip keeps show a second group.
        """
        if not numbers:
            return np.zeros(len(self.users)), self.total(), np.zeros(len(self.users))
        first, *others = sorted(numbers, key=lambda number: number.clip)
        mean = self.clipped(first.clip)
        log, mean, variance = _updated(first, mean, (CLIPPED_OFF * mean) ** 2)
        clip = first.clip
        for number in others:
            between = self.clipped(number.clip) - self.clipped(clip)
            second = self._second_clipped(number.clip) - self._second_clipped(clip)
            off = (EXCESS_OFF * (between - second)) ** 2 + (SECOND_OFF * second) ** 2 + (TAIL_OFF * mean) ** 2
            more, mean, variance = _updated(number, mean + between, variance + off)
            log, clip = log + more, number.clip
        return log, mean, variance


def _updated(
    number: NumberOfVisits, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-likelihood of a noisy number under normal priors, and the posterior means and variances."""
    total = number.sigma**2 + variance
    log = -0.5 * ((number.value - mean) ** 2 / total + np.log(total))
    gain = variance / total
    return log, mean + gain * (number.value - mean), gain * number.sigma**2


def _misfit(users: np.ndarray) -> np.ndarray:
    """float64 [..., bins]: deviation of the number of users of a bin from the model."""
    users = np.maximum(users, 0.0)
    most = NEXT_BINS[0] * users
    for k, share in enumerate(NEXT_BINS[1:], 1):
        most[..., k:] = np.maximum(most[..., k:], share * users[..., :-k])
        most[..., :-k] = np.maximum(most[..., :-k], share * users[..., k:])
    return SHAPE_OFF * most


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
    middle = float(limits[1])
    squares = np.minimum((mean - middle) ** 2 + deviation**2, middle**2)
    return Total(
        visits=middle,
        low=float(limits[0]),
        high=float(limits[2]),
        deviation=float(np.sqrt(weight @ squares)),
    )
