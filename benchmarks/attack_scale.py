"""Inference attacks at the size of a transport network: 10,000 commuters, 582 stations and null, 168 hours.

    make bench-attack-scale     every prior x inference, seconds each and peak memory; QUICK=1: 2,000 users

Commuters come from the simulator's preset tfl, three weeks observed, the fourth inferred. Each pair runs by
itself, so its seconds include building the prior; the whole grid in one go is cheaper, shown last.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.table import machine_class, report
from shoal.attacks.models.framework import PRIORS, Periods, attack_counts
from shoal.attacks.models.infer import INFERENCES
from shoal.attacks.models.visits import KnownVisits
from shoal.events.simulate import preset_named
from shoal.events.simulate.city import simulate_city

DOCS = Path(__file__).parents[1] / "docs" / "results" / "attack-scale.md"
PERIODS = Periods(slots=672, split=504, slots_per_day=24)
SECONDS_TARGET, GB_TARGET = 60, 2


def commuters(users: int, seed: int = 1) -> KnownVisits:
    """Touches in and out of simulated commuters over four weeks, station by station and hour by hour."""
    preset = replace(preset_named("tfl"), users=users)
    with tempfile.TemporaryDirectory() as folder:
        simulate_city(preset, Path(folder) / "tfl", seed=seed)
        parts = sorted((Path(folder) / "tfl" / "transit").glob("*.parquet"))
        table = pa.concat_tables([pq.read_table(part) for part in parts]).unify_dictionaries()
    start = datetime.combine(preset.start, datetime.min.time(), ZoneInfo(preset.time_zone))
    columns = [[], [], []]
    for time_name, site_name in (("start_time", "start_site"), ("end_time", "end_site")):
        instants = table[time_name].cast(pa.int64()).to_numpy() / 1e6
        columns[0].append(table["user"].to_numpy())
        columns[1].append((instants - start.timestamp()).astype(np.int64) // 3600)
        columns[2].append(
            np.array([int(name[1:]) for name in table[site_name].cast(pa.string()).to_pylist()])
        )
    card, slot, station = (np.concatenate(parts) for parts in columns)
    inside = (slot >= 0) & (slot < PERIODS.slots)
    cards, user = np.unique(card[inside], return_inverse=True)
    return KnownVisits.of(
        user, slot[inside], station[inside], users=len(cards), slots=PERIODS.slots, places=preset.sites
    )


def main(quick: bool, docs: bool) -> None:
    visits = commuters(2_000 if quick else 10_000)
    rows = []
    for prior in PRIORS:
        for inference in INFERENCES:
            rows.append(_timed(visits, (prior,), (inference,)))
            print(f"{prior} {inference}: {rows[-1]['seconds']:.1f} s", flush=True)
    rows.append(_timed(visits, PRIORS, INFERENCES))
    report("attack-scale", rows, "inference attacks at the size of a transport network")
    slowest = max(rows[:-1], key=lambda row: row["seconds"])
    held = slowest["seconds"] <= SECONDS_TARGET and slowest["peak_gb"] <= GB_TARGET
    said = "held" if held else "MISSED"
    print(f"slowest {slowest['seconds']:.1f} s, peak {slowest['peak_gb']:.2f} GB: {said}")
    if docs and not quick:
        _write(rows)


def _timed(visits: KnownVisits, priors: tuple[str, ...], inferences: tuple[str, ...]) -> dict:
    start = time.perf_counter()
    found = attack_counts(visits, PERIODS, priors=priors, inferences=inferences)
    seconds = time.perf_counter() - start
    alone = len(priors) == 1
    return {
        "users": visits.users,
        "rois": visits.places + 1,
        "slots": PERIODS.inferred,
        "prior": priors[0] if alone else "all",
        "inference": inferences[0] if alone else "all",
        "seconds": round(seconds, 2),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
        "divergence": round(float(np.mean(found[0].divergence)), 4) if alone else None,
        "localization": round(float(np.mean(found[0].localization["all"])), 4) if alone else None,
    }


def _write(rows: list[dict]) -> None:
    first = rows[0]
    size = f"{first['users']:,} simulated commuters (preset tfl), {first['rois']} places with null"
    head = (
        "# Inference attacks at the size of a transport network\n\n"
        f"{datetime.now(UTC).date()}; {machine_class()}.\n\n"
        f"`make bench-attack-scale`: {size}, {first['slots']} inferred hours, 504 observed.\n"
        "Seconds of one pair by itself; the last line is the whole grid in one go. Peak memory is of the\n"
        "process up to then. Errors are means over users: divergence in bits, and 1 - F1 of all places.\n\n"
    )
    names = ("prior", "inference", "seconds", "peak_gb", "divergence", "localization")
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    for row in rows:
        lines.append("| " + " | ".join("" if row[name] is None else str(row[name]) for name in names) + " |")
    DOCS.write_text(head + "\n".join(lines) + "\n", "utf-8")
    print(f"written: {DOCS.name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--docs", action="store_true")
    asked = parser.parse_args()
    main(asked.quick, asked.docs)
