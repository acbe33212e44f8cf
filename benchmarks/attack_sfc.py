"""The inference attacks of Pyrgelis et al. 2017 on the San Francisco cabs, our means beside the printed ones.

    make bench-attack-sfc       needs the real data (SHOAL_DATA); about a minute

Three weeks from Monday 19 May 2008, local time, hourly; a 10 x 10 grid of downtown with cells of 0.5 x 0.37
miles, two weeks observed, the third inferred. The paper does not say where the grid lies: BOX was chosen
among offsets by the numbers it prints of the data (cabs, reports, places, slots), never by its results.
Rows: prior, inference, goal, measure, defence, epsilon, ours, paper; `holds` is within 0.05.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

from benchmarks.attack_sfc_printed import DATA, GAINS, LOSSES, PRINTED, TABLE_4, TABLE_5
from benchmarks.real_cities import real_file
from benchmarks.table import machine_class, report
from shoal.attacks.models.framework import (
    PRIORS,
    Outcome,
    Periods,
    attack_counts,
    privacy_gain,
    privacy_loss,
    series_mre,
)
from shoal.attacks.models.visits import KnownVisits, TruthRows

WEST, SOUTH, WIDE, HIGH = -122.454, 37.742, 0.0914, 0.0535
START = datetime(2008, 5, 19, tzinfo=ZoneInfo("America/Los_Angeles"))
PERIODS = Periods(slots=504, split=336, slots_per_day=24)
NATURAL = float(np.sqrt(np.log(2.0)))  # a distance by natural logarithms, as scipy gives it
NEAR = 0.05
DOCS = Path(__file__).parents[1] / "docs" / "results" / "attack-sfc.md"
FPA_WAVES = 20
SEED = 1


def cab_visits() -> KnownVisits:
    """Distinct (cab, hour, cell) of the three weeks inside the grid."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = [pq.read_table(real_file(f"cabspotting/cabspotting_part{i}.parquet")) for i in (0, 1)]
    table = pa.concat_tables(parts)
    cab = table["user_id"].combine_chunks().dictionary_encode()
    stray = cab.dictionary.index("mfeuer").as_py()  # 103 fixes; left out as usual
    number = cab.indices.to_numpy()
    slot = (table["timestamp"].to_numpy() - START.timestamp()).astype(np.int64) // 3600
    column = np.floor((table["lon_e5"].to_numpy() / 1e5 - WEST) / WIDE * 10).astype(np.int64)
    row = np.floor((table["lat_e5"].to_numpy() / 1e5 - SOUTH) / HIGH * 10).astype(np.int64)
    inside = (slot >= 0) & (slot < 504) & (number != stray)
    inside &= (column >= 0) & (column < 10) & (row >= 0) & (row < 10)
    cabs, user = np.unique(number[inside], return_inverse=True)
    place = row[inside] * 10 + column[inside]
    return KnownVisits.of(user, slot[inside], place, users=len(cabs), slots=504, places=100)


@dataclass(frozen=True)
class Noisy:
    """A defence as published; what its epsilon covers is not a user."""

    defence: str
    epsilon: float | None
    counts: np.ndarray


def published_defences(visits: KnownVisits, exact: np.ndarray) -> list[Noisy]:
    """SCM at four levels, FPA and SpotMe as in sections 5.2 and 5.3, counts kept between 0 and all cabs.

    Without that limit the relative errors that table 4 prints could not level off at 27.
    """
    generator = np.random.default_rng(SEED)
    rois, slots = exact.shape
    last = visits.between(PERIODS.split, PERIODS.slots)
    most = int(last.per_user().max())
    found = []
    for epsilon in (0.001, 0.01, 0.1, 1.0):
        scales = {"1": 1, "slots": slots, "most reports": most, "places x slots": rois * slots}
        for words, scale in scales.items():
            noise = generator.laplace(0, scale / epsilon, exact.shape)
            found.append(Noisy(f"SCM Lap({words}/epsilon)", epsilon, exact + noise))
        waves = np.fft.fft(exact, axis=1)[:, :FPA_WAVES]
        size = (rois, FPA_WAVES)
        scale = np.sqrt(FPA_WAVES * slots) / epsilon
        waves = waves + generator.laplace(0, scale, size) + 1j * generator.laplace(0, scale, size)
        whole = np.zeros((rois, slots), complex)
        whole[:, :FPA_WAVES] = waves
        whole[:, -FPA_WAVES + 1 :] = np.conj(waves[:, :0:-1])  # a real series has mirrored waves
        found.append(Noisy("FPA", epsilon, np.fft.ifft(whole, axis=1).real))
    for p in (0.1, 0.3, 0.5, 0.7, 0.9):
        yes = exact + generator.binomial((visits.users - exact).astype(np.int64), p)
        found.append(Noisy(f"SpotMe p={p:g}", None, (yes - visits.users * p) / (1 - p)))
    return [Noisy(n.defence, n.epsilon, np.clip(n.counts, 0, visits.users)) for n in found]


