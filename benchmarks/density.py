"""Every density method on simulated and real cities: MRE, PC, EMD, bias, coverage and time against epsilon.

    make bench-density            all cities, five repetitions, up to 90 minutes on two cores
    make bench-density QUICK=1    200 k users of Paris, 100 k of rough; under five minutes
    python -m benchmarks.density --docs     also write docs/results/density.md from the full rows

Finished rows are kept in benchmarks/out/density.jsonl and not run again while code and city stay the same;
so a run that was stopped goes on. The truth is every visit, a user once per place and slot, nothing capped.
Noise is seeded (`SeededNoise(repetition)`: same distributions, forty times as fast as the system's sampler);
the sample of visits that bounded methods keep is one and the same in all repetitions. Seconds are of
mechanism and post-processing with events already counted or held. EMD is exact on every seventh slot.
`floor` is the error of the raw counts as prediction of counts drawn anew around them (Poisson): about what
somebody who knew the true rates would have. Methods with * promise less than their epsilon, or nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

from benchmarks.density_cities import FULL, QUICK, BenchCity, OpenCity
from benchmarks.density_docs import write_docs
from benchmarks.density_rows import EPSILONS, Finished, Variant, measured, variants
from benchmarks.density_words import city_table, order_table, target_table


def main() -> None:
    asked = _asked()
    cities = [c for c in (QUICK if asked.quick else FULL) if asked.city in (None, c.name)]
    chosen = [v for v in variants() if asked.method is None or v.name in asked.method.split(",")]
    for variant in chosen:
        variant.code()  # read now, in case files change while this runs
    finished = Finished()
    measure = Measuring(finished, chosen, asked.quick)
    start = time.perf_counter()
    for city in sorted(cities, key=lambda each: each.users):
        measure(city)
    _print(cities, chosen, measure.rows)
    took = f"{measure.made} rows in {(time.perf_counter() - start) / 60:.1f} minutes"
    print(f"{took}, {len(measure.rows) - measure.made} finished before")
    for city, reason in measure.skipped:
        print(f"skipped {city.name}, {city.users:,} users: {reason}")
    if asked.docs:
        write_docs(cities, chosen, measure.rows)


class Measuring:
    """Runs what is not finished, city by city; a city is opened only if something is left to do there."""

    def __init__(self, finished: Finished, chosen: list[Variant], quick: bool) -> None:
        self.finished = finished
        self.chosen = chosen
        self.quick = quick
        self.rows: list[dict] = []
        self.made = 0
        self.skipped: list[tuple[BenchCity, str]] = []
        self._checked = False

    def __call__(self, city: BenchCity) -> None:
        try:
            city.stamp()
        except SystemExit as missing:  # real data that is not here
            self.skipped.append((city, str(missing)))
            return
        wanted = [(variant, epsilon) for variant in self.chosen for epsilon in variant.epsilons(EPSILONS)]
        left = []
        for variant, epsilon in wanted:
            row = self.finished.find(city, variant, epsilon, self.quick)
            if row is None:
                left.append((variant, epsilon))
            else:
                self.rows.append(row)
        if left:
            self._make(city, left)

    def _make(self, city: BenchCity, left: Iterable[tuple[Variant, float | None]]) -> None:
        print(f"{city.name}, {city.users:,} users: counting ...", flush=True)
        opened = city.open()
        self._check(opened)
        for variant, epsilon in left:
            start = time.perf_counter()
            row = measured(city, opened, variant, epsilon, self.quick)
            self.finished.add(row, city, variant, self.quick)
            self.rows.append(row)
            self.made += 1
            at = "" if epsilon is None else f" epsilon {epsilon:g}"
            print(
                f"  {variant.name}{at}: mre {row['mre']:.3f}, {time.perf_counter() - start:.1f} s", flush=True
            )

    def _check(self, opened: OpenCity) -> None:
        """Once per run, on the smallest city."""
        if not self._checked:
            opened.check_held()
            self._checked = True


def _print(cities: list[BenchCity], chosen: list[Variant], rows: list[dict]) -> None:
    print(
        "noise seeded, same distributions as released; EMD on every seventh slot; * not a release; printed: "
        "figures of seeds/001, MRE / PC / EMD"
    )
    for city in cities:
        table = city_table(city, rows, chosen)
        if table.rows:
            table.show()
    for table in (target_table(cities, rows), order_table(cities, rows)):
        if table.rows:
            table.show()


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.density")
    parser.add_argument("--quick", action="store_true", help="two small cities, few repetitions")
    parser.add_argument("--city", help="only the cities of this name")
    parser.add_argument("--method", help="only these, separated by commas")
    parser.add_argument("--docs", action="store_true", help="write docs/results/density.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
