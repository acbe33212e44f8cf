"""One row of the density benchmark: a method on a city at an epsilon; and the file that keeps finished rows.

A row is finished for good while the city and the code it ran through (density_code.py) stay as they are.
benchmarks/out/density.jsonl has one row per city, users, method and epsilon, the newest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.density_cities import BenchCity, OpenCity
from benchmarks.density_code import code_of_method
from benchmarks.table import OUT, machine_class
from shoal.kinds.density.plan import COMPARATORS, METHODS, Method, MethodOptions
from shoal.metrics.density import density_utility, emd_m, every_seventh
from shoal.postprocess.density.numbers import round_density
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.stages.noisy import DensityEstimate

FILE = OUT / "density.jsonl"
EPSILONS = (0.1, 0.3, 1.0)
DELTA = 2e-6
FLOOR = "floor"
ONE_LOOK = ("scm-full", "scm-event", "scm-zone", "spotme", "threshold")  # no release, or hopeless


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A method as it is called in the table, and what is changed of its options."""

    name: str
    method: Method | None  # None: the floor, which is no method
    change: dict[str, Any] = field(default_factory=dict)

    @property
    def released(self) -> bool:
        return self.method is not None and self.method.sound

    def epsilons(self, asked: Iterable[float]) -> tuple[float | None, ...]:
        """None, once, where no epsilon sets the noise."""
        return tuple(asked) if self.method is not None and self.method.set_by_epsilon else (None,)

    def code(self) -> str:
        """A digest of all code that a row depends on."""
        return code_of_method(None if self.method is None else self.method.name)

    def delta(self) -> float | None:
        if not self.released or self.method is None:
            return None
        return 0.0 if self.method.pure else DELTA

    def repetitions(self, quick: bool) -> int:
        if self.method is None or self.name in ONE_LOOK:
            return 1
        if quick:
            return 3 if self.name in ("best", "efpag") else 1
        return 2 if self.name == "best undeclared" else 5


def variants() -> tuple[Variant, ...]:
    """Every method, the scheme's parameters, the floor. scm-cap is laplace under another name."""
    named = [
        Variant(name=name, method=m) for name, m in {**METHODS, **COMPARATORS}.items() if name != "scm-cap"
    ]
    efpag, best = METHODS["efpag"], METHODS["best"]
    extra = [Variant(name=f"efpag ell={ell}", method=efpag, change={"ell": ell}) for ell in (10, 30, 168)]
    extra.append(Variant(name="efpag no nights", method=efpag, change={"nights": False}))
    extra.append(Variant(name="best undeclared", method=best, change={"users": None}))
    return (Variant(name=FLOOR, method=None), *named, *extra)


def measured(city: BenchCity, opened: OpenCity, variant: Variant, epsilon: float | None, quick: bool) -> dict:
    """Means over the repetitions, in the columns that are promised."""
    runs = list(_runs(city, opened, variant, epsilon, variant.repetitions(quick)))
    mean = {key: _mean([run[key] for run in runs]) for key in runs[0]}
    return {
        "city": city.name,
        "users": city.users,
        "method": variant.name,
        "epsilon": epsilon,
        "delta": variant.delta(),
        **{key: mean[key] for key in ("mre", "pc", "emd_m", "bias", "seconds")},
        "mre_sd": float(np.std([run["mre"] for run in runs], ddof=1)) if len(runs) > 1 else None,
        "bias_worst": max((abs(run["bias"]) for run in runs if run["bias"] is not None), default=None),
        "coverage": mean["coverage"],
        "width": mean["width"],
        "repetitions": len(runs),
        "zones": opened.setting.zones,
        "slots": opened.setting.slots,
    }


def _runs(city: BenchCity, opened: OpenCity, variant: Variant, epsilon: float | None, repetitions: int):
    exact, setting = opened.exact, opened.setting
    if variant.method is None:
        for repetition in range(repetitions):
            start = time.perf_counter()
            truth = opened.resampled(repetition)
            nothing = DensityEstimate(people=exact, low=exact, high=exact)
            yield _figures(truth, nothing, setting, time.perf_counter() - start)
        return
    method = variant.method
    options = replace(MethodOptions(users=city.users, cap=city.cap), **variant.change)
    asked = 1.0 if epsilon is None else epsilon
    mechanism = method.build(Budget.of(asked, None if method.pure else DELTA), setting, options)
    stage = opened.stage(mechanism, options)
    for repetition in range(repetitions):
        start = time.perf_counter()
        estimate = method.finish(mechanism(stage, SeededNoise(repetition)), setting, options)
        estimate = round_density(estimate, options.decimals)
        yield _figures(exact, estimate, setting, time.perf_counter() - start)


def _figures(exact: np.ndarray, estimate: DensityEstimate, setting, seconds: float) -> dict:
    utility = density_utility(exact, estimate.people, estimate.low, estimate.high)
    distances = emd_m(exact, estimate.people, setting.zone_xy_m, every_seventh(setting.slots))
    known = distances[np.isfinite(distances)]
    has_intervals = bool((estimate.high > estimate.low + 0.2).any())
    return {
        "mre": utility.mean_relative_error,
        "pc": utility.pearson,
        "emd_m": float(known.mean()) if known.size else None,
        "bias": utility.total_bias_share,
        "seconds": seconds,
        "coverage": utility.coverage if has_intervals else None,
        "width": utility.interval_width_mean if has_intervals else None,
    }


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None and np.isfinite(value)]
    return float(np.mean(known)) if known else None


class Finished:
    """Rows done before, and where new ones go."""

    def __init__(self, file: Path = FILE) -> None:
        self.file = file
        self.rows: dict[tuple, dict] = {}
        if file.exists():
            for line in file.read_text("utf-8").splitlines():
                row = json.loads(line)
                self.rows[_key(row)] = row

    def find(self, city: BenchCity, variant: Variant, epsilon: float | None, quick: bool) -> dict | None:
        """The row, if it was made by this code on this city; a full row will do for a quick run."""
        row = self.rows.get((city.name, city.users, variant.name, epsilon))
        if row is None or row["code"] != variant.code() or row["stamp"] != city.stamp():
            return None
        return row if quick or row["size"] == "full" else None

    def add(self, row: dict, city: BenchCity, variant: Variant, quick: bool) -> None:
        """Keep a row at once: written beside the file, then put in its place."""
        row |= {
            "size": "quick" if quick else "full",
            "code": variant.code(),
            "stamp": city.stamp(),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine_class(),
        }
        self.rows[_key(row)] = row
        self.file.parent.mkdir(exist_ok=True)
        partial = self.file.with_suffix(".partial")
        partial.write_text("".join(json.dumps(each) + "\n" for each in self.rows.values()), "utf-8")
        partial.replace(self.file)


def _key(row: dict) -> tuple:
    return row["city"], row["users"], row["method"], row["epsilon"]
