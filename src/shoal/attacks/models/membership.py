"""Was this person in the counts? A likelihood-ratio adversary who knows a person's visits, and other people.

The adversary knows where the target was (for certain, or how likely from the past), and from a sample of
other people, none of them in the counts, how often a cell (place, slot) is visited. Two likelihoods, both
with cells independent, which they are not quite: visits of one person go together.

counts    exact counts. Others are Poisson of mean l, a visit of the target shifts by 1: the log-likelihood
          ratio of a cell known with probability d is log(1 - d + d c / l). An empty cell the target is known
          to have been in proves absence.
noisy     anything published with noise. Others and noise are Gaussian of mean m and variance v, the target
          shifts by d: d (c - m - d / 2) / v. How a method errs is learnt by running it on other people.

Experiment: a pool of 2 n people; each world publishes n of them, drawn anew, so that a target is in every
other world and worlds have equal size. Scores of all targets and worlds make the ROC. Everybody outside the
pool is the adversary's sample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import csr_matrix

from shoal.attacks.models.visits import KnownVisits
from shoal.errors import PlanError

Publish = Callable[[KnownVisits, int], np.ndarray]  # visits of a group, number of the run -> [places, slots]
LEAST_RATE = 0.5  # visits assumed in the sample where there were none
PRIOR_RUNS = 2.0  # weight of the average cell when a cell's noise is learnt from few runs


@dataclass(frozen=True, kw_only=True, eq=False)
class CountModel:
    """Counts without the target, by cell."""

    mean: np.ndarray = field(repr=False)
    variance: np.ndarray = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Roc:
    """Shares of members and of others above every threshold, from the highest on."""

    false_positive: np.ndarray = field(repr=False)
    true_positive: np.ndarray = field(repr=False)
    auc: float
    members: int
    others: int

    def tpr_at(self, most_false: float) -> float | None:
        """Share of members found at a share of false alarms of at most this; None: too few others to say."""
        if self.others * most_false < 1:
            return None
        return float(self.true_positive[self.false_positive <= most_false + 1e-12].max())


@dataclass(frozen=True, kw_only=True, eq=False)
class Worlds:
    """People of the experiment: the pool, the adversary's sample, and who of the pool is in each world."""

    pool: np.ndarray = field(repr=False)
    sample: np.ndarray = field(repr=False)
    inside: np.ndarray = field(repr=False)  # bool [worlds, pool]

    @property
    def group(self) -> int:
        return len(self.pool) // 2


def draw_worlds(users: int, *, group: int, worlds: int, seed: int) -> Worlds:
    """A pool of 2 x group people, as many or more outside it, and `worlds` random halves of the pool."""
    if group < 2:
        raise PlanError(
            "membership-group",
            f"a group must have 2 people or more; got {group}.",
            "Pass a larger --group, or lengthen the window where there are few people.",
        )
    if 3 * group > users:
        raise PlanError(
            "membership-group",
            f"a group of {group} needs three times as many people; there are too few.",
            "Pass a smaller --group.",
        )
    generator = np.random.default_rng(seed)
    order = generator.permutation(users)
    inside = np.zeros((worlds, 2 * group), bool)
    for row in inside:
        row[generator.permutation(2 * group)[:group]] = True
    return Worlds(pool=np.sort(order[: 2 * group]), sample=np.sort(order[2 * group :]), inside=inside)


def visits_of_users(visits: KnownVisits, chosen: np.ndarray) -> KnownVisits:
    """Visits of some users, renumbered from 0 in their order."""
    number = np.full(visits.users, -1, np.int32)
    number[np.sort(chosen)] = np.arange(len(chosen), dtype=np.int32)
    inside = number[visits.user] >= 0
    return replace(
        visits,
        user=number[visits.user[inside]],
        slot=visits.slot[inside],
        place=visits.place[inside],
        users=len(chosen),
    )


def known_visits(visits: KnownVisits, targets: np.ndarray) -> csr_matrix:
    """Certain knowledge: 1 in every cell [targets, places * slots] a target visited."""
    ones = np.ones(len(visits.user), np.float32)
    cell = visits.place.astype(np.int64) * visits.slots + visits.slot
    shape = (visits.users, visits.places * visits.slots)
    return csr_matrix((ones, (visits.user, cell)), shape=shape)[targets]


