"""Simulated cities for benchmarks, made once and kept in benchmarks/out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.table import OUT


def simulated_city(preset: str, users: int | None = None, seed: int = 1) -> Path:
    """The folder of a simulated city; made on the first call."""
    from shoal.events.simulate import preset_named
    from shoal.events.simulate.city import city_identity, holds_city, simulate_city

    plan = preset_named(preset)
    if users is not None:
        plan = replace(plan, users=users)
    folder = OUT / f"city-{preset}-{plan.users}-{seed}"
    if not holds_city(folder, city_identity(plan, seed, None, None)):
        print(f"simulating {plan.users:,} users of {preset} ...", flush=True)
        simulate_city(plan, folder, seed=seed)
    return folder
