"""Truthful records hidden among k by the published algorithm kte-hide, which leaves some people unhidden.

As published    an adversary who knows a user's samples over any period of tau finds k records that fit them,
                and learns no more than one further epoch (its epsilon, a duration).
True for users  most windows are hidden, not all. A set of users that cannot be hidden in a window is removed
                over all epochs of that window, also where it hides others in earlier windows: what those
                rely on is gone when records are merged at the end. It is counted, not repaired.
Source          Gramaglia et al. 2017, section III.G and alg. 2.

What the paper leaves open, and what is done here:
  costs         of all pairs there; here of the nearest 32 by mean place and time, so that time grows with
                users and not with their square. `neighbours=None` takes all pairs.
  clusters      their number is not given: one per 75 users active in the epoch (`cluster_users`). The
                similarity of two users is exp(-c^2 / (s s')), c the cost, s a user's cost of the 7th nearest.
  inactive      users without samples in an epoch are a cluster of their own; users with none in a whole
                window need no hiding. A removed user is inactive in later windows (the kinder reading).
  cycles        through the cheapest next user, with a bounded search back out of dead ends.
  end           a last epoch may be short; data shorter than a window are one window.

Clusters of users active in an epoch, by the cost of merging their samples in pairs: spectral clustering.

Nothing is drawn: the iteration for eigenvectors starts from a fixed sequence, k-means from the points that
lie farthest apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
import scipy.sparse
from numba import njit
from scipy.cluster.vq import kmeans2
from scipy.sparse.linalg import eigsh
from scipy.spatial import KDTree

from shoal.anonymise.kmerge import merge_sorted
from shoal.errors import PlanError
from shoal.stages.trajectories import Boxes, LatticeSamples

Progress = Callable[[int, int], None]  # epochs done, of all


@dataclass(frozen=True, kw_only=True, eq=False)
class HidingSets:
    """The hiding sets: parent[i, m] are the k - 1 users that hide user i in window m; -1 if there are none.

    `retained` [users, epochs]: whether a user has samples in an epoch that were not removed.
    """

    parent: np.ndarray = field(repr=False)  # int32 [users, windows, k - 1]
    retained: np.ndarray = field(repr=False)
    begin: np.ndarray = field(repr=False)  # first sample of (user, epoch), flat, one more at the end

    @property
    def epochs(self) -> int:
        return self.retained.shape[1]


@dataclass(frozen=True, kw_only=True)
class KteHide:
    """Clusters per epoch, cycles within them per window, and one k-merge per user and epoch at the end."""

    k: int
    tau_steps: int
    epoch_steps: int
    neighbours: int | None = 32  # of a user, whose merge costs are computed; None: all pairs
    cluster_users: int = 75  # active users per cluster, on average

    name = "kte-hide"

    def __post_init__(self) -> None:
        if self.k < 2:
            raise PlanError("hide-k", f"k must be at least 2; got {self.k}.")
        if self.epoch_steps < 1 or self.tau_steps < 1 or self.tau_steps % self.epoch_steps:
            raise PlanError(
                "hide-tau",
                f"tau must be a multiple of the epoch; got {self.tau_steps} and {self.epoch_steps} steps.",
                "Choose tau as 1, 2, .. times the epoch.",
            )
        if self.cluster_users < 1 or (self.neighbours is not None and self.neighbours < 1):
            raise PlanError("hide-clusters", "neighbours and users per cluster must be at least 1.")

    def __call__(self, samples: LatticeSamples, progress: Progress | None = None) -> Boxes:
        sets = self.hiding_sets(samples, progress)
        out = np.empty((samples.count, 7), np.int32)
        count = merge_records(
            samples.t, samples.x, samples.y, sets.begin, sets.retained, sets.parent, self.behind, out
        )
        return Boxes.of(*out[:count].T, records=samples.users)

    def hiding_sets(self, samples: LatticeSamples, progress: Progress | None = None) -> HidingSets:
        """Algorithm 2, lines 1 to 16: forward in time, one window per epoch."""
        epochs = -(-samples.steps // self.epoch_steps)
        behind = min(self.behind, epochs - 1)
        begin = _first_rows(samples, self.epoch_steps, epochs)
        retained = (np.diff(begin) > 0).reshape(samples.users, epochs)
        parent = np.full((samples.users, epochs - behind, self.k - 1), -1, np.int32)
        labels = np.full((epochs, samples.users), INACTIVE, np.int32)
        rows = (samples.t, samples.x, samples.y, begin)
        for epoch in range(epochs):
            active = np.flatnonzero(retained[:, epoch])
            at = active * epochs + epoch
            labels[epoch, active] = cluster_users(
                samples, begin[at], begin[at + 1], self.neighbours, self.cluster_users
            )
            if epoch >= behind:
                window = epoch - behind
                users, start = _subsets(labels[window : epoch + 1])
                removed = choose_hiding_sets(*rows, retained, users, start, window, epoch, parent)
                labels[window : epoch + 1, users[removed]] = INACTIVE
            if progress:
                progress(epoch + 1, epochs)
        return HidingSets(parent=parent, retained=retained, begin=begin)

    @property
    def behind(self) -> int:
        """tau / epoch: a window is an epoch and as many before it."""
        return self.tau_steps // self.epoch_steps

    def true_guarantee(self) -> str:
        return (
            f"Claims that every period of {self.tau_steps} steps of a user fits {self.k} records. It does "
            "not hold for all: users who cannot be hidden in a window are removed after others were hidden "
            "behind them, so some periods fit fewer. No probability bounds how many; they are counted."
        )


def _first_rows(samples: LatticeSamples, epoch_steps: int, epochs: int) -> np.ndarray:
    """int64 [users * epochs + 1]: samples of user u in epoch e are first[u * epochs + e] up to the next."""
    place = samples.user.astype(np.int64) * epochs + samples.t // epoch_steps
    return np.concatenate([[0], np.cumsum(np.bincount(place, minlength=samples.users * epochs))])


def _subsets(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Users with the same sequence of clusters side by side, and where each subset starts, with the end.

    Users inactive throughout are left out.
    """
    users = np.flatnonzero((labels != INACTIVE).any(axis=0))
    code = np.zeros(len(users), np.int64)
    for row in labels[:, users]:
        code = code * (int(row.max(initial=0)) + 2) + row + 1  # INACTIVE is -1
        code = np.unique(code, return_inverse=True)[1]
    order = np.argsort(code, kind="stable")
    edges = np.flatnonzero(np.diff(code[order])) + 1
    return users[order], np.concatenate([[0], edges, [len(users)]]) if len(users) else np.zeros(1, np.int64)


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


