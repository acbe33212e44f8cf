"""Whole pipelines run as such, one call per run, and judged by the released bytes alone."""

from __future__ import annotations

import numpy as np

from shoal.audit.pairs import NEW, Pair, at
from shoal.audit.pipeline import Pipeline
from shoal.audit.spend_runs import Advance
from shoal.audit.tables import event_table
from shoal.privacy.noise import Noise


def worst_events(pipeline: Pipeline) -> Pair:
    """Two people, and one more who spends `ell` slots at a site that lies within one zone."""
    world = pipeline.world
    crowd = tuple((user, at(user % world.slots), user % world.sites) for user in range(2))
    return Pair("one user at the cap", crowd, tuple((NEW, at(slot), 0) for slot in range(world.ell)))


def sample_whole(
    pipeline: Pipeline, noise: Noise, runs: int, advance: Advance | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Statistics [runs, 3] of released tables with the user, and without.

    The cells the user can be in are known to the adversary.
    """
    pair = worst_events(pipeline)
    sides = []
    for rows in (pair.after(), pair.before()):
        events = event_table(rows, batch_rows=1000)
        seen = np.empty((runs, 3))
        for run in range(runs):
            cells = pipeline.told(pipeline(events, noise))
            seen[run] = cells.sum(), cells.min(), cells.max()
            if advance:
                advance(1)
        sides.append(seen)
    return sides[0], sides[1]
