"""Error and coverage of counting queries on all visits, and where multiplicative weights pay.

    make bench-query            QUICK=1 for a small run
    python -m benchmarks.query --docs    writes docs/results/query.md

Random range queries (zones in a box between two random corners, slots between two random slots). Truth is all
visits, a user once per place and slot. Noise is seeded, with seeds that no constant was chosen on.

alone      each query has the whole epsilon: coverage of the 95 % intervals, their width, bias
together   all queries of a row share epsilon 1: mean error of independent noise, of weights, and of
nothing    the public prior times a measured total: what anyone could say who measured one number
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.city import simulated_city
from benchmarks.real_cities import RealCity, has_data, nyc_month, nyc_week, sf_grid, sf_hoods, simulated
from benchmarks.table import machine_class, report
from shoal.engine.query_sums import QueryKernel, user_sums
from shoal.engine.visits import exact_counts
from shoal.kinds.query.plan import METHODS, QueryOptions
from shoal.mechanisms.query.weights import public_prior
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.setting import Question, Questions
from shoal.stages.exact import UserSums

DOCS = Path(__file__).parents[1] / "docs" / "results" / "query.md"
EPSILONS, DELTA, ELL = (0.1, 0.3, 1.0, 4.0), 1e-6, 30
SIMULATED = (("town", 20_000), ("events-city", 50_000), ("paris", 200_000))
QUERIES, TOGETHER = 60, (10, 100, 1000)
QUICK_QUERIES, QUICK_TOGETHER = 20, (10, 100)


@dataclass(eq=False)
class World:
    """A city with its events, counted as queries need them."""

    city: RealCity

    def __post_init__(self) -> None:
        self.setting, self.counting = self.city.open()
        self.people = self.counting.people()

    def questions(self, count: int, seed: int) -> Questions:
        """Boxes between two random corners, slots between two random ones; empty ones are drawn again."""
        rng, setting = np.random.default_rng(seed), self.setting
        xy = setting.zone_xy_m
        each: list[Question] = []
        while len(each) < count:
            low, high = np.sort(rng.uniform(xy.min(axis=0), xy.max(axis=0), (2, 2)), axis=0)
            zones = np.flatnonzero(((xy >= low) & (xy <= high)).all(axis=1))
            first, last = np.sort(rng.integers(0, setting.slots + 1, 2))
            if zones.size and first < last:
                each.append(Question(zones=tuple(zones.tolist()), slots=tuple(range(first, last))))
        return Questions.of(each, setting.weights, slots=setting.slots, ell=ELL)

    def sums(self, questions: Questions) -> UserSums:
        edges_us = self.setting.clock.edges_us
        kernel = QueryKernel(edges_us=edges_us, questions=questions, run_key=self.counting.run_key)
        return user_sums(self.counting.engine, self.counting.events(), kernel)


def main(quick: bool, docs: bool) -> None:
    rows, together = [], []
    for city in cities(quick):
        world = World(city)
        rows += list(alone(world, QUICK_QUERIES if quick else QUERIES))
        print(f"{city.name}: each alone, done", flush=True)
        if city.name in ("town", "paris"):
            counts = QUICK_TOGETHER if quick else TOGETHER
            together += [shared(world, count) for count in counts]
    report("query", [*rows, *together], "queries on all visits")
    for row in pooled(rows):
        print(row)
    if docs:
        write_docs(rows, together)


def cities(quick: bool) -> Iterator[RealCity]:
    for preset, users in SIMULATED[: 1 if quick else None]:
        yield simulated(simulated_city(preset, users), preset, f"{users:,} simulated users")
    if has_data():
        for real in (sf_hoods, *(() if quick else (sf_grid, nyc_week, nyc_month))):
            yield real()


def alone(world: World, count: int, first_seed: int = 900) -> Iterator[dict]:
    """One row per epsilon: every query has all of it, on its own noise."""
    questions = world.questions(count, first_seed)
    sums, truth = world.sums(questions), questions.values(world.people)
    for epsilon in EPSILONS:
        answers = np.array([one(world, questions, sums, i, epsilon, first_seed + i) for i in range(count)])
        middle, low, high = answers.T
        usual = float(np.median(truth[truth > 0])) if truth.any() else 1.0
        yield {
            "city": world.city.name,
            "users": world.city.users,
            "epsilon": epsilon,
            "queries": count,
            "coverage": float(np.mean((low <= truth) & (truth <= high))),
            "above": float(np.mean(truth > high)),
            "median_truth": usual,
            "median_width": float(np.median(high - low)),
            "median_error": float(np.median(np.abs(middle - truth))),
            "bias": float((middle - truth).sum() / max(truth.sum(), 1.0)),
        }


def one(world: World, questions: Questions, sums: UserSums, number: int, epsilon: float, seed: int):
    """Answer and ends of the interval of one query at all of the budget."""
    options = QueryOptions(questions=[questions.each[number]], ell=ELL)
    mechanism = METHODS["gaussian"].build(Budget.of(epsilon, DELTA), world.setting, options)
    mine = {name: getattr(sums, name)[number : number + 1] for name in ("sizes", "sums", "clips")}
    answer = mechanism(UserSums(**mine), SeededNoise(seed))
    return answer.values[0], max(answer.low[0], 0.0), answer.high[0]


def shared(world: World, count: int, seed: int = 7) -> dict:
    """Mean errors where all queries share epsilon 1: against all visits, of weights against sampled ones."""
    questions, options_of = world.questions(count, seed), lambda asked: QueryOptions(questions=asked, ell=ELL)
    budget, options = Budget.of(1.0, DELTA), options_of(list(questions.each))
    truth = questions.values(world.people)
    noisy = METHODS["gaussian"].build(budget, world.setting, options)(
        world.sums(questions), SeededNoise(seed)
    )
    exact = exact_counts(world.counting.bounded(ELL, ELL), world.setting.weights)
    sampled = questions.values(exact.units) / questions.lattice
    learned = METHODS["weights"].build(budget, world.setting, options)(exact, SeededNoise(seed))
    prior = public_prior(world.setting)
    guess = questions.values(prior / prior.sum() * world.people.sum())
    return {
        "city": world.city.name,
        "together": count,
        "mean_truth": float(truth.mean()),
        "gaussian": float(np.abs(noisy.values - truth).mean()),
        "weights": float(np.abs(np.maximum(learned.values, 0.0) - sampled).mean()),
        "mean_sampled": float(sampled.mean()),
        "nothing": float(np.abs(guess - truth).mean()),
    }


def pooled(rows: list[dict]) -> Iterator[str]:
    """Coverage by epsilon over all cities."""
    for epsilon in EPSILONS:
        mine = [row for row in rows if row["epsilon"] == epsilon]
        count = sum(row["queries"] for row in mine)
        share = sum(row["coverage"] * row["queries"] for row in mine) / count
        yield f"epsilon {epsilon:g}: {share:.1%} of {count} intervals cover"


def write_docs(rows: list[dict], together: list[dict]) -> None:
    lines = [
        f"| {row['city']} | {row['users']:,} | {row['epsilon']:g} | {row['coverage']:.0%} | "
        f"{row['above']:.0%} | {row['median_truth']:,.0f} | {row['median_width']:,.0f} | "
        f"{row['median_error']:,.0f} | {row['bias']:+.1%} |"
        for row in rows
    ]
    many = [
        f"| {row['city']} | {row['together']:,} | {row['mean_truth']:,.0f} | {row['gaussian']:,.0f} | "
        f"{row['nothing']:,.0f} | {row['mean_sampled']:,.0f} | {row['weights']:,.0f} |"
        for row in together
    ]
    text = f"""# Error of counting queries

