"""The inference framework against a dense one that follows the paper's algorithms line by line."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon

from shoal.attacks.models.framework import ASSIGNMENT, PRIORS, Periods, attack_counts, prior_named
from shoal.attacks.models.infer import INFERENCES
from shoal.attacks.models.visits import KnownVisits, TruthRows
from shoal.errors import PlanError

DAY, PLACES = 3, 4
PERIODS = Periods(slots=4 * 7 * DAY, split=3 * 7 * DAY, slots_per_day=DAY)


def crowd(seed, users=9):
    generator = np.random.default_rng(seed)
    busy = generator.random((users, 1, 1)) * 0.5
    seen = generator.random((users, PERIODS.slots, PLACES)) < busy
    user, slot, place = np.nonzero(seen)
    return KnownVisits.of(user, slot, place, users=users, slots=PERIODS.slots, places=PLACES)


def truth_table(visits):
    """L, with null: bool [users, rois, slots]."""
    table = np.zeros((visits.users, PLACES + 1, visits.slots), bool)
    table[visits.user, visits.place, visits.slot] = True
    table[:, PLACES] = ~table[:, :PLACES].any(axis=1)
    return table


def dense_prior(name, table):
    """P(u, s, t'), by the formulas of section 3.2."""
    seen, inferred = table[:, :, : PERIODS.split], range(PERIODS.split, PERIODS.slots)
    cycle = {"hour": 1, "day": DAY, "week": 7 * DAY}.get(name.split("_")[-1], 1)
    prior = np.zeros((*table.shape[:2], PERIODS.inferred))
    for i, t in enumerate(inferred):
        if name in ASSIGNMENT:
            prior[:, :, i] = table[:, :, t - cycle]
        elif name.startswith("time"):
            active = seen[:, :PLACES, t % cycle :: cycle].any(axis=(1, 2))
            prior[active, :, i] = 1 / (PLACES + 1)
            prior[~active, PLACES, i] = 1
        else:
            prior[:, :, i] = seen[:, :, t % cycle :: cycle].sum(axis=2)
        prior[:, :, i] /= prior[:, :, i].sum(axis=1, keepdims=True)
    return prior


def dense_posterior(inference, prior, counts, reports):
    """Algorithms 3.1 to 3.3."""
    users, rois, slots = prior.shape
    order = sorted(range(users), key=lambda u: (-reports[u], u))
    kept = np.clip(counts, 0, users)
    share = kept / np.where(kept.sum(axis=0) > 0, kept.sum(axis=0), 1)
    share[:, kept.sum(axis=0) == 0] = 1 / rois
    if inference == "prior":
        return prior
    if inference == "aggregates":
        return np.broadcast_to(share, prior.shape)
    if inference == "bayes":
        product = prior * share
        total = product.sum(axis=1, keepdims=True)
        return np.where(total > 0, product / np.where(total > 0, total, 1), prior)
    taken = np.zeros(prior.shape, bool)
    whole = np.rint(kept).astype(int)
    for t in range(slots):
        if inference == "max_roi":
            for s in range(rois):
                best = sorted(order, key=lambda u: -prior[u, s, t])[: whole[s, t]]
                taken[best, s, t] = True
        else:
            left = whole[:, t].copy()
            for u in order:
                for s in np.flatnonzero(prior[u, :, t] > 0):
                    if left[s] > 0:
                        taken[u, s, t] = True
                        left[s] -= 1
        taken[~taken[:, :, t].any(axis=1), rois - 1, t] = True
    return taken / taken.sum(axis=1, keepdims=True)


def errors(table, posterior, reading):
    """Mean divergence, mean distance and 1 - F1 of each user."""
    truth = table[:, :, PERIODS.split :]
    divergence = np.zeros(posterior.shape[::2])
    for u, t in itertools.product(*map(range, divergence.shape)):
        p = truth[u, :, t] / truth[u, :, t].sum()
        divergence[u, t] = jensenshannon(p, posterior[u, :, t], 2) ** 2
    said = posterior > 0 if reading == "all" else posterior >= 0.5
    said = said.copy()
    empty_user, empty_slot = np.nonzero(~said.any(axis=1))
    said[empty_user, PLACES, empty_slot] = True
    hits = (said & truth).sum(axis=(1, 2))
    precision, recall = hits / said.sum(axis=(1, 2)), hits / truth.sum(axis=(1, 2))
    with np.errstate(invalid="ignore"):
        f1 = np.where(hits > 0, 2 * precision * recall / (precision + recall), 0.0)
    seen = np.where(truth[:, PLACES], np.nan, divergence)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a user who is never seen has no mean
        when_seen = np.nanmean(seen, axis=1)
    return divergence.mean(axis=1), np.sqrt(np.maximum(divergence, 0)).mean(axis=1), 1 - f1, when_seen


def dense(rows):
    """float64 [users, places and null]."""
    table = np.zeros((len(rows.first) - 1, PLACES + 1))
    table[np.repeat(np.arange(len(table)), np.diff(rows.first)), rows.roi] = rows.share
    return table


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("seed", range(3))
def test_priors_are_those_of_the_formulas(name, seed):
    visits = crowd(seed)
    expected = dense_prior(name, truth_table(visits))
    prior = prior_named(name, visits, PERIODS)
    for slot in range(PERIODS.inferred):
        np.testing.assert_allclose(dense(prior.rows(prior.key(slot))), expected[:, :, slot], atol=1e-12)


@pytest.mark.parametrize("protected", [False, True])
@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("seed", range(2))
def test_every_inference_is_that_of_the_algorithms(name, seed, protected):
    visits = crowd(seed)
    table = truth_table(visits)
    counts = table[:, :, PERIODS.split :].sum(axis=0).astype(float)
    if protected:
        counts += np.random.default_rng(seed + 5).normal(0, 2.0, counts.shape)
    reports = table[:, :PLACES, : PERIODS.split].sum(axis=(1, 2))
    prior = dense_prior(name, table)
    outcomes = attack_counts(visits, PERIODS, priors=[name], counts=counts if protected else None, threads=1)
    assert [o.inference for o in outcomes] == list(INFERENCES)
    for outcome in outcomes:
        posterior = dense_posterior(outcome.inference, prior, counts, reports)
        for reading, found in outcome.localization.items():
            divergence, distance, located, seen = errors(table, posterior, reading)
            np.testing.assert_allclose(outcome.divergence, divergence, atol=1e-7)
            np.testing.assert_allclose(outcome.distance, distance, atol=2e-4)
            np.testing.assert_allclose(outcome.at_visits, seen, atol=1e-7)
            np.testing.assert_allclose(found, located, atol=1e-12)
        assert outcome.divergence_by_slot.mean() == pytest.approx(outcome.divergence.mean())


def test_threads_and_one_pass_for_all_change_nothing():
    visits = crowd(7, users=40)
    alone = attack_counts(visits, PERIODS, priors=["roi_day"], inferences=["max_roi"], threads=1)[0]
    together = attack_counts(visits, PERIODS, priors=PRIORS, threads=4)
    (same,) = [o for o in together if (o.prior, o.inference) == ("roi_day", "max_roi")]
    np.testing.assert_array_equal(alone.divergence, same.divergence)
    assert len([o for o in together if o.prior is None]) == 1


def test_raw_counts_have_null_last_and_nobody_seen_is_known_to_be_away():
    visits = crowd(3)
    table = truth_table(visits)
    truth = TruthRows(visits)
    np.testing.assert_array_equal(truth.counts(0, visits.slots), table.sum(axis=0))
    visits = crowd(1).between(0, PERIODS.split)
    visits = KnownVisits.of(
        visits.user, visits.slot, visits.place, users=9, slots=PERIODS.slots, places=PLACES
    )
    (outcome,) = attack_counts(visits, PERIODS, priors=["freq_roi"], inferences=["bayes"])
    np.testing.assert_allclose(outcome.divergence, 0)
    np.testing.assert_allclose(outcome.localization["all"], 0)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"priors": ["horoscope"]}, "attack-prior"),
        ({"inferences": ["guess"]}, "attack-inference"),
        ({"counts": np.zeros((PLACES, 21))}, "attack-counts"),
        ({"counts": np.full((PLACES + 1, 21), np.nan)}, "attack-counts"),
    ],
)
def test_what_does_not_fit_is_said(change, code):
    with pytest.raises(PlanError) as said:
        attack_counts(crowd(0), PERIODS, **({"priors": ["freq_roi"]} | change))
    assert said.value.code == code


def test_periods_that_cannot_be_are_said():
    for split in (0, 5):
        with pytest.raises(PlanError):
            Periods(slots=5, split=split, slots_per_day=1)
    with pytest.raises(PlanError) as said:
        prior_named("roi_day_week", crowd(0), Periods(slots=84, split=20, slots_per_day=DAY))
    assert said.value.code == "attack-observed"
    with pytest.raises(PlanError):
        KnownVisits.of([0], [0], [9], users=1, slots=1, places=1)
