"""Planted bugs of single histogram mechanisms: what the published methods get wrong, and what boxes may."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from shoal.auditing.pairs import NEW, Pair, at, crowd_pair
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.planted.calls import Between, Draw, bare, scaled_bug
from shoal.auditing.planted.patches import (
    Bug,
    Shown,
    crowd_of,
    method_bug,
    noise_bug,
    parameter_bug,
    recast,
    spread_bug,
)
from shoal.auditing.planted.trips import (
    EulerAnswers,
    TwoBins,
    WholeTripPerCell,
    back_and_forth,
)
from shoal.auditing.replay import ArbitraryNoise
from shoal.auditing.spend_runs import KeepsEverything
from shoal.engine.trip_door import TripDoor
from shoal.mechanisms.histogram.boxes import HistogramBoxes
from shoal.postprocess.histogram.box_model import BoxModel
from shoal.postprocess.histogram.box_pool import BoxPool
from shoal.privacy.accounting import Loss
from shoal.privacy.noise import Noise
from shoal.space.euler import Euler
from shoal.stages.noisy import NoisyHistogram
from shoal_baselines.mechanisms.histogram_dawa import NoisyCosts
from shoal_baselines.mechanisms.histogram_dqam import THRESHOLD, HistogramDqam
from shoal_baselines.mechanisms.histogram_laplace import LATTICE
from shoal_baselines.mechanisms.histogram_rounds import Rounds

SPLIT_GAIN = 1.5  # trips by which one more trip in a cell widens the gap of a block to its quarters


def histogram_bugs(true: Pipeline) -> list[Bug]:
    """Those that the mechanism can have, by its parts."""
    mechanism = true.mechanism
    bugs: list[Bug] = []
    if hasattr(mechanism, "rounds"):
        bugs += _round_bugs(true)
    if isinstance(mechanism, HistogramBoxes):
        bugs += _boxes_bugs(true)
    else:
        bugs += _share_bugs(true) if mechanism.name != "histogram-prish" else []
    if hasattr(mechanism, "costs"):
        bugs += _cost_bugs(true)
    return bugs


def _share_bugs(true: Pipeline) -> list[Bug]:
    """Where trips are shared over their cells."""
    return [spread_bug("a trip counts in full in every cell", WholeTripPerCell, back_and_forth(true))]


# --- rounds of rectangles: PriSH, DQAM, MWEM --------------------------------------------------------------


def _round_bugs(true: Pipeline) -> list[Bug]:
    rounds = true.mechanism.rounds.count
    bugs = [
        scaled_bug("rounds charged as if they were of different trips", 1 / rounds, "answers"),
        scaled_bug("choices charged once for all rounds", 1 / rounds, "select"),
        noise_bug("rectangle by the exact argmax", partial(bare, only="select")),
        parameter_bug("one round more than is paid for", _one_round_more, _stay_in(true)),
    ]
    if true.mechanism.name == "histogram-mwem":
        return bugs
    return [
        *bugs,
        spread_bug("Euler answer measured with sensitivity 1", EulerAnswers, back_and_forth(true)),
        Bug(name="best T picked on the true error", plant=_best_rounds),
    ]


class _Nested(KeepsEverything):
    """Chooses the given rectangles that the second site is in."""

    def __init__(self) -> None:
        self._left = [5, 2, 0]

    def answer(self, kind: str, name: str, exact: np.ndarray, scale: float) -> Any:
        if kind != "choose":
            return super().answer(kind, name, exact, scale)
        return min(self._left.pop(0) if self._left else 0, exact.size - 1)


def _stay_in(true: Pipeline) -> Shown:
    stays = tuple((NEW, at(slot), 1) for slot in range(true.world.ell))
    return Shown(Pair("a stay in rectangles within each other", (), stays), _Nested)


def _one_round_more(mechanism: Any, _exact: TripDoor) -> Any:
    return replace(mechanism, rounds=replace(mechanism.rounds, count=mechanism.rounds.count + 1))


def _best_rounds(true: Pipeline) -> Pipeline:
    """The model after as many rounds as come closest to the exact answers, as in published figures."""
    kind: Any = type(true.mechanism)

    def call(self: Any, exact: TripDoor, noise: Noise) -> NoisyHistogram:
        rounds = _KeepsModels(**vars(self.rounds))
        made = kind.__call__(replace(self, rounds=rounds), exact, noise)
        given = self.setting.given
        errors = [np.abs(model.answers(given) - exact.distinct(given)).sum() for model in rounds.models]
        return replace(made, euler=rounds.models[int(np.argmin(errors))])

    return replace(true, mechanism=recast(true.mechanism, {"__call__": call}))


class _KeepsModels(Rounds):
    """The same rounds; the model before and after each of them is kept."""

    @cached_property
    def models(self) -> list[Euler]:
        return []

    def __call__(self, exact: np.ndarray, learner: Any, noise: Noise) -> None:
        self.models.append(learner.model.copy().euler())
        for chosen, answer in self._asked(exact, learner, noise):
            learner.learn(chosen, answer)
            self.models.append(learner.model.copy().euler())


# --- costs of partitions: DAWA, DQAM ----------------------------------------------------------------------


class _LastLevelCharged(NoisyCosts):
    """Every level has the noise of all of the share; that of the last one is charged."""

    def spends(self) -> tuple[tuple[str, Loss], ...]:
        return (("costs", self.adders[-1].cost(self.groups[-1].sensitivity(self.units))),)


def _cost_bugs(true: Pipeline) -> list[Bug]:
    levels = len(true.mechanism.costs.adders)
    exact = noise_bug("partition by the exact costs", partial(bare, only="costs"))
    shown = _split_crowd(true) if isinstance(true.mechanism, HistogramDqam) else None
    of = "quadtree" if isinstance(true.mechanism, HistogramDqam) else "intervals"
    bugs = [replace(exact, shown=shown)]
    if levels > 1:
        bugs.append(Bug(name=f"{of} levels uncharged but the last", plant=_levels_uncharged))
    return bugs


def _levels_uncharged(true: Pipeline) -> Pipeline:
    """As published: the leaves are paid for, the splits above them are not."""
    costs = true.mechanism.costs
    pure = true.mechanism.loss().pure_epsilon_nano is not None
    part = 1 / len(costs.adders) if pure else 1 / np.sqrt(len(costs.adders))
    adders = tuple(replace(adder, scale=adder.scale * part) for adder in costs.adders)
    other = _LastLevelCharged(adders=adders, groups=costs.groups, units=costs.units)
    return replace(true, mechanism=replace(true.mechanism, costs=other))


def _split_crowd(true: Pipeline) -> Shown:
    """So many users in one cell that one more splits the city."""
    mechanism = true.mechanism
    gap = THRESHOLD * max(adder.scale for adder in mechanism.costs.adders)
    users = int(gap / (SPLIT_GAIN * true.world.ell * LATTICE))
    return Shown(crowd_pair(users, true.world.ell), lambda: ArbitraryNoise(1))


# --- boxes ------------------------------------------------------------------------------------------------


def _boxes_bugs(true: Pipeline) -> list[Bug]:
    """Histograms, their bins, and (where trips are many) rectangles."""
    crowd = crowd_of(64, true)
    bugs = [
        spread_bug("a trip counts in two bins", TwoBins),
        method_bug("histograms charged as if they were of different trips", crowd, _nano=_all_of_it),
        method_bug("bins of the second stage from exact trips", crowd, _counts=_counts_on_exact_bins),
    ]
    if true.mechanism.setting.trips is None:
        return bugs
    wanted = true.mechanism.setting.given.count
    return [
        *bugs,
        spread_bug("Euler answer measured with sensitivity 1", EulerAnswers, back_and_forth(true)),
        noise_bug(
            "rounds of rectangles charged as if they were of different trips",
            partial(
                Between,
                only="boxes",
                add=lambda draw, exact, scale: draw(exact, scale / wanted if exact.size == 1 else scale),
            ),
        ),
        noise_bug(
            "answers of rectangles without noise", partial(Between, only="boxes", add=_bare_rectangles)
        ),
        method_bug("rectangles measured twice for one price", _rectangles=_twice),
    ]


def _all_of_it(self: HistogramBoxes, share: float) -> int:
    return self.boxes_nano


def _counts_on_exact_bins(self: Any, counts: Any, model: BoxModel, trips: TripDoor, noise: Noise) -> Any:
    """Borders follow the trips themselves, not the pool that noisy answers made."""
    if model.bins:
        x0, x1, y0, y1, shape = (np.asarray(part, np.int64) for part in trips._summaries)
        pool = BoxPool(x0=x0, x1=x1, y0=y0, y1=y1, shape=shape)
        model = replace(model, pool=pool, weight=np.ones(x0.size))
    return HistogramBoxes._counts(self, counts, model, trips, noise)


def _twice(self: Any, row: Any, model: BoxModel, trips: TripDoor, noise: Noise) -> BoxModel:
    once = HistogramBoxes._rectangles(self, row, model, trips, noise)
    return HistogramBoxes._rectangles(self, row, once, trips, noise)


def _bare_rectangles(draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
    """Rectangles are asked for one by one."""
    return exact if exact.size == 1 else draw(exact, scale)
