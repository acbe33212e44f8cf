"""How a histogram of trips may be made: names, the mechanism of each, what its spends pay for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from shoal.errors import PlanError
from shoal.privacy.accounting import Loss
from shoal.privacy.budget import Budget
from shoal.privacy.noise import Noise
from shoal.space.trip_setting import TripSetting
from shoal.stages.noisy import NoisyHistogram
from shoal.stages.trips import UserTrips


class HistogramMechanism(Protocol):
    """Frozen parameters, a loss in named parts, one call."""

    @property
    def name(self) -> str: ...

    def loss(self) -> Loss: ...

    def spends(self) -> Iterable[tuple[str, Loss]]: ...

    def describe(self) -> dict[str, Any]: ...

    def __call__(self, trips: UserTrips, noise: Noise) -> NoisyHistogram: ...


@dataclass(frozen=True)
class HistogramMethod:
    """Where a mechanism is, imported when it is built; `words` for the dry run and the report."""

    name: str
    kind: str  # the class
    words: str
    edges: bool = True  # answers are of faces and edges; without, of shares of trips in cells
    pool: bool = False
    pure: bool = False  # takes no delta

    def build(self, budget: Budget, setting: TripSetting) -> HistogramMechanism:
        module = import_module(f"shoal.mechanisms.histogram.{self.name}")
        return getattr(module, self.kind).within(budget, setting)


METHODS = {
    each.name: each
    for each in (
        HistogramMethod(
            "boxes",
            "HistogramBoxes",
            "A weighted pool of made-up trips, fitted to noisy histograms of trips' bounding boxes.",
            pool=True,
            pure=True,
        ),
        HistogramMethod(
            "dqam",
            "HistogramDqam",
            "Regions of like density, then rectangles chosen and measured, weights moved region by region.",
        ),
        HistogramMethod(
            "prish",
            "HistogramPrish",
            "Rectangles chosen where the histogram is off, measured, weights moved cell by cell.",
        ),
        HistogramMethod(
            "mwem", "HistogramMwem", "Multiplicative weights on shares of trips in cells.", edges=False
        ),
        HistogramMethod(
            "dawa",
            "HistogramDawa",
            "Shares of trips in cells, in buckets along a Hilbert curve.",
            edges=False,
        ),
        HistogramMethod("laplace", "HistogramLaplace", "Noise on every cell's share of trips.", edges=False),
    )
}
DEFAULT_METHOD = "boxes"


def histogram_method(name: str) -> HistogramMethod:
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, 1)
        hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(METHODS)}."
        raise PlanError("histogram-method", f"no histogram method is called {name!r}.", hint)
    return METHODS[name]


PAYS_FOR = {
    "trips": "the number of kept trips",
    "all_trips": "the number of all trips, to scale up to",
    "boxes": "histograms of trips' bounding boxes; where trips are many, rectangles too",
    "cells": "shares of trips in cells",
    "costs": "which cells are taken together",
    "buckets": "shares of trips in groups of cells",
    "densities": "shares of trips in regions",
    "select": "which rectangles are measured",
    "answers": "trips in the chosen rectangles",
}
