"""Inference attack: error of an adversary with a prior about each person, from raw or protected counts.

open      events of observed and inferred time -> known visits          exact, the owner's eyes only
raw       priors x inferences on the raw counts
defend    density methods at several epsilons, or a release             what is published
again     the same adversaries on the protected counts
compare   privacy lost to raw counts, won back by protection
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.attacks.models.framework import (
    Outcome,
    Periods,
    attack_counts,
    privacy_gain,
    privacy_loss,
    series_mre,
)
from shoal.attacks.models.visits import TruthRows
from shoal.attacks.runs.counts import (
    RELEASE,
    Protection,
    clock_from,
    open_attack_source,
    protected_counts,
    released_people,
    with_null,
)
from shoal.attacks.runs.findings import Column, Findings, spread, stacked, table_of
from shoal.attacks.runs.plans import InferencePlan
from shoal.errors import PlanError
from shoal.kinds.run import Progress
from shoal.space.clock import Clock

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
COLUMNS = (
    Column("prior", "adversary\nknows", missing="nothing"),
    Column("counts", "counts", read=lambda row: NO_COUNTS if row["inference"] == "prior" else row["counts"]),
    Column("inference", "inference"),
    Column("divergence", "profile\nerror", ".2f"),
    Column("seen", "error\nwhen seen", ".2f"),
    Column("all", "place\nerror", ".2f"),
    Column("gain", "gain", ".2f"),
)
NO_COUNTS = "none"
GAIN_OF_0 = (
    "A gain of 0 means that protected counts help this adversary as much as raw counts do. It does not mean "
    "that the release is unsafe: counts are published to show the movement of crowds, which also improves "
    "guesses about anybody. `shoal attack membership` measures what they reveal about a single person."
)
LEGEND = (
    "Errors are means over people, from 0 (the adversary is always right) to 1 (always wrong). profile "
    "error: Jensen-Shannon divergence, in bits, between a person's true and inferred distribution over "
    "places; when seen: only in slots with a visit. place error: 1 - F1 of the set of inferred places; the "
    "absence of a visit counts as a place. gain: (place error with protected counts - place error with raw "
    f"counts) / (1 - place error with raw counts). {GAIN_OF_0} For each prior the table has the inference "
    "that benefits most from raw counts; the page has all, with other measures."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Attacked:
    """Outcomes on one set of counts."""

    protection: Protection
    outcomes: list[Outcome] = field(repr=False)
    mre: float | None = None  # of the published counts

    def outcome(self, prior: str | None, inference: str) -> Outcome | None:
        return next((o for o in self.outcomes if (o.prior, o.inference) == (prior, inference)), None)


@dataclass(frozen=True, kw_only=True, eq=False)
class InferenceResult:
    """Everything that was attacked, raw first."""

    periods: Periods
    clock: Clock  # of the inferred time
    users: int
    places: int
    attacked: list[Attacked] = field(repr=False)

    @property
    def raw(self) -> Attacked:
        return self.attacked[0]

    @property
    def protected(self) -> list[Attacked]:
        return self.attacked[1:]


def run(settings: Mapping[str, Any], plan: InferencePlan, progress: Progress) -> Findings:
    """Read the events, attack raw counts and every defence."""
    from shoal.attacks.runs.inference_page import inference_html

    result = _attack(settings, plan, progress)
    rows, summary = result_rows(result), [*_summary(result), GAIN_OF_0]
    progress.stage("draw the page")
    title = f"Inference attack: {settings.get('population') or 'known people'}"
    return Findings(
        figures={"summary": summary, "users": result.users, "places": result.places, "rows": rows},
        summary=summary,
        tables=[table_of(COLUMNS, _shown(rows), below=LEGEND)],
        curves=_per_user(result),
        html=inference_html(result, rows, summary, title),
        **_beside_raw(result),
    )


def _attack(settings: Mapping[str, Any], plan: InferencePlan, progress: Progress) -> InferenceResult:
    source = open_attack_source(settings, progress=progress)
    visits, clock = source.visits, source.clock
    periods = periods_of(clock, plan.split)
    inferred = clock_from(clock, periods.split)
    observed, last = visits.between(0, periods.split), visits.between(periods.split, periods.slots)
    exact = TruthRows(visits).counts(periods.split, periods.slots)

    def attack(protection: Protection, people: np.ndarray | None = None) -> Attacked:
        progress.stage(f"attack {protection.label}", len(plan.priors) * periods.inferred)
        counts = exact if people is None else with_null(people, observed)
        outcomes = attack_counts(
            visits,
            periods,
            priors=plan.priors,
            inferences=plan.inferences,
            counts=counts,
            tell=lambda *_: progress.advance(1),
        )
        mre = None if people is None else series_mre(exact[:-1], counts[:-1])
        return Attacked(protection=protection, outcomes=outcomes, mre=mre)

    attacked = [attack(Protection())]
    if plan.release is not None:
        people = released_people(plan.release, list(source.geography.zones.ids), inferred)
        attacked.append(attack(Protection(RELEASE), people))
    protected = protected_counts(last, source.setting, inferred, plan, progress=progress)
    attacked += [attack(*each) for each in protected]
    return InferenceResult(
        periods=periods, clock=inferred, users=visits.users, places=visits.places, attacked=attacked
    )


def periods_of(clock: Clock, split: str | None) -> Periods:
    """Observed and inferred slots; by default the last seven days are inferred."""
    if 1440 % clock.slot_minutes:
        raise PlanError(
            "attack-season",
            f"slots of {clock.slot_minutes} minutes do not divide a day, so no slot has a time of day.",
            "Use --slot-minutes 60, 30, 15 or another that divides 1440.",
        )
    per_day = 1440 // clock.slot_minutes
    if split is None:
        at = clock.slots - 7 * per_day
        if at < 1:
            raise PlanError(
                "attack-periods",
                f"the window has {clock.slots} slots; a week to infer and some time before it are needed.",
                "Take a longer window with --start and --end, or say where observed time ends: --split.",
            )
    else:
        at = _slot_at(clock, split)
    return Periods(slots=clock.slots, split=at, slots_per_day=per_day)


def _slot_at(clock: Clock, split: str) -> int:
    try:
        moment = datetime.fromisoformat(split)
    except ValueError:
        raise PlanError(
            "attack-split", f"--split must be a time such as 2026-03-16; got {split!r}.", "Write it so."
        ) from None
    wanted = moment.isoformat(timespec="minutes")[:16]
    starts = [start[:16] for start in clock.starts_local()]
    if wanted not in starts or starts.index(wanted) == 0:
        raise PlanError(
            "attack-split",
            f"--split {split} is not the start of a slot inside the window.",
            f"Choose a time after {starts[0]} and before the end.",
        )
    return starts.index(wanted)


def result_rows(result: InferenceResult) -> list[dict[str, Any]]:
    """One row per prior, inference and measure: mean errors, privacy lost and won back."""
    rows = []
    raw = {(o.prior, o.inference): o.errors() for o in result.raw.outcomes}
    for attacked in result.attacked:
        for outcome in attacked.outcomes:
            alone = raw.get((outcome.prior, "prior"))
            with_raw = raw[outcome.prior, outcome.inference]
            for measure, error in outcome.errors().items():
                known = ~np.isnan(error)  # a person who is never seen has no error when seen
                before = None if alone is None else alone.get(measure, alone["all"])[known]
                gain = privacy_gain(with_raw[measure][known], error[known])
                rows.append(
                    {
                        "prior": outcome.prior,
                        "inference": outcome.inference,
                        "goal": "localization" if measure in outcome.localization else "profiling",
                        "measure": measure,
                        "defence": attacked.protection.method,
                        "set_at": attacked.protection.set_at,
                        "epsilon": attacked.protection.epsilon,
                        "error": _mean(error[known]),
                        "error_median": float(np.median(error[known])) if known.any() else None,
                        "privacy_loss": None if before is None else _mean(privacy_loss(before, error[known])),
                        "privacy_gain": None if attacked.protection.method is None else _mean(gain),
                        "mre": attacked.mre,
                    }
                )
    return rows


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if values.size else None


def _shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A line for each prior and set of counts, by the inference that benefits most from raw counts."""
    strongest: dict[str | None, tuple[float, str]] = {}
    lines: dict[tuple, dict[str, Any]] = {}
    for row in rows:
        prior, how = row["prior"], row["inference"]
        if row["measure"] not in ("divergence", "seen", "all"):
            continue
        if row["measure"] == "all" and row["defence"] is None and how != "prior":
            strongest[prior] = max(strongest.get(prior, (-1.0, "")), (row["privacy_loss"] or 0.0, how))
        named = {"prior": prior, "inference": how, "counts": Protection(row["defence"], row["set_at"]).label}
        line = lines.setdefault((prior, how, row["defence"], row["set_at"]), named)
        line[row["measure"]] = row["error"]
        line["gain"] = row["privacy_gain"]  # that of places comes last
    chosen = {(prior, how) for prior, (_, how) in strongest.items()}
    shown = [
        line
        for (prior, how, defence, _), line in lines.items()
        if (prior, how) in chosen or (how == "prior" and defence is None)
    ]
    priors = list(dict.fromkeys(line["prior"] for line in shown))
    return sorted(shown, key=lambda line: priors.index(line["prior"]))


