"""The scheme as published: its cells, its noise as printed, and what it really promises."""

import math

import numpy as np
import pytest
import scipy.sparse
from tests.loops import for_each

from shoal.privacy.accounting import epsilon_for
from shoal.privacy.noise import SeededNoise
from shoal.space.clock import Clock
from shoal.space.geography import LATTICE, AreaWeights, Setting
from shoal.stages.bounded import BoundedVisits
from shoal_baselines.comparators.published_density import (
    MOST_VISITS,
    STEP,
    PublishedEfpa,
    PublishedEfpag,
    PublishedLater,
    subtracted_cells,
    zone_cells,
)

ALL = [PublishedEfpag, PublishedEfpa, PublishedLater]
DAYS = Clock(start="2026-03-02", end="2026-03-12", time_zone="UTC", slot_minutes=1440)  # no nights in it


def setting(shares, clock=DAYS):
    """Zones and places in a row; shares[zone][place] of 16."""
    units = np.array(shares, np.int64) * (LATTICE // 16)
    zones, places = units.shape
    matrix = scipy.sparse.csr_array(units)
    return Setting(
        weights=AreaWeights(matrix=matrix, lattice=LATTICE, lost=np.zeros(places)),
        zone_xy_m=np.column_stack([np.arange(zones) * 100.0, np.zeros(zones)]),
        place_xy_m=np.column_stack([np.arange(places) * 100.0 + 30, np.ones(places)]),
        clock=clock,
    )


# A star around zone 0 (chosen) and a star around place 3 (chosen), which overlap.
OVERLAP = [[16, 16, 8, 4], [0, 0, 8, 4], [0, 0, 0, 4], [0, 0, 0, 4]]
PLAIN = [[16, 0, 0, 0], [0, 16, 0, 0], [0, 0, 16, 0], [0, 0, 0, 16]]


def visits(counts, ell=30):
    counts = np.asarray(counts, np.int64)
    return BoundedVisits(
        counts=counts,
        one_visit=counts.sum(axis=1),
        users=int(counts.sum()),
        visits_capped=int(counts.sum()),
        ell=ell,
        cap=MOST_VISITS,
    )


class Silent:
    """Adds nothing, keeps all coefficients, and notes what it was asked."""

    publishable = False

    def __init__(self):
        self.scales = {}

    def laplace(self, name, exact, scale):
        self.scales[name] = ("laplace", scale / STEP, exact.size)
        return exact

    def gaussian(self, name, exact, sigma):
        self.scales[name] = ("gaussian", sigma / STEP, exact.size)
        return exact

    def choose(self, name, scores, scale):
        self.scales[name] = ("choose", scale / STEP, scores)
        return len(scores) - 1


def made(kind, shares=OVERLAP, epsilon=0.3, delta=2e-6, ell=5):
    return kind(epsilon=epsilon, delta=delta, ell=ell, setting=setting(shares))


@for_each("cells_of", [subtracted_cells, zone_cells])
@for_each("shares", [OVERLAP, PLAIN])
def test_there_and_back_is_exact_without_noise(cells_of, shares):
    given = setting(shares)
    cells = cells_of(given)
    there_and_back = (cells.back @ cells.to_cells).toarray()
    assert there_and_back == pytest.approx(given.weights.matrix.toarray() / LATTICE)


def test_subtraction_as_printed_moves_more_than_one_visit():
    """By hand: zones 0 and 1 and site 3 are chosen; each row by the printed formula."""
    given = setting(OVERLAP)
    w = np.array(OVERLAP) / 16
    cells = subtracted_cells(given)
    found = {tuple(np.round(row, 9)) for row in cells.to_cells.toarray()}
    site = np.eye(4)[3] - w[0, 3] * w[0] - w[1, 3] * w[1]  # T less X_L size(L and T) / size(T)
    assert found == {tuple(np.round(row, 9)) for row in (w[0], w[1], site)}
    assert cells.column_l1 == pytest.approx(np.abs(cells.to_cells.toarray()).sum(axis=0).max())
    assert cells.column_l1 > 1.2  # one visit at place 0: the zone by 1 and site 3 by a quarter more
    assert zone_cells(given).column_l1 == pytest.approx(1.0)
    assert subtracted_cells(setting(PLAIN)).column_l1 == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ALL)
