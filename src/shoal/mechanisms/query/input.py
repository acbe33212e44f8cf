"""What every query mechanism does first: check the table, and add noise question by question."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.errors import GuaranteeError
from shoal.mechanisms.adders import Adder, check_input
from shoal.privacy.noise import Noise
from shoal.space.question import Question, Questions
from shoal.space.setting import Setting
from shoal.stages.exact import ExactCounts


def check_table(exact: ExactCounts, asked: Questions) -> None:
    """The table must be bounded and spread as the questions' sensitivities were computed for."""
    check_input(exact, ell=asked.ell, slots=asked.slots, lattice=asked.lattice)
    if exact.column_l1 > asked.column_l1 or exact.column_l2_squared > asked.column_l2_squared:
        raise GuaranteeError("sensitivity", "the area weights are larger than the mechanism was built for.")


def add_each(noise: Noise, name: str, exact: np.ndarray, adders: Sequence[Adder]) -> np.ndarray:
    """Every value with its own noise; equal scales are drawn in one call. The order is public."""
    noisy = np.zeros_like(exact)
    together: dict[Adder, list[int]] = {}
    for number, adder in enumerate(adders):
        together.setdefault(adder, []).append(number)
    for adder, numbers in together.items():
        noisy[numbers] = adder.add(noise, name, exact[numbers])
    return noisy


def questions_on(setting: Setting, questions: list[Question], ell: int) -> Questions:
    """Questions with the most that one user, in at most `ell` slots, changes each answer by."""
    return Questions.of(questions, setting.weights, slots=setting.slots, ell=ell)
