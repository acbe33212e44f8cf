"""Several ways to hide records, on the same people, with the same metrics and attacks: one row each.

Computed from raw samples and scored against them: for the owner's eyes only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shoal.attacks.models.box_attacks import Known, attack_points, attack_window, draw_people
from shoal.attacks.runs.adversaries import note_look
from shoal.attacks.runs.findings import plain, write_findings
from shoal.attacks.tracker.evidence import verify_arrays
from shoal.baselines import COMPARATORS, needed
from shoal.errors import PlanError
from shoal.kinds.run import Progress, Silent
from shoal.metrics.trajectories import covering_boxes, granularity, suppressed_share
from shoal.metrics.trajectory_density import density_or_nan
from shoal.setting import Plan, rule, setting
from shoal.space.lattice import Lattice, steps_of
from shoal.stages.trajectories import Boxes, LatticeSamples

POINTS = (1, 2, 3, 4)
COARSE_M, COARSE_MINUTES = 1000, 60  # what an adversary with a poorer memory knows
SMALL_M, SMALL_MINUTES = 4000, 60  # Dx + Dy and Dt of a box that pins a person down
MOST_TARGETS = 3000


def compare_trajectories(
    samples: LatticeSamples,
    lattice: Lattice,
    plan: TrajectoryComparison,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Rows for a sample of the people, with everything that was set, ready for JSON."""
    tell = progress or Silent()
    people = draw_people(samples.users, plan.users, seed=plan.seed)
    some = only(samples, people)
    methods = compared_methods()
    names = plan.methods or tuple(n for n in methods if not (lattice.planar and n.startswith("h3")))
    tell.stage("compare methods", len(names))
    at = Setting(k=plan.k, tau_minutes=plan.tau_minutes, epoch_minutes=plan.epoch_minutes, lattice=lattice)
    rows = []
    for name in names:
        rows.append({"method": name, **_row(methods[name](at), some, lattice, plan)})
        tell.advance(1)
    return {
        "for": "the owner's eyes only: computed from raw samples",
        "users": some.users,
        "of_users": samples.users,
        "samples": some.count,
        "k": plan.k,
        "tau_minutes": plan.tau_minutes,
        "epoch_minutes": plan.epoch_minutes,
        "seed": plan.seed,
        "lattice": {"metres": lattice.metres, "minutes": lattice.minutes, "steps": lattice.steps},
        "points_known": {
            "exact": {"metres": lattice.metres, "minutes": lattice.minutes},
            "coarse": {"metres": COARSE_M, "minutes": COARSE_MINUTES},
        },
        "rows": rows,
    }


def compare_source(
    settings: Mapping[str, Any],
    out: Path,
    *,
    progress: Progress | None = None,
    **chosen: Any,
) -> tuple[dict[str, Any], Path]:
    """The same on the records of a trajectory plan's settings; the figures go to the owner's folder `out`.

    `chosen` are methods, users and seed.
    """
    from shoal.kinds.trajectories.blocks import open_samples
    from shoal.kinds.trajectories.plan import TrajectoryPlan

    release = TrajectoryPlan.from_settings({"population": "nobody's: a comparison", **settings})
    tau, epoch = release.minutes()
    comparison = TrajectoryComparison(k=release.k, tau_minutes=tau, epoch_minutes=epoch, **chosen)
    note_look(settings, "trajectory comparison", out)
    samples, _, lattice = open_samples(release, progress)
    result = compare_trajectories(samples, lattice, comparison, progress)
    return result, write_findings(out, "compare", result)["json"]


def only(samples: LatticeSamples, people: np.ndarray) -> LatticeSamples:
    """The samples of some people, numbered anew in the same order."""
    if len(people) == samples.users:
        return samples
    from shoal.kinds.trajectories.blocks import of_users

    return of_users(samples, people)


def _row(
    method: Method, samples: LatticeSamples, lattice: Lattice, plan: TrajectoryComparison
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "words": method.words,
        "promise": method.promise,
        "truthful": method.truthful,
    }
    begin = time.perf_counter()
    try:
        boxes = method.make(samples, lattice)
    except PlanError as refused:
        return {**row, "refused": f"{refused.code}: {refused.message}"}
    row["seconds"] = round(time.perf_counter() - begin, 2)
    row.update(_utility(samples, boxes, lattice))
    attacks, violations = _attacks(samples, boxes, lattice, plan)
    row["broken"] = method.broken(boxes, lattice) if method.broken else violations
    return {**row, **attacks}


