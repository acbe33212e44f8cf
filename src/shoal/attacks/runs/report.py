"""An inference attack on disk, for the owner: inference.html, figures as JSON, errors per user as Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.attacks.models.framework import Outcome, privacy_gain
from shoal.attacks.runs.inference import Attacked, InferenceResult, result_rows
from shoal.attacks.runs.page import AttackCurve, AttackReportInputs, GainBox, write_attack_report
from shoal.errors import OutputError
from shoal.kinds.owner import open_owner_folder
from shoal.release.manifest import MANIFEST
from shoal.release.private import private_file
from shoal.release.staging import refuse_inside_release, unwritable

KNOWS = {
    "freq_roi": "how often each person is at each place",
    "roi_day": "where each person is at each time of day",
    "roi_day_week": "where each person is at each time of the week",
    "time_day": "at which times of day each person is seen",
    "time_day_week": "at which times of the week each person is seen",
    "last_hour": "where each person was an hour before",
    "last_day": "where each person was a day before",
    "last_week": "where each person was a week before",
}
GREEDY = ("max_roi", "max_user")


def write_inference(folder: Path, result: InferenceResult, title: str) -> dict[str, Path]:
    """The three files in `folder`, readable by the owner alone; earlier ones are replaced."""
    folder = Path(folder)
    refuse_inside_release(folder)
    if (folder / MANIFEST).exists():
        raise OutputError(
            "attack-in-release",
            f"{folder} is a release; what an attack finds must never lie in one.",
            "Choose another folder with --out.",
        )
    folder = open_owner_folder(folder)
    paths = {name: folder / f"inference.{name}" for name in ("html", "json", "parquet")}
    rows = result_rows(result)
    try:
        write_attack_report(paths["html"], _inputs(result, rows, title))
        told = {"summary": summary(result), "users": result.users, "places": result.places, "rows": rows}
        with private_file(paths["json"], text=True) as file:
            file.write(json.dumps(told, indent=2))
        with private_file(paths["parquet"]) as file:
            pq.write_table(per_user(result), file, compression="zstd")
    except OSError as error:
        raise unwritable(folder, error) from error
    return paths


def per_user(result: InferenceResult) -> pa.Table:
    """One row per user and adversary; users are numbered in the order of their names."""
    tables = []
    for attacked in result.attacked:
        for outcome in attacked.outcomes:
            columns: dict[str, Any] = {
                "user": np.arange(result.users, dtype=np.int32),
                "prior": pa.array([outcome.prior] * result.users, pa.string()),
                "inference": pa.array([outcome.inference] * result.users, pa.string()),
                "defence": pa.array([attacked.defence] * result.users, pa.string()),
                "epsilon": pa.array([attacked.epsilon] * result.users, pa.float64()),
                "divergence": outcome.divergence,
                "distance": outcome.distance,
                "divergence_seen": outcome.seen,
            }
            for reading in ("all", "pop"):
                found = outcome.localization.get(reading)
                values = [None] * result.users if found is None else found
                columns[f"localization_{reading}"] = pa.array(values, pa.float64())
            tables.append(pa.table(columns))
    return pa.concat_tables(tables)


def summary(result: InferenceResult) -> list[str]:
    """What it comes to, in plain sentences; errors of the median person in slots with a visit."""
    said = []
    raw = {(o.prior, o.inference): o for o in result.raw.outcomes}
    for prior in dict.fromkeys(o.prior for o in result.raw.outcomes if o.prior):
        alone = raw.get((prior, "prior"))
        others = [o for (name, how), o in raw.items() if name == prior and how != "prior"]
        if alone is None or not others:
            continue
        best = min(others, key=_median_seen)
        line = (
            f"An adversary who knows {KNOWS[prior]} is wrong about the median person, when seen, by "
            f"{_median_seen(alone):.2f} (1: all wrong). With the raw counts ({best.inference}): "
            f"{_median_seen(best):.2f}."
        )
        protected = [(attacked, _same(attacked, prior, best.inference)) for attacked in result.attacked[1:]]
        parts = [f"{_counts_words(a)} {_median_seen(same):.2f}" for a, same in protected if same is not None]
        said.append(line + (f" With protected ones: {', '.join(parts)}." if parts else ""))
        said.append(_locating(result, prior, alone, others))
    return said


def _locating(result: InferenceResult, prior: str, alone: Outcome, others: list[Outcome]) -> str:
    """The same for naming places, where saying "not seen" is right most of the time."""
    where = min(others, key=lambda o: np.median(o.localization["all"]))
    found = [(attacked, _same(attacked, prior, where.inference)) for attacked in result.attacked[1:]]
    parts = [
        f"{_counts_words(attacked)} {np.median(same.localization['all']):.2f}"
        for attacked, same in found
        if same is not None
    ]
    return (
        "Naming places, not being seen included, the error about the median person is "
        f"{np.median(alone.localization['all']):.2f}; with the raw counts ({where.inference}) "
        f"{np.median(where.localization['all']):.2f}"
        + (f"; with protected ones: {', '.join(parts)}." if parts else ".")
    )


def _median_seen(outcome: Outcome) -> float:
    known = outcome.seen[~np.isnan(outcome.seen)]
    return float(np.median(known)) if known.size else 0.0


def _counts_words(attacked: Attacked) -> str:
    if attacked.epsilon is None:
        return f"the {attacked.defence}"
    return f"{attacked.defence} at {attacked.epsilon:g}"


def _same(attacked: Attacked, prior: str | None, inference: str):
    found = [o for o in attacked.outcomes if (o.prior, o.inference) == (prior, inference)]
    return found[0] if found else None


def _inputs(result: InferenceResult, rows: list[dict[str, Any]], title: str) -> AttackReportInputs:
    days = result.clock.slots * result.clock.slot_minutes / 1440
    prior, inference = _strongest(result)
    return AttackReportInputs(
        title=title,
        subtitle=(
            f"{result.users:,} people, {result.places:,} places; {result.periods.split:,} slots observed, "
            f"{result.periods.inferred:,} inferred ({days:g} days)."
        ),
        summary=summary(result),
        curves=_curves(result),
        boxes=_boxes(result, prior, inference),
        boxes_of=f"The adversary knows {KNOWS.get(prior or '', 'nothing')} and does {inference}.",
        table=rows,
        slot_starts=result.clock.starts_local(),
    )


def _curves(result: InferenceResult) -> list[AttackCurve]:
    curves = []
    priors = dict.fromkeys(o.prior for o in result.raw.outcomes if o.prior)
    for prior in priors:
        for outcome in result.raw.outcomes:
            if outcome.prior not in (prior, None):
                continue
            curves.append(
                AttackCurve(
                    prior=prior,
                    goal="profiling",
                    name=outcome.inference,
                    error=outcome.divergence,
                    by_slot=outcome.divergence_by_slot,
                )
            )
            for reading, error in outcome.localization.items() if outcome.prior else ():
                name = outcome.inference if outcome.inference in GREEDY else f"{outcome.inference} {reading}"
                curves.append(AttackCurve(prior=prior, goal="localization", name=name, error=error))
    return curves


def _strongest(result: InferenceResult) -> tuple[str | None, str]:
    """The adversary whose mean error the raw counts reduce most."""
    raw = {(o.prior, o.inference): o for o in result.raw.outcomes}
    gains = {
        key: raw[key[0], "prior"].divergence.mean() - o.divergence.mean()
        for key, o in raw.items()
        if key[0] is not None and (key[0], "prior") in raw and key[1] != "prior"
    }
    return max(gains, key=gains.__getitem__) if gains else next(iter(raw))


def _boxes(result: InferenceResult, prior: str | None, inference: str) -> list[GainBox]:
    raw = _same(result.raw, prior, inference)
    boxes = []
    for attacked in result.attacked[1:]:
        same = _same(attacked, prior, inference)
        if raw is not None and same is not None:
            gain = privacy_gain(raw.divergence, same.divergence)
            boxes.append(
                GainBox(defence=attacked.defence or "", epsilon=attacked.epsilon, mre=attacked.mre, gain=gain)
            )
    return boxes
