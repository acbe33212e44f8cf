"""Membership: the statistic against closed forms and brute force."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import norm, poisson

from shoal.attacks.models.membership import (
    CountModel,
    attack_worlds,
    draw_worlds,
    expected_visits,
    known_visits,
    model_from,
    roc,
    score_counts,
    score_noisy,
    visits_of_users,
    with_learnt_noise,
)
from shoal.attacks.models.visits import KnownVisits
from shoal.errors import PlanError


def crowd(users, seed=0, cells=12, rate=0.4):
    """People who visit each of 4 slots x 3 places independently."""
    generator = np.random.default_rng(seed)
    user, cell = np.nonzero(generator.random((users, cells)) < rate)
    return KnownVisits.of(user, cell % 4, cell // 4, users=users, slots=4, places=cells // 4)


def test_auc_of_a_gaussian_shift_is_the_closed_form():
    generator = np.random.default_rng(1)
    shift, variance = np.array([1.0, 2.0, 0.5]), np.array([4.0, 9.0, 1.0])
    model = CountModel(mean=np.array([10.0, 20.0, 5.0]), variance=variance)
    noise = generator.normal(0, np.sqrt(variance), (2, 20_000, 3)) + model.mean
    known = csr_matrix(shift)
    others = np.array([score_noisy(known, model, each)[0] for each in noise[0]])
    members = np.array([score_noisy(known, model, each + shift)[0] for each in noise[1]])
    apart = np.sqrt((shift**2 / variance).sum())
    found = roc(members, others)
    assert found.auc == pytest.approx(norm.cdf(apart / np.sqrt(2)), abs=0.01)
    assert found.tpr_at(0.001) == pytest.approx(norm.sf(norm.isf(0.001) - apart), abs=0.01)
    # it is the log-likelihood ratio itself
    one = noise[0, 0]
    exact = (
        norm.logpdf(one, model.mean + shift, variance**0.5) - norm.logpdf(one, model.mean, variance**0.5)
    ).sum()
    assert others[0] == pytest.approx(exact)


def test_poisson_score_is_the_log_likelihood_ratio():
    mean = np.array([3.0, 0.5, 8.0])
    model = CountModel(mean=mean, variance=mean)
    counts, probability = np.array([4, 1, 6]), np.array([1.0, 0.3, 0.0])
    without = poisson.pmf(counts, mean)
    having = probability * poisson.pmf(counts - 1, mean) + (1 - probability) * without
    assert score_counts(csr_matrix(probability), model, counts)[0] == pytest.approx(
        np.log(having / without).sum()
    )
    assert score_counts(csr_matrix([[1.0, 0, 0]]), model, np.array([0, 1, 6]))[0] < -50  # proves absence


def test_roc_against_all_pairs():
    generator = np.random.default_rng(2)
    members, others = (
        generator.integers(0, 6, 40).astype(float) + 1,
        generator.integers(0, 6, 70).astype(float),
    )
    gap = members[:, None] - others
    assert roc(members, others).auc == pytest.approx(((gap > 0) + 0.5 * (gap == 0)).mean())
    best = max(
        (members >= t).mean() for t in np.append(np.unique(members), 99) if (others >= t).mean() <= 0.1
    )
    assert roc(members, others).tpr_at(0.1) == pytest.approx(best)
    assert roc(members, others).tpr_at(0.001) is None  # 70 others cannot say
    assert roc(np.zeros(5), np.zeros(9)).auc == 0.5


def test_models_are_those_of_random_groups_and_noise_is_learnt_from_others():
    visits = crowd(4000, seed=3)
    model = model_from(visits, 50)
    generator = np.random.default_rng(4)
    drawn = np.array(
        [visits_of_users(visits, generator.permutation(4000)[:50]).counts().ravel() for _ in range(600)]
    )
    assert np.allclose(model.mean, drawn.mean(axis=0), rtol=0.05)
    assert np.allclose(model.variance, drawn.var(axis=0), rtol=0.3)
    generator = np.random.default_rng(5)
    base = CountModel(mean=np.zeros(500), variance=np.ones(500))
    learnt = with_learnt_noise(base, generator.normal(3, 2, (200, 500)))
    assert learnt.mean.mean() == pytest.approx(3, abs=0.1)
    assert learnt.variance.mean() == pytest.approx(5, abs=0.2)


def test_worlds_are_halves_and_habits_shares_of_past_periods():
    worlds = draw_worlds(100, group=20, worlds=7, seed=1)
    assert (worlds.inside.sum(axis=1) == 20).all()
    assert set(worlds.pool).isdisjoint(worlds.sample)
    assert len(worlds.pool) + len(worlds.sample) == 100
    with pytest.raises(PlanError, match="membership-group"):
        draw_worlds(100, group=40, worlds=7, seed=1)
    # one user: at place 1 in slot 0 of both days, at place 0 in slot 1 of the second
    past = KnownVisits.of([0, 0, 0], [0, 2, 3], [1, 1, 0], users=2, slots=4, places=2)
    found = expected_visits(past, np.array([0, 1]), slots=3, period=2).toarray()
    assert found[0].reshape(2, 3).tolist() == [[0, 0.5, 0], [1, 0, 1]]
    assert found[1].sum() == 0
    with pytest.raises(PlanError, match="membership-past"):
        expected_visits(past, np.array([0]), slots=3, period=9)


def test_small_groups_are_distinguished_and_noise_protects():
    visits = crowd(900, seed=6)
    worlds = draw_worlds(900, group=20, worlds=60, seed=2)
    known = known_visits(visits, worlds.pool)

    def auc(publish):
        scores = attack_worlds(visits, worlds, known, publish)
        return roc(scores[worlds.inside], scores[~worlds.inside]).auc

    generator = np.random.default_rng(7)
    raw = auc(None)
    exact = auc(lambda group, run: group.counts())
    noisy = auc(lambda group, run: group.counts() + generator.normal(0, 100, (3, 4)))
    assert raw > 0.65
    assert exact > 0.65
    assert noisy == pytest.approx(0.5, abs=0.04)
