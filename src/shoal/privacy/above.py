"""The sparse vector technique as one primitive: which of many values is the first above a threshold.

first_above   smallest i with margin_i + Laplace(2 scale) >= Laplace(scale), or the number of values if none
              cost  2 |dq|_inf / scale  (pure), however many values there are

Margins are values less the threshold, in whole lattice units. One draw for the threshold, a fresh one for
each value; nothing but the index comes out. This is AboveThreshold (Dwork and Roth 2014, algorithm 1) for one
answer above: after it, a new call draws a new threshold. The proof fixes the noise of all values before i.
With the user the threshold's noise is moved by |dq|_inf, which costs |dq|_inf / scale, and the noise of
value i by 2 |dq|_inf, which costs 2 |dq|_inf / (2 scale). Noise and moves are whole numbers, so it holds on
the lattice.

The noise of single values is never seen, so recording it as answers would overstate the cost. The audit
therefore has noises with a `first_above` of their own, which are asked instead of two draws from here.

>>> from shoal.privacy.noise import SeededNoise
>>> first_above(SeededNoise(1), "test", np.array([-900, -900, 900, 900]), 10.0)
2
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shoal.privacy.noise import Noise

VALUES_TO_THRESHOLD = 2.0  # scale of the noise of values over that of the threshold


def first_above(noise: Noise, name: str, margins: np.ndarray, scale: float) -> int:
    """Index of the first value whose noisy margin reaches the threshold's noise; `margins.size` if none."""
    own: Any = getattr(noise, "first_above", None)
    if own is not None:
        return int(own(name, margins, scale))
    threshold = noise.laplace(name, np.zeros(1, np.int64), scale)
    noisy = noise.laplace(name, margins, VALUES_TO_THRESHOLD * scale)
    reached = np.flatnonzero(noisy >= threshold[0])
    return int(reached[0]) if reached.size else int(margins.size)
