"""Clusters of users active in an epoch, by the cost of merging their samples in pairs: spectral clustering.

Nothing is drawn: the iteration for eigenvectors starts from a fixed sequence, k-means from the points that
lie farthest apart.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.cluster.vq import kmeans2
from scipy.sparse.linalg import eigsh
from scipy.spatial import KDTree

from shoal.comparators.kte_hide_kernels import mean_samples, pair_costs
from shoal.stages.trajectories import LatticeSamples

INACTIVE = -1
MOST_EIGENVECTORS = 16
DENSE = 200  # users up to which all eigenvectors are computed
SCALE_RANK = 7  # the neighbour that a user's scale is read off
LEAST_SIMILARITY = 1e-6
ROUNDS = 20  # of k-means


def cluster_users(
    samples: LatticeSamples, begin: np.ndarray, end: np.ndarray, neighbours: int | None, size: int
) -> np.ndarray:
    """int32: the cluster of each user, whose samples are begin .. end; about `size` users per cluster."""
    users = len(begin)
    clusters = round(users / size)
    if clusters < 2:
        return np.zeros(users, np.int32)
    similarity = _similarity(*_costs(samples, begin, end, neighbours), users)
    return _k_means(_embedding(similarity, min(clusters, MOST_EIGENVECTORS)), clusters)


def _costs(
    samples: LatticeSamples, begin: np.ndarray, end: np.ndarray, neighbours: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs first < second and the cost of their merge: of all, or of nearest neighbours by mean t, x, y."""
    users = len(begin)
    if neighbours is None or neighbours >= users - 1:
        first, second = np.triu_indices(users, 1)
    else:
        means = mean_samples(samples.t, samples.x, samples.y, begin, end)
        near = KDTree(means).query(means, neighbours + 1)[1]
        own = np.repeat(np.arange(users), neighbours + 1)
        low, high = np.minimum(own, near.ravel()), np.maximum(own, near.ravel())
        keys = np.unique(low[low < high] * users + high[low < high])
        first, second = keys // users, keys % users
    return first, second, pair_costs(samples.t, samples.x, samples.y, begin, end, first, second)


def _similarity(
    first: np.ndarray, second: np.ndarray, cost: np.ndarray, users: int
) -> scipy.sparse.csr_array:
    """Symmetric: exp(-c^2 / (s s')), with s a user's cost of its seventh cheapest pair."""
    own, other, both = np.r_[first, second], np.r_[second, first], np.r_[cost, cost]
    order = np.lexsort((both, own))
    degree = np.bincount(own, minlength=users)
    rank = np.cumsum(degree) - degree + np.minimum(degree, SCALE_RANK) - 1
    scale = both[order][rank]
    value = np.maximum(np.exp(-(both**2) / (scale[own] * scale[other])), LEAST_SIMILARITY)
    return scipy.sparse.csr_array((value, (own, other)), shape=(users, users))


def _embedding(similarity: scipy.sparse.csr_array, dimensions: int) -> np.ndarray:
    """Rows of the last eigenvectors of the normalised Laplacian, each of length 1."""
    root = 1 / np.sqrt(similarity.sum(axis=1))
    users = len(root)
    normal = scipy.sparse.diags_array(root) @ similarity @ scipy.sparse.diags_array(root)
    if users <= max(DENSE, 4 * dimensions):
        vectors = scipy.linalg.eigh(normal.toarray(), subset_by_index=[users - dimensions, users - 1])[1]
    else:
        start = np.cos(np.arange(1, users + 1) ** 2 * np.sqrt(2))
        vectors = eigsh(normal, dimensions, which="LA", v0=start, tol=1e-3)[1]  # pyright: ignore[reportArgumentType]
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _k_means(points: np.ndarray, clusters: int) -> np.ndarray:
    """Lloyd's rounds from points farthest apart; an emptied cluster stays empty."""
    chosen = [0]
    far = np.full(len(points), np.inf)
    for _ in range(clusters - 1):
        far = np.minimum(far, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(far.argmax()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return kmeans2(points, points[chosen], iter=ROUNDS, minit="matrix")[1].astype(np.int32)
