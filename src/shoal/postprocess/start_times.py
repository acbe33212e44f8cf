"""When synthetic trips start: hours by a noisy table, or evenly over the window; evenly within a slot."""

from __future__ import annotations

import numpy as np

from shoal.postprocess.draws import pick, uniforms
from shoal.postprocess.fit_tables import onto_total
from shoal.space.path_setting import DAY_KINDS, PathSetting

SLOT_PURPOSE, INSTANT_PURPOSE = 101, 102


def slot_weights(setting: PathSetting, noisy_hours: np.ndarray | None = None) -> np.ndarray:
    """float64 [slots]: trips that start in each slot, where hours of a kind are alike on all days.

    By length alone where no hours were bought, or the noise left nothing of them.
    """
    minutes, kind = setting.clock.minutes, setting.kind_of_slot
    if noisy_hours is None:
        return minutes
    length = np.bincount(kind, minutes, DAY_KINDS)
    met = length > 0
    of_kind = np.zeros(DAY_KINDS)
    of_kind[met] = onto_total(noisy_hours[met], max(float(noisy_hours[met].sum()), 0.0))
    if not of_kind.sum() > 0:
        return minutes
    return of_kind[kind] * minutes / length[kind]


def draw_starts(setting: PathSetting, weights: np.ndarray, count: int, seed: int) -> np.ndarray:
    """int64 [count]: microseconds since 1970."""
    slot = pick(weights, uniforms(seed, SLOT_PURPOSE, count))
    edges = setting.clock.edges_us
    within = uniforms(seed, INSTANT_PURPOSE, count) * np.diff(edges)[slot]
    return edges[slot] + within.astype(np.int64)
