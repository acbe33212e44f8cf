"""Counts per site and slot from randomised answers of every user, with the bias of the answers removed.

As published    each user, asked of every site and slot "were you there?", says yes with probability p, else
                the truth; epsilon = ln((|S| - (|S| - 1) p) / p) per slot is claimed.
True for users  nothing: a user who was there never says no, so a single "no" proves that they were absent.
                The likelihood ratio of "no" is 1 - p to 0; no epsilon is finite. (The claim holds where a
                user must name one of |S| sites, which is another scheme.)
Aggregate       the number of yes is x + Binomial(N - x, p), x those present, N all users; the estimate
                (yes - N p) / (1 - p) has mean x and variance (N - x) p / (1 - p). It is drawn here as such:
                one binomial per site and slot has the distribution of the sum of all answers, exactly.
Source          Quercia et al. 2011 (SpotME); Pyrgelis, Troncoso, De Cristofaro 2017, section 5.3.

Answers come from numpy's generator, keyed by 16 bytes of the noise object: good enough to measure the error
of a scheme that is never released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse

from shoal.privacy.noise import Noise
from shoal.space.weights import AreaWeights
from shoal.stages.bounded import ExactDensity
from shoal.stages.noisy import NoisyCounts


@dataclass(frozen=True, kw_only=True)
class SpotMe:
    """De-biased counts of "yes", spread from sites to zones."""

    p: float  # probability of a "yes" whatever the truth
    weights: AreaWeights = field(repr=False)

    name = "spotme"
    takes = "all visits"

    def __call__(self, density: ExactDensity, noise: Noise) -> NoisyCounts:
        there, users = density.counts, density.users
        said_yes = there + _coins(users - there, self.p, noise)
        sites = (said_yes - users * self.p) / (1 - self.p)
        share = scipy.sparse.csr_array(self.weights.matrix / self.weights.lattice)
        gain = np.sqrt(np.asarray(share.power(2).sum(axis=1)).reshape(-1, 1))
        deviation = math.sqrt(users * self.p / (1 - self.p))
        return NoisyCounts(values=share @ sites, family="binomial", scale=deviation, gain=gain)

    def user_epsilon(self) -> float:
        return math.inf

    def true_guarantee(self) -> str:
        return (
            f'No differential privacy: users say "yes" with probability {self.p:g} whatever the truth, else '
            'the truth, so a "no" proves absence.'
        )


def _coins(trials: np.ndarray, p: float, noise: Noise) -> np.ndarray:
    """int64: how many of `trials` independent coins show heads, for each entry."""
    generator = np.random.Generator(np.random.Philox(key=int.from_bytes(noise.run_key(), "little")))
    return generator.binomial(trials, p)
