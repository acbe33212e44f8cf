"""Whether the 95 % intervals of densities cover, where they are needed, and whether verdicts are right.

    make bench-honest            all cities, up to three hours on two cores; a stopped run goes on
    make bench-honest QUICK=1    small cities, three seeds; under five minutes
    python -m benchmarks.honest [--city NAME] [--epsilon E] [--method NAME]

One row of benchmarks/out/honest.jsonl per city, epsilon, method, noise seed and `what`. The truth is every
visit, a user once per place and slot, nothing capped; released numbers are rounded as in the files.

    cell         all zones and slots
    bin          those whose published value lies in the range `bin`
    busiest      the quarter of zones with the largest published totals
    peak         each zone's slot with the largest published value
    event-zone   zones with a one-off event, outside of it
    zone-day, zone-week, city-slot, city-day, city           the ready sums of the release
    sum          100 random sets of near zones and slots in a row

Queries that are answered one by one have `make bench-query`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.density_cities import OpenCity
from benchmarks.density_code import code_of_method
from benchmarks.honest_cities import CITIES, HonestCity
from benchmarks.table import OUT, machine_class, report
from shoal.kinds.density.plan import METHODS, MethodOptions
from shoal.kinds.density.verdict import published_verdict
from shoal.postprocess.density.numbers import round_density
from shoal.postprocess.density.sums import Covariance, Total, covariance_of, ready, total_of
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.geography import Setting

FILE = OUT / "honest.jsonl"
EPSILONS = (0.1, 0.3, 1.0, 4.0)
DELTA = 1e-6
BINS = (0.0, 0.5, 1.0, 3.0, 5.0, 10.0, 30.0, 80.0, 300.0, 1000.0, np.inf)
QUICK_SEEDS = 3
RANDOM_SUMS = 100


def main() -> None:
    asked = _asked()
    rows = _rows_of_this_code(asked.method)
    for city in CITIES:
        if asked.city not in (None, city.name) or (asked.quick and not city.quick):
            continue
        seeds = range(QUICK_SEEDS if asked.quick else city.seeds)
        left = [
            (epsilon, seed)
            for epsilon in ((asked.epsilon,) if asked.epsilon else EPSILONS)
            for seed in seeds
            if (city.name, city.users, epsilon, seed) not in rows
        ]
        try:
            city.stamp()
        except SystemExit as missing:  # real data that is not here
            print(f"skipped {city.name}: {missing}")
            continue
        for new in _run(city, asked.method, left) if left else ():
            rows.setdefault((city.name, city.users, new[0]["epsilon"], new[0]["seed"]), new)
    _show([row for each in rows.values() for row in each])


def _run(city: HonestCity, name: str, left: list[tuple[float, int]]) -> Iterator[list[dict]]:
    """Rows of each epsilon and seed; each is kept in the file at once."""
    opened = city.open()
    events = city.event_cells(opened)
    began = time.perf_counter()
    for epsilon, seed in left:
        rows = [
            {"city": city.name, "users": city.users, "epsilon": epsilon, "method": name, "seed": seed, **row}
            for row in released(city, opened, name, epsilon, seed, events)
        ]
        _keep(rows, name)
        yield rows
    print(f"{city.name}: {len(left)} releases, {time.perf_counter() - began:.0f} s", flush=True)


def released(
    city: HonestCity, opened: OpenCity, name: str, epsilon: float, seed: int, events: np.ndarray | None
) -> Iterator[dict]:
    """What one release says against the truth."""
    method, setting, exact = METHODS[name], opened.setting, opened.exact
    options = replace(MethodOptions(), users=city.users)
    mechanism = method.build(Budget.of(epsilon, None if method.pure else DELTA), setting, options)
    estimate = method.finish(mechanism(opened.stage(mechanism, options), SeededNoise(seed)), setting, options)
    estimate = round_density(estimate, options.decimals)
    people = estimate.people
    yield _row("cell", exact, estimate) | {
        "bias": float(people.sum() / exact.sum() - 1),
        "mre": _mre(exact, people),
        "correlation": _correlation(exact, people),
        "verdict": published_verdict(estimate, _published(name, epsilon, setting)).grade,
    }
    for low, high in itertools.pairwise(BINS):
        within = (people >= low) & (people < high)
        if within.any():
            yield _row("bin", exact, estimate, within) | {"bin": f"{low:g}-{high:g}"}
    busy = people.sum(axis=1) >= np.quantile(people.sum(axis=1), 0.75)
    yield _row("busiest", exact, estimate, np.broadcast_to(busy[:, None], people.shape))
    yield _row("peak", exact, estimate, people.argmax(axis=1)[:, None] == np.arange(setting.slots))
    if events is not None:
        yield _row("event-zone", exact, estimate, events.any(axis=1)[:, None] & ~events)
    covariance = covariance_of(estimate, setting, options.decimals)
    if covariance is not None:
        yield from _sums(exact, people, covariance, setting, seed)


def _row(what: str, exact: np.ndarray, estimate, chosen: np.ndarray | None = None) -> dict:
    chosen = np.ones(exact.shape, bool) if chosen is None else chosen
    true, low, high = exact[chosen], estimate.low[chosen], estimate.high[chosen]
    inside = (low <= true) & (true <= high)
    return {
        "what": what,
        "n": int(true.size),
        "coverage": float(inside.mean()),
        "mean_width": float((high - low).mean()),
    }


def _sums(
    exact: np.ndarray, people: np.ndarray, covariance: Covariance, setting: Setting, seed: int
) -> Iterator[dict]:
    """The ready sums of a release, and sums over near zones and slots in a row."""
    by_kind: dict[str, list[tuple[float, Total]]] = {}
    for kind, zone, first, last, total in ready(people, covariance, setting.clock.day_of_slot):
        truth = exact[slice(None) if zone is None else zone, ..., first : last + 1].sum()
        by_kind.setdefault(kind, []).append((float(truth), total))
    rng = np.random.default_rng([seed, 100])
    for _ in range(RANDOM_SUMS):
        near = np.hypot(*(setting.zone_xy_m - setting.zone_xy_m[rng.integers(setting.zones)]).T)
        zones = np.argsort(near, kind="stable")[: rng.integers(1, setting.zones + 1)]
        first, last = np.sort(rng.integers(0, setting.slots, 2))
        slots = np.arange(first, last + 1)
        total = total_of(people, covariance, zones, slots)
        by_kind.setdefault("sum", []).append((float(exact[np.ix_(zones, slots)].sum()), total))
    for kind, each in by_kind.items():
        yield {
            "what": kind,
            "n": len(each),
            "coverage": float(np.mean([total.low <= truth <= total.high for truth, total in each])),
            "mean_width": float(np.mean([total.high - total.low for _, total in each])),
        }


def _published(method: str, epsilon: float, setting: Setting) -> Any:
    """What a verdict reads of a manifest."""
    public = {
        "method": method,
        "zones": {"count": setting.zones},
        "slots": setting.slots,
        "slot_minutes": setting.clock.slot_minutes,
    }
    return SimpleNamespace(public=public, guarantee={"epsilon": epsilon, "delta": DELTA})


def _mre(exact: np.ndarray, people: np.ndarray) -> float:
    """Mean relative error as in shoal.metrics.density, zones without people left out."""
    total = exact.sum(axis=1)
    bound = np.maximum(0.001 * total[:, None], exact)[total > 0]
    return float((np.abs(people - exact)[total > 0] / bound).mean())


def _correlation(exact: np.ndarray, people: np.ndarray) -> float:
    if np.ptp(people) == 0 or np.ptp(exact) == 0:
        return 0.0
    return float(np.corrcoef(exact.ravel(), people.ravel())[0, 1])


def _keep(rows: list[dict], method: str) -> None:
    OUT.mkdir(exist_ok=True)
    stamp = {"code": code_of_method(method), "machine": machine_class()}
    with FILE.open("a", encoding="utf-8") as file:
        file.write("".join(json.dumps({**row, **stamp}) + "\n" for row in rows))


def _rows_of_this_code(method: str) -> dict[tuple, list[dict]]:
    """Rows made earlier by the code as it is now, by city, users, epsilon and seed."""
    rows: dict[tuple, list[dict]] = {}
    code = code_of_method(method)
    for line in FILE.read_text("utf-8").splitlines() if FILE.exists() else ():
        row = json.loads(line)
        if row["code"] == code and row["method"] == method:
            rows.setdefault((row["city"], row["users"], row["epsilon"], row["seed"]), []).append(row)
    return rows


def _show(rows: list[dict]) -> None:
    """Means over the seeds; bins that hold few cells in all are left out."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        key = (row["city"], row["users"], row["epsilon"], row["method"], row["what"], row.get("bin", ""))
        groups.setdefault(key, []).append(row)
    names = ("city", "users", "epsilon", "method", "what", "bin")
    table = []
    for key, each in groups.items():
        n = np.array([row["n"] for row in each])
        if n.sum() < 100 and key[4] == "bin":
            continue
        share = n / n.sum()
        mean = {k: float(share @ [row[k] for row in each]) for k in ("coverage", "mean_width")}
        more = {k: float(np.mean([row[k] for row in each])) for k in ("mre", "correlation") if k in each[0]}
        if "bias" in each[0]:
            more["bias"] = float(np.mean([abs(row["bias"]) for row in each]))
        table.append(
            dict(zip(names, key, strict=True)) | {"seeds": len(each), "n": int(n.sum())} | mean | more
        )
    if table:
        report("honest-means", table, "coverage of 95 % intervals, means over seeds; bias is absolute")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.honest")
    parser.add_argument("--quick", action="store_true", help="small cities, three seeds")
    parser.add_argument("--city", help="only the cities of this name")
    parser.add_argument("--epsilon", type=float, help="only this epsilon")
    parser.add_argument("--method", default="best", help="a method of densities")
    return parser.parse_args()


if __name__ == "__main__":
    main()
