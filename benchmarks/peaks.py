"""Peaks seen once, planted in the visits of a simulated city: what `best` finds and leaves behind.

    python -m benchmarks.peaks town 50000 1 [--null]     preset, users, releases; --null: nothing is planted

Prints a line for each planted peak, and each peak that was found where none was planted.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from benchmarks.city import simulated_city
from benchmarks.density_cities import OpenCity
from benchmarks.held_visits import HeldVisits
from benchmarks.real_cities import simulated
from shoal.mechanisms.density.best import DensityBest
from shoal.postprocess.density.best import finish_best
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.geography import Setting


def plant(held: HeldVisits, setting: Setting, rng, site: int, slots: np.ndarray, people: int) -> HeldVisits:
    """The visits with `people` more at a site in all of these slots, half of them users seen nowhere else."""
    chunks = []
    for user, slot, place in held.chunks:
        known, share = np.unique(user), len(np.unique(user)) / max(held.users, 1)
        usual = rng.choice(known, min(round(people * share / 2), len(known)), replace=False)
        new = known.max() + 1 + np.arange(round(people * share / 2))
        who = np.concatenate([usual, new])
        added = np.repeat(who, len(slots)), np.tile(slots, len(who)), np.full(len(who) * len(slots), site)
        cell = (user.astype(np.int64) * setting.slots + slot) * setting.places + place
        more = (added[0].astype(np.int64) * setting.slots + added[1]) * setting.places + added[2]
        cell = np.unique(np.concatenate([cell, more]))
        rows = cell // (setting.slots * setting.places), cell // setting.places % setting.slots
        chunks.append(tuple(each.astype(np.int32) for each in (*rows, cell % setting.places)))
    return replace(held, chunks=chunks)


def main(preset: str, users: int, releases: int, null: bool, epsilon: float = 1.0) -> None:
    city = OpenCity(simulated(simulated_city(preset, users), preset, f"simulated {preset}"))
    setting, mechanism = city.setting, DensityBest.within(Budget.of(epsilon, 1e-6), city.setting, users=users)
    for seed in range(releases):
        rng, held = np.random.default_rng([seed, 77]), city.held
        zone, hours = int(rng.integers(setting.zones)), int(rng.integers(2, 9))
        start = 24 * int(rng.integers(7)) + int(rng.integers(8, 25 - hours))
        people = int(users * rng.choice([0.005, 0.01, 0.02]))
        if not null:
            site = int(setting.weights.matrix[[zone], :].toarray().argmax())
            held = plant(held, setting, rng, site, np.arange(start, start + hours), people)
            print(f"{preset} {seed}: planted zone {zone}, slots {start} to {start + hours}, {people} people")
        estimate = finish_best(mechanism(held, SeededNoise(seed)), setting)
        for each in estimate.peaks:
            size = f"{each.size:.0f} +- {each.deviation:.0f} people"
            print(f"{preset} {seed}: found zone {each.zone}, slots {each.start} to {each.stop}, {size}")
        print(
            f"{preset} {seed}: {len(estimate.peaks)} found, from {estimate.least_peak or np.inf:.0f} people"
        )


if __name__ == "__main__":
    name, size, count = [each for each in sys.argv[1:] if not each.startswith("--")]
    main(name, int(size), int(count), "--null" in sys.argv)
