"""A comparison on disk: compare.json with every run, compare.html with utility against epsilon."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from shoal.kinds.density.compare import ComparePlan, Comparison, World
from shoal.kinds.density.compare_page import (
    ComparedMethod,
    ComparedSlots,
    CompareReportInputs,
    write_compare_report,
)
from shoal.kinds.density.methods import any_method
from shoal.kinds.run import open_owner_folder
from shoal.metrics.density import relative_errors
from shoal.release.staging import private_file, unwritable

FIGURES = ("mre", "pc", "emd_m", "bias", "mae", "coverage", "seconds")


def means(found: Comparison) -> list[dict[str, Any]]:
    """One row per method and epsilon: the mean of each figure over its repetitions."""
    rows: dict[tuple[str, float], list] = {}
    for run in found.runs:
        rows.setdefault((run.method, run.set_at), []).append(run)
    return [
        {
            "method": method,
            "set_at": set_at,
            "epsilon": runs[0].epsilon,
            "delta": runs[0].delta,
            "repetitions": len(runs),
            **{name: _mean([getattr(run, name) for run in runs]) for name in FIGURES},
        }
        for (method, set_at), runs in rows.items()
    ]


def comparison_json(world: World, plan: ComparePlan, found: Comparison) -> dict[str, Any]:
    """All that was compared, as plain values; methods for comparison only have no epsilon."""
    return {
        "on_private_data": world.private,
        "what": world.subtitle,
        "users": world.users,
        "warnings": list(world.warnings),
        "assumptions": list(world.assumptions),
        "seeded": plan.seed is not None,
        "methods": [
            {
                "name": name,
                "kind": "release" if any_method(name).sound else "comparison",
                "set_by_epsilon": any_method(name).set_by_epsilon,
                "words": any_method(name).summary,
                "guarantee": found.guarantees[name],
            }
            for name in plan.methods
        ],
        "means": means(found),
        "runs": [asdict(run) for run in found.runs],
    }


def write_comparison(folder: Path, world: World, plan: ComparePlan, found: Comparison) -> tuple[Path, Path]:
    """compare.html and compare.json in `folder`, readable by the owner alone; earlier ones are replaced."""
    folder = open_owner_folder(folder)
    page, figures = folder / "compare.html", folder / "compare.json"
    told = comparison_json(world, plan, found)
    try:
        write_compare_report(page, _inputs(world, plan, found))
        with private_file(figures, text=True) as file:
            json.dump(told, file, indent=2)
    except OSError as error:
        raise unwritable(folder, error) from error
    return page, figures


def _inputs(world: World, plan: ComparePlan, found: Comparison) -> CompareReportInputs:
    rows = [{**asdict(run), "epsilon": run.set_at} for run in found.runs]
    return CompareReportInputs(
        title="Density methods compared",
        subtitle=world.subtitle,
        rows=rows,
        methods=tuple(_method(name, found.guarantees) for name in plan.methods),
        warnings=world.warnings,
        assumptions=world.assumptions,
        on_private_data=world.private,
        slots=_slots(world, found),
        boxes=found.boxes,
    )


def _method(name: str, guarantees: Mapping[str, str]) -> ComparedMethod:
    method = any_method(name)
    return ComparedMethod(name=name, words=method.summary, guarantee=guarantees[name], sound=method.sound)


def _slots(world: World, found: Comparison) -> ComparedSlots:
    """The busiest zone's series, and errors by slot."""
    busiest = int(np.argmax(found.exact.sum(axis=1)))
    setting = world.counting.setting
    return ComparedSlots(
        epsilon=found.shown_epsilon,
        slot_starts=setting.clock.starts_local(),
        zone=world.zones.names[busiest],
        zone_exact=found.exact[busiest],
        zone_people={name: people[busiest] for name, people in found.shown.items()},
        mre={name: _by_slot(found.exact, people) for name, people in found.shown.items()},
    )


def _by_slot(exact: np.ndarray, people: np.ndarray) -> np.ndarray:
    """Relative error of each slot: mean over zones with people; zeros where there are none."""
    visited = exact.sum(axis=1) > 0
    if not visited.any():
        return np.zeros(exact.shape[1])
    return relative_errors(exact[visited], people[visited]).mean(axis=0)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
