"""The answer to a counting query from noisy answers: a clip, and the total with a 95 % interval.

A user's part in a query is the number of visits there. `sizes` is the noisy number of users by half-octave of
their part, `clipped` a noisy sum of parts under a clip that `sizes` chose. Parts are modelled as log-normal;
the posterior is a set of weighted states on a grid of median, width and number of users.

clip     the smallest expected squared error over the total, and never below a class that is clearly
         populated: what lies above it can only be estimated from the model
total    posterior median and limits of the clipped sum plus what the model says the clip removed; the
         model is taken as off by CLIPPED_OFF of the clipped sum and EXCESS_OFF of the excess

>>> clips = 2.0 ** (np.arange(CLIPS) / 2)
>>> users = np.zeros(CLIPS + 1); users[:5] = 1000, 400, 300, 200, 100
>>> parts = Parts.learn(users, sigma=5.0, clips=clips, slots=24)
>>> round(float(clips[parts.clip(noise_per_clip=2.0)]), 1)
5.7
>>> [round(end) for end in parts.total(3000.0, sigma=11.0, clip=5)]
[2980, 3007, 3034]
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from scipy.special import ndtr

from shoal.space.setting import CLIPS

POINTS = 4  # per half-octave, at which parts are evaluated
BELOW = 4  # octaves below one visit: parts of visits, at sites that zones share
MEDIANS = np.arange(-2.0, 12.01, 0.75)  # in octaves of visits
WIDTHS = np.array([0.2, 0.5, 0.9, 1.3, 1.7, 2.1, 2.6])  # standard deviations, in octaves
USERS = np.geomspace(1.0, 1e9, 90)
MEDIAN_OFF = 3.0  # octaves: prior of the median, around the root of twice the slots
SHAPE_OFF = 0.25  # a class may differ from the model by this share of its neighbours
CLEAR = 3.5  # deviations above zero from which a class of users is surely not empty
LEAST_OFF = 0.3  # of the squared excess: what stays unknown of it, where a clip is chosen
CLIPPED_OFF, EXCESS_OFF = 0.15, 0.35
TAIL = 0.5  # of the excess above a populated class is expected, give or take as much: it cannot be seen
STATES, STEPS = 400, 120  # for limits: the most probable states, points at which their mixture is evaluated
NEGLIGIBLE = 12.0  # log-likelihood below the best at which a state is dropped
Z95 = 1.959964


@cache
def _shapes(most: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Medians [shapes], users by class [shapes, classes], parts under each clip [shapes, clips], mean.

    No part is above `most`, in units of the first clip.
    """
    octave = np.arange(-BELOW, (CLIPS + 3) / 2, 0.5 / POINTS) + 0.25 / POINTS
    size = np.minimum(2.0**octave, most)
    median, width = np.repeat(MEDIANS, len(WIDTHS)), np.tile(WIDTHS, len(MEDIANS))
    density = np.exp(-0.5 * ((octave - median[:, None]) / width[:, None]) ** 2)
    density /= density.sum(axis=1, keepdims=True)
    number = np.clip(np.ceil(2 * np.log2(size)), 0, CLIPS).astype(np.int64)
    classes = density @ np.eye(CLIPS + 1)[number]
    clipped = density @ np.minimum(size[:, None], 2.0 ** (np.arange(CLIPS) / 2))
    return median, classes, clipped, density @ size


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """Weighted states of the users' parts in one query."""

    clips: np.ndarray = field(repr=False)  # float64 [CLIPS], in visits
    least: int  # clip below which a class of users is clearly populated
    log_weight: np.ndarray = field(repr=False)  # float64 [states]
    clipped: np.ndarray = field(repr=False)  # float64 [states, clips]: visits under each clip
    whole: np.ndarray = field(repr=False)  # float64 [states]: all visits

    @classmethod
    def learn(cls, users: np.ndarray, *, sigma: float, clips: np.ndarray, slots: int) -> Parts:
        """Posterior given noisy users by class, float64 [CLIPS + 1], each with noise of deviation `sigma`."""
        median, classes, clipped, mean = _shapes(float(clips[-1] / clips[0]))
        near = np.pad(np.maximum(users, 0.0), 1)
        off = SHAPE_OFF * np.maximum(near[1:-1], np.maximum(near[:-2], near[2:]))
        known = 1.0 / (sigma**2 + off**2)
        cross, square = classes @ (known * users), (classes**2 * known).sum(axis=1)
        usual = (median - 0.5 * np.log2(2 * slots)) / MEDIAN_OFF
        log = cross[:, None] * USERS - 0.5 * square[:, None] * USERS**2 - 0.5 * usual[:, None] ** 2
        shape, number = np.nonzero(log > log.max() - NEGLIGIBLE)
        clear = np.flatnonzero(users > CLEAR * sigma)
        return cls(
            clips=clips,
            least=min(int(clear[-1]), CLIPS - 1) if clear.size else 0,
            log_weight=log[shape, number],
            clipped=USERS[number, None] * clipped[shape] * clips[0],
            whole=USERS[number] * mean[shape] * clips[0],
        )

    @property
    def weight(self) -> np.ndarray:
        """float64 [states], sums to 1."""
        weight = np.exp(self.log_weight - self.log_weight.max())
        return weight / weight.sum()

    def clip(self, noise_per_clip: float) -> int:
        """Number of the clip, by the deviation of the noise under a clip of one visit."""
        noise = (noise_per_clip * self.clips) ** 2
        excess = self.whole[:, None] - self.clipped
        lost = np.minimum(noise + LEAST_OFF * excess**2, self.whole[:, None] ** 2) / self.whole[:, None]
        return max(self.least, int(np.argmin(self.weight @ lost)))

    def total(self, clipped: float, *, sigma: float, clip: int) -> tuple[float, float, float]:
        """Low, median and high of all visits, given the noisy sum under a clip."""
        model = self.clipped[:, clip]
        variance = sigma**2 + (CLIPPED_OFF * model) ** 2
        log = self.log_weight - 0.5 * (clipped - model) ** 2 / variance - 0.5 * np.log(variance)
        given = replace(self, log_weight=log)
        precision = 1 / sigma**2 + 1 / (CLIPPED_OFF * model) ** 2
        mean = (clipped / sigma**2 + 1 / (CLIPPED_OFF**2 * model)) / precision
        share, off = (TAIL, TAIL) if self.least else (1.0, EXCESS_OFF)
        excess = self.whole - model
        deviation = np.sqrt(1 / precision + (off * excess) ** 2)
        low, middle, high = _limits(given.weight, mean + share * excess, deviation)
        return (0.0 if clipped < Z95 * sigma else low), middle, high


def _limits(weight: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> tuple[float, float, float]:
    """Quantiles 2.5 %, 50 % and 97.5 % of a mixture of normal distributions, cut at zero."""
    order = np.argsort(-weight, kind="stable")[:STATES]
    weight, mean, deviation = weight[order] / weight[order].sum(), mean[order], deviation[order]
    below = ndtr(-mean / deviation)
    ends = np.maximum((mean - 4 * deviation).min(), 0.0), np.maximum((mean + 4 * deviation).max(), 1e-9)
    near = np.geomspace(max(ends[0], 1e-3 * ends[1]), ends[1], STEPS)
    points = np.sort(np.concatenate([np.linspace(*ends, STEPS), near]))
    reached = ((ndtr((points[:, None] - mean) / deviation) - below) / np.maximum(1 - below, 1e-12)) @ weight
    low, middle, high = np.interp([0.025, 0.5, 0.975], np.maximum.accumulate(np.clip(reached, 0, 1)), points)
    return float(low), float(middle), float(high)