{time.strftime("%Y-%m-%d")}, {machine_class()}; `python -m benchmarks.query --docs`. Random range queries on
simulated cities, on San Francisco taxis and on New York check-ins. Truth is all visits. Delta is {DELTA:g}.

## Each query alone

{rows[0]["queries"]} queries per row, each with the whole epsilon (`gaussian`). Coverage of the 95 %
intervals, share of queries whose truth is above the interval, medians of truth, width and error, and the
bias of the sum of all.

| city | users | epsilon | covered | above | truth | width | error | bias |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(lines)}

{chr(10).join(f"- {line}." for line in pooled(rows))}

## Many queries together

All queries of a row share epsilon 1. Mean error of `gaussian` and of saying nothing (the public prior times
the exact total) against all visits; of `weights` against the visits that it samples (ell {ELL}).

| city | queries | mean truth | gaussian | nothing | mean sampled | weights |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
{chr(10).join(many)}

The error of independent noise grows with the root of the number of queries. That of weights hardly grows,
since at most 40 queries are ever measured, but its test must distinguish a large error from noise among all
queries. So: for a few queries, `gaussian`; for many that nobody wants a map of, `weights`; for many at all,
release a density and query its files, which is free.
"""
    DOCS.write_text(text, "utf-8")
    print("written: query.md")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv, docs="--docs" in sys.argv)
