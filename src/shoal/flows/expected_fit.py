"""Constants of the expected errors, written by benchmarks/expected_error.py."""

from __future__ import annotations

from dataclasses import dataclass

VISITS_PER_WEEK = 7.66  # per user, at most one in an hour, as counted in the simulated cities


@dataclass(frozen=True, kw_only=True)
class Fit:
    """See shoal/flows/expected.py; nine of ten simulated points lie within a factor `off_by` of it."""

    model: float
    people: float
    gain: float
    power: float
    off_by: float


FITS: dict[str, Fit] = {
    "efpag": Fit(model=0.128, people=0.521, gain=0.0593, power=0.603, off_by=1.37),
    "efpag-basic": Fit(model=0.0835, people=0.432, gain=0.151, power=0.484, off_by=1.12),
    "efpag-repaired": Fit(model=0.142, people=0.505, gain=0.104, power=0.581, off_by=1.21),
    "efpa": Fit(model=0.199, people=0.549, gain=0.0603, power=0.447, off_by=1.22),
    "gaussian": Fit(model=0.000123, people=0.552, gain=0.669, power=0.38, off_by=1.35),
    "laplace": Fit(model=0.000123, people=0.827, gain=0.578, power=0.435, off_by=1.41),
    "fpa": Fit(model=0.123, people=0.547, gain=0.71, power=0.364, off_by=1.33),
    "fpa-laplace": Fit(model=0.163, people=1.45, gain=0.467, power=0.48, off_by=1.67),
    "scm-cap": Fit(model=0.000123, people=0.766, gain=0.588, power=0.436, off_by=1.46),
    "scm-full": Fit(model=1.39, people=7.39, gain=0.084, power=0.872, off_by=1.96),
}
