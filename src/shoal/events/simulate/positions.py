"""Where everybody is in every slot of a simulated week: whole diaries, as no operator sees them.

For attacks on counts that assume each user to be somewhere in each slot.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numba import njit

from shoal.errors import PlanError
from shoal.events.simulate.city import prepare_simulation
from shoal.events.simulate.people import make_people
from shoal.events.simulate.presets import CityPreset
from shoal.events.simulate.rhythm import WEEK_MINUTES, empty_week, plan_week
from shoal.events.simulate.visits import _place


def simulate_positions(
    preset: CityPreset, *, seed: int, slot_minutes: int = 30
) -> tuple[np.ndarray, np.ndarray]:
    """int32 [users, slots], the site nearest to each user in the middle of each slot of the first week;
    and float64 [sites, 2], where the sites lie, in metres.

    >>> from shoal.events.simulate import preset_named
    >>> town = replace(preset_named("town"), users=5, zones=8, sites=12)
    >>> positions, site_xy_m = simulate_positions(town, seed=1)
    >>> positions.shape, site_xy_m.shape
    ((5, 336), (12, 2))
    """
    if slot_minutes < 1 or 1440 % slot_minutes:
        raise PlanError("slot-minutes", f"slot_minutes must divide 1440; got {slot_minutes}.")
    simulation = prepare_simulation(replace(preset, weeks=1), Path(), seed)
    people = make_people(simulation.ground, seed, 0, preset.users)
    positions = np.empty((preset.users, WEEK_MINUTES // slot_minutes), np.int32)
    _fill_positions(positions, simulation.ground, people, seed, slot_minutes)
    return positions, simulation.city.xy


@njit(cache=True, nogil=True)
def _fill_positions(positions, ground, people, seed, slot_minutes):
    state = np.empty(1, np.uint64)
    stays = empty_week()
    for i in range(positions.shape[0]):
        plan_week(stays, state, ground, people, i, seed, 0)
        for slot in range(positions.shape[1]):
            middle = int((slot + 0.5) * slot_minutes * 60)
            positions[i, slot] = _place(stays, ground, middle)[0]
