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
from scipy.special import rel_entr

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
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        user = np.repeat(np.arange(len(order), dtype=np.int32), np.diff(rows.first))
        best = np.lexsort((rank[user], -rows.share, rows.roi))
        return cls(first=np.searchsorted(rows.roi[best], np.arange(rois + 1)), user=user[best])


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
        return _score_same(*true, counts.share)
    if inference == "max_user":
        hit, taken = _take_by_user(*true, *known[:2], counts.whole, order)
    else:
        assert ranking is not None
        hit, taken = _take_by_place(*true, ranking.first, ranking.user, counts.whole, order)
    return _score_taken(*true, len(counts.share) - 1, hit, taken)


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


def _score_same(first: np.ndarray, roi: np.ndarray, share: np.ndarray) -> SlotResult:
    """The same profile for everybody."""
    favourite = share >= POP
    favourite[-1] |= not favourite.any()  # no favourite: outside
    predicted = np.array([(share > 0).sum(), favourite.sum()])
    hit = np.stack([share[roi] > 0, favourite[roi]], axis=1)
    return SlotResult(
        divergence=_divergences(first, share[roi]),
        hits=np.add.reduceat(hit, first[:-1], dtype=np.int64),
        predicted=np.tile(predicted, (first.size - 1, 1)),
    )


def _score_taken(
    first: np.ndarray, roi: np.ndarray, null: int, hit: np.ndarray, taken: np.ndarray
) -> SlotResult:
    """Users are at the places that they took, with equal shares; at null if they took none."""
    predicted, size = np.maximum(taken, 1), np.diff(first)
    here = hit | ((roi == null) & np.repeat(taken == 0, size))
    hits = np.add.reduceat(here, first[:-1], dtype=np.int64)
    return SlotResult(
        divergence=_divergences(first, here / np.repeat(predicted, size)),
        hits=np.stack([hits, hits], axis=1),
        predicted=np.stack([predicted, predicted], axis=1),
    )


def _divergences(first: np.ndarray, q: np.ndarray) -> np.ndarray:
    """float64 [users]: divergence in bits, from the profiles at the places of the truth."""
    size = np.diff(first)
    p = np.repeat(1.0 / size, size)
    middle = (p + q) / 2
    parts = (rel_entr(p, middle) + rel_entr(q, middle)) / np.log(2)
    inside, covered = (np.add.reduceat(each, first[:-1]) for each in (parts, q))
    return np.maximum((inside + 1.0 - covered) / 2, 0.0)