def expected_visits(past: KnownVisits, targets: np.ndarray, *, slots: int, period: int) -> csr_matrix:
    """Probability that a target visits each cell of the `slots` after the past: its share of past periods.

    A period is a week or a day, in slots; only whole ones just before the end of the past are looked at.
    """
    periods = past.slots // period
    if period < 1 or periods < 1:
        raise PlanError(
            "membership-past", "the observed time is shorter than a period.", "Observe a day at least."
        )
    recent = past.between(past.slots - periods * period, past.slots)
    phase = recent.slot % period
    weight = np.float32(1 / periods)
    parts = []
    for repeat in range(-(-slots // period)):
        slot = phase + repeat * period
        inside = slot < slots
        cell = recent.place[inside].astype(np.int64) * slots + slot[inside]
        values = np.full(len(cell), weight)
        parts.append(
            csr_matrix((values, (recent.user[inside], cell)), shape=(past.users, past.places * slots))
        )
    return csr_matrix(sum(parts[1:], parts[0]))[targets]


def model_from(sample: KnownVisits, group: int) -> CountModel:
    """Counts of a group, from other people; the variance is of the group and of the sample."""
    rate = np.maximum(sample.counts().ravel(), LEAST_RATE) / sample.users
    return CountModel(mean=group * rate, variance=group * rate * (1 - rate) * (1 + group / sample.users))


def with_learnt_noise(model: CountModel, errors: np.ndarray) -> CountModel:
    """The model of what is published; errors (published - exact) [runs, cells] are of other people."""
    runs = len(errors)
    bias = errors.sum(axis=0) / (runs + PRIOR_RUNS)
    spread = ((errors - bias) ** 2).sum(axis=0)
    noise = (spread + PRIOR_RUNS * (spread.mean() / runs)) / (runs + PRIOR_RUNS)
    return CountModel(mean=model.mean + bias, variance=model.variance + noise)


def score_counts(known: csr_matrix, model: CountModel, counts: np.ndarray) -> np.ndarray:
    """Log-likelihood ratio of each target, Poisson, for exact counts.

    >>> model = CountModel(mean=np.array([2.0, 4.0]), variance=np.array([2.0, 4.0]))
    >>> score_counts(csr_matrix([[1.0, 0.0], [1.0, 1.0]]), model, np.array([2, 8])).round(3).tolist()
    [0.0, 0.693]
    """
    ratio = np.asarray(counts, float).ravel() / model.mean
    scores = known.copy().astype(float)
    ratios = 1 - scores.data + scores.data * ratio[known.indices]
    scores.data = np.log(np.maximum(ratios, 1e-30))  # certain absence, but still a number to rank by
    return np.asarray(scores.sum(axis=1)).ravel()


def score_noisy(known: csr_matrix, model: CountModel, published: np.ndarray) -> np.ndarray:
    """Log-likelihood ratio of each target, Gaussian of equal variance with and without the target."""
    deviation = (np.asarray(published, float).ravel() - model.mean) / model.variance
    return known @ deviation - (known.power(2) @ (1 / model.variance)) / 2


def roc(members: np.ndarray, others: np.ndarray) -> Roc:
    """ROC of scores; ties are one step, so that equal scores give an AUC of 1/2."""
    if not len(members) or not len(others):
        raise PlanError("membership-roc", "a ROC needs scores of members and of others.")
    scores = np.concatenate([members, others])
    label = np.concatenate([np.ones(len(members)), np.zeros(len(others))])
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.diff(scores[order], append=-np.inf))  # the last of each run of equal scores
    hits = np.concatenate([[0], np.cumsum(label[order])[last]]) / len(members)
    alarms = np.concatenate([[0], np.cumsum(1 - label[order])[last]]) / len(others)
    return Roc(
        false_positive=alarms,
        true_positive=hits,
        auc=float(np.trapezoid(hits, alarms)),
        members=len(members),
        others=len(others),
    )


def attack_worlds(
    visits: KnownVisits,
    worlds: Worlds,
    known: csr_matrix,
    publish: Publish | None,
    *,
    learn: int = 5,
    seed: int = 0,
    tell: Callable[[int], None] = lambda runs: None,
) -> np.ndarray:
    """float64 [worlds, targets]: a score of each row of `known` in each world; publish None: exact."""
    sample = visits_of_users(visits, worlds.sample)
    model = model_from(sample, worlds.group)
    if publish is not None:
        generator = np.random.default_rng(seed)
        errors = []
        for run in range(learn):
            some = np.sort(generator.permutation(sample.users)[: worlds.group])
            shadow = visits_of_users(sample, some)
            errors.append((publish(shadow, run) - shadow.counts()).ravel())
            tell(1)
        model = with_learnt_noise(model, np.array(errors))
    scores = []
    for number, inside in enumerate(worlds.inside):
        members = visits_of_users(visits, worlds.pool[inside])
        if publish is None:
            scores.append(score_counts(known, model, members.counts()))
        else:
            scores.append(score_noisy(known, model, publish(members, learn + number)))
        tell(1)
    return np.array(scores)
