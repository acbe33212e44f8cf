"""Every density method by its name, in the order they are shown.

METHODS may be released; COMPARATORS have no guarantee for users, or less than their epsilon reads like, and
can be compared only.

>>> METHODS["laplace"].pure, COMPARATORS["threshold"].kind
(True, 'comparison')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.comparators.scm_event import ScmEvent
from shoal.comparators.scm_zone import ScmZone
from shoal.comparators.spotme import SpotMe
from shoal.comparators.threshold import Threshold
from shoal.errors import PlanError
from shoal.flows.method import DensityMechanism, Method, MethodOptions
from shoal.flows.method_words import read_gaussian, read_laplace, read_waves
from shoal.mechanisms.density_fpa import DensityFpa
from shoal.mechanisms.density_fpa_laplace import DensityFpaLaplace
from shoal.mechanisms.density_gaussian import DensityGaussian
from shoal.mechanisms.density_laplace import DensityLaplace
from shoal.mechanisms.density_scm_full import DensityScmFull
from shoal.postprocess.density import plain_density
from shoal.privacy.accounting import NANO
from shoal.privacy.budget import Budget
from shoal.space.setting import Setting
from shoal.stages.noisy import DensityEstimate

__all__ = ["COMPARATORS", "METHODS", "DensityMechanism", "Method", "MethodOptions", "method_named"]

SPOTME_P = 0.5  # of the published range .1 to .9 (Pyrgelis et al. 2017, table 5)
THRESHOLD_K = 10  # people: a usual rule of thumb


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


def build_gaussian(
    budget: Budget, setting: Setting, options: MethodOptions, kind: Any = DensityGaussian
) -> Any:
    """Plain counts, or waves of them, with all of the budget in Gaussian noise."""
    counts, _ = budget.take("counts", 1)
    weights = setting.weights
    return kind.within(
        counts.rho_nano,
        ell=options.ell,
        slots=setting.slots,
        column_l2_squared=weights.column_l2_squared,
        lattice=weights.lattice,
    )


def build_laplace(
    budget: Budget, setting: Setting, options: MethodOptions, kind: Any = DensityLaplace
) -> Any:
    """The same in Laplace noise."""
    counts, _ = budget.take("counts", 1)
    weights = setting.weights
    return kind.within(
        counts.epsilon_nano,
        ell=options.ell,
        slots=setting.slots,
        column_l1=weights.column_l1,
        lattice=weights.lattice,
    )


def build_scm_full(budget: Budget, setting: Setting, options: MethodOptions) -> DensityScmFull:
    counts, _ = budget.take("counts", 1)
    return DensityScmFull.within(
        counts.epsilon_nano, zones=setting.zones, slots=setting.slots, lattice=setting.weights.lattice
    )


def _finish_plain(noisy: Any, setting: Setting, options: MethodOptions) -> DensityEstimate:
    return plain_density(noisy)


def _asked(budget: Budget) -> float:
    """The epsilon a comparator's noise is set by."""
    return budget.left / NANO


def _by_name(methods: Iterable[Method]) -> dict[str, Method]:
    return {method.name: method for method in methods}


def _listed(names: Mapping[str, Any]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


METHODS: dict[str, Method] = _by_name(
    (
        Method(
            name="gaussian",
            words="plain counts with Gaussian noise (GPA)",
            pure=False,
            build=build_gaussian,
            finish=_finish_plain,
            describe=lambda m: {"noise_scale_people": m.sigma / m.lattice, "lattice": m.lattice},
            reading=read_gaussian,
        ),
        Method(
            name="laplace",
            words="plain counts with Laplace noise, pure (LPA)",
            pure=True,
            build=build_laplace,
            finish=_finish_plain,
            describe=lambda m: {"noise_scale_people": m.scale / m.lattice, "lattice": m.lattice},
            reading=read_laplace,
        ),
        Method(
            name="fpa",
            words="the slowest waves of each zone with Gaussian noise (FPA)",
            pure=False,
            build=lambda b, s, o: build_gaussian(b, s, o, DensityFpa),
            finish=_finish_plain,
            reading=read_waves,
        ),
        Method(
            name="fpa-laplace",
            words="the slowest waves of each zone with Laplace noise, pure (FPA)",
            pure=True,
            build=lambda b, s, o: build_laplace(b, s, o, DensityFpaLaplace),
            finish=_finish_plain,
            reading=read_waves,
        ),
        Method(
            name="scm-cap",
            words="counts with Laplace noise for ell visits, pure (SCM, cap level: the same as laplace)",
            pure=True,
            build=build_laplace,
            finish=_finish_plain,
            describe=lambda m: {"noise_scale_people": m.scale / m.lattice, "lattice": m.lattice},
            reading=read_laplace,
        ),
        Method(
            name="scm-full",
            words="counts with Laplace noise for a visit in every zone and slot, pure (SCM, full level)",
            pure=True,
            build=build_scm_full,
            finish=_finish_plain,
            reading=read_laplace,
        ),
    )
)

COMPARATORS: dict[str, Method] = _by_name(
    (
        Method(
            name="scm-event",
            kind="comparison",
            words="counts with Laplace noise for one visit (SCM, event level)",
            pure=True,
            build=lambda b, s, o: ScmEvent(epsilon=_asked(b), ell=o.ell, slots=s.slots),
            finish=_finish_plain,
        ),
        Method(
            name="scm-zone",
            kind="comparison",
            words="counts with Laplace noise for one zone's series (SCM, zone level)",
            pure=True,
            build=lambda b, s, o: ScmZone(epsilon=_asked(b), ell=o.ell, slots=s.slots),
            finish=_finish_plain,
        ),
        Method(
            name="spotme",
            kind="comparison",
            set_by_epsilon=False,
            words=f"every user answers at random with probability {SPOTME_P:g}, else truly (SpotMe)",
            pure=True,
            build=lambda b, s, o: SpotMe(p=SPOTME_P, ell=o.ell, weights=s.weights),
            finish=_finish_plain,
        ),
        Method(
            name="threshold",
            kind="comparison",
            set_by_epsilon=False,
            words=f"exact counts of {THRESHOLD_K} and more, others hidden (threshold suppression)",
            pure=True,
            build=lambda b, s, o: Threshold(k=THRESHOLD_K, ell=o.ell),
            finish=_finish_plain,
        ),
    )
)
