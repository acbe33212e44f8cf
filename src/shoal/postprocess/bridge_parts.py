"""Which parts of the bridge generator are used: all, but where an ablation shows what one is worth."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Public switches."""

    flows: bool = True  # flows between regions; else starts and ends are independent
    levels: bool = True  # places by blocks of several sizes; else by cells alone
    by_distance: bool = True  # moves beyond the distance, given the distance; else one distribution for all
    turns: bool = True  # memory of the direction; else moves are independent of it
    corners: bool = True  # turns by cell, where noise allows
    shrink: bool = True  # noisy moves, places and flows shrunk to what is expected; else cut at 0 alone
    calibrate: bool = True
    times: bool = True  # days, hours, tides, durations and paces; else evenly spread, a step per move
    tides: bool = True  # parts of the week by regions of the ends; else hours are independent of places


ALL_PARTS = Parts()
