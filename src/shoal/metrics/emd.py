"""Earth mover's distance between raw and released maps, slot by slot, in metres, solved exactly.

    EMD of a slot    min over flows f of sum f_ij d_ij, where f carries the raw map to the released one,
                     both divided by their totals; d_ij is the distance between zone centres in metres

(Acs and Castelluccia 2014, section 6.4). Read it as: how far the average person was moved.

Mass that both maps have in a zone stays there: by the triangle inequality some best flow leaves it alone, so
only the differences are carried, from zones with too much to zones with too little. Each slot is solved by
network simplex and then proved: the dual prices must be feasible and worth as much as the flow.

    a slot with nobody, or with nothing released    no distance: NaN
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from shoal.errors import PlanError

MAX_ITERATIONS = 100_000_000  # a thousand zones need about ten thousand
PROOF_TOLERANCE = 1e-7  # share of the largest distance; doubles over a thousand zones stay below 1e-11
MAX_ZONES = 8_000  # above, one slot needs a gigabyte and more than four seconds
MANY_ZONES = 4_000  # above, one slot at a time: memory
AFFORDABLE_SLOTS = 1_500  # of a thousand zones, about 20 s on two cores
GROWTH = 2.3  # time of one slot grows as zones ** 2.3 (measured from 1,000 to 8,000)


def emd_m(
    exact: np.ndarray,
    released: np.ndarray,
    zone_xy_m: np.ndarray,
    slots: np.ndarray | None = None,
    progress: Callable[[int], None] | None = None,
    threads: int | None = None,
) -> np.ndarray:
    """Metres per slot between the normalised maps `exact` and `released`, both people per [zone, slot].

    `slots` picks columns (`every_seventh` for benchmarks); the answer has one distance per picked slot.
    `progress` is called with 1 after each slot. The answer does not depend on `threads`.

    >>> emd_m(np.array([[3.0], [1.0]]), np.array([[1.0], [1.0]]), np.array([[0.0, 0.0], [100.0, 0.0]]))
    array([25.])
    """
    exact, released, zone_xy_m = _checked(exact, released, zone_xy_m)
    chosen = np.arange(exact.shape[1]) if slots is None else np.asarray(slots, dtype=np.int64)
    import_ot()  # once, before the threads

    def one(slot: int) -> float:
        return _slot_emd_m(exact[:, slot], released[:, slot], zone_xy_m)

    distances = np.full(len(chosen), np.nan)
    with ThreadPoolExecutor(_workers(threads, len(zone_xy_m))) as pool:  # the solver runs without the GIL
        for i, distance in enumerate(pool.map(one, chosen.tolist())):
            distances[i] = distance
            if progress is not None:
                progress(1)
    return distances


def every_seventh(slots: int) -> np.ndarray:
    """A documented subset for benchmarks: slots 0, 7, 14, ...

    7 and 24 share no factor: in a week of hours each hour of the day is met once, each day 3 or 4 times.

    >>> sorted(every_seventh(168) % 24) == list(range(24))
    True
    """
    return np.arange(0, slots, 7)


def affordable_slots(zones: int, slots: int) -> np.ndarray:
    """Slots whose EMD takes about 20 s on two cores: all of a week for up to 2,500 zones, else every n-th.

    n shares no factor with 24, so that no hour of the day is favoured. Empty above `MAX_ZONES`.

    >>> len(affordable_slots(1000, 168)), len(affordable_slots(1000, 8760)), len(affordable_slots(9000, 24))
    (168, 1252, 0)
    """
    if zones > MAX_ZONES:
        return np.arange(0)
    most = max(1, int(AFFORDABLE_SLOTS / max(zones / 1000, 0.1) ** GROWTH))
    step = -(-slots // most)
    while math.gcd(step, 24) > 1:
        step += 1
    return np.arange(0, slots, step)


def _slot_emd_m(exact: np.ndarray, released: np.ndarray, zone_xy_m: np.ndarray) -> float:
    if exact.sum() <= 0 or released.sum() <= 0:
        return math.nan
    difference = exact / exact.sum() - released / released.sum()
    supply, demand = np.flatnonzero(difference > 0), np.flatnonzero(difference < 0)
    if not len(supply) or not len(demand):
        return 0.0
    moved = (difference[supply].sum() - difference[demand].sum()) / 2
    give = difference[supply] / difference[supply].sum()
    take = difference[demand] / difference[demand].sum()
    x, y = zone_xy_m[:, 0], zone_xy_m[:, 1]
    metres = np.hypot(np.subtract.outer(x[supply], x[demand]), np.subtract.outer(y[supply], y[demand]))
    return float(moved * _transport_cost(give, take, metres))


def _transport_cost(give: np.ndarray, take: np.ndarray, metres: np.ndarray) -> float:
    """The least cost of carrying `give` to `take`, both summing to 1, proved by its dual."""
    cost, log = import_ot().emd2(give, take, metres, numItermax=MAX_ITERATIONS, log=True)
    # Weak duality: prices with u_i + v_j <= d_ij can earn no more than any flow costs, the best included.
    allowed = PROOF_TOLERANCE * max(float(metres.max()), 1e-300)
    gap = abs(cost - (give @ log["u"] + take @ log["v"]))
    worst = float((np.add.outer(log["u"], log["v"]) - metres).max())
    if log["warning"] is not None or not gap <= allowed or not worst <= allowed:
        raise PlanError(
            "emd-not-solved",
            f"an earth mover's distance must be solved to the optimum; the solver stopped before "
            f"({log['warning'] or 'its dual prices do not prove the flow'}).",
            "Check the zone centres for values that are not metres; report it if they are.",
        )
    return float(cost)


def import_ot():
    """POT without its optional back ends, which it would import only because they are installed."""
    for name in ("PYTORCH", "JAX", "CUPY", "TENSORFLOW"):
        os.environ.setdefault(f"POT_BACKEND_DISABLE_{name}", "1")
    import ot

    return ot


def _workers(threads: int | None, zones: int) -> int:
    if zones > MANY_ZONES:
        return 1
    return max(1, threads if threads is not None else min(os.cpu_count() or 1, 8))


def _checked(
    exact: np.ndarray, released: np.ndarray, zone_xy_m: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    exact, released, zone_xy_m = (np.asarray(a, dtype=float) for a in (exact, released, zone_xy_m))
    if exact.ndim != 2 or exact.shape != released.shape or zone_xy_m.shape != (exact.shape[0], 2):
        raise PlanError(
            "emd-shape",
            f"exact and released must be [zones, slots], zone_xy_m [zones, 2]; got {list(exact.shape)}, "
            f"{list(released.shape)} and {list(zone_xy_m.shape)}.",
            "Pass arrays over the same zones and slots.",
        )
    if (
        not all(np.isfinite(a).all() for a in (exact, released, zone_xy_m))
        or min(exact.min(initial=0), released.min(initial=0)) < 0
    ):
        raise PlanError(
            "emd-values",
            "a map has finite counts, none below zero, and finite zone centres; got other values.",
            "Set negative counts to zero first, as a release does.",
        )
    return exact, released, zone_xy_m
