"""What raw counts and protected ones tell an adversary with prior knowledge about each person.

open      events of observed and inferred time -> known visits          exact, the owner's eyes only
raw       priors x inferences on the raw counts
defend    density methods at several epsilons, or a release             what is published
again     the same adversaries on the protected counts
tell      privacy lost to raw counts, won back by protection; figures, words, a page
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from shoal.attacks.models.framework import Outcome, attack_counts, privacy_gain, privacy_loss, series_mre
from shoal.attacks.models.infer import INFERENCES
from shoal.attacks.models.priors import PRIORS, Periods
from shoal.attacks.models.rows import TruthRows
from shoal.attacks.runs.defences import defender_of, released_people, with_null
from shoal.attacks.runs.source import AttackSource, open_attack_source
from shoal.errors import PlanError
from shoal.kinds.density.methods import METHODS, MethodOptions
from shoal.kinds.plan import DEFAULT_DELTA
from shoal.kinds.source import Progress, Silent
from shoal.space.clock import Clock


@dataclass(frozen=True, kw_only=True)
class InferencePlan:
    """Which adversaries, against which defences. `split`: where observed time ends, a local time."""

    split: str | None = None  # None: the last week of the window is inferred
    priors: tuple[str, ...] = ("freq_roi", "roi_day_week", "last_week")
    inferences: tuple[str, ...] = INFERENCES
    defences: tuple[str, ...] = ()
    epsilons: tuple[float, ...] = (0.1, 1.0)
    delta: float = DEFAULT_DELTA
    release: Path | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        for given, known, what in (
            (self.priors, PRIORS, "prior"),
            (self.inferences, INFERENCES, "inference"),
        ):
            unknown = [name for name in given if name not in known]
            if unknown or not given:
                raise PlanError(
                    f"attack-{what}",
                    f"there is no {what} {unknown[0]!r}." if unknown else f"name at least one {what}.",
                    f"Choose from {', '.join(known)}.",
                )


@dataclass(frozen=True, kw_only=True, eq=False)
class Attacked:
    """Outcomes on one set of counts. `epsilon` is what the method was set at; None: raw, or a release."""

    defence: str | None  # None: raw counts
    epsilon: float | None
    outcomes: list[Outcome] = field(repr=False)
    mre: float | None = None  # of the published counts


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


def attack_inference(
    settings: Mapping[str, Any], plan: InferencePlan, *, progress: Progress | None = None
) -> InferenceResult:
    """Read the events, attack raw counts and every defence."""
    tell = progress or Silent()
    source = open_attack_source(settings, progress=tell)
    return infer_from(source, plan, options=None, progress=tell)


def infer_from(
    source: AttackSource, plan: InferencePlan, *, options: MethodOptions | None, progress: Progress
) -> InferenceResult:
    """The same on visits that were read before."""
    visits, clock = source.visits, source.clock
    periods = periods_of(clock, plan.split)
    inferred = _later(clock, periods.split)
    observed, last = visits.between(0, periods.split), visits.between(periods.split, periods.slots)
    exact = TruthRows(visits).counts(periods.split, periods.slots)

    def attack(defence: str | None, epsilon: float | None, counts: np.ndarray) -> Attacked:
        words = "raw counts" if defence is None else f"{defence} {epsilon:g}" if epsilon else defence
        progress.stage(f"attack {words}", len(plan.priors) * periods.inferred)
        found = attack_counts(
            visits,
            periods,
            priors=plan.priors,
            inferences=plan.inferences,
            counts=counts,
            tell=lambda *_: progress.advance(1),
        )
        mre = None if defence is None else series_mre(exact[:-1], counts[:-1])
        return Attacked(defence=defence, epsilon=epsilon, outcomes=found, mre=mre)

    attacked = [attack(None, None, exact)]
    if plan.release is not None:
        people = released_people(plan.release, list(source.geography.zones.ids), inferred)
        attacked.append(attack("release", None, with_null(people, observed)))
    if plan.defences:
        defender = defender_of(
            last, source.setting, inferred, delta=plan.delta, options=options, seed=plan.seed
        )
        for name in plan.defences:
            for epsilon in plan.epsilons:
                people = defender.people(name, epsilon)
                attacked.append(attack(name, epsilon, with_null(people, observed)))
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


def _later(clock: Clock, slot: int) -> Clock:
    """The clock from a slot on."""
    start = datetime.fromisoformat(clock.starts_local()[slot]).replace(tzinfo=None)
    return Clock(start=start, end=clock.end, time_zone=clock.time_zone, slot_minutes=clock.slot_minutes)


def result_rows(result: InferenceResult) -> list[dict[str, Any]]:
    """One row per prior, inference, goal and reading: mean errors, privacy lost and won back."""
    rows = []
    raw = {(o.prior, o.inference): o for o in result.raw.outcomes}
    for attacked in result.attacked:
        for outcome in attacked.outcomes:
            base = raw.get((outcome.prior, "prior"))
            same = raw[outcome.prior, outcome.inference]
            goals = [
                ("profiling", "divergence", outcome.divergence, same.divergence, base and base.divergence),
                ("profiling", "distance", outcome.distance, same.distance, base and base.distance),
                ("profiling", "seen", outcome.seen, same.seen, base and base.seen),
                *(
                    ("localization", reading, found, same.localization[reading], _located(base, reading))
                    for reading, found in outcome.localization.items()
                ),
            ]
            for goal, measure, error, with_raw, alone in goals:
                known = ~np.isnan(error)  # who is never seen has no error when seen
                error, with_raw = error[known], with_raw[known]
                alone = None if alone is None else alone[known]
                rows.append(
                    {
                        "prior": outcome.prior,
                        "inference": outcome.inference,
                        "goal": goal,
                        "measure": measure,
                        "defence": attacked.defence,
                        "set_at": attacked.epsilon,
                        # methods for comparison promise no user anything, whatever they were set at
                        "epsilon": attacked.epsilon if attacked.defence in METHODS else None,
                        "error": _mean(error),
                        "error_median": float(np.median(error)) if error.size else None,
                        "privacy_loss": None if alone is None else _mean(privacy_loss(alone, error)),
                        "privacy_gain": None
                        if attacked.defence is None
                        else _mean(privacy_gain(with_raw, error)),
                        "mre": attacked.mre,
                    }
                )
    return rows


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if values.size else None


def _located(base: Outcome | None, reading: str) -> np.ndarray | None:
    return None if base is None else base.localization.get(reading, base.localization["all"])
