"""The pipeline of mechanisms on cover cells, and their planted bugs.

The papers' own arguments, and exact values in their choices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from shoal.auditing.pairs import NEW, Pair, at
from shoal.auditing.pipelines.pipeline import Pipeline, small_world
from shoal.auditing.pipelines.visits import CountsPipeline
from shoal.auditing.planted.bug import Bug, ChangedPart, Shown, call_bug, method_bug, noise_bug, recast
from shoal.auditing.planted.calls import bare, scaled_bug
from shoal.auditing.replay import ArbitraryNoise
from shoal.mechanisms.audit_size import COVERED, AuditSize
from shoal.postprocess.density.numbers import round_density
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import Noise
from shoal.stages.bounded import BoundedVisits
from shoal.stages.noisy import DensityEstimate
from shoal_baselines.counting import CoverCounts, cover_counts
from shoal_baselines.mechanisms.efpa import DensityEfpa
from shoal_baselines.postprocess.scheme import NoisyTotals, finish_scheme
from shoal_baselines.space.cover import Cover, minimum_cover


@dataclass(frozen=True, kw_only=True, eq=False)
class CoverPipeline(CountsPipeline):
    """Counts of cover cells, back to zones after the noise."""

    spread: Callable[[BoundedVisits, Cover], Any] = cover_counts
    estimate: Callable[..., DensityEstimate] = lambda noisy, _bounded, setting: round_density(
        finish_scheme(noisy, setting), 1
    )

    @property
    def public(self) -> Cover:
        return self.mechanism.cover


SMALL_TAU = 2.0  # visits: small enough for clusters to differ between small tables
APART = 3  # of the arbitrary answers: totals so large that every cell is a cluster


def scheme_bugs(true: Pipeline) -> list[Bug]:
    """Bugs of the scheme in any of its forms."""
    mechanism = true.mechanism
    spends = dict(true.spends())
    ell, cap = mechanism.touched, mechanism.cap
    pure = mechanism.loss().pure_epsilon_nano is not None
    fewer = (ell - 1) / ell if pure else math.sqrt((ell - 1) / ell)
    small_tau: dict[str, Any] = {}
    if isinstance(mechanism, DensityEfpa):
        small_tau["tau"] = lambda self, clusters: SMALL_TAU
    bugs = [
        scaled_bug("coefficients: sensitivity for ell - 1 visits", fewer, "coefficients"),
        scaled_bug("k chosen at a third of the scale", 1 / 3, "select"),
        noise_bug("k from the exact argmax", partial(bare, only="select")),
        call_bug("clusters from the exact totals", _exact_clusters, **small_tau),
        Bug(name="overlaps of chosen cells subtracted as in the paper", plant=_other_cells(_subtracted)),
        Bug(
            name="overlaps of chosen cells counted in both",
            plant=_other_cells(lambda true: np.vstack(_whole_cells(true))),
        ),
    ]
    # Where totals are sums over time, one user moves them by ell.
    if spends["totals"] == mechanism.totals.totals.cost(ell * mechanism.lattice):
        part = 1 / math.sqrt(ell)
        bugs.append(scaled_bug("totals charged with sqrt(ell)", part, "totals"))
    if "visits" in spends:
        bugs += [
            scaled_bug("K noised for M - 1 visits", (cap - 1) / cap, "visits"),
            scaled_bug("K noised for one visit", 1 / cap, "visits"),
            Bug(name="totals scaled by the exact number of users", plant=_exact_users),
        ]
    return bugs


def pure_scheme_bugs(true: Pipeline) -> list[Bug]:
    """What pure epsilon needs across clusters, left out."""
    if true.mechanism.loss().pure_epsilon_nano is None:
        return []
    ell, cells = true.mechanism.touched, true.mechanism.cells
    once = math.sqrt(ell) / min(ell, math.sqrt(cells * ell))
    one_each = Pair("a visit to each cell", (), tuple((NEW, at(s), _OWN_SITES[s]) for s in range(ell)))
    apart = Shown(one_each, lambda: ArbitraryNoise(APART))
    charged_once = scaled_bug("choice of k charged once for all clusters", once, "select")
    return [
        replace(charged_once, shown=apart),
        method_bug("coefficients scaled by sqrt(k ell) in every cluster", shown=apart, reach=_root_reach),
        Bug(name="bounds of visits and of clusters mixed", plant=_mixed, shown=_MIXED_SHOWN),
    ]


def _exact_users(true: Pipeline) -> Pipeline:
    """N left exact, as in the paper."""

    def change(noisy: NoisyTotals, exact: CoverCounts) -> NoisyTotals:
        users = (int(exact.one_visit.sum()) + exact.outside) / exact.lattice
        return replace(noisy, visits=noisy.visits * (1 + users))

    mechanism = true.mechanism
    return replace(true, mechanism=replace(mechanism, totals=ChangedPart(mechanism.totals, change)))


def _exact_clusters(true: Any, exact: CoverCounts, noise: Noise) -> Any:
    """Noisy totals are released, but cells are merged by the exact ones (at a small tau, which is public)."""

    def exact_totals(noisy: NoisyTotals, exact: CoverCounts) -> NoisyTotals:
        return replace(noisy, visits=exact.units.sum(axis=1) / exact.lattice)

    totals = ChangedPart(true.mechanism.totals, exact_totals)
    tau = {} if isinstance(true.mechanism, DensityEfpa) else {"tau": SMALL_TAU}
    return replace(true(exact, noise, totals=totals, **tau), totals=totals.true_results[0])


def _other_cells(cells: Callable[[Pipeline], np.ndarray]) -> Callable[[Pipeline], Pipeline]:
    """Counts of cells by another integer matrix [cells, places], past the check of the cover."""

    def plant(true: Pipeline) -> Pipeline:
        units = cells(true)

        def spread(bounded: BoundedVisits, cover: Cover) -> CoverCounts:
            exact = cover_counts(bounded, cover)
            return replace(exact, units=units @ bounded.counts, one_visit=units @ bounded.one_visit)

        return replace(true, spread=spread)

    return plant


def _subtracted(true: Pipeline) -> np.ndarray:
    """A site less the whole counts of the zones that overlap it, each by their share of the site."""
    of_zones, of_places = _whole_cells(true)
    overlap = of_zones[:, true.mechanism.cover.places].T  # in lattice units
    return np.vstack([of_zones, of_places - overlap @ of_zones // true.mechanism.cover.lattice])


def _whole_cells(true: Pipeline) -> tuple[np.ndarray, np.ndarray]:
    """Chosen zones with all their fragments, chosen sites with all of theirs; int64 [.., places]."""
    cover = true.mechanism.cover
    weights = scipy.sparse.csr_array(true.world.size.setting.weights.matrix).toarray()
    sites = np.eye(weights.shape[1], dtype=np.int64) * cover.lattice
    return weights[cover.zones], sites[cover.places]


_OWN_SITES = (0, 2, 3, 4, 5, 6)  # those of COVERED that lie in a zone of their own
_LONG = AuditSize(layout=COVERED, slots=168, ell=18, cap=18)


def _root_reach(self: Any, clusters: int) -> tuple[int, int]:
    """sqrt(ell) for either bound: a user spread over clusters costs more."""
    root = DensityEfpa.reach(self, 1)[1]
    return root, root


def _mixed(true: Pipeline) -> Pipeline:
    """In each cluster the smaller noise of the two bounds; shows in a longer window with a larger bound."""
    epsilon = true.mechanism.loss().pure_epsilon_nano / 10**9
    public = {"slots": _LONG.slots, "ell": _LONG.ell, "cap": _LONG.cap}
    mechanism = DensityEfpa.improved(Budget.pure_epsilon(epsilon), minimum_cover(_LONG.setting), **public)
    world = small_world(_LONG)
    scales = {"scales": lambda self, k: np.minimum(*self._scales(k, len(k)))}
    return replace(true, mechanism=recast(mechanism, scales), world=world)


class _FewThenAll(ArbitraryNoise):
    """Every cell a cluster; four coefficients of the first, all of the others."""

    def __init__(self) -> None:
        super().__init__()
        self._chosen = 0

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        return np.full(exact.shape, 2**50, np.int64)

    def choose(self, name: str, scores: np.ndarray, scale: float) -> int:
        self._chosen += 1
        return 3 if self._chosen == 1 else scores.size - 1


# Thirteen visits one after the other in the first cell, one each in the others that are not the star's.
_FIRST = tuple((slot, 0) for slot in range(13))
_OTHERS = tuple(zip((13, 14, 15, 153, 154), _OWN_SITES[1:], strict=True))
_MIXED_SHOWN = Shown(
    Pair(
        "most in one cell, the rest spread",
        (),
        tuple((NEW, at(slot), site) for slot, site in _FIRST + _OTHERS),
    ),
    _FewThenAll,
)
