"""Error of counting queries: independent noise, multiplicative weights, and saying nothing, at one budget.

    make bench-query            QUICK=1 for a small run
    python -m benchmarks.query --docs    writes docs/results/query.md

Random range queries (zones in a box between two random corners, slots between two random hours) on simulated
cities, epsilon 1 and delta 1e-6 for all queries of a row together, ell 30, seeded noise. Truth is the bounded
table, so errors are of the mechanisms alone.

nothing    the public prior times a measured total: what anyone could say who measured one number
table      plain Gaussian noise on every zone and slot, summed up: a published density, for comparison
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.city import simulated_city
from benchmarks.table import machine_class, report
from shoal.engine.engine import DuckEngine
from shoal.engine.visits import exact_counts
from shoal.events.readers import PlacedEvents
from shoal.events.schema import SourcePlan
from shoal.events.source import open_planned
from shoal.kinds.density.build import Counting
from shoal.kinds.query.plan import METHODS, QueryOptions
from shoal.kinds.run import Silent
from shoal.mechanisms.density.counts import DensityCounts
from shoal.mechanisms.query.answers import QueryAnswers
from shoal.mechanisms.query.weights import public_prior
from shoal.privacy.accounting import NANO, Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.clock import Clock
from shoal.space.geography import Setting, open_geography, setting_of
from shoal.space.plan import SpacePlan
from shoal.space.setting import Question, Questions
from shoal.stages.exact import ExactCounts

DOCS = Path(__file__).parents[1] / "docs" / "results" / "query.md"
EPSILON, DELTA, ELL = 1.0, 1e-6, 30
FULL = {"cities": (("town", 20_000), ("paris", 200_000)), "counts": (10, 100, 1000, 10_000), "repeats": 3}
QUICK = {"cities": (("town", 20_000),), "counts": (10, 100, 1000), "repeats": 2}
WAYS = ("gaussian", "weights", "nothing", "table")


@dataclass(frozen=True, eq=False)
class World:
    setting: Setting
    exact: ExactCounts


def main(quick: bool, docs: bool) -> None:
    size = QUICK if quick else FULL
    rows = []
    for city, users in size["cities"]:
        world = counted(city, users)
        for count in size["counts"]:
            rows += measured(city, users, world, count, size["repeats"])
            print(f"{city} {users:,}: {count:,} queries done", flush=True)
    report("query", rows, f"mean error in visits, epsilon = {EPSILON:g} for all queries of a row")
    ends = [end_of(city, users, rows) for city, users in size["cities"]]
    for end in ends:
        print(end)
    if docs:
        write_docs(rows, ends)


def counted(city: str, users: int) -> World:
    """The bounded table of a simulated city."""
    folder = simulated_city(city, users)
    card = json.loads((folder / "city.json").read_text("utf-8"))
    source = open_planned(SourcePlan(paths=(str(folder / card["sources"]["events"]["glob"]),)))
    space = SpacePlan(zones=str(folder / "zones.geojson"), sites=str(folder / "sites.csv"))
    geography = open_geography(space, has_sites=True, planar=False)
    window = {name: card["window"][name][:19] for name in ("start", "end")}
    clock = Clock(**window, time_zone=card["time_zone"])
    setting = setting_of(geography, clock)
    edges = (int(clock.edges_us[0]), int(clock.edges_us[-1]))
    counting = Counting(
        DuckEngine(),
        lambda: PlacedEvents(source=source, geography=geography, window_us=edges),
        setting,
        run_key=bytes(16),
        progress=Silent(),
    )
    return World(setting, exact_counts(counting.bounded(ELL, ELL), setting.weights))


def random_questions(setting: Setting, count: int, seed: int) -> Questions:
    """Boxes between two random corners, stretches between two random slots; empty ones are drawn again."""
    chance = np.random.default_rng(seed)
    xy = setting.zone_xy_m
    each: list[Question] = []
    while len(each) < count:
        low, high = np.sort(chance.uniform(xy.min(axis=0), xy.max(axis=0), (2, 2)), axis=0)
        zones = np.flatnonzero(((xy >= low) & (xy <= high)).all(axis=1))
        first, last = np.sort(chance.integers(0, setting.slots + 1, 2))
        if zones.size and first < last:
            each.append(Question(zones=tuple(zones.tolist()), slots=tuple(range(first, last))))
    return Questions.of(each, setting.weights, slots=setting.slots, ell=ELL)


def measured(city: str, users: int, world: World, count: int, repeats: int) -> list[dict]:
    """One row per way to answer, means over repeats with other queries and other noise."""
    errors: dict[str, list] = {way: [] for way in WAYS}
    bought, sizes, seconds, covered = [], [], 0.0, []
    for seed in range(repeats):
        questions = random_questions(world.setting, count, seed)
        truth = questions.values(world.exact.units) / questions.lattice
        sizes.append(truth.mean())
        budget = Budget.of(EPSILON, DELTA)
        options = QueryOptions(questions=list(questions.each), ell=ELL)
        for way in ("gaussian", "weights"):
            began = time.perf_counter()
            answers = METHODS[way].build(budget, world.setting, options)(world.exact, SeededNoise(seed))
            errors[way].append(np.abs(np.maximum(answers.values, 0.0) - truth).mean())
            if way == "weights":
                seconds += (time.perf_counter() - began) / repeats
                bought.append(answers.how.count("noise"))
                covered.append(np.mean(np.abs(answers.values - truth) <= answers.half))
        errors["nothing"].append(np.abs(nothing(questions, world, seed) - truth).mean())
        errors["table"].append(np.abs(table(questions, world, seed) - truth).mean())
    common = {"city": city, "users": users, "queries": count, "mean_answer": float(np.mean(sizes))}
    more = {"bought": float(np.mean(bought)), "in_interval": float(np.mean(covered)), "seconds": seconds}
    return [
        {
            **common,
            "what": way,
            "mean_error": float(np.mean(errors[way])),
            **(more if way == "weights" else {}),
        }
        for way in WAYS
    ]


def nothing(questions: Questions, world: World, seed: int) -> np.ndarray:
    everything = Question(
        zones=tuple(range(world.setting.zones)), slots=tuple(range(world.setting.slots)), name="all"
    )
    budget = Budget.of(EPSILON, DELTA)
    mechanism = QueryAnswers.of(budget, world.setting, questions=[everything], ell=ELL)
    total = mechanism(world.exact, SeededNoise(seed)).values[0]
    prior = public_prior(world.setting)
    return questions.values(prior / prior.sum() * max(total, 0.0))


def table(questions: Questions, world: World, seed: int) -> np.ndarray:
    exact = world.exact
    mechanism = DensityCounts.of(Budget.of(EPSILON, DELTA), world.setting, ell=ELL)
    return np.maximum(questions.values(mechanism(exact, SeededNoise(seed)).values), 0.0)


def end_of(city: str, users: int, rows: list[dict]) -> str:
    """After how many queries each is worse than saying nothing."""
    mine = [row for row in rows if (row["city"], row["users"]) == (city, users)]
    most = max(row["queries"] for row in mine)
    by = {(row["queries"], row["what"]): row["mean_error"] for row in mine}
    # Independent noise grows with the root of the number of queries: from the row nearest to where they meet.
    near = min((count for count, _ in by), key=lambda n: abs(np.log(by[n, "nothing"] / by[n, "gaussian"])))
    ends = int(near * (by[near, "nothing"] / by[near, "gaussian"]) ** 2)
    worse = [row["queries"] for row in mine if by[row["queries"], "weights"] > by[row["queries"], "nothing"]]
    weights = f"at {min(worse):,} queries" if worse else f"not up to {most:,} queries"
    return (
        f"{city}, {users:,} users: independent noise is worse than saying nothing after about {ends:,} "
        f"queries, weights {weights}"
    )


def write_docs(rows: list[dict], ends: list[str]) -> None:
    lines = []
    for city, users, count in dict.fromkeys((row["city"], row["users"], row["queries"]) for row in rows):
        mine = {
            row["what"]: row
            for row in rows
            if (row["city"], row["users"], row["queries"]) == (city, users, count)
        }
        errors = " | ".join(f"{mine[way]['mean_error']:,.0f}" for way in WAYS)
        size, bought = mine["weights"]["mean_answer"], mine["weights"]["bought"]
        lines.append(f"| {city} | {users:,} | {count:,} | {size:,.0f} | {errors} | {bought:.0f} |")
    rho = Budget.of(EPSILON, DELTA).left / NANO
    text = f"""# Error of counting queries