def _per_user(result: InferenceResult) -> pa.Table:
    """One row per user and adversary; users are numbered in the order of their names."""
    return stacked(
        (
            {
                "user": np.arange(result.users, dtype=np.int32),
                "prior": outcome.prior,
                "inference": outcome.inference,
                "defence": attacked.protection.method,
                "set_at": attacked.protection.set_at,
                "divergence": outcome.divergence,
                "distance": outcome.distance,
                "divergence_seen": outcome.at_visits,
                "localization_all": outcome.localization.get("all"),
                "localization_pop": outcome.localization.get("pop"),
            }
            for attacked in result.attacked
            for outcome in attacked.outcomes
        ),
        text=("prior", "inference", "defence"),
    )


def _summary(result: InferenceResult) -> list[str]:
    """Errors about the median person for each prior: in slots with a visit, and in naming places."""
    lines = []
    for prior in dict.fromkeys(o.prior for o in result.raw.outcomes if o.prior):
        alone = result.raw.outcome(prior, "prior")
        others = [o for o in result.raw.outcomes if o.prior == prior and o.inference != "prior"]
        if alone is None or not others:
            continue
        for measure, where in (("seen", "when seen"), ("all", "in naming places, not being seen included")):
            median = {o.inference: _median(o.errors()[measure]) for o in others}
            best = min(median, key=median.__getitem__)
            parts = [f"{_median(alone.errors()[measure]):.2f} without counts (1: always wrong)"]
            for attacked in result.attacked:
                outcome = attacked.outcome(prior, best)
                if outcome is not None:
                    error = _median(outcome.errors()[measure])
                    parts.append(f"{error:.2f} with {attacked.protection.text()}")
            lines.append(
                f"The error of an adversary who knows {KNOWS[prior]} about the median person, {where}, is "
                f"{', '.join(parts)} (inference: {best})."
            )
    return lines


