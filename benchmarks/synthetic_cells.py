"""What the benchmark of synthetic trips measures: worlds, methods, epsilons, repetitions.

    sf-100k, sf   passengers of San Francisco cabs, 100,000 of them (by a public seed) and all 439,636
    porto         1,000 taxi trips          tdrive   8,307 of one hour in Beijing
    town          160,430 simulated ones

Unit "trip": each trip is protected. Unit "user" (sf: 536 cabs): all trips of a cab are, at once.
"""

from __future__ import annotations

from dataclasses import dataclass

EPSILONS = (0.1, 0.5, 1.0, 2.0)
DELTA = 1e-6
REPS = 3
BRIDGES = "bridges"
SOUND = (BRIDGES, "markov", "ngram", "prefix", "dpt")
TGM = "tgm"
# Ablations of ours (a switch of Parts that is off) and of TGM (its own switches), at epsilon 0.5.
WITHOUT = ("flows", "levels", "by_distance", "turns", "corners", "shrink", "calibrate", "tides", "times")
TGM_VARIANTS = {
    "tgm, text": {"line_13": "text"},
    "tgm, fixed budget": {"adaptive": False},
    "tgm, no restoring": {"restoring": False},
    "tgm, no weights": {"window": 0},
    "tgm, counts": {"utilities": "counts"},
    "tgm, counts, no weights": {"utilities": "counts", "window": 0},
    "tgm, no noise": {"private": False},
}
REAL = "a second real sample"
NO_NOISE = "bridges, no noise"
ABLATED = 0.5


@dataclass(frozen=True)
class World:
    """A data set, how many of its trips (None: all), and what is protected."""

    data: str
    n: int | None = None
    unit: str = "trip"


@dataclass(frozen=True)
class Run:
    """One release."""

    method: str
    epsilon: float
    delta: float | None = None
    rep: int = 1


Wanted = dict[World, list[Run]]
SF_100K, SF = World("sf", 100_000), World("sf")
WORLDS = (SF_100K, World("porto"), World("town"), World("tdrive"), SF)
USERS = World("sf", unit="user")


def grid_of_runs(
    methods: tuple[str, ...],
    delta: float | None = None,
    epsilons: tuple[float, ...] = EPSILONS,
    reps: int = REPS,
) -> list[Run]:
    return [
        Run(method, epsilon, delta, rep)
        for method in methods
        for epsilon in epsilons
        for rep in range(1, reps + 1)
    ]


def full_wanted(data: tuple[str, ...]) -> Wanted:
    """Everything on the data sets that are there."""
    wanted: Wanted = {}
    for world in WORLDS:
        if world.data not in data:
            continue
        runs = grid_of_runs(SOUND, reps=1 if world == SF else REPS) + grid_of_runs((TGM,), reps=1)
        if world != SF:
            runs += grid_of_runs((NO_NOISE,), epsilons=(1000.0,), reps=1)
        ablated = tuple(f"without {part}" for part in WITHOUT)
        if world in (SF_100K, World("town")):
            runs += grid_of_runs(ablated, epsilons=(ABLATED,), reps=1)
        if world == SF_100K:
            runs += grid_of_runs((BRIDGES,), DELTA)
            runs += grid_of_runs(ablated, DELTA, (ABLATED,), reps=1)
            runs += grid_of_runs(tuple(TGM_VARIANTS), epsilons=(ABLATED,), reps=1)
            runs += grid_of_runs((REAL,), epsilons=(0.0,), reps=1)
        wanted[world] = runs
    if "sf" in data:
        wanted[USERS] = grid_of_runs((BRIDGES,), DELTA) + grid_of_runs(SOUND[1:], DELTA, reps=1)
        wanted[USERS] += grid_of_runs((BRIDGES,), reps=1)
    return wanted


def quick_wanted(data: str) -> Wanted:
    """10,000 trips, one repetition."""
    world = World(data, 10_000)
    runs = grid_of_runs((*SOUND, TGM), reps=1) + grid_of_runs((BRIDGES,), DELTA, reps=1)
    return {world: [*runs, Run(REAL, 0.0)]}
