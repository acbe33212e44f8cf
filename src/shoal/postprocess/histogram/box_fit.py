"""Weights of a pool of boxes that agree with noisy counts: a penalised least-squares fit.

minimise   sum over counts (A w - m)^2 / (2 sigma^2)  +  pull * KL(w / n || even)     w = n softmax(theta)

A adds up the weights of a bin, or of the paths that meet a rectangle. The second term keeps weights even
where counts determine little. Minimised by L-BFGS (Nocedal 1980), compiled here: it is called many times on
vectors that are too short for threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

MEMORY = 8  # pairs of steps and changes of slope that the search remembers
ENOUGH = 1e-7  # relative gain of a step below which the search ends, three times in a row


@dataclass(frozen=True, kw_only=True, eq=False)
class Targets:
    """Noisy counts that the weights are fitted to."""

    index: np.ndarray = field(repr=False)  # int32 [histograms, boxes]: place of a box's bin in `values`
    values: np.ndarray = field(repr=False)  # float64, all bins that a box can reach, one after the other
    inverse: np.ndarray = field(repr=False)  # float64, 1 / variance of each
    meets: np.ndarray = field(repr=False)  # uint64 [boxes]: bit q is set where the path meets rectangle q
    answers: np.ndarray = field(repr=False)  # float64 [rectangles], at most 64
    answer_inverse: float = 0.0


def targets_of(
    binned: list[tuple[np.ndarray, float, np.ndarray]],
    hits: np.ndarray | None = None,
    answers: np.ndarray | None = None,
    answer_sigma: float = 1.0,
) -> Targets:
    """From (noisy values, deviation, bin of each box), and from answers for rectangles.

    Bins that no box can reach do not depend on the weights and are left out.
    """
    index, values, inverse = [], [], []
    before = 0
    for noisy, sigma, bins in binned:
        used, places = np.unique(bins, return_inverse=True)
        index.append((places + before).astype(np.int32))
        values.append(noisy[used].astype(np.float64))
        inverse.append(np.full(used.size, 1.0 / sigma**2))
        before += used.size
    boxes = index[0].size
    meets = np.zeros(boxes, np.uint64)
    if hits is not None:
        for bit, row in enumerate(hits):
            meets |= row.astype(np.uint64) << np.uint64(bit)
    return Targets(
        index=np.stack(index),
        values=np.concatenate(values),
        inverse=np.concatenate(inverse),
        meets=meets,
        answers=np.zeros(0) if answers is None else answers.astype(np.float64),
        answer_inverse=1.0 / answer_sigma**2,
    )


def fit_weights(
    targets: Targets, trips: float, pull: float, *, start: np.ndarray | None = None, steps: int = 200
) -> np.ndarray:
    """float64 [boxes]: weights that sum to `trips`; `start`: weights to search from."""
    boxes = targets.index.shape[1]
    theta = np.zeros(boxes) if start is None else np.log(np.maximum(start / start.max(), 1e-9))
    given = (
        targets.index,
        targets.values,
        targets.inverse,
        targets.meets,
        targets.answers,
        targets.answer_inverse,
        float(trips),
        float(pull),
    )
    _search(theta, given, steps)
    share = np.exp(theta - theta.max())
    return trips * share / share.sum()


@njit(cache=True, nogil=True)
def _loss(theta, given, slope):
    """The loss at theta; its gradient goes into `slope`."""
    index, values, inverse, meets, answers, answer_inverse, trips, pull = given
    boxes = theta.size
    top = theta[0]
    for i in range(boxes):
        top = max(top, theta[i])
    total = 0.0
    share = np.empty(boxes)
    for i in range(boxes):
        share[i] = np.exp(theta[i] - top)
        total += share[i]
    log_total = np.log(total)
    loss = 0.0
    residual = -values
    answer_residual = -answers
    for i in range(boxes):
        share[i] /= total
        log_ratio = theta[i] - top - log_total + np.log(boxes)
        loss += pull * share[i] * log_ratio
        slope[i] = pull * log_ratio
    for h in range(index.shape[0]):
        for i in range(boxes):
            residual[index[h, i]] += trips * share[i]
    if answers.size:
        for i in range(boxes):
            bits = meets[i]
            for q in range(answers.size):
                if (bits >> np.uint64(q)) & np.uint64(1):
                    answer_residual[q] += trips * share[i]
        for q in range(answers.size):
            loss += 0.5 * answer_residual[q] * answer_residual[q] * answer_inverse
            answer_residual[q] *= trips * answer_inverse
        for i in range(boxes):
            bits = meets[i]
            for q in range(answers.size):
                if (bits >> np.uint64(q)) & np.uint64(1):
                    slope[i] += answer_residual[q]
    for b in range(values.size):
        loss += 0.5 * residual[b] * residual[b] * inverse[b]
        residual[b] *= trips * inverse[b]
    for h in range(index.shape[0]):
        for i in range(boxes):
            slope[i] += residual[index[h, i]]
    mean = 0.0
    for i in range(boxes):
        mean += share[i] * slope[i]
    for i in range(boxes):
        slope[i] = share[i] * (slope[i] - mean)
    return loss


@njit(cache=True, nogil=True)
def _search(theta, given, steps):
    """L-BFGS with a backtracking line search; theta is changed in place."""
    size = theta.size
    slope, next_slope = np.empty(size), np.empty(size)
    moved, turned = np.zeros((MEMORY, size)), np.zeros((MEMORY, size))
    scale = np.zeros(MEMORY)
    steps_stored = 0
    loss = _loss(theta, given, slope)
    trial = np.empty(size)
    quiet = 0
    for _ in range(steps):
        way = _direction(slope, moved, turned, scale, steps_stored)
        fall = np.sum(way * slope)
        if fall >= 0:  # not a descent direction: forget the stored steps
            steps_stored = 0
            way = -slope
            fall = -np.sum(slope * slope)
        if fall == 0.0:
            return
        length = 1.0 if steps_stored else min(1.0, 1.0 / np.sqrt(-fall))
        trial_loss = loss
        for _ in range(30):
            for i in range(size):
                trial[i] = theta[i] + length * way[i]
            trial_loss = _loss(trial, given, next_slope)
            if trial_loss <= loss + 1e-4 * length * fall:
                break
            length *= max(
                0.1, min(0.5, -0.5 * fall * length / max(trial_loss - loss - fall * length, 1e-300))
            )
        else:
            return
        at = steps_stored % MEMORY
        bend = 0.0
        for i in range(size):
            moved[at, i] = trial[i] - theta[i]
            turned[at, i] = next_slope[i] - slope[i]
            bend += moved[at, i] * turned[at, i]
            theta[i] = trial[i]
            slope[i] = next_slope[i]
        if bend > 1e-300:
            scale[at] = 1.0 / bend
            steps_stored += 1
        quiet = quiet + 1 if loss - trial_loss <= ENOUGH * max(abs(trial_loss), 1e-12) else 0
        loss = trial_loss
        if quiet == 3:
            return


@njit(cache=True, nogil=True)
def _direction(slope, moved, turned, scale, steps_stored):
    """The two-loop recursion: minus the inverse Hessian estimated from stored steps times the gradient."""
    way = -slope
    size = min(steps_stored, MEMORY)
    part = np.zeros(MEMORY)
    for back in range(size):
        at = (steps_stored - 1 - back) % MEMORY
        part[at] = scale[at] * np.sum(moved[at] * way)
        way -= part[at] * turned[at]
    if size:
        at = (steps_stored - 1) % MEMORY
        way /= scale[at] * np.sum(turned[at] * turned[at])
    for ahead in range(size):
        at = (steps_stored - size + ahead) % MEMORY
        way += moved[at] * (part[at] - scale[at] * np.sum(turned[at] * way))
    return way
