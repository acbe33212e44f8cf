"""Noisy answers to released ones: not negative, rounded, intervals rounded outwards.

>>> from shoal.stages.answers import NoisyAnswers
>>> noisy = NoisyAnswers(values=np.array([12.34, -3.0]), half=np.array([5.0, 5.0]), how=("noise", "noise"))
>>> made = finish_answers(noisy, 1)
>>> made.visits.tolist(), made.low.tolist(), made.high.tolist()
([12.3, 0.0], [7.3, 0.0], [17.4, 5.0])
"""

from __future__ import annotations

import numpy as np

from shoal.stages.answers import Answers, NoisyAnswers


def finish_answers(noisy: NoisyAnswers, decimals: int) -> Answers:
    """Cut at zero, since counts are not negative; an interval reaches up from zero as it does from an answer.

    Neither takes away what can be true, so neither lowers the coverage.
    """
    step = 10.0**decimals
    visits = np.round(np.maximum(noisy.values, 0.0), decimals)
    low = np.floor(np.maximum(noisy.values - noisy.half, 0.0) * step) / step
    high = np.ceil((np.maximum(noisy.values, 0.0) + noisy.half) * step) / step
    return Answers(
        visits=visits, low=np.minimum(low, visits), high=np.maximum(high, visits), how=tuple(noisy.how)
    )
