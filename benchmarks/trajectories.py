"""What it costs to hide records among k: granularity, suppression, time and memory, every window verified.

    make bench-trajectories     QUICK=1: 3,000 simulated users and 3 days
    python -m benchmarks.trajectories --only tau --docs     a part of it; the page from all kept rows

Baselines in the same run: the published algorithm on the same samples, with the share of windows it violates,
and raw pseudonyms under the same attack of four points. Each row is a process of its own, so that its memory
is its own. `seconds` is the release (choose carriers, merge), `verify_seconds` the check of every user and
start. `median_*` are of released boxes. `epsilon_min` is the paper's name for the epoch, a duration.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.table import OUT, report
from benchmarks.trajectories_data import real_folder, samples_of

NAME = "trajectories"
TAUS = (10, 30, 60, 120, 240)
ABI, SMALL = 29_191, 3_000


@dataclass(frozen=True, kw_only=True)
class Job:
    """One release."""

    part: str
    data: str
    days: int
    users: int | None = None
    k: int = 2
    tau: int = 30
    epoch: int = 30
    method: str = "kte"
    forget_days: int | None = None


def jobs(quick: bool) -> list[Job]:
    if quick:
        few = {"part": "quick", "data": "abi", "users": SMALL, "days": 3}
        sizes = ((2, 30, 30), (5, 30, 30), (2, 120, 120), (2, 60, 30))
        ours = [Job(**few, k=k, tau=tau, epoch=epoch) for k, tau, epoch in sizes]
        return [*ours, Job(**few, method="published"), Job(**few, method="raw")]
    city: dict[str, Any] = {"data": "abi", "users": ABI, "days": 14}
    small: dict[str, Any] = {"part": "published", "data": "abi", "users": SMALL, "days": 7}
    listed = [
        Job(part="city", **city),
        Job(part="city", **city, k=5),
        Job(part="city", **city, tau=60, epoch=30),
        Job(part="city", **city, forget_days=1),
        Job(part="city", **{**city, "data": "abi-wandering"}),
        Job(part="city", **city, method="raw"),
        *(Job(part="tau", **city, tau=tau, epoch=tau) for tau in TAUS if tau != 30),
        *(Job(**small, tau=tau, epoch=tau, method=method) for tau in TAUS for method in ("kte", "published")),
        *(Job(part="growth", data="abi", users=users, days=3) for users in (SMALL, 10_000, 30_000, 100_000)),
    ]
    if real_folder().is_dir():
        for data, days in (("cabs", 7), ("checkins", 320)):
            for tau in TAUS:
                listed += [Job(part="real", data=data, days=days, tau=tau, epoch=tau, method="kte")]
            listed += [
                Job(part="real", data=data, days=days, method=method) for method in ("published", "raw")
            ]
    else:
        print("no real data: SHOAL_DATA names no folder; taxis and check-ins are skipped")
    return listed


def one(job: Job) -> dict[str, Any]:
    """The row of a job, measured in this process."""
    from shoal.attacks.tracker.evidence import verify_arrays

    samples, lattice = samples_of(job.data, job.users, job.days)
    begin = time.perf_counter()
    anonymiser, boxes = _make(job, samples)
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    found = verify_arrays(
        *(*samples.columns, *boxes.columns),
        users=samples.users,
        steps=samples.steps,
        k=anonymiser.k,
        tau=min(anonymiser.tau_steps, samples.steps),
    )
    verify_seconds = time.perf_counter() - begin
    row: dict[str, Any] = {
        "part": job.part,
        "data": job.data,
        "method": job.method if job.forget_days is None else f"{job.method}, forgets after a day",
        "users": samples.users,
        "samples": samples.count,
        "days": job.days,
        "k": job.k,
        "tau_min": job.tau,
        "epsilon_min": job.epoch,
        "violations": found.violations + sum(found.structure.values()),
        "violated_share": found.violations / found.pairs_checked,
        "users_hit": found.users_hit,
        **_granularity(samples, boxes, lattice),
        "seconds": round(seconds, 1),
        "verify_seconds": round(verify_seconds, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }
    return row | _points(samples, boxes)


def _make(job: Job, samples):
    from shoal.anonymise.kte import Kte
    from shoal.kinds.trajectories.blocks import anonymise
    from shoal.stages.trajectories import Boxes

    forget = None if job.forget_days is None else job.forget_days * 1440
    anonymiser = Kte(k=job.k, tau_steps=job.tau, epoch_steps=job.epoch, forget_steps=forget)
    if job.method == "raw":
        s = samples
        return anonymiser, Boxes.of(s.user, s.t, s.t, s.x, s.x, s.y, s.y, records=s.users)
    if job.method == "published":
        from shoal_baselines.comparators.kte_hide import KteHide

        return anonymiser, KteHide(k=job.k, tau_steps=job.tau, epoch_steps=job.epoch)(samples)
    return anonymiser, anonymise(anonymiser, samples).boxes


def _granularity(samples, boxes, lattice) -> dict[str, Any]:
    from shoal.metrics.trajectories import covering_boxes, granularity

    covering = covering_boxes(samples, boxes)
    found = granularity(boxes, covering, minutes=lattice.minutes, metres=lattice.metres)
    space, minutes = found.per_box.space_m, found.per_box.time_min
    return {
        "suppressed": round(float((covering < 0).mean()), 5),
        "median_space_m": space.median,
        "median_time_min": minutes.median,
        "q1_space_m": space.q1,
        "q3_space_m": space.q3,
        "q1_time_min": minutes.q1,
        "q3_time_min": minutes.q3,
        "sample_median_space_m": found.per_sample.space_m.median,
        "sample_median_time_min": found.per_sample.time_min.median,
    }


def _points(samples, boxes) -> dict[str, Any]:
    """Share of 500 people that four of their own samples single out."""
    from shoal.attacks.models.box_attacks import Known, attack_points

    s, b = samples, boxes
    known = Known.of(s.user, s.t, s.x, s.y, b.record, b.t0, b.t1, b.x0, b.x1, b.y0, b.y1, users=samples.users)
    found = attack_points(known, (4,), targets=500)[0]
    return {"linked_by_4_points": round(found.linked / found.people, 3) if found.people else None}


def main(quick: bool, only: str | None, docs: bool) -> None:
    chosen = [job for job in jobs(quick) if only is None or job.part == only]
    rows = []
    for job in chosen:
        code = [sys.executable, "-m", "benchmarks.trajectories", "--one", json.dumps(asdict(job))]
        done = subprocess.run(
            code, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=False
        )
        if done.returncode:
            print(done.stdout + done.stderr, flush=True)
            sys.exit(f"failed: {job}")
        row = json.loads(done.stdout.splitlines()[-1])
        told = f"{row['median_space_m']:.0f} m, {row['median_time_min']:.0f} min"
        where = f"{row['data']} {row['method']} {row['users']:,} k={row['k']} {job.tau}/{job.epoch}"
        print(f"{where}: {row['violations']:,} violations, {told}, {row['seconds']} s", flush=True)
        rows.append(row)
        with open(OUT / f"{NAME}-kept.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    report(NAME, rows, "records hidden among k, every window verified")
    broken = [row for row in rows if row["violations"] and row["method"].startswith("kte")]
    print("all windows of ours hold" if not broken else f"VIOLATED: {broken}")
    if docs:
        from benchmarks.trajectories_docs import write_docs

        write_docs(OUT / f"{NAME}-kept.jsonl")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--docs", action="store_true", help="write docs/results from all rows kept so far")
    parser.add_argument("--only", help="city, tau, published, growth or real")
    parser.add_argument("--one", help="one job, as JSON: prints its row")
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(one(Job(**json.loads(asked.one)))))
    else:
        main(asked.quick, asked.only, asked.docs)
