"""Inference of the adversary from a prior and from counts, and its error, slot by slot.

prior        the prior alone
aggregates   the counts alone, as shares of places (profiling only)
bayes        prior times shares, normalised (alg. 3.1); where the product is empty, the prior
max_roi      each place takes its A most probable users, ties by their reports (alg. 3.2); users with
             probability 0 are taken too where the count asks for more
max_user     users in order of their reports take all their places that have counts left (alg. 3.3)
A user whom no place took is at null. Profiling is judged by the Jensen-Shannon divergence in bits, and by its
root, the distance; only places of the truth need to be looked up: JS = 1/2 sum over them of
(P log 2P/(P+Q) + Q log 2Q/(P+Q)) + 1/2 (1 - Q of them). Localization by 1 - F1, null being a place.
Source   Pyrgelis, Troncoso, De Cristofaro 2017, sections 3.1 to 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from shoal.attacks.models.visits import Rows

INFERENCES = ("prior", "aggregates", "bayes", "max_roi", "max_user")
POP = 0.5  # probability from which a place counts as a favourite


@dataclass(frozen=True, eq=False)
class SlotResult:
    """One slot: per user the divergence, and places predicted and hit, for each way of reading a profile."""

    divergence: np.ndarray  # float64 [users]
    hits: np.ndarray = field(repr=False)  # int64 [users, 2]: all places of positive probability, favourites
    predicted: np.ndarray = field(repr=False)  # int64 [users, 2]


@dataclass(frozen=True, eq=False)
class SlotCounts:
    """Counts of one slot, null last, as an adversary reads them: not negative, whole where used up."""

    share: np.ndarray  # float64 [rois], sums to 1
    whole: np.ndarray  # int64 [rois]

    @classmethod
    def of(cls, counts: np.ndarray, users: int) -> SlotCounts:
        """Negative counts are read as 0, larger ones than all users as all users."""
        bounded = np.clip(counts, 0.0, users)
        total = bounded.sum()
        share = bounded / total if total > 0 else np.full(len(bounded), 1.0 / len(bounded))
        return cls(share=share, whole=np.rint(bounded).astype(np.int64))


@dataclass(frozen=True, eq=False)
class Ranking:
    """For each place the users with positive probability there, the most probable first."""

    first: np.ndarray  # int64 [rois + 1]
    user: np.ndarray  # int32

    @classmethod
    def of(cls, rows: Rows, rois: int, order: np.ndarray) -> Ranking:
        """Ties in the order of `order`."""
        return cls(*_rank(rows.first, rows.roi, rows.share, rois, order))


def infer_slot(
    inference: str, truth: Rows, prior: Rows, counts: SlotCounts, order: np.ndarray, ranking: Ranking | None
) -> SlotResult:
    """One inference on one slot; `order` lists users by their reports, `ranking` serves max_roi."""
    true, known = (truth.first, truth.roi), (prior.first, prior.roi, prior.share)
    if inference == "prior":
        return SlotResult(*_score(*true, *known, np.ones_like(counts.share)))
    if inference == "bayes":
        return SlotResult(*_score(*true, *known, counts.share))
    if inference == "aggregates":
        return SlotResult(*_score_same(*true, counts.share))
    if inference == "max_user":
        hit, taken = _take_by_user(*true, *known[:2], counts.whole, order)
    else:
        assert ranking is not None
        hit, taken = _take_by_place(*true, ranking.first, ranking.user, counts.whole, order)
    return SlotResult(*_score_taken(*true, len(counts.share) - 1, hit, taken))


@njit(cache=True, nogil=True)
def _rank(first, roi, share, rois, order):
    """Users put into their places' lists in order, then each list sorted by share where shares differ."""
    start = np.zeros(rois + 1, np.int64)
    for s in roi:
        start[s + 1] += 1
    for s in range(rois):
        start[s + 1] += start[s]
    user = np.empty(roi.size, np.int32)
    probability = np.empty(roi.size, np.float64)
    at = start[:-1].copy()
    for u in order:
        for i in range(first[u], first[u + 1]):
            user[at[roi[i]]] = u
            probability[at[roi[i]]] = share[i]
            at[roi[i]] += 1
    for s in range(rois):
        begin, end = start[s], start[s + 1]
        if end > begin and probability[begin:end].min() < probability[begin:end].max():
            best = np.argsort(-probability[begin:end], kind="mergesort")
            user[begin:end] = user[begin:end][best]
    return start, user


@njit(cache=True, nogil=True)
def _divergence(p, q):
    """The part of a place of the truth, in bits, before halving."""
    m = p + q
    part = p * np.log2(2.0 * p / m)
    if q > 0:
        part += q * np.log2(2.0 * q / m)
    return part


