"""What area weights say of zones before anything is counted: how large each is, which share their sites.

A zone's size is the visits it would have if every site had one. Sites stand closer where more people are, so
sizes are a rough guess of how zones differ; nothing here comes from events. Where points were located in
zones, every zone is its own place: all sizes are 1 and nothing is shared.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from shoal.space.weights import AreaWeights

LEAST_SIZE = 1e-3  # of the mean: a zone without any site has a size too
MOST_WEIGHT = 4.0


def zone_sizes(weights: AreaWeights) -> np.ndarray:
    """float64 [zones], above 0, with mean square 1.

    >>> zone_sizes(AreaWeights.identity(3)).tolist()
    [1.0, 1.0, 1.0]
    """
    size = np.asarray(weights.matrix.sum(axis=1), np.float64).ravel() / weights.lattice
    if not size.any():
        return np.ones(len(size))
    size = np.maximum(size, LEAST_SIZE * size.mean())
    return size / np.sqrt(np.mean(size**2))


def zone_overlap(weights: AreaWeights) -> scipy.sparse.csr_array:
    """float64 [zones, zones], mean 1 on the diagonal: the covariance of zones whose sites are independent."""
    share = scipy.sparse.csr_array(weights.matrix / weights.lattice)
    overlap = scipy.sparse.csr_array(share @ share.T)
    mean = float(overlap.diagonal().mean())
    overlap.data = overlap.data * (1.0 / (mean or 1.0))
    return overlap


def zone_weights(weights: AreaWeights) -> np.ndarray:
    """How much a zone counts, float64 [zones]: small ones more, since errors are judged relative to counts.

    One over the root of its size, against the size a visit is expected to meet; at most fourfold either way.
    """
    size = zone_sizes(weights)
    usual = np.exp(np.average(np.log(size), weights=size))
    return np.clip((size / usual) ** -0.5, 1 / MOST_WEIGHT, MOST_WEIGHT)
