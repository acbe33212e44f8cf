"""What a query's noise will be, from public numbers alone: for the dry run and the benchmark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.kinds.query.prepare import QueryMechanism
from shoal.mechanisms.query_laplace import QueryLaplace
from shoal.mechanisms.query_weights import QueryWeights
from shoal.postprocess.nonnegative import Z95


@dataclass(frozen=True, kw_only=True)
class ExpectedAnswer:
    """In visits. With weights only bought answers have a width that is known before."""

    most: float  # what one user changes the answer by
    mean_absolute: float | None
    half: float | None  # of the 95 % interval


def expected_answers(mechanism: QueryMechanism) -> list[ExpectedAnswer]:
    """One for each question, in order."""
    asked = mechanism.asked
    most = np.array(asked.sensitivity) / asked.lattice
    if isinstance(mechanism, QueryWeights):
        return [ExpectedAnswer(most=float(each), mean_absolute=None, half=None) for each in most]
    scales = np.array([adder.scale for adder in mechanism.adders]) / asked.lattice
    if isinstance(mechanism, QueryLaplace):
        mean, half = scales, scales * np.log(20.0)
    else:
        mean, half = scales * np.sqrt(2 / np.pi), scales * Z95
    return [
        ExpectedAnswer(most=float(a), mean_absolute=float(b), half=float(c))
        for a, b, c in zip(most, mean, half, strict=True)
    ]
