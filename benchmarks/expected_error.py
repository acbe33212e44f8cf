"""Fit the constants of the expected error of dry runs on simulated cities: kinds/density/verdict.py has them.

    python -m benchmarks.expected_error [--quick]

Every method that can be released runs on cities of several sizes and shapes at several epsilons; for each
method four constants are fitted to the mean error over the mean count (formula: kinds/density/verdict.py).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from benchmarks.table import OUT, report
from shoal.events.simulate import preset_named
from shoal.kinds.density.compare import compare, simulated_world
from shoal.kinds.density.plan import METHODS, ComparePlan, MethodOptions
from shoal.kinds.density.verdict import Fit, expected_error, plain_deviation, relative_error
from shoal.privacy.accounting import Budget

TARGET = OUT / "expected_fit.txt"
DELTA = 1e-6
EPSILONS = (0.1, 0.3, 1.0, 3.0)
CITIES = (
    ("town", 2_000),
    ("town", 20_000),
    ("town", 200_000),
    ("rough", 40_000),
    ("paris", 40_000),
    ("paris", 200_000),
)
QUICK = (("town", 2_000), ("town", 20_000), ("rough", 20_000))


@dataclass(frozen=True, kw_only=True)
class Point:
    """One method on one city at one epsilon."""

    method: str
    city: str
    users: int
    epsilon: float
    mean: float
    noise: float  # deviation of plain noise over the mean count
    exact: float | None  # mean size of the noise over the mean count, where it has a formula
    error: float  # mean error over the mean count


def main() -> None:
    points: list[Point] = []
    visits = []
    for city, users in QUICK if "--quick" in sys.argv else CITIES:
        print(f"{city}, {users:,} users ...", flush=True)
        found, mean_visits = measure(city, users)
        points += found
        visits.append(mean_visits)
    fits = {name: fit([p for p in points if p.method == name]) for name in METHODS}
    rows = [{**vars(p), "expected": relative_error(fits[p.method], p.mean, p.noise, p.exact)} for p in points]
    report("expected_error", rows, "expected against simulated error, over the mean count")
    TARGET.write_text(source(fits, float(np.mean(visits))), "utf-8")
    print(f"{TARGET.name} written: the constants at the end of kinds/density/verdict.py")


def measure(city: str, users: int) -> tuple[list[Point], float]:
    """Errors of all methods on one city, and the visits per user and week that count there."""
    options = MethodOptions(users=users)
    world = simulated_world({}, city=city, users=users, seed=7)
    plan = ComparePlan(
        methods=tuple(METHODS),
        epsilons=EPSILONS,
        delta=DELTA,
        repetitions=2,
        seed=7,
        options=options,
        emd_slots=0,
    )
    found = compare(world.counting, plan)
    setting = world.counting.setting
    mean = float(found.exact.mean())
    points = []
    for run in found.runs:
        method = METHODS[run.method]
        budget = Budget.of(run.set_at, None if method.pure else DELTA)
        noise = getattr(method.build(budget, setting, options), "noise_of_count", None)
        deviation = plain_deviation(noise, budget, min(options.ell, setting.slots))
        points.append(
            Point(
                method=run.method,
                city=city,
                users=users,
                epsilon=run.set_at,
                mean=mean,
                noise=deviation / mean,
                exact=noise and expected_error(noise, setting.zones).mean_absolute / mean,
                error=(run.mae or 0.0) / mean,
            )
        )
    weeks = preset_named(city).weeks
    return points, mean * setting.zones * setting.slots / users / weeks


def fit(points: list[Point]) -> Fit:
    """Least squares on the logarithm, constants not negative."""

    def made(x: np.ndarray) -> Fit:
        model, people, gain, power = *np.exp(x[:3]).tolist(), float(x[3])
        return Fit(model=model, people=people, gain=gain, power=power, off_by=1.0)

    def misfit(x: np.ndarray) -> list[float]:
        return [np.log(relative_error(made(x), p.mean, p.noise, p.exact) / p.error) for p in points]

    start = np.array([np.log(0.2), np.log(0.5), np.log(0.5), 0.7])
    low, high = np.array([-9.0, -9.0, -12.0, 0.05]), np.array([2.0, 2.0, 3.0, 1.5])
    best = least_squares(misfit, start, bounds=(low, high))
    found = made(best.x)
    off_by = float(np.exp(np.quantile(np.abs(best.fun), 0.9)))
    figures = {name: float(f"{getattr(found, name):.3g}") for name in ("model", "people", "gain", "power")}
    return Fit(**figures, off_by=float(f"{off_by:.2f}"))


def source(fits: dict[str, Fit], visits: float) -> str:
    lines = "\n".join(f'    "{name}": {each!r},' for name, each in fits.items())
    return f"VISITS_PER_WEEK = {visits:.2f}\n\nFITS: dict[str, Fit] = {{\n{lines}\n}}\n"


if __name__ == "__main__":
    main()