{time.strftime("%Y-%m-%d")}, {machine_class()}; `python -m benchmarks.query --docs`. Random range queries on
simulated cities. All queries of a row share epsilon {EPSILON:g} at delta {DELTA:g} (rho {rho:.4f}); ell
{ELL}. Mean error in visits of the bounded table, over {FULL["repeats"]} repeats with other queries and
other noise.

- gaussian: independent noise per query. weights: multiplicative weights, at most 40 queries measured.
- nothing: the public prior times a measured total. table: noise on every zone and slot, summed up.

| city | users | queries | mean answer | gaussian | weights | nothing | table | measured |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(lines)}

{chr(10).join(f"- {end}." for end in ends)}

Independent noise grows with the root of the number of queries. The error of weights hardly grows, since at
most 40 queries are ever measured. But its test must distinguish a large error from noise among all queries,
so it stops learning at errors of some thousand visits, whatever the size of the city.

A noisy table of all zones and slots has a sensitivity of the root of ell instead of ell, since a user is in
one cell per slot. For queries of this size it is about as good as weights or better. So: for a few queries,
`gaussian`; for many that nobody wants a map of, `weights`; for many at all, release a density and ask its
files, which is free.
"""
    DOCS.write_text(text, "utf-8")
    print("written: query.md")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv, docs="--docs" in sys.argv)
