"""Which histograms the benchmark makes: worlds (trips on a grid) and the releases wanted of each.

A world is one process. Where all trips of a data set are taken, its repetitions differ by noise alone and are
one world; else each repetition has a sample of its own, drawn anew by the public seed.
"""

from __future__ import annotations

from dataclasses import dataclass

METHODS = ("laplace", "mwem", "dawa", "prish", "dqam", "boxes")  # what may be released
PUBLISHED = ("published-prish", "published-dqam")
UNIFORM = "uniform"
NOISE_FREE = ("euler, noise-free", "euler, 2 x 2 blocks", "box summary, noise-free")
EPSILONS = (0.01, 0.1, 0.5)
DELTA = 1e-6
SIZES = {"sf": (1_000, 100_000, None), "porto": (None,), "tdrive": (1_000, None)}
SIZES |= {"town": (1_000, 100_000, None)}  # None: all there are
RESOLUTION, RESOLUTIONS = 256, tuple(2**k for k in range(3, 10))
PER_USER: dict[
    str, tuple[tuple[int, int | None], ...]
] = {  # trips kept of a user, cap on all (None: unscaled)
    "sf": ((10, 1500),),
    "porto": ((3, None), (3, 6)),
    "tdrive": ((1, None),),
    "town": ((5, 40),),
}
REPETITIONS = 3
QUICK_SIZES, QUICK_RESOLUTION, QUICK_EPSILONS = (1_000, 10_000), 64, (0.1, 0.5)


@dataclass(frozen=True, kw_only=True)
class World:
    """Trips on a grid; `seed` draws the sample and, of each user, the trips that are kept."""

    data: str
    n: int | None = None
    seed: int = 0
    resolution: int = RESOLUTION
    unit: str = "trip"
    per_unit: int = 1
    cap: int | None = None


@dataclass(frozen=True, kw_only=True)
class Run:
    """One release; epsilon None: nothing is released, or nothing of it is private."""

    method: str
    rep: int
    epsilon: float | None = None
    delta: float | None = None
    trips: str = "declared"  # or bought


Wanted = dict[World, list[Run]]


def quick_wanted(data: str) -> Wanted:
    """Small samples of one data set, once."""
    wanted: Wanted = {}
    for n in QUICK_SIZES:
        world = World(data=data, n=n, resolution=QUICK_RESOLUTION)
        wanted[world] = [*_releases((0,), QUICK_EPSILONS), *_once((0,)), *_published(0, QUICK_EPSILONS)]
    return wanted


def full_wanted(names: tuple[str, ...]) -> Wanted:
    """Everything for these data sets; large worlds first; users after trips, whose truth they share."""
    wanted: Wanted = {}
    for data in names:
        for n in SIZES[data]:
            for world, reps in _worlds(data, n):
                runs = [*_releases(reps, EPSILONS), *_once(reps)]
                if 0 in reps:
                    runs += _published(0, EPSILONS)
                if data == "sf":
                    runs += _extra(reps, n)
                wanted[world] = runs
        for per_unit, cap in PER_USER[data]:
            for rep in range(REPETITIONS):
                world = World(data=data, seed=rep, unit="user", per_unit=per_unit, cap=cap)
                wanted[world] = _releases((rep,), EPSILONS)
    if "sf" in names:
        wanted |= _sweep()
    return dict(sorted(wanted.items(), key=lambda item: (-(item[0].n or 10**6), item[0].unit)))


def _worlds(data: str, n: int | None) -> list[tuple[World, tuple[int, ...]]]:
    every = tuple(range(REPETITIONS))
    if n is None:
        return [(World(data=data), every)]
    return [(World(data=data, n=n, seed=rep), (rep,)) for rep in every]


def _sweep() -> Wanted:
    """Resolutions, at 100,000 cab trips and epsilon 0.1; 256 is among the others."""
    return {
        World(data="sf", n=100_000, seed=rep, resolution=resolution): [
            *_releases((rep,), (0.1,)),
            Run(method=UNIFORM, rep=rep),
        ]
        for resolution in RESOLUTIONS
        for rep in range(REPETITIONS)
        if resolution != RESOLUTION
    }


def _releases(reps: tuple[int, ...], epsilons: tuple[float, ...]) -> list[Run]:
    return [
        Run(method=method, rep=rep, epsilon=epsilon)
        for rep in reps
        for epsilon in epsilons
        for method in METHODS
    ]


def _once(reps: tuple[int, ...]) -> list[Run]:
    """Without an epsilon, once per sample: all trips are one sample."""
    return [Run(method=method, rep=reps[0]) for method in (UNIFORM, *NOISE_FREE)]


def _published(rep: int, epsilons: tuple[float, ...]) -> list[Run]:
    return [Run(method=method, rep=rep, epsilon=epsilon) for epsilon in epsilons for method in PUBLISHED]


def _extra(reps: tuple[int, ...], n: int | None) -> list[Run]:
    """zCDP where n is 100,000; the number of trips bought."""
    pairs = [(rep, epsilon) for rep in reps for epsilon in EPSILONS]
    bought = [Run(method="boxes", rep=rep, epsilon=epsilon, trips="bought") for rep, epsilon in pairs]
    if n != 100_000:
        return bought
    return bought + [
        Run(method=method, rep=rep, epsilon=epsilon, delta=DELTA)
        for rep, epsilon in pairs
        for method in ("prish", "dqam")
    ]
