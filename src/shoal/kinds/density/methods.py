"""Every density method by its name, in the order they are shown.

METHODS may be released; COMPARATORS have no guarantee for users, or less than their epsilon reads like, and
can be compared only.

>>> METHODS["laplace"].pure, COMPARATORS["threshold"].kind
(True, 'comparison')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.errors import PlanError
from shoal.kinds.density import method_build as make
from shoal.kinds.density.method import DensityMechanism, Method, MethodOptions
from shoal.kinds.density.method_text import read_best, read_gaussian, read_laplace, read_scheme, read_waves

__all__ = ["COMPARATORS", "METHODS", "DensityMechanism", "Method", "MethodOptions", "method_named"]


def method_named(name: str) -> Method:
    """The method called `name`, of those that can be released."""
    if name in METHODS:
        return METHODS[name]
    if name in COMPARATORS:
        raise PlanError(
            "plan-comparison",
            f"{name} is there for comparison only: it does not protect a user as a release must.",
            f"See it with `shoal density compare --method {name}`; release with {_listed(METHODS)}.",
        )
    raise PlanError("plan-method", f"there is no method {name!r}.", f"Use {_listed(METHODS)}.")


def any_method(name: str) -> Method:
    """The method called `name`, also of those for comparison only."""
    known = METHODS | COMPARATORS
    if name not in known:
        raise PlanError("plan-method", f"there is no method {name!r}.", f"Use {_listed(known)}.")
    return known[name]


def _by_name(methods: Iterable[Method]) -> dict[str, Method]:
    return {method.name: method for method in methods}


def _listed(names: Mapping[str, Any]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


METHODS: dict[str, Method] = _by_name(
    (
        Method(
            name="best",
            words="all visits, measured coarse to fine with Gaussian noise, smoothed over zones",
            pure=False,
            build=make.best,
            finish=make.finish_best,
            reading=read_best,
            uses=("users",),
        ),
        Method(
            name="efpag",
            words="clusters of cells, few waves each, Gaussian noise",
            pure=False,
            build=make.efpag,
            finish=make.finish_scheme,
            describe=make.describe_efpag,
            reading=read_scheme,
            uses=("ell", "cap", "nights"),
        ),
        Method(
            name="efpag-basic",
            words="efpag before its improvements",
            pure=False,
            build=make.efpag_basic,
            finish=make.finish_scheme_basic,
            describe=make.describe_efpag,
            reading=read_scheme,
            uses=("ell",),
        ),
        Method(
            name="efpag-repaired",
            words=f"efpag with larger clusters, ell {make.REPAIRED_ELL}",
            pure=False,
            build=make.efpag_repaired,
            finish=make.finish_scheme,
            describe=make.describe_efpag,
            reading=read_scheme,
            uses=("cap", "nights"),
        ),
        Method(
            name="efpa",
            words="efpag with Laplace noise, pure",
            pure=True,
            build=make.efpa,
            finish=make.finish_scheme,
            describe=make.describe_scheme,
            reading=read_scheme,
            uses=("ell", "cap", "nights"),
        ),
        Method(
            name="gaussian",
            words="plain counts, Gaussian noise, scaled up (GPA)",
            pure=False,
            build=make.gaussian,
            finish=make.finish_scaled,
            uses=("ell", "cap"),
            noise=make.gaussian_noise,
            describe=make.describe_gaussian,
            reading=read_gaussian,
        ),
        Method(
            name="laplace",
            words="plain counts, Laplace noise, scaled up, pure (LPA)",
            pure=True,
            build=make.laplace,
            finish=make.finish_scaled,
            uses=("ell", "cap"),
            noise=make.laplace_noise,
            describe=make.describe_laplace,
            reading=read_laplace,
        ),
        Method(
            name="fpa",
            words="the slowest waves of each zone, Gaussian noise",
            pure=False,
            build=make.fpa,
            finish=make.finish_scaled,
            uses=("ell", "cap"),
            noise=make.wave_noise,
            describe=make.describe_counts,
            reading=read_waves,
        ),
        Method(
            name="fpa-laplace",
            words="the slowest waves of each zone, Laplace noise, pure",
            pure=True,
            build=make.fpa_laplace,
            finish=make.finish_scaled,
            uses=("ell", "cap"),
            noise=make.wave_noise,
            describe=make.describe_counts,
            reading=read_waves,
        ),
        Method(
            name="scm-cap",
            words="laplace under its name in SCM (cap level)",
            pure=True,
            build=make.laplace,
            finish=make.finish_scaled,
            uses=("ell", "cap"),
            noise=make.laplace_noise,
            describe=make.describe_laplace,
            reading=read_laplace,
        ),
        Method(
            name="scm-full",
            words="noise for a visit in every zone and slot, pure",
            pure=True,
            build=make.scm_full,
            finish=make.finish_scaled,
            uses=("cap",),
            noise=make.laplace_noise,
            describe=make.describe_laplace,
            reading=read_laplace,
        ),
    )
)

COMPARATORS: dict[str, Method] = _by_name(
    (
        Method(
            name="published",
            kind="comparison",
            words="efpag with the noise its paper prints, exact number of users (delta 2e-6)",
            pure=True,
            build=make.published,
            finish=make.finish_plain,
        ),
        Method(
            name="published-efpa",
            kind="comparison",
            words="efpa with the noise its paper prints, exact number of users",
            pure=True,
            build=make.published_efpa,
            finish=make.finish_plain,
        ),
        Method(
            name="published-later",
            kind="comparison",
            words="the later survey's form: zones as cells, totals with too little noise (delta 2e-6)",
            pure=True,
            build=make.published_later,
            finish=make.finish_plain,
        ),
        Method(
            name="scm-event",
            kind="comparison",
            words="counts with Laplace noise for one visit (SCM, event level)",
            pure=True,
            build=make.scm_event,
            finish=make.finish_plain,
        ),
        Method(
            name="scm-zone",
            kind="comparison",
            words="counts with Laplace noise for one zone's series (SCM, zone level)",
            pure=True,
            build=make.scm_zone,
            finish=make.finish_plain,
        ),
        Method(
            name="spotme",
            kind="comparison",
            set_by_epsilon=False,
            words=f"every user answers at random with probability {make.SPOTME_P:g}, else truly (SpotMe)",
            pure=True,
            build=make.spotme,
            finish=make.finish_plain,
        ),
        Method(
            name="threshold",
            kind="comparison",
            set_by_epsilon=False,
            words=f"exact counts of {make.THRESHOLD_K} and more, others hidden (threshold suppression)",
            pure=True,
            build=make.threshold,
            finish=make.finish_plain,
        ),
    )
)
