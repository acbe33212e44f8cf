"""The generators of synthetic trips and events, as they are audited: eight places on a grid of a few cells.

A user of the audit goes from place to place; a trip ends where nothing is seen of the user for some time.
Bridges are audited without calibration, which draws thousands of trips from the noisy model: it costs time,
not privacy. Corners are bought from few trips on, so that small crowds come to either side of the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shoal.mechanisms.audit_size import PATHS, AuditSize
from shoal.mechanisms.entry import Entry, Mechanism
from shoal.mechanisms.synthetic.bridges import SyntheticBridges
from shoal.mechanisms.synthetic.commute import SHARES as COMMUTE_SHARES
from shoal.mechanisms.synthetic.commute import SyntheticCommute
from shoal.postprocess.synthetic.bridge_parts import Parts
from shoal.privacy.budget import Budget
from shoal_baselines.mechanisms.synthetic_dpt import SyntheticDpt
from shoal_baselines.mechanisms.synthetic_markov import SyntheticMarkov
from shoal_baselines.mechanisms.synthetic_ngram import SyntheticNgram
from shoal_baselines.mechanisms.synthetic_prefix import HEIGHT, SyntheticPrefix

AUDIT_PARTS = Parts(calibrate=False)
FEW_CORNERS = 1.0  # deviations of corners' noise, from which they are bought
TWO_TRIPS = AuditSize(layout=PATHS, slots=6, ell=2, cap=4, cells=4)
BLOCKS = replace(TWO_TRIPS, cells=8)  # so many cells that places are bought by blocks, too
TIGHT = AuditSize(layout=PATHS, slots=2, ell=2, cap=2, cells=4)
ONE_TRIP = AuditSize(layout=PATHS, slots=1, ell=1, cap=1, cells=4, each_trip=True)
CALLS = AuditSize(layout=PATHS, slots=14, ell=2, cap=4)  # from the evening to the next noon
# Two trips alike, each with moves, turns and a stay: the third and the last site are in one cell.
STAYS_AT_THE_END = tuple((slot, site) for slot in (0, 1) for site in (0, 1, 2, 7))
ONE_OF_THEM = STAYS_AT_THE_END[:4]
# A home at night, a work place in the morning, a third site.
COMMUTES = ((0, 0), (11, 1), (1, 2))


def _paths(kind: Any, **more: Any) -> Callable[[Budget, AuditSize], Mechanism]:
    def make(budget: Budget, size: AuditSize) -> Any:
        return kind.within(budget, size.paths(), **more)

    return make


def _commute(budget: Budget, size: AuditSize) -> Any:
    return SyntheticCommute.within(budget, size.commutes)


TRIPS = "a model of movement, and any number of trips drawn from it"
PURE = "epsilon-DP, epsilon = trips + {0}, by shares that add up"
RHO = "rho-zCDP, rho = trips + {0}, by shares that add up"
BRIDGES = Entry(
    mechanism=SyntheticBridges,
    releases=TRIPS,
    guarantee=PURE.format("tables"),
    spends=("trips", "tables"),
    pure=True,
    make=_paths(SyntheticBridges, parts=AUDIT_PARTS),
    size=BLOCKS,
    tight=TIGHT,
    worst=STAYS_AT_THE_END,
)
EACH_TRIP = replace(BRIDGES, size=ONE_TRIP, tight=ONE_TRIP, worst=ONE_OF_THEM)
CORNERS = replace(
    EACH_TRIP, make=_paths(SyntheticBridges, parts=AUDIT_PARTS, corners_from=FEW_CORNERS), follows=True
)


def _chain(kind: type, *tables: str) -> Entry:
    """Generators from tables of what comes next."""
    return replace(
        BRIDGES,
        mechanism=kind,
        guarantee=PURE.format(" + ".join(tables)),
        spends=("trips", *tables),
        make=_paths(kind),
        size=TWO_TRIPS,
        follows=True,
    )


MARKOV = _chain(SyntheticMarkov, "hours", "starts", "steps")
NGRAM = _chain(SyntheticNgram, "hours", "starts", "grams_2", "grams_3", "grams_4")
PREFIX = replace(
    _chain(SyntheticPrefix, "hours", "stays", "starts", *(f"level_{i + 1}" for i in range(HEIGHT))),
    worst=tuple((slot, site) for slot in (0, 1) for site in range(5)),  # trips of nine moves
)
DPT = _chain(SyntheticDpt, "hours", "starts", "level_1", "level_2")
COMMUTE = Entry(
    mechanism=SyntheticCommute,
    releases="homes, work places and calls, and any number of people drawn from them",
    guarantee="epsilon-DP, epsilon = sum over tables of 1 / b_i",
    spends=tuple(COMMUTE_SHARES),
    pure=True,
    make=_commute,
    size=CALLS,
    tight=CALLS,
    worst=COMMUTES,
    bugs_at=8.0,  # ten spends, so that each is small
)


def _zcdp(entry: Entry) -> Entry:
    """The same with a budget in rho, so in norm 2."""
    spent = " + ".join(entry.spends[1:])
    return replace(entry, guarantee=RHO.format(spent), pure=False)


PATH_ENTRIES: dict[str, Entry] = {
    "synthetic-bridges": BRIDGES,
    "synthetic-bridges-zcdp": _zcdp(BRIDGES),
    "synthetic-bridges-trip": EACH_TRIP,
    "synthetic-bridges-2nd": CORNERS,  # second order: turns by cell
    "synthetic-bridges-2nd-zcdp": _zcdp(CORNERS),
    "synthetic-markov": MARKOV,
    "synthetic-markov-zcdp": _zcdp(MARKOV),
    "synthetic-ngram": NGRAM,
    "synthetic-ngram-zcdp": _zcdp(NGRAM),
    "synthetic-prefix": PREFIX,
    "synthetic-prefix-zcdp": _zcdp(PREFIX),
    "synthetic-dpt": DPT,
    "synthetic-dpt-zcdp": _zcdp(DPT),
}
COMMUTE_ENTRIES: dict[str, Entry] = {
    "synthetic-commute": COMMUTE,
    "synthetic-commute-zcdp": replace(
        COMMUTE, guarantee="rho-zCDP, rho = sum over tables of 1 / (2 sigma_i^2)", pure=False
    ),
}
SYNTHETIC: dict[str, Entry] = {**PATH_ENTRIES, **COMMUTE_ENTRIES}
