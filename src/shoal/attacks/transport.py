"""Whole people carried from places with too many to places with too few, at least cost.

The solver is POT's network simplex, the one of metrics/emd.py; here the flow itself is wanted. With whole
masses its corner solutions are whole, so rounding only removes what doubles add.
"""

from __future__ import annotations

import os

import numpy as np

from shoal.errors import PlanError

MAX_ITERATIONS = 100_000_000


def carried(supply: np.ndarray, demand: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """int64 [sources, targets]: whole people carried from `supply` to `demand` at least cost, exactly.

    >>> carried(np.array([2, 1]), np.array([1, 2]), np.array([[0.0, 5.0], [5.0, 0.0]])).tolist()
    [[1, 1], [0, 1]]
    """
    if len(demand) == 1:
        return supply[:, None].astype(np.int64)
    if len(supply) == 1:
        return demand[None, :].astype(np.int64)
    solver = _import_ot()
    plan = solver.emd(supply.astype(float), demand.astype(float), cost, numItermax=MAX_ITERATIONS)
    flow = np.rint(np.asarray(plan, dtype=float)).astype(np.int64)
    if (flow.sum(axis=0) != demand).any() or (flow.sum(axis=1) != supply).any():
        raise PlanError(
            "recovery-not-solved",
            "a step from one slot to the next must be solved to the optimum; the solver stopped before.",
            "Check the coordinates of places for values that are not metres; report it if they are.",
        )
    return flow


def _import_ot():
    """POT without its optional back ends, which it would import only because they are installed."""
    for name in ("PYTORCH", "JAX", "CUPY", "TENSORFLOW"):
        os.environ.setdefault(f"POT_BACKEND_DISABLE_{name}", "1")
    import ot

    return ot
