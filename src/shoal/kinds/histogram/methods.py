"""The methods of a histogram of trips by name, and what each of their spends pays for."""

from __future__ import annotations

from shoal.mechanisms import methods
from shoal.mechanisms.method import Methods

METHODS = Methods("histogram", methods.HISTOGRAM, "methods:METHODS")
DEFAULT_METHOD = "boxes"
PAYS_FOR = {
    "trips": "the number of kept trips",
    "all_trips": "the number of all trips, to which answers are scaled up",
    "boxes": "histograms of the bounding boxes of trips; for many trips, chosen rectangles too",
    "cells": "shares of trips in cells",
    "costs": "the grouping of cells",
    "buckets": "shares of trips in groups of cells",
    "densities": "shares of trips in regions",
    "select": "the choice of rectangles to measure",
    "answers": "trips in the chosen rectangles",
}
