"""Planted bugs of queries: too little noise for a question, and what multiplicative weights may get wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.planted.calls import Between, Draw, call_bugs, scaled_bug
from shoal.auditing.planted.patches import Bug, call_bug, noise_bug, parameter_bug
from shoal.mechanisms.query.weights import QueryWeights
from shoal.privacy.noise import Noise
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyAnswers


def query_call_bugs(true: Pipeline) -> list[Bug]:
    """The bugs of every mechanism; weights ask for one value at a time: one draw for all is right there."""
    alone = isinstance(true.mechanism, QueryWeights)
    return [bug for bug in call_bugs(true) if not (alone and bug.name == "one draw for all values")]


def query_bugs(true: Pipeline) -> list[Bug]:
    ell = min(true.world.ell, true.world.slots)
    bugs = [
        scaled_bug("sensitivity for ell - 1 visits", (ell - 1) / ell),
        scaled_bug("sqrt(ell) where ell is needed", 1 / math.sqrt(ell)),
        call_bug("answers mixed with the exact ones", _mixed),
        call_bug("interval as wide as the largest exact count", _wide),
    ]
    if not isinstance(true.mechanism, QueryWeights):
        return bugs
    return [
        *bugs,
        parameter_bug("two updates more than are paid for", lambda m, _: replace(m, updates=m.updates + 2)),
        parameter_bug("prior from the data", lambda m, exact: replace(m, prior=1.0 + exact.units)),
        call_bug("unsurprising questions answered exactly", _exact_where_unbought),
        noise_bug("every question tested at a threshold of its own", partial(Between, above=_one_by_one)),
    ]


def _mixed(true, exact: ExactCounts, noise: Noise) -> NoisyAnswers:
    noisy = true(exact, noise)
    return replace(noisy, values=noisy.values + 1e-9 * float(exact.units.sum()))


def _wide(true, exact: ExactCounts, noise: Noise) -> NoisyAnswers:
    noisy = true(exact, noise)
    return replace(noisy, half=noisy.half + float(exact.units.max(initial=0)))


def _exact_where_unbought(true, exact: ExactCounts, noise: Noise) -> NoisyAnswers:
    """The sparse vector technique pays for the answer "below", not for the value."""
    noisy = true(exact, noise)
    learned = np.array([how == "weights" for how in noisy.how])
    return replace(noisy, values=np.where(learned, float(exact.units.sum()), noisy.values))


def _one_by_one(draw: Draw, margins: np.ndarray, scale: float) -> int:
    """A fresh test for every question, charged as one: no longer the sparse vector technique."""
    for number in range(margins.size):
        if draw(margins[number : number + 1], scale) == 0:
            return number
    return int(margins.size)