@njit(cache=True, nogil=True)
def _score(first, roi, prior_first, prior_roi, prior_share, weight):
    """Profiles prior x weight, normalised; rows are in order of places, so both are walked together."""
    users = first.size - 1
    null = weight.size - 1
    divergence = np.zeros(users)
    hits = np.zeros((users, 2), np.int64)
    predicted = np.zeros((users, 2), np.int64)
    for u in range(users):
        total = 0.0
        for i in range(prior_first[u], prior_first[u + 1]):
            total += prior_share[i] * weight[prior_roi[i]]
        plain = total <= 0.0
        p = 1.0 / (first[u + 1] - first[u])
        t, covered, sum_, null_true = first[u], 0.0, 0.0, False
        for i in range(first[u], first[u + 1]):
            null_true = null_true or roi[i] == null
        for i in range(prior_first[u], prior_first[u + 1]):
            s = prior_roi[i]
            q = prior_share[i] if plain else prior_share[i] * weight[s] / total
            while t < first[u + 1] and roi[t] < s:
                sum_ += p  # p log2(2 p / p): nothing expected here
                t += 1
            hit = t < first[u + 1] and roi[t] == s
            if hit:
                sum_ += _divergence(p, q)
                covered += q
                t += 1
            if q > 0:
                predicted[u, 0] += 1
                hits[u, 0] += hit
                if q >= POP:
                    predicted[u, 1] += 1
                    hits[u, 1] += hit
        sum_ += p * (first[u + 1] - t)
        divergence[u] = max(0.5 * sum_ + 0.5 * (1.0 - covered), 0.0)
        if predicted[u, 1] == 0:  # no favourite: outside
            predicted[u, 1] = 1
            hits[u, 1] += null_true
    return divergence, hits, predicted


@njit(cache=True, nogil=True)
def _score_same(first, roi, share):
    """The same profile for everybody."""
    users = first.size - 1
    null = share.size - 1
    divergence = np.zeros(users)
    hits = np.zeros((users, 2), np.int64)
    predicted = np.zeros((users, 2), np.int64)
    some, favourites = 0, 0
    for s in range(share.size):
        some += share[s] > 0
        favourites += share[s] >= POP
    for u in range(users):
        p = 1.0 / (first[u + 1] - first[u])
        sum_, covered = 0.0, 0.0
        for i in range(first[u], first[u + 1]):
            q = share[roi[i]]
            sum_ += _divergence(p, q)
            covered += q
            hits[u, 0] += q > 0
            hits[u, 1] += q >= POP or (favourites == 0 and roi[i] == null)
        divergence[u] = max(0.5 * sum_ + 0.5 * (1.0 - covered), 0.0)
        predicted[u, 0] = some
        predicted[u, 1] = max(favourites, 1)
    return divergence, hits, predicted


@njit(cache=True, nogil=True)
def _take_by_user(first, roi, prior_first, prior_roi, whole, order):
    """Which places of the truth were taken, and how many places each user took."""
    hit = np.zeros(roi.size, np.bool_)
    taken = np.zeros(first.size - 1, np.int64)
    left = whole.copy()
    rest = left.sum()
    for u in order:
        if rest == 0:
            break
        t = first[u]
        for i in range(prior_first[u], prior_first[u + 1]):
            s = prior_roi[i]
            if left[s] > 0:
                left[s] -= 1
                rest -= 1
                taken[u] += 1
                while t < first[u + 1] and roi[t] < s:
                    t += 1
                if t < first[u + 1] and roi[t] == s:
                    hit[t] = True
    return hit, taken


@njit(cache=True, nogil=True)
def _take_by_place(first, roi, rank_first, rank_user, whole, order):
    users = first.size - 1
    hit = np.zeros(roi.size, np.bool_)
    taken = np.zeros(users, np.int64)
    stamp = np.full(users, -1, np.int64)
    for s in range(whole.size):
        want = min(whole[s], users)
        ranked = rank_first[s + 1] - rank_first[s]
        for i in range(rank_first[s], rank_first[s] + min(want, ranked)):
            _take(rank_user[i], s, first, roi, hit, taken)
        if want > ranked:
            for i in range(rank_first[s], rank_first[s + 1]):
                stamp[rank_user[i]] = s
            left = want - ranked
            for u in order:
                if left == 0:
                    break
                if stamp[u] != s:
                    _take(u, s, first, roi, hit, taken)
                    left -= 1
    return hit, taken


@njit(cache=True, nogil=True)
def _take(u, s, first, roi, hit, taken):
    taken[u] += 1
    for i in range(first[u], first[u + 1]):
        if roi[i] == s:
            hit[i] = True


@njit(cache=True, nogil=True)
def _score_taken(first, roi, null, hit, taken):
    """Users are at the places that they took, with equal shares; at null if they took none."""
    users = first.size - 1
    divergence = np.zeros(users)
    hits = np.zeros((users, 2), np.int64)
    predicted = np.zeros((users, 2), np.int64)
    for u in range(users):
        p, q = 1.0 / (first[u + 1] - first[u]), 1.0 / max(taken[u], 1)
        sum_, covered = 0.0, 0.0
        for i in range(first[u], first[u + 1]):
            if hit[i] or (taken[u] == 0 and roi[i] == null):
                sum_ += _divergence(p, q)
                covered += q
                hits[u, 0] += 1
            else:
                sum_ += p
        divergence[u] = max(0.5 * sum_ + 0.5 * (1.0 - covered), 0.0)
        predicted[u, 0] = max(taken[u], 1)
    hits[:, 1], predicted[:, 1] = hits[:, 0], predicted[:, 0]
    return divergence, hits, predicted