def _median(errors: np.ndarray) -> float:
    return float(np.nanmedian(errors)) if np.isfinite(errors).any() else 0.0


def _beside_raw(result: InferenceResult) -> dict[str, Any]:
    """The sentence, and for a release the chart: one prior, by what errs least on each set of counts."""
    first = result.attacked[:2]
    tried = [[o.divergence for o in each.outcomes if o.prior and o.inference != "prior"] for each in first]
    known = [o.divergence for o in result.raw.outcomes if o.inference == "prior"]
    if not known or not tried[0]:
        return {}
    errors = [known[0], *(min(each, key=np.mean) for each in tried)]
    means = [float(error.mean()) for error in errors]
    lowered = ", and ".join(
        f"to {mean:.3f} with {each.protection.text()}" for each, mean in zip(first, means[1:], strict=True)
    )
    sentence = (
        f"An adversary who knows people's habits has a mean error of {means[0]:.3f} about where they are (0: "
        f"always right, 1: always wrong); it falls {lowered}."
    )
    if len(first) == 1:
        return {"sentence": sentence}
    sentence = f"{sentence} {_gain_text(*means)}"
    if first[1].protection.method != RELEASE:
        return {"sentence": sentence}
    names = ("prior knowledge alone", "with raw counts", "with the release")
    of = "error about a person (0: always right, 1: always wrong)"
    chart = {"spread": spread(dict(zip(names, errors, strict=True)), of)}
    return {"sentence": sentence, "chart": chart}


def _gain_text(alone: float, raw: float, protected: float) -> str:
    """Share of the error removed by raw counts that protection restores, in words."""
    if alone - raw < 0.01:
        return "Raw counts hardly reduce the error of this adversary."
    regained = (protected - raw) / (alone - raw)
    if regained < 0.1:
        return f"Protection restores {max(regained, 0):.0%} of that error."
    return f"Protection restores {min(regained, 1):.0%} of the error that raw counts remove."
