"""The stage a mechanism takes, counted from the events: exact zone counts, cover counts, visits."""

from __future__ import annotations

from typing import Any

from shoal.engine.density import all_counts, cover_counts, exact_counts, scalable_counts
from shoal.errors import PlanError
from shoal.kinds.counting import Counting
from shoal.kinds.density.method import MethodOptions
from shoal.space.setting import Setting


def stage_for(mechanism: Any, counting: Counting, setting: Setting, options: MethodOptions) -> Any:
    """What `mechanism` is called with: bounded by its own ell and cap where it has them."""
    if mechanism.takes not in STAGES:
        raise PlanError("stage", f"no stage of a density is called {mechanism.takes!r}.")
    return STAGES[mechanism.takes](mechanism, counting, setting, options)


def bounds_of(mechanism: Any, options: MethodOptions) -> tuple[int, int]:
    """ell and cap the events are counted under: the mechanism's own, else as declared."""
    return getattr(mechanism, "ell", options.ell), getattr(mechanism, "cap", options.cap)


def _counts(mechanism, counting, setting, options):
    return exact_counts(counting.bounded(*bounds_of(mechanism, options)), setting.weights)


def _scalable(mechanism, counting, setting, options):
    return scalable_counts(counting.bounded(*bounds_of(mechanism, options)), setting.weights)


def _all_counts(mechanism, counting, setting, options):
    return all_counts(counting.all_visits(), setting.weights)


def _all_visits(mechanism, counting, setting, options):
    return counting.all_visits()


def _cover(mechanism, counting, setting, options):
    return cover_counts(counting.bounded(*bounds_of(mechanism, options)), mechanism.cover)


def _bounded(mechanism, counting, setting, options):
    return counting.bounded(*bounds_of(mechanism, options))


def _visits(mechanism, counting, setting, options):
    return counting.visits(options.cap)


STAGES = {
    "counts": _counts,
    "scalable": _scalable,
    "cover": _cover,
    "bounded": _bounded,
    "visits": _visits,
    # for comparators, which no release can be made of
    "all counts": _all_counts,
    "all visits": _all_visits,
}