def _utility(samples: LatticeSamples, boxes: Boxes, lattice: Lattice) -> dict[str, Any]:
    covering = covering_boxes(samples, boxes)
    spans = granularity(boxes, covering, minutes=lattice.minutes, metres=lattice.metres).per_sample
    error = density_or_nan(samples, boxes)
    return {
        "records": len(np.unique(boxes.record)),
        "boxes": boxes.count,
        "suppressed": plain(suppressed_share(covering)),
        "space_m": {name: plain(value) for name, value in asdict(spans.space_m).items()},
        "time_min": {name: plain(value) for name, value in asdict(spans.time_min).items()},
        "density": {
            "total_variation": plain(error.total_variation),
            "relative_error": plain(error.relative_error),
            "total_ratio": plain(error.total_ratio),
        },
    }


def _attacks(
    samples: LatticeSamples, boxes: Boxes, lattice: Lattice, plan: TrajectoryComparison
) -> tuple[dict[str, Any], int]:
    """Figures of the attacks, and the windows with fewer than k candidates."""
    columns = (*samples.columns, *boxes.columns)
    known = Known.of(*columns, users=samples.users)
    common = {"seed": plan.seed, "targets": MOST_TARGETS}
    coarse = {
        "block_steps": max(round(COARSE_MINUTES / lattice.minutes), 1),
        "block_cells": max(round(COARSE_M / lattice.metres), 1),
    }
    points = {
        name: [
            {"points": f.points, "unique": plain(f.unique_share), "linked": plain(f.linked_share)}
            for f in attack_points(known, POINTS, **blocks, **common)
        ]
        for name, blocks in (("exact", {}), ("coarse", coarse))
    }
    tau = steps_of(plan.tau_minutes, lattice)
    small = {
        "small_steps": SMALL_MINUTES // lattice.minutes,
        "small_cells": int(SMALL_M // lattice.metres),
    }
    window = attack_window(known, tau, **small, **common)
    verdict = verify_arrays(*columns, users=samples.users, steps=samples.steps, k=plan.k, tau=tau)
    share = verdict.violations / verdict.pairs_checked if verdict.pairs_checked else float("nan")
    figures = {
        "unicity": points,
        "below_k": plain(share),
        "users_below_k": verdict.users_hit,
        "window": {name: plain(value) for name, value in asdict(window).items()},
    }
    return figures, verdict.violations


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Settings of a method."""

    k: int
    tau_minutes: int
    epoch_minutes: int
    lattice: Lattice


@dataclass(frozen=True, kw_only=True)
class Method:
    """One row: what it promises and does, how boxes are made, and how often they break its own promise."""

    promise: str
    truthful: bool
    words: str
    make: Callable[[LatticeSamples, Lattice], Boxes]
    broken: Callable[[Boxes, Lattice], int | None] | None  # None: the tracker's verdict is the check


def tracked(at: Setting, hide: Callable[..., Any], words: str, as_said: str = "") -> Method:
    """A method that promises k records for any tau; the tracker's verdict is the check."""
    tau, epoch = steps_of(at.tau_minutes, at.lattice), steps_of(at.epoch_minutes, at.lattice)
    return Method(
        promise=f"any {at.tau_minutes} min fit {at.k} records{as_said}",
        truthful=True,
        words=words,
        make=lambda samples, _: hide(k=at.k, tau_steps=tau, epoch_steps=epoch)(samples),
        broken=None,
    )


def _kte(at: Setting) -> Method:
    from shoal.anonymise.kte import Kte

    return tracked(at, Kte, "the release of `shoal trajectories run`")


METHODS: dict[str, Callable[[Setting], Method]] = {"kte": _kte}


def compared_methods() -> dict[str, Callable[[Setting], Method]]:
    """Every method of a comparison by name: baselines first, then our own."""
    return {**needed("anonymise.methods:ROWS", "a comparison of trajectories"), **METHODS}


@dataclass(frozen=True, kw_only=True)
class TrajectoryComparison(Plan):
    """A comparison: methods by name, at one k, against a tracker of tau."""

    k: int = setting(2, "People to hide among.", least=2, code="compare-range")
    tau_minutes: int = setting(30, "How long an adversary tracks a person.", least=1, code="compare-range")
    epoch_minutes: int = setting(30, "Epoch of the release.", least=1, code="compare-range")
    methods: tuple[str, ...] = setting(
        (),
        f"{', '.join((*COMPARATORS['trajectories'], *METHODS))}.",
        shown="all",
        metavar="NAME,...",
    )
    users: int = setting(3000, "A sample of the people.", least=2, code="compare-range")
    seed: int = setting(1, "Seed of sample and attacks.", least=0)

    @rule("methods")
    def _known_methods(self) -> None:
        known = compared_methods()
        unknown = [name for name in self.methods if name not in known]
        if unknown:
            raise PlanError(
                "compare-method",
                f'there is no method "{unknown[0]}"; known are {", ".join(known)}.',
                "Pass --methods raw,kte, say.",
            )