SEARCH = 2_000  # steps of a search for a cycle, and as many more per 100 users


@njit(cache=True, nogil=True)
def mean_samples(t, x, y, begin, end):
    """float64 [users, 3]: mean t, x, y of the samples begin .. end of each user."""
    mean = np.empty((len(begin), 3))
    for user in range(len(begin)):
        rows = slice(begin[user], end[user])
        mean[user, 0], mean[user, 1], mean[user, 2] = t[rows].mean(), x[rows].mean(), y[rows].mean()
    return mean


@njit(cache=True, nogil=True)
def pair_costs(t, x, y, begin, end, first, second):
    """float64: cost of the best merge of users first[p] and second[p], whose samples are begin .. end."""
    cost = np.empty(len(first))
    most = 0
    for user in range(len(begin)):
        most = max(most, end[user] - begin[user])
    work = _scratch(2 * most)
    for p in range(len(first)):
        a, b = first[p], second[p]
        cost[p] = _pair_cost(t, x, y, begin[a], end[a], begin[b], end[b], work)
    return cost


@njit(cache=True, nogil=True)
def choose_hiding_sets(t, x, y, begin, retained, users, start, window, newest, parent):
    """Algorithm 2, lines 9 to 16, for all subsets users[start[s]:start[s + 1]] of one window.

    Fills parent[:, window]; where there are no cycles, switches `retained` off over the window. Returns for
    each of `users` whether it was removed.
    """
    removed = np.zeros(len(users), np.bool_)
    cycles = parent.shape[2]
    for s in range(len(start) - 1):
        members = users[start[s] : start[s + 1]]
        hidden = len(members) > cycles
        if hidden:
            free = _allowed(members, parent, window)
            cost = _window_costs(t, x, y, begin, retained, members, window, newest)
            order = np.empty((len(members), len(members)), np.int64)
            for a in range(len(members)):
                order[a] = np.argsort(cost[a], kind="mergesort")
            for cycle in range(cycles):
                before = _greedy_cycle(order, free)
                if before[0] < 0:
                    hidden = False
                    break
                for b in range(len(members)):
                    parent[members[b], window, cycle] = members[before[b]]
                    free[before[b], b] = False
        if not hidden:
            removed[start[s] : start[s + 1]] = True
            for user in members:
                parent[user, window, :] = -1
                retained[user, window : newest + 1] = False
    return removed


@njit(cache=True, nogil=True)
def _allowed(members, parent, window):
    """free[a, b]: a may hide b, having been in no earlier hiding set of b (the reuse constraint)."""
    size = len(members)
    free = np.ones((size, size), np.bool_)
    for b in range(size):
        free[b, b] = False
        for m in range(window):
            for each in parent[members[b], m]:
                if each >= 0:
                    at = np.searchsorted(members, each)  # subsets are in order of users
                    if at < size and members[at] == each:
                        free[at, b] = False
    return free


