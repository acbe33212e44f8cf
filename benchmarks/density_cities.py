"""The cities of the density benchmark: which, how large, and how to open them once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from benchmarks import real_cities
from benchmarks.city import simulated_city
from benchmarks.held_visits import HeldVisits, hold, same_sums
from benchmarks.real_cities import PARIS_USERS, RealCity, simulated
from shoal.kinds.density.build import Counting, stage_for
from shoal.kinds.density.plan import MethodOptions
from shoal.space.geography import Setting


@dataclass(frozen=True, kw_only=True)
class BenchCity:
    """A city to measure on; `users` is what is declared of it."""

    name: str
    users: int
    words: str
    source: Callable[[], RealCity]
    cap: int = MethodOptions().cap  # declared, too: visits of a user that enter the number of visits

    def open(self) -> OpenCity:
        return OpenCity(self.source())

    def stamp(self) -> str:
        """Changes when the city does: its card where it is simulated, else its parameters."""
        return _stamp(self)


class OpenCity:
    """Counts of one city, each bound once, and its visits in memory."""

    def __init__(self, city: RealCity) -> None:
        self.setting: Setting
        self.counting: Counting
        self.setting, self.counting = city.open()

    @cached_property
    def exact(self) -> np.ndarray:
        """The truth: people per zone and slot, nothing capped."""
        return self.counting.people()

    @cached_property
    def held(self) -> HeldVisits:
        return hold(self.counting.visits(MethodOptions().cap))

    def stage(self, mechanism, options: MethodOptions):
        if mechanism.takes == "visits":
            return self.held
        return stage_for(mechanism, self.counting, self.setting, options)

    def check_held(self) -> None:
        """The visits in memory must answer as the engine does, bit by bit."""
        weights = self.setting.weights
        visits = self.counting.visits(MethodOptions().cap)
        if not same_sums(visits, self.held, weights.matrix, weights.lattice):
            raise SystemExit("visits held in memory and the engine's differ: the benchmark would be wrong.")

    def resampled(self, seed: int) -> np.ndarray:
        """Counts drawn anew around the raw ones, as if those were the true rates."""
        self.counting.people()
        rates = self.counting.exact.counts if self.counting.exact is not None else np.zeros((0, 0))
        draws = np.random.default_rng(seed).poisson(rates)
        return self.setting.weights.spread(draws) / self.setting.weights.lattice


@cache
def _stamp(city: BenchCity) -> str:
    opened = city.source()
    card = Path(opened.source["paths"]).parents[1] / "city.json"
    text = card.read_text("utf-8") if card.exists() else repr((opened.space, opened.window))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _simulated(preset: str, users: int, seed: int = 1, name: str = "") -> BenchCity:
    name = name or preset
    words = f"simulated {preset}, synthetic zones, seed {seed}"
    return BenchCity(
        name=name,
        users=users,
        words=words,
        source=lambda: simulated(simulated_city(preset, users, seed), name, words),
    )


def _real(
    name: str, users: int, words: str, source: Callable[[], RealCity], cap: int = MethodOptions().cap
) -> BenchCity:
    return BenchCity(name=name, users=users, words=words, source=source, cap=cap)


def _iris(users: int) -> BenchCity:
    words = "real IRIS zones and Orange masts, simulated users"
    return _real("paris-iris", users, words, lambda: real_cities.paris_iris(users))


TAXI_CAP = 1000  # a taxi is on the road day and night, in many places an hour

FULL: tuple[BenchCity, ...] = (
    _simulated("paris", PARIS_USERS),
    _simulated("paris", 200_000),
    _iris(PARIS_USERS),
    _iris(200_000),
    _simulated("rough", 400_000),
    _simulated("rough", 400_000, seed=7, name="rough-7"),
    _simulated("rough", 300_000, seed=11, name="rough-11"),  # nothing was chosen on this one
    _real("sf-hoods", 536, "536 taxis, 41 neighbourhoods, one week of hours", real_cities.sf_hoods, TAXI_CAP),
    _real(
        "sf-grid",
        536,
        "536 taxis, 500 m squares of the centre, one week of hours",
        real_cities.sf_grid,
        TAXI_CAP,
    ),
    _real("nyc-month", 1083, "1,083 check-in users, 195 neighbourhoods, 28 days", real_cities.nyc_month),
)
QUICK: tuple[BenchCity, ...] = (_simulated("paris", 200_000), _simulated("rough", 100_000))
