"""Non-negative counts that keep each slot's noisy total.

Setting negative counts to zero would add people on average. Instead, in each slot the same amount is
subtracted from all zones, and negatives are set to zero, such that the slot's total stays what it was
(the Euclidean projection onto the simplex; "norm-sub" in Wang et al. 2020).

>>> keep_totals(np.array([[5.0], [-2.0], [3.0]])).ravel().tolist()
[4.0, 0.0, 2.0]
"""

from __future__ import annotations

import numpy as np

Z95 = 1.959963984540054


def keep_totals(noisy: np.ndarray) -> np.ndarray:
    """Per slot (column): the nearest non-negative vector with the same total (zero if that is negative)."""
    zones, slots = noisy.shape
    totals = noisy.sum(axis=0)
    ordered = -np.sort(-noisy, axis=0)
    # With the j largest kept, each loses (their sum - total) / j; keep as many as stay positive.
    shift = (np.cumsum(ordered, axis=0) - totals) / np.arange(1, zones + 1)[:, None]
    kept = (ordered > shift).sum(axis=0)
    lost = shift[np.maximum(kept, 1) - 1, np.arange(slots)]
    result = np.maximum(noisy - lost, 0.0)
    result[:, totals <= 0] = 0.0
    return result