@njit(cache=True, nogil=True)
def _window_costs(t, x, y, begin, retained, members, window, newest):
    """float64 [size, size]: cost of the merge of two members, summed over epochs where both have samples."""
    size, epochs = len(members), retained.shape[1]
    cost = np.zeros((size, size))
    for epoch in range(window, newest + 1):
        most = 0
        for user in members:
            most = max(most, begin[user * epochs + epoch + 1] - begin[user * epochs + epoch])
        work = _scratch(2 * most)
        for a in range(size):
            if not retained[members[a], epoch]:
                continue
            at = members[a] * epochs + epoch
            for b in range(a):
                if retained[members[b], epoch]:
                    to = members[b] * epochs + epoch
                    each = _pair_cost(t, x, y, begin[at], begin[at + 1], begin[to], begin[to + 1], work)
                    cost[a, b] += each
                    cost[b, a] += each
    return cost


@njit(cache=True, nogil=True)
def _greedy_cycle(order, free):
    """int64: for each member the one before it in a directed cycle through all; -1 if there is none.

    From the last member of the path to the cheapest free one that is not on it, back by one at a dead end.
    """
    size = len(order)
    path = np.zeros(size, np.int64)
    tried = np.zeros(size, np.int64)  # at each place of the path, how many of the next were looked at
    on_path = np.zeros(size, np.bool_)
    on_path[0] = True
    before = np.full(size, -1, np.int64)
    depth, left = 0, SEARCH + SEARCH * size // 100
    while left > 0:
        if depth == size - 1 and free[path[depth], path[0]]:
            for place in range(size):
                before[path[(place + 1) % size]] = path[place]
            return before
        following = -1
        while depth < size - 1 and tried[depth] < size and following < 0:
            each = order[path[depth], tried[depth]]
            tried[depth] += 1
            if not on_path[each] and free[path[depth], each]:
                following = each
        if following >= 0:
            depth += 1
            path[depth] = following
            tried[depth] = 0
            on_path[following] = True
        else:
            if depth == 0:
                return before
            on_path[path[depth]] = False
            depth -= 1
        left -= 1
    return before


@njit(cache=True, nogil=True)
def merge_records(t, x, y, begin, retained, parent, behind, out):
    """Algorithm 2, lines 17 to 20: boxes record, t0, t1, x0, x1, y0, y1 into `out`; returns their number.

    In each epoch a user is merged with those users of its hiding sets that still have samples there.
    """
    users, epochs = retained.shape
    windows, cycles = parent.shape[1], parent.shape[2]
    members = np.empty(1 + (behind + 1) * cycles, np.int64)
    count = 0
    for user in range(users):
        for epoch in range(epochs):
            if not retained[user, epoch]:
                continue
            members[0] = user
            k = 1
            for window in range(max(0, epoch - behind), min(windows, epoch + 1)):
                for cycle in range(cycles):
                    each = parent[user, window, cycle]
                    if each >= 0 and retained[each, epoch]:
                        members[k] = each
                        k += 1
            count += _merge_members(t, x, y, begin, epochs, epoch, members[:k], out[count:])
    return count


@njit(cache=True, nogil=True)
def _merge_members(t, x, y, begin, epochs, epoch, members, out):
    """Boxes of the best merge of all members' samples in an epoch; returns their number."""
    at, stop = begin[members * epochs + epoch], begin[members * epochs + epoch + 1]
    total = (stop - at).sum()
    columns = np.empty((4, total), np.int64)
    for row in range(total):
        first = -1  # of the members, the one with the earliest sample left
        for owner in range(len(members)):
            if at[owner] < stop[owner] and (first < 0 or t[at[owner]] < t[at[first]]):
                first = owner
        columns[0, row], columns[1, row], columns[2, row] = t[at[first]], x[at[first]], y[at[first]]
        columns[3, row] = first
        at[first] += 1
    boxes = np.empty((total, 6), np.int64)
    count = merge_sorted(columns[0], columns[1], columns[2], columns[3], total, len(members), boxes)[1]
    for each in range(count):
        out[each, 0] = members[0]
        for column in range(6):
            out[each, column + 1] = boxes[each, column]
    return count


@njit(cache=True, nogil=True)
def _scratch(rows):
    """Work arrays for the merge of a pair: t, x, y, owner and boxes."""
    return np.empty((4, rows), np.int64), np.empty((rows, 6), np.int64)


@njit(cache=True, nogil=True)
def _pair_cost(t, x, y, a, a_end, b, b_end, work):
    """Cost of the best merge of samples a .. a_end with b .. b_end, each in order of time."""
    columns, boxes = work
    count = 0
    while a < a_end or b < b_end:
        owner = 0 if b == b_end or (a < a_end and t[a] <= t[b]) else 1
        row = b if owner else a
        columns[0, count], columns[1, count], columns[2, count] = t[row], x[row], y[row]
        columns[3, count] = owner
        count += 1
        a, b = a + 1 - owner, b + owner
    return merge_sorted(columns[0], columns[1], columns[2], columns[3], count, 2, boxes)[0]
