"""One mechanism per stage built by hand, as its paper says, against what methods and the audit build."""

from dataclasses import replace

import numpy as np
import pytest

from shoal.mechanisms.density.best import DensityBest
from shoal.mechanisms.density.clipped_gaussian import ClippedGaussian
from shoal.mechanisms.density.counts import DensityCounts, ScaledCounts
from shoal.mechanisms.histogram.boxes import HistogramBoxes
from shoal.mechanisms.query.answers import QueryAnswers
from shoal.mechanisms.registry import REGISTRY
from shoal.mechanisms.synthetic.bridges import ALL_PARTS, SyntheticBridges
from shoal.mechanisms.synthetic.commute import SyntheticCommute
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import GAUSSIAN, LAPLACE
from shoal.space.setting import Questions
from shoal_baselines.mechanisms.efpag import DensityEfpag
from shoal_baselines.mechanisms.fpa import DensityFpa
from shoal_baselines.mechanisms.histogram_dqam import HistogramDqam
from shoal_baselines.mechanisms.scm_full import DensityScmFull
from shoal_baselines.mechanisms.synthetic_markov import SyntheticMarkov
from shoal_baselines.space.cover import minimum_cover


def gaussian(budget, size):
    weights = size.setting.weights
    public = {"ell": size.ell, "slots": size.slots, "lattice": weights.lattice}
    return DensityCounts.within(GAUSSIAN, budget.left, column=weights.column_l2_squared, **public)


def laplace(budget, size):
    weights = size.setting.weights
    public = {"ell": size.ell, "slots": size.slots, "lattice": weights.lattice}
    return DensityCounts.within(LAPLACE, budget.left, column=weights.column_l1, **public)


def waves(budget, size):
    weights = size.setting.weights
    public = {"ell": size.ell, "slots": size.slots, "lattice": weights.lattice, "k": 4}
    return DensityFpa.within(GAUSSIAN, budget.left, column=weights.column_l2_squared, **public)


def full(budget, size):
    return DensityScmFull.within(budget.left, zones=size.zones, slots=size.slots, lattice=size.lattice)


def scaled(counts):
    def build(budget, size):
        inside = np.asarray(size.setting.weights.matrix.sum(axis=0)) / size.lattice
        ends = float(inside.min()), float(inside.max())
        return ScaledCounts.within(budget, lambda rest: counts(rest, size), cap=size.cap, inside=ends)

    return build


def scheme(budget, size):
    cover = minimum_cover(size.setting)
    return DensityEfpag.basic(budget, cover, slots=size.slots, ell=size.ell, cap=size.cap)


def questions(budget, size):
    setting = size.setting
    asked = Questions.of(size.questions, setting.weights, slots=size.slots, ell=1)
    return QueryAnswers.within(GAUSSIAN, budget.left, asked)


def clipped(budget, size):
    return ClippedGaussian.within(budget.left, clip=1.5, values=size.zones * size.slots)


def bridges(budget, size):
    return SyntheticBridges.within(budget, size.paths(), parts=replace(ALL_PARTS, calibrate=False))


BY_HAND = {
    "density-gaussian": gaussian,
    "density-laplace": laplace,
    "density-scaled": scaled(gaussian),
    "density-scaled-laplace": scaled(laplace),
    "density-scaled-fpa": scaled(waves),
    "density-scaled-scm-full": scaled(full),
    "density-efpag-basic": scheme,
    "density-best": lambda budget, size: DensityBest.within(budget, size.setting),
    "clipped-gaussian": clipped,
    "query-gaussian": questions,
    "histogram-boxes": lambda budget, size: HistogramBoxes.within(budget, size.trips(), boxes=48),
    "histogram-boxes-large": lambda b, size: HistogramBoxes.within(b, size.trips(10**12), boxes=48),
    "histogram-dqam": lambda b, size: HistogramDqam.within(b, size.trips(), rounds=4, first=0),
    "synthetic-bridges": bridges,
    "synthetic-markov-zcdp": lambda budget, size: SyntheticMarkov.within(budget, size.paths()),
    "synthetic-commute": lambda budget, size: SyntheticCommute.within(budget, size.commutes),
}


def test_every_stage_has_one_that_is_built_by_hand():
    assert {REGISTRY[name].takes for name in BY_HAND} == {entry.takes for entry in REGISTRY.values()}


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_a_mechanism_is_the_one_that_is_built_by_hand(name, epsilon):
    entry = REGISTRY[name]
    budget = Budget.of(epsilon, None if entry.pure else 1e-6)
    for size in (entry.size, entry.tight):
        built, by_hand = entry.build(epsilon, 1e-6, size), BY_HAND[name](budget, size)
        assert type(built) is type(by_hand)
        assert repr(built) == repr(by_hand)
        assert built.loss() == by_hand.loss()
        if hasattr(built, "spends"):
            assert tuple(built.spends()) == tuple(by_hand.spends())
