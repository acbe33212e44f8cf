"""Constants of the expected errors, written by benchmarks/expected_error.py; not to be edited by hand."""

from __future__ import annotations

from dataclasses import dataclass

VISITS_PER_WEEK = 7.68  # per user, at most one in an hour, as counted in the simulated cities


@dataclass(frozen=True, kw_only=True)
class Fit:
    """See shoal/flows/expected.py; nine of ten simulated points lie within a factor `off_by` of the formula."""

    model: float
    people: float
    gain: float
    power: float
    off_by: float


FITS: dict[str, Fit] = {
    "efpag": Fit(model=0.201, people=0.492, gain=0.035, power=0.741, off_by=1.33),
    "efpag-basic": Fit(model=0.0605, people=0.445, gain=0.166, power=0.461, off_by=1.11),
    "efpag-repaired": Fit(model=0.185, people=0.482, gain=0.0912, power=0.622, off_by=1.18),
    "efpa": Fit(model=0.145, people=0.53, gain=0.101, power=0.384, off_by=1.28),
    "gaussian": Fit(model=0.63, people=0.836, gain=0.308, power=0.586, off_by=1.24),
    "laplace": Fit(model=0.907, people=1.31, gain=0.135, power=0.765, off_by=1.3),
    "fpa": Fit(model=0.000123, people=0.513, gain=0.558, power=0.454, off_by=1.37),
    "fpa-laplace": Fit(model=1.13, people=1.51, gain=0.0927, power=0.83, off_by=1.29),
    "scm-cap": Fit(model=0.912, people=0.973, gain=0.181, power=0.718, off_by=1.3),
    "scm-full": Fit(model=7.39, people=7.39, gain=0.0367, power=0.981, off_by=1.45),
}
