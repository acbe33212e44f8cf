"""How a histogram of trips may be made: names, the mechanism of each, what its spends pay for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from shoal.baselines import lacks, missing
from shoal.errors import PlanError
from shoal.mechanisms import methods
from shoal.mechanisms.method import Method, Methods
from shoal.privacy.accounting import Loss

if TYPE_CHECKING:
    from shoal.privacy.noise import Noise
    from shoal.stages.noisy import NoisyHistogram
    from shoal.stages.trips import UserTrips


class HistogramMechanism(Protocol):
    """Frozen parameters, a loss in named parts, one call."""

    @property
    def name(self) -> str: ...

    @property
    def edges(self) -> bool: ...

    @property
    def pool(self) -> bool: ...

    def loss(self) -> Loss: ...

    def spends(self) -> Iterable[tuple[str, Loss]]: ...

    def describe(self) -> dict[str, Any]: ...

    def __call__(self, trips: UserTrips, noise: Noise) -> NoisyHistogram: ...


METHODS = Methods("histogram", methods.HISTOGRAM, "methods:METHODS")
DEFAULT_METHOD = "boxes"


def histogram_method(name: str) -> Method:
    if name in METHODS:
        return METHODS[name]
    if lacks("histogram", name):
        raise missing(f"the method {name}")
    near = difflib.get_close_matches(name, METHODS, 1)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(METHODS)}."
    raise PlanError("histogram-method", f"no histogram method is called {name!r}.", hint)


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
