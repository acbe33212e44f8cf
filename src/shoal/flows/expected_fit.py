"""Constants of the expected errors, written by benchmarks/expected_error.py."""

from __future__ import annotations

from dataclasses import dataclass

VISITS_PER_WEEK = 13.59  # per user, once per site and slot, as counted in the simulated cities


@dataclass(frozen=True, kw_only=True)
class Fit:
    """See shoal/flows/expected.py; nine of ten simulated points lie within a factor `off_by` of it."""

    model: float
    people: float
    gain: float
    power: float
    off_by: float


FITS: dict[str, Fit] = {
    "efpag": Fit(model=0.128, people=0.624, gain=0.0819, power=0.592, off_by=1.28),
    "efpag-basic": Fit(model=0.444, people=0.468, gain=0.133, power=0.476, off_by=1.05),
    "efpag-repaired": Fit(model=0.0944, people=0.567, gain=0.165, power=0.526, off_by=1.17),
    "efpa": Fit(model=0.199, people=0.651, gain=0.07, power=0.474, off_by=1.22),
    "gaussian": Fit(model=0.494, people=0.715, gain=0.476, power=0.427, off_by=1.28),
    "laplace": Fit(model=0.551, people=1.12, gain=0.373, power=0.502, off_by=1.43),
    "fpa": Fit(model=0.474, people=0.574, gain=0.549, power=0.394, off_by=1.23),
    "fpa-laplace": Fit(model=0.646, people=1.53, gain=0.216, power=0.62, off_by=1.46),
    "scm-cap": Fit(model=0.547, people=1.01, gain=0.398, power=0.492, off_by=1.41),
    "scm-full": Fit(model=1.72, people=7.39, gain=0.0799, power=0.87, off_by=1.96),
}