def test_without_noise_the_density_comes_out(kind):
    counts = np.random.default_rng(3).integers(50, 100, (4, 10))
    comparator = made(kind, shares=PLAIN, epsilon=1e6)  # so small a tau that no cells are merged
    noisy = comparator(visits(counts), Silent())
    assert noisy.values == pytest.approx(counts, rel=1e-6)


def test_noise_is_of_the_printed_size():
    counts = np.full((4, 10), 40)
    epsilon, delta, ell = 0.3, 2e-6, 5
    gauss, laplace, later = Silent(), Silent(), Silent()
    made(PublishedEfpag)(visits(counts), gauss)
    made(PublishedEfpa)(visits(counts), laplace)
    made(PublishedLater)(visits(counts), later)
    for silent in (gauss, laplace):
        assert silent.scales["totals"] == ("laplace", pytest.approx(4 / epsilon), 4)
        assert silent.scales["visits"] == ("laplace", pytest.approx(4 * 732 / epsilon), 1)
        assert silent.scales["select"][1] == pytest.approx(8 * math.sqrt(ell) / epsilon)
    # the variance their text gives, 8 Delta^2 ln(4 / delta) / e^2 and 8 Delta^2 k / e^2 with e = epsilon / 2
    sigma = math.sqrt(8 * ell * math.log(4 / delta)) / (epsilon / 2)
    assert gauss.scales["coefficients"] == ("gaussian", pytest.approx(sigma), 10)
    b = math.sqrt(8 * ell * 10 / 2) / (epsilon / 2)
    assert laplace.scales["coefficients"] == ("laplace", pytest.approx(b), 10)
    printed = 2 * math.sqrt(2 * ell * math.log(2.5 / delta)) / epsilon
    assert later.scales["coefficients"] == ("gaussian", pytest.approx(printed), 10)
    assert later.scales["totals"] == ("gaussian", pytest.approx(printed), 4)
    assert made(PublishedEfpag).tau == pytest.approx(math.sqrt(10) * sigma / 0.01)


def test_utility_of_k_and_the_number_of_users_can_be_read_off():
    comparator = made(PublishedEfpag)
    waves = np.zeros((1, 10))
    waves[0, :3] = (100.0, 3.0, 4.0)
    silent = Silent()
    comparator.choose(waves, silent)
    error = -silent.scales["select"][2] / STEP - comparator.sigma * np.sqrt(np.arange(1, 11))
    assert error == pytest.approx([5.0, 4.0, *[0.0] * 8], abs=1e-4)
    # Totals are whole multiples of K-hat / N: neighbours never give the same numbers.
    counts = np.full((4, 10), 40)
    one, other = visits(counts), visits(counts)
    other = BoundedVisits(**{**vars(other), "users": other.users + 1})
    comparator = made(PublishedEfpag, shares=PLAIN)
    a, b = (comparator.totals(stage, SeededNoise(1)) for stage in (one, other))
    assert a / b == pytest.approx(1 + 1 / one.users, rel=1e-12)
    assert comparator.user_epsilon() == math.inf


def test_what_users_really_have():
    """Against sums written out: pure parts and zCDP parts of each step with true sensitivities."""
    comparator = made(PublishedEfpag)
    c, ell, e = comparator.cells.column_l1, 5, 0.15
    moved = comparator.cells.replaced_l2_squared
    rho = e**2 * moved / 32 + ell * moved / (2 * comparator.sigma**2)
    apart = 0.15 + 0.075 + epsilon_for(math.ceil(rho * 1e9), 2e-6)
    together = epsilon_for(math.ceil((rho + 0.15**2 / 2 + 0.075**2 / 2) * 1e9), 2e-6)
    assert comparator.epsilon_but_for_n() == pytest.approx(min(apart, together), abs=1e-6)
    pure = made(PublishedEfpa)
    # every visit in another cluster: ell moves of c each, over the scale of each step
    spread = 2 * ell * c * (2 * e / (4 * math.sqrt(ell)) + e / (2 * math.sqrt(ell)))
    assert pure.epsilon_but_for_n() == pytest.approx(0.15 + 0.075 + spread)
    later = made(PublishedLater)
    rho = ell**2 / (2 * later.sigma**2) + e**2 / 32 + ell / (2 * later.sigma**2)
    assert later.user_epsilon() == pytest.approx(epsilon_for(math.ceil(rho * 1e9), 2e-6), abs=1e-6)
    assert later.user_epsilon() > 0.3


