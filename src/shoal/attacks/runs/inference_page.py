"""The page of an inference attack: errors over people, gains over epsilon, errors over the inferred time.

The figures of Pyrgelis et al. 2017: cumulative curves over users (1 to 5), box plots of privacy gain over
epsilon (7 to 9), hourly curves (6). The page opens offline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from shoal.attacks.models.framework import privacy_gain
from shoal.attacks.runs.findings import Column
from shoal.attacks.runs.inference import KNOWS, InferenceResult
from shoal.release.page.page import RAW_BANNER, local_times, render
from shoal.space.clock import day_ticks, slot_label

SCRIPTS = ("format.js", "plot.js", "attack.js")
LEVELS = np.linspace(0, 1, 200)  # of a cumulative curve
GREEDY = ("max_roi", "max_user")
COLUMNS = (
    Column("prior", "knows", missing="nothing"),
    Column("inference", "does"),
    Column("goal", "goal"),
    Column("measure", "measure"),
    Column("defence", "counts", missing="raw"),
    Column("set_at", "set at", ".3g"),
    Column("error", "error", ".3f"),
    Column("error_median", "median", ".3f"),
    Column("privacy_loss", "loss", ".3f"),
    Column("privacy_gain", "gain", ".3f"),
    Column("mre", "MRE of counts", ".3f"),
)


def inference_html(
    result: InferenceResult, rows: Sequence[Mapping[str, Any]], summary: Sequence[str], title: str
) -> str:
    """The whole page as text."""
    days = result.clock.slots * result.clock.slot_minutes / 1440
    prior, inference = _strongest(result)
    starts = local_times(result.clock.starts_local())
    payload = {
        "level": LEVELS,
        "curves": list(_curves(result)),
        "boxes": list(_boxes(result, prior, inference)),
        "slotLabels": [slot_label(start) for start in starts],
        "dayTicks": day_ticks(starts),
    }
    subtitle = (
        f"{result.users:,} people, {result.places:,} places; {result.periods.split:,} slots observed, "
        f"{result.periods.inferred:,} inferred ({days:g} days)."
    )
    return render(
        "attack.html",
        *SCRIPTS,
        payload=payload,
        title=title,
        subtitle=[subtitle],
        banner=RAW_BANNER,
        summary=summary,
        knows=KNOWS.get(prior or "", "nothing"),
        does=inference,
        header=[column.heading for column in COLUMNS],
        rows=[[column.cell(row) for column in COLUMNS] for row in rows],
        right=[number for number, column in enumerate(COLUMNS) if column.form],
    )


def _curves(result: InferenceResult) -> Iterator[dict[str, Any]]:
    """Errors over people on the raw counts, for each prior; and over slots, where there are any."""
    for prior in dict.fromkeys(o.prior for o in result.raw.outcomes if o.prior):
        for outcome in result.raw.outcomes:
            if outcome.prior not in (prior, None):
                continue
            name, by_slot = outcome.inference, outcome.divergence_by_slot
            yield _curve(prior, "profiling", name, outcome.divergence, by_slot)
            for reading, error in outcome.localization.items() if outcome.prior else ():
                yield _curve(prior, "localization", name if name in GREEDY else f"{name} {reading}", error)


def _curve(
    prior: str, goal: str, name: str, error: np.ndarray, by_slot: np.ndarray | None = None
) -> dict[str, Any]:
    named = {"prior": prior, "goal": goal, "name": name, "mean": float(error.mean())}
    return {**named, "error": np.quantile(error, LEVELS), "bySlot": by_slot}


def _boxes(result: InferenceResult, prior: str | None, inference: str) -> Iterator[dict[str, Any]]:
    """Privacy gain over users of each defence, with the error of its counts."""
    raw = result.raw.outcome(prior, inference)
    for attacked in result.protected:
        same = attacked.outcome(prior, inference)
        if raw is not None and same is not None:
            gain = privacy_gain(raw.divergence, same.divergence)
            yield {
                "defence": attacked.protection.name,
                "epsilon": attacked.protection.set_at,
                "mre": attacked.mre,
                "mean": float(gain.mean()),
                "quartiles": np.quantile(gain, (0.05, 0.25, 0.5, 0.75, 0.95)),
            }


def _strongest(result: InferenceResult) -> tuple[str | None, str]:
    """The adversary whose mean error the raw counts reduce most."""
    raw = {(o.prior, o.inference): o for o in result.raw.outcomes}
    gains = {
        key: raw[key[0], "prior"].divergence.mean() - o.divergence.mean()
        for key, o in raw.items()
        if key[0] is not None and (key[0], "prior") in raw and key[1] != "prior"
    }
    return max(gains, key=gains.__getitem__) if gains else next(iter(raw))
