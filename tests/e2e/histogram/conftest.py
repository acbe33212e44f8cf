"""A nearly exact stand-in for a method, a small map of trips, and how to run and ask a release of them."""

import json
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.worlds import OnDisk, write_points

from shoal.kinds.histogram.plan import METHODS as HISTOGRAM
from shoal.mechanisms.method import Method
from shoal.privacy.ledger import open_ledger
from shoal.privacy.noise import LAPLACE, Adder
from shoal.space.cells import Euler, Rectangles
from shoal.stages.noisy import NoisyHistogram

SIDE = 8
TRIPS = [
    (1, [(50, 50), (350, 50)]),  # along the bottom row
    (1, [(50, 150), (50, 750)]),  # up the first column
    (2, [(750, 750), (450, 450)]),  # a diagonal
    (3, [(250, 250)]),  # stays in a cell
]


@dataclass(frozen=True, kw_only=True)
class StandIn:
    """Noise on the exact trips of every cell and of every pair of neighbours: many answers, all paid for."""

    adder: Adder
    sensitivity: int
    scaled_up: bool
    name: str = "histogram-stand-in"
    edges = True
    pool = False

    @classmethod
    def within(cls, budget, setting):
        sensitivity = (1 + 3 * SIDE * SIDE - 2 * SIDE) * setting.per_unit + (setting.cap or 0)
        adder = Adder.within(LAPLACE, budget.left, sensitivity)
        return cls(adder=adder, sensitivity=sensitivity, scaled_up=setting.cap is not None)

    def loss(self):
        return self.adder.cost(self.sensitivity)

    def spends(self):
        return (("cells", self.loss()),)

    def describe(self):
        return {"name": self.name, "scale": self.adder.scale}

    def __call__(self, trips, noise):
        at = range(SIDE)
        faces = Rectangles.of([(x, x + 1, y, y + 1) for y in at for x in at])
        east = Rectangles.of([(x, x + 2, y, y + 1) for y in at for x in at[:-1]])
        north = Rectangles.of([(x, x + 1, y, y + 2) for y in at[:-1] for x in at])
        exact = [trips.distinct(each) for each in (faces, east, north)]
        totals = [trips.count(), trips.all_trips()] if self.scaled_up else [trips.count()]
        exact = np.concatenate([*exact, totals]).astype(np.int64)
        noisy = self.adder.add(noise, "cells", exact).astype(float)
        f, e, n, count = np.split(noisy, [SIDE**2, SIDE * (2 * SIDE - 1), 3 * SIDE**2 - 2 * SIDE])
        f, e, n = f.reshape(SIDE, SIDE), e.reshape(SIDE, SIDE - 1), n.reshape(SIDE - 1, SIDE)
        both = Euler(faces=f, east=f[:, 1:] + f[:, :-1] - e, north=f[1:] + f[:-1] - n)
        every = float(count[1]) if self.scaled_up else None
        return NoisyHistogram(euler=both, trips=float(count[0]), all_trips=every, violated_before=0.25)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    class OfStandIn(Method):
        pure = False

        def build(self, budget, setting, options=None):
            return StandIn.within(budget, setting)

    stand_in = OfStandIn(kind="histogram", name="stand-in", summary="Stands in.")
    monkeypatch.setitem(HISTOGRAM.own, "stand-in", stand_in)


class Paths(OnDisk):
    """Trips on a planar map of 8 x 8 cells of 100 m, written as points, and how to run a release of them."""

    words = ("histogram", "run")
    trips = TRIPS

    def __init__(self, folder):
        flags = {"box": "0,0,800,800", "cells": 8, "epsilon": 40000, "given": 50, "method": "stand-in"}
        super().__init__(folder, "trips.parquet", **flags)

    def write(self, trips):
        """trips: (user, [(x, y), ...]); one minute between points."""
        write_points(self.source, trips)

    def lonlat(self):
        """The same points as longitudes and latitudes."""
        table = pq.read_table(self.source)
        pq.write_table(table.rename_columns(["user", "trip", "time", "lon", "lat"]), self.source)

    @staticmethod
    def ask(command, release, *flags):
        code, out, err = command("histogram", "query", release, *flags, "--json")
        assert (code, err) == (0, "")
        return {answer["name"]: answer for answer in json.loads(out)["answers"]}


@pytest.fixture
def paths(tmp_path):
    open_ledger().create("rich", currency="epsilon", limit_nano=10**18)
    return Paths(tmp_path)
