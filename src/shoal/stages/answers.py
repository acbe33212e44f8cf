"""Noisy answers to counting questions: what post-processing, reports and releases may see."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, kw_only=True)
class NoisyAnswers:
    """Answers in visits, half the width of their 95 % intervals, and where each comes from (all public)."""

    values: np.ndarray = field(repr=False)  # float64 [questions], may be negative
    half: np.ndarray = field(repr=False)  # float64 [questions]
    how: tuple[str, ...] = field(repr=False)  # "noise": counted, with noise; "weights": from earlier answers


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Released numbers: visits with a 95 % interval, none below zero."""

    visits: np.ndarray = field(repr=False)
    low: np.ndarray = field(repr=False)
    high: np.ndarray = field(repr=False)
    how: tuple[str, ...] = field(repr=False)