def main(docs: bool) -> None:
    start = time.perf_counter()
    visits = cab_visits()
    data = data_rows(visits)
    report("attack-sfc-data", data, "the data, ours and the paper's")
    outcomes = attack_counts(visits, PERIODS, priors=PRIORS)
    rows = raw_rows(outcomes)
    exact = TruthRows(visits).counts(PERIODS.split, PERIODS.slots)
    rows += defence_rows(visits, exact, outcomes)
    report("attack-sfc", rows, "errors of the adversary on cabs, mean over cabs")
    _tell(rows, time.perf_counter() - start)
    if docs:
        write_docs(data, rows)


def data_rows(visits: KnownVisits) -> list[dict]:
    user = visits.user.astype(np.int64)
    reports = visits.per_user()
    places = np.bincount(np.unique(user * 100 + visits.place) // 100)
    slots = np.bincount(np.unique(user * 504 + visits.slot) // 504)
    ours = {
        "cabs": float(visits.users),
        "reports per cab": float(reports.mean()),
        "their deviation": float(reports.std()),
        "places per cab": float(places.mean()),
        "their deviation ": float(places.std()),
        "slots per cab": float(slots.mean()),
        "their deviation  ": float(slots.std()),
    }
    return [
        {"what": name, "ours": value, "paper": DATA[name.strip(), i]}
        for i, (name, value) in enumerate(ours.items())
    ]


def raw_rows(outcomes: list[Outcome]) -> list[dict]:
    """Every figure that the paper prints for raw counts; profiling in three readings of its measure."""
    alone = {o.prior: o for o in outcomes if o.inference == "prior"}
    rows = []
    for o in outcomes:
        key = (o.prior, o.inference)
        readings = {
            "js_divergence": o.divergence,
            "js_distance": o.distance,
            "js_distance_natural": o.distance * NATURAL,
        }
        for measure, error in readings.items():
            rows.append(_row(*key, "profiling", measure, error.mean(), PRINTED.get((*key, "profiling"))))
            if o.prior is not None and o.inference != "prior" and measure != "js_distance_natural":
                base = alone[o.prior].divergence if measure == "js_divergence" else alone[o.prior].distance
                lost = privacy_loss(base, error).mean()
                rows.append(_row(*key, "profiling", f"PL {measure}", lost, LOSSES.get(key)))
        for reading, error in o.localization.items():
            printed = PRINTED.get((*key, f"localization {reading}"))
            rows.append(_row(*key, "localization", f"1-F1 {reading}", error.mean(), printed))
    return rows


def defence_rows(visits: KnownVisits, exact: np.ndarray, raw: list[Outcome]) -> list[dict]:
    """MRE of the counts, mean privacy gain against freq_roi with max_user (tables 4, 5; figs. 8, 9)."""
    (base,) = (o for o in raw if (o.prior, o.inference) == ("freq_roi", "max_user"))
    rows = []
    for noisy in published_defences(visits, exact):
        printed = TABLE_4.get((noisy.defence, noisy.epsilon)) or TABLE_5.get(noisy.defence)
        error = series_mre(exact, noisy.counts)
        rows.append(_row(None, "counts", "utility", "MRE", error, printed, noisy))
        (found,) = attack_counts(
            visits, PERIODS, priors=["freq_roi"], inferences=["max_user"], counts=noisy.counts
        )
        errors = {
            "PG js_divergence": (base.divergence, found.divergence),
            "PG js_distance": (base.distance, found.distance),
            "PG js_distance_natural": (base.distance * NATURAL, found.distance * NATURAL),
        }
        gained = GAINS.get((noisy.defence, noisy.epsilon))
        for measure, (before, after) in errors.items():
            gain = privacy_gain(before, after).mean()
            rows.append(_row("freq_roi", "max_user", "profiling", measure, gain, gained, noisy))
    return rows


def _row(prior, inference, goal, measure, ours, paper, noisy: Noisy | None = None) -> dict:
    near = None if paper is None or goal == "utility" else bool(abs(ours - paper) <= NEAR)
    return {
        "prior": prior,
        "inference": inference,
        "goal": goal,
        "measure": measure,
        "defence": noisy.defence if noisy else None,
        "epsilon": noisy.epsilon if noisy else None,
        "ours": round(float(ours), 4),
        "paper": paper,
        "holds": near,
    }


def _tell(rows: list[dict], seconds: float) -> None:
    for measure in ("js_divergence", "js_distance", "js_distance_natural"):
        known = [r for r in rows if r["measure"] == measure and r["paper"] is not None]
        off = [abs(r["ours"] - r["paper"]) for r in known]
        near = sum(each <= NEAR for each in off)
        print(f"{measure}: {near} of {len(off)} within {NEAR}, mean off {np.mean(off):.3f}")
    located = [r for r in rows if r["goal"] == "localization" and r["paper"] is not None]
    print(f"localization: {sum(r['holds'] for r in located)} of {len(located)} within {NEAR}")
    print(f"{seconds:.0f} s")


def write_docs(data: list[dict], rows: list[dict]) -> None:
    """docs/results/attack-sfc.md: the figures that the paper prints, in our readings."""
    from benchmarks.attack_sfc_docs import page

    DOCS.write_text(page(data, rows, datetime.now(UTC).date().isoformat(), machine_class()), "utf-8")
    print(f"written: {DOCS.name}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="the same: it is quick")
    parser.add_argument("--docs", action="store_true")
    main(parser.parse_args().docs)
