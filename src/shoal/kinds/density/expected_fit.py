"""Constants of the expected errors, written by benchmarks/expected_error.py."""

from __future__ import annotations

from dataclasses import dataclass

VISITS_PER_WEEK = 13.59  # per user, once per site and slot, as counted in the simulated cities


@dataclass(frozen=True, kw_only=True)
class Fit:
    """See kinds/density/expected.py; nine of ten simulated points lie within a factor `off_by` of it."""

    model: float
    people: float
    gain: float
    power: float
    off_by: float


FITS: dict[str, Fit] = {
    "best": Fit(model=0.000123, people=0.573, gain=0.0834, power=0.453, off_by=1.26),
    "efpag": Fit(model=0.132, people=0.607, gain=0.104, power=0.553, off_by=1.18),
    "efpag-basic": Fit(model=0.444, people=0.469, gain=0.137, power=0.467, off_by=1.05),
    "efpag-repaired": Fit(model=0.0944, people=0.567, gain=0.165, power=0.526, off_by=1.17),
    "efpa": Fit(model=0.204, people=0.64, gain=0.0718, power=0.499, off_by=1.15),
    "gaussian": Fit(model=0.0276, people=1.42, gain=1.06, power=0.213, off_by=1.38),
    "laplace": Fit(model=0.000123, people=1.83, gain=0.924, power=0.275, off_by=1.48),
    "fpa": Fit(model=0.134, people=1.2, gain=1.21, power=0.187, off_by=1.31),
    "fpa-laplace": Fit(model=0.245, people=1.93, gain=0.766, power=0.318, off_by=1.67),
    "scm-cap": Fit(model=0.0808, people=1.58, gain=0.956, power=0.27, off_by=1.46),
    "scm-full": Fit(model=1.72, people=0.000123, gain=0.000445, power=1.05, off_by=54.28),
}
