"""Planted bugs between the noise and the values of zones and slots."""

from __future__ import annotations

from dataclasses import replace

from shoal.auditing.pipelines.pipeline import Pipeline
from shoal.auditing.planted.patches import Bug, call_bug
from shoal.privacy.noise import Noise
from shoal.stages.exact import ExactCounts
from shoal.stages.noisy import NoisyCounts


def value_bugs(true: Pipeline) -> list[Bug]:
    """Bugs between the noise and the values of a cell."""
    bugs = [
        call_bug("retry until nothing is negative", _retry),
        call_bug("exception when a zone is empty", _refuse_empty_zone, raises=True),
    ]
    if on_cells(true):
        bugs.append(call_bug("low bits of the exact count in the output", _off_lattice))
    return bugs


def on_cells(pipeline: Pipeline) -> bool:
    """Whether noise is added to the counts themselves, so that noisy ones stay on the lattice."""
    return tuple(dict(pipeline.spends())) == ("counts",)


def _off_lattice(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    """Floats mixed into a right answer carry low bits of the exact count."""
    noisy = true(exact, noise)
    return replace(noisy, values=noisy.values + exact.units / exact.lattice * 2.0**-30 + 2.0**-31)


def _retry(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    for _ in range(20):
        noisy = true(exact, noise)
        if (noisy.values >= 0).all():
            break
    return noisy


def _refuse_empty_zone(true, exact: ExactCounts, noise: Noise) -> NoisyCounts:
    if (exact.units.sum(axis=1) == 0).any():
        raise ValueError("a zone has no visits.")
    return true(exact, noise)
