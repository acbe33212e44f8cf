"""Common parts of the baselines: the protocol of a method, and each user's samples by slots of time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from shoal.errors import PlanError
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples


class Neighbour(Protocol):
    """Another way to hide records: settings, and one call."""

    @property
    def promise(self) -> str:
        """The promise, in a few words."""
        ...

    @property
    def truthful(self) -> bool:
        """Every box holds a sample of its own user."""
        ...

    def __call__(self, samples: LatticeSamples, lattice: Lattice) -> Boxes: ...

    def broken(self, boxes: Boxes, lattice: Lattice) -> int | None:
        """How often released boxes break the promise, counted anew; None where nothing is promised."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Hulls:
    """The smallest rectangle of each user's samples in each slot that has any; sorted by user, then slot."""

    slot_steps: int
    user: np.ndarray = field(repr=False)
    slot: np.ndarray = field(repr=False)
    x0: np.ndarray = field(repr=False)
    x1: np.ndarray = field(repr=False)
    y0: np.ndarray = field(repr=False)
    y1: np.ndarray = field(repr=False)
    samples: np.ndarray = field(repr=False)  # in each

    @property
    def count(self) -> int:
        return len(self.user)


def hulls_of(samples: LatticeSamples, slot_steps: int) -> Hulls:
    """One rectangle per user and slot, so boxes made of them are disjoint in time."""
    slot = samples.t // slot_steps
    new = np.ones(samples.count, np.bool_)
    new[1:] = (np.diff(samples.user) != 0) | (np.diff(slot) != 0)
    first = np.flatnonzero(new)
    if not len(first):
        none = np.zeros(0, np.int32)
        return Hulls(
            slot_steps=slot_steps, user=none, slot=none, x0=none, x1=none, y0=none, y1=none, samples=none
        )
    return Hulls(
        slot_steps=slot_steps,
        user=samples.user[first],
        slot=slot[first],
        x0=np.minimum.reduceat(samples.x, first),
        x1=np.maximum.reduceat(samples.x, first),
        y0=np.minimum.reduceat(samples.y, first),
        y1=np.maximum.reduceat(samples.y, first),
        samples=np.diff(np.append(first, samples.count)),
    )


def boxes_of_slots(hulls: Hulls, samples: LatticeSamples, x0, x1, y0, y1, keep=None) -> Boxes:
    """Boxes over whole slots (the last one ends with the window), those of `keep` only."""
    keep = slice(None) if keep is None else keep
    t0 = hulls.slot.astype(np.int64) * hulls.slot_steps
    t1 = np.minimum(t0 + hulls.slot_steps, samples.steps) - 1
    columns = (hulls.user, t0, t1, x0, x1, y0, y1)
    return Boxes.of(*(np.asarray(column)[keep] for column in columns), records=samples.users)


def cells_of(metres: float, lattice: Lattice) -> int:
    """Cells of the lattice in so many metres, which must be whole."""
    cells = round(metres / lattice.metres)
    if cells < 1 or abs(cells * lattice.metres - metres) > 1e-6 * metres:
        raise PlanError(
            "cell-metres",
            f"a length must be whole cells of {lattice.metres:g} m; got {metres:g} m.",
            "Choose a multiple of the lattice's cell.",
        )
    return cells


def check_k(k: int) -> int:
    if isinstance(k, bool) or not isinstance(k, int) or k < 2:
        raise PlanError(
            "k-range", f"k must be a whole number, 2 or more; got {k!r}.", "k = 1 hides nobody: use raw."
        )
    return k