@pytest.mark.parametrize("shares", [OVERLAP, PLAIN])
def test_no_visit_replaced_moves_clusters_further(shares):
    """Brute force: all pairs of places and all ways to put the cells into two clusters, and each alone."""
    cells = subtracted_cells(setting(shares))
    columns = cells.to_cells.toarray().T
    moves = [one - other for one in columns for other in columns]
    count = len(columns[0])
    masks = [np.array([mask >> i & 1 for i in range(count)], bool) for mask in range(2**count)]
    worst = max(move[mask].sum() ** 2 + move[~mask].sum() ** 2 for move in moves for mask in masks)
    assert worst <= cells.replaced_l2_squared + 1e-12
    assert cells.replaced_l2_squared == pytest.approx(2.0) or shares is OVERLAP
    assert worst == pytest.approx(2.0) or shares is OVERLAP


class Replay(Silent):
    """The same answers to both data sets; sums the largest log-likelihood ratio of every step."""

    def __init__(self, first=None):
        super().__init__()
        self.first, self.asked, self.loss, self.rho = first, [], 0.0, 0.0

    def _note(self, exact):
        self.asked.append(np.asarray(exact, float))
        return self.first.asked[len(self.asked) - 1] - self.asked[-1] if self.first else np.zeros(1)

    def laplace(self, name, exact, scale):
        self.loss += np.abs(self._note(exact)).sum() / scale
        return np.full_like(exact, 10**9 * STEP)  # a transcript: no cells are merged into clusters

    def gaussian(self, name, exact, sigma):
        self.rho += (self._note(exact) ** 2).sum() / (2 * sigma**2)
        return np.full_like(exact, 10**9 * STEP)

    def choose(self, name, scores, scale):
        self._note(scores)
        return len(scores) - 1


@pytest.mark.parametrize("kind", [PublishedEfpag, PublishedEfpa])
def test_replacing_a_user_costs_more_than_adding_one(kind):
    """The same N: one user's five visits in five zones, or another's, who has more of them, in five others.

    Without the choice of k: the steps counted here alone exceed what adding a user would cost.
    """
    eye = (np.eye(10, dtype=int) * 16).tolist()
    comparator = kind(epsilon=0.3, ell=5, setting=setting(eye))
    stages = []
    for zones, total in ((range(5), 1), (range(5, 10), MOST_VISITS)):
        counts = np.zeros((10, 10), np.int64)
        counts[list(zones), 0] = 1
        once = np.eye(10, dtype=np.int64)[zones[0]]
        stage = visits(counts, ell=5)
        known = {**vars(stage), "users": 1, "one_visit": once, "visits_capped": total}
        stages.append(BoundedVisits(**known))
    first = Replay()
    comparator(stages[0], first)
    second = Replay(first)
    comparator(stages[1], second)
    if kind is PublishedEfpa:
        added = 0.15 + 2 * 0.075 * math.sqrt(5)  # what was stated before
        assert added < second.loss < comparator.epsilon_but_for_n()
    else:
        assert second.loss == pytest.approx(0.15 + 0.075 * 731 / 732)
        assert second.rho == pytest.approx(2 * 5 / (2 * comparator.sigma**2))


@pytest.mark.parametrize("kind", ALL)
def test_none_can_be_budgeted_and_each_says_what_it_promises(kind):
    comparator = made(kind)
    assert not hasattr(comparator, "loss")
    assert f"{comparator.epsilon_but_for_n():.3g}" in comparator.true_guarantee()
    assert comparator.true_guarantee().startswith("No ") == math.isinf(comparator.user_epsilon())


@for_each("kind", ALL)
@for_each("users", [0, 1])
def test_nobody_and_one_user_give_numbers(kind, users):
    counts = np.zeros((4, 10), np.int64)
    counts[0, 0] = users
    noisy = made(kind)(visits(counts), SeededNoise(2))
    assert noisy.values.shape == (4, 10)
    assert np.isfinite(noisy.values).all()
