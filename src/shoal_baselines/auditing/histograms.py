"""Planted bugs of published histograms of trips, and of generators that grow trips level by level."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from shoal.auditing.pairs import NEW, Pair, at, crowd_pair
from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.planted.bug import Bug, Shown, call_bug, interface_bug, noise_bug
from shoal.auditing.planted.calls import Between, Draw, bare, call_bugs, scaled_bug
from shoal.auditing.planted.trips import back_and_forth, euler_bug
from shoal.auditing.replay import ArbitraryNoise, KeepsEverything
from shoal.engine.trip_queries import TripQueries, exact_euler
from shoal.mechanisms.histogram.boxes import HistogramBoxes
from shoal.privacy.accounting import Loss
from shoal.privacy.noise import Noise
from shoal.space.cells import Euler
from shoal.stages.noisy import NoisyHistogram
from shoal_baselines.mechanisms.histogram_dawa import NoisyCosts
from shoal_baselines.mechanisms.histogram_dqam import THRESHOLD, HistogramDqam
from shoal_baselines.mechanisms.histogram_laplace import LATTICE
from shoal_baselines.mechanisms.histogram_rounds import Rounds

SPLIT_GAIN = 1.5  # trips by which one more trip in a cell widens the gap of a block to its quarters
SEEN = {"trips": 10_000, "answers": 3_000}  # noisy answers that move a model
# Bugs of other histograms that break no promise here: MWEM and PriSH ask for one value at a time; Laplace
# and DAWA are not normalised to a number of trips; exact costs show in large crowds only, and are planted
# with such a crowd.
ONE_DRAW, NORMALISED = "one draw for all values", "normalised to the exact number of trips"
NO_BUGS = {
    "histogram-mwem": {ONE_DRAW},
    "histogram-prish": {ONE_DRAW},
    "histogram-laplace": {NORMALISED},
    "histogram-dawa": {NORMALISED, "costs: no noise"},
    "histogram-dqam": {"costs: no noise"},
}


def adjusted(true: Pipeline, bugs: list[Bug]) -> list[Bug]:
    """Bugs of any mechanism as far as they break the promise of this one, and where they show."""
    left = [bug for bug in bugs if bug.name not in NO_BUGS.get(true.mechanism.name, ())]
    if not isinstance(true.mechanism, HistogramDqam):
        return left
    # What is wrong in a region shows where there are several.
    split = replace(back_and_forth(true), source=SplitsEverywhere)
    names = {bug.name for bug in call_bugs(true)}
    return [replace(bug, shown=split) if bug.name in names else bug for bug in left]


class SplitsEverywhere(KeepsEverything):
    """Costs that fall from level to level, so that every block is divided; answers that move a model."""

    def __init__(self) -> None:
        self._cost = 2**50

    def values(self, name: str, exact: np.ndarray) -> np.ndarray:
        if name == "costs":
            self._cost //= 4
            return np.full(exact.shape, self._cost, np.int64)
        return np.full(exact.shape, SEEN.get(name, 0), np.int64)


def histogram_bugs(true: Pipeline) -> list[Bug]:
    """Those that the mechanism can have, by its parts."""
    mechanism = true.mechanism
    if isinstance(mechanism, HistogramBoxes):
        return []
    rounds = _round_bugs(true) if hasattr(mechanism, "rounds") else []
    shares = [_share_bug(true)] if mechanism.name != "histogram-prish" else []
    costs = _cost_bugs(true) if hasattr(mechanism, "costs") else []
    return [*rounds, *shares, *costs]


def _share_bug(true: Pipeline) -> Bug:
    """Where trips are shared over their cells."""

    def shared_faces(queries: TripQueries, lattice: int) -> np.ndarray:
        return exact_euler(queries.trips).faces * lattice

    name = "a trip counts in full in every cell"
    return interface_bug(name, back_and_forth(true), shared_faces=shared_faces)


# --- rounds of rectangles: PriSH, DQAM, MWEM --------------------------------------------------------------


def _round_bugs(true: Pipeline) -> list[Bug]:
    rounds = true.mechanism.rounds.count
    bugs = [
        scaled_bug("rounds charged as if they were of different trips", 1 / rounds, "answers"),
        scaled_bug("choices charged once for all rounds", 1 / rounds, "select"),
        noise_bug("rectangle by the exact argmax", partial(bare, only="select")),
        call_bug("one round more than is paid for", _one_round_more, shown=_stay_in(true)),
    ]
    if true.mechanism.name == "histogram-mwem":
        return bugs
    return [*bugs, euler_bug(true), call_bug("best T picked on the true error", _best_rounds)]


class _Nested(KeepsEverything):
    """Chooses the given rectangles that the second site is in."""

    def __init__(self) -> None:
        self._left = [5, 2, 0]

    def answer(self, kind: str, name: str, exact: np.ndarray, scale: float) -> Any:
        if kind != "choose":
            return super().answer(kind, name, exact, scale)
        return min(self._left.pop(0) if self._left else 0, exact.size - 1)


def _stay_in(true: Pipeline) -> Shown:
    stays = tuple((NEW, at(slot), 1) for slot in range(true.world.size.ell))
    return Shown(Pair("a stay in rectangles within each other", (), stays), _Nested)


def _one_round_more(true: Any, exact: TripQueries, noise: Noise) -> NoisyHistogram:
    rounds = true.mechanism.rounds
    return true(exact, noise, rounds=replace(rounds, count=rounds.count + 1))


def _best_rounds(true: Any, exact: TripQueries, noise: Noise) -> NoisyHistogram:
    """The model after as many rounds as come closest to the exact answers, as in published figures."""
    rounds = _KeepsModels(**vars(true.mechanism.rounds))
    noisy = true(exact, noise, rounds=rounds)
    given = true.mechanism.setting.given
    errors = [np.abs(model.answers(given) - exact.distinct(given)).sum() for model in rounds.models]
    return replace(noisy, euler=rounds.models[int(np.argmin(errors))])


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
    quadtree = isinstance(true.mechanism, HistogramDqam)
    shown = _split_crowd(true) if quadtree else None
    bugs = [noise_bug("partition by the exact costs", partial(bare, only="costs"), shown=shown)]
    if len(true.mechanism.costs.adders) > 1:
        levels = "quadtree" if quadtree else "intervals"
        bugs.append(Bug(name=f"{levels} levels uncharged but the last", plant=_levels_uncharged))
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
    users = int(gap / (SPLIT_GAIN * true.world.size.ell * LATTICE))
    return Shown(crowd_pair(users, true.world.size.ell), lambda: ArbitraryNoise(1))


# --- generators -------------------------------------------------------------------------------------------


def level_bugs(true: Pipeline) -> list[Bug]:
    """Tables of what comes next, measured level by level."""
    levels = [name for name, _ in true.spends() if name.startswith(("level_", "grams_"))]
    if not levels:
        return []
    return [
        noise_bug("contexts that nobody has do not go on", partial(Between, only=levels, add=_only_real)),
        scaled_bug("levels charged as if of different trips", 1 / len(levels), levels),
    ]


def _only_real(draw: Draw, exact: np.ndarray, scale: float) -> np.ndarray:
    """Noise everywhere, but only what is there can pass."""
    noisy = draw(exact, scale)
    return np.where(exact == 0, np.minimum(noisy, 0), noisy)
