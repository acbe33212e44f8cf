"""Records that look like k people's to anyone who tracked a target for a time tau: k^{tau,epsilon}-anonymity.

Promise    For every person i and every stretch W of tau steps, at least k records agree with all that a
           tracker of i knows from W: each has a box around every retained sample of i in W, none at the time
           of a suppressed one, and no box inside W without a retained sample of i.
Truthful   Every box of a record holds a sample of its own person. No noise, no made-up point.
Not        differential privacy. No composition, no protection beyond the stated adversary. The paper's bound
           on what is learned beyond tau is measured by the verifier (attacks/tracker) and not promised.
Public     k, tau, the epoch (the paper's epsilon, a duration), the lattice, the price of suppression.
Source     Gramaglia et al. 2017, sections II and III. The published algorithm does not keep its promise: it
           stands in comparators/kte_hide.py. The rules here:

n = tau / epoch; window m is the epochs m .. m + n; a person's class in it is the vector of retained flags.
1  Windows 0 .. E - 1 - n: every stretch of tau steps lies inside one.
2  What is suppressed is a (person, epoch), everywhere, in merging too.
3  Carriers come from the same class, so a carrier is active exactly where the carried is. The class of those
   who are nowhere active needs no carriers, but k members: absence is evidence too.
4  Per class k - 1 permutations (carriers.py). Every class has k members or none. A pair is used in one window
   only, so that nobody hides behind the same record for long, with two exceptions. Where both are inactive in
   the newest epoch it may go on: it then covers nothing that it did not cover before. And in a class without
   any new arrangement pairs recur; they are counted and reported to the owner. Neither touches the promise.
5  Forward in time. In window m only the newest epoch may still be switched off. People with the same past
   were whole classes of the window before, so they are k or none, and at worst all are switched off.
6  Record j in epoch e is the k-merge of j with everyone j carries in windows e - n .. e.

Why it holds: W lies in a window m. If j carries i there, both have the same flags. Where they are 0, record
j has no box. Where they are 1, i is among those merged into record j: its boxes hold every sample of i, and
each box holds one. The carriers of i are k - 1 different others, and i's own record agrees with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from shoal.anonymise.carriers import Carried, NearPairs, choose_carriers
from shoal.anonymise.kmerge import EpochSamples, merge_epoch
from shoal.errors import PlanError
from shoal.stages.trajectories import PRICE, Boxes, LatticeSamples

THREADS = 2


@dataclass(frozen=True, kw_only=True)
class Kte:
    """k, tau and the epoch in steps; tau a multiple of the epoch. Steps beyond the data's are the data's."""

    k: int
    tau_steps: int
    epoch_steps: int
    price: float = PRICE
    longer: float = 0.2  # epochs by which boxes count longer when carriers are chosen: rather late than far
    forget_steps: int | None = None  # pairs may be used again after so many steps; None: never

    def __post_init__(self) -> None:
        if self.k < 2:
            raise PlanError("trajectories-k", f"k must be 2 or more; got {self.k}.", "Pass --k 2, say.")
        if self.epoch_steps < 1 or self.tau_steps < 1 or self.tau_steps % self.epoch_steps:
            raise PlanError(
                "trajectories-tau",
                f"tau must be a multiple of the epoch; got {self.tau_steps} and {self.epoch_steps} steps.",
                "Pass --tau-minutes 30 --epoch-minutes 30, say.",
            )

    def __call__(self, samples: LatticeSamples, tell: Callable[[str, int, int], None] | None = None) -> Boxes:
        """All records; `tell` hears of steps done."""
        state = self.begin(samples)
        for _ in self.windows(state):
            if tell:
                tell("choose carriers", state.done, state.windows)
        return self.merge(state, tell)

    def begin(self, samples: LatticeSamples) -> KteState:
        """Nothing decided yet."""
        if samples.users < self.k:
            raise PlanError(
                "trajectories-few",
                f"k is {self.k}, but fewer people than that have samples in the window.",
                "Lower --k, or widen the window.",
            )
        by_epoch = EpochSamples.of(samples, self.epoch_steps)
        n = min(self.tau_steps // self.epoch_steps, by_epoch.epochs - 1)
        windows = by_epoch.epochs - n
        return KteState(
            samples=by_epoch,
            n=n,
            windows=windows,
            retained=by_epoch.active(),
            carries=np.full((by_epoch.users, windows * (self.k - 1)), -1, np.int32),
        )

    def windows(self, state: KteState) -> Iterator[int]:
        """Decide window after window from where the state stands; yields each once it is decided."""
        if state.done == 0:
            for newest in range(state.n):  # epochs before the first window's newest: whole classes only
                self._split(state, 0, newest, None)
        while state.done < state.windows:
            m = state.done
            self._split(state, m, m + state.n, m)
            state.done += 1
            yield m

    def _split(self, state: KteState, oldest: int, newest: int, window: int | None) -> None:
        """Settle the newest epoch for everyone, group by group of people with the same past."""
        past = np.zeros(state.samples.users, np.int64)
        for epoch in range(oldest, newest):  # numbered anew each time, so that a past of any length fits
            past = np.unique(past * 2 + state.retained[epoch], return_inverse=True)[1]
        order = np.argsort(past, kind="stable")
        bounds = np.flatnonzero(np.diff(past[order])) + 1
        groups = np.split(order, bounds)
        past_epochs = [np.flatnonzero(state.retained[oldest:newest, group[0]]) + oldest for group in groups]
        with ThreadPoolExecutor(THREADS) as pool:  # groups share no person: any order gives the same
            settled = pool.map(
                lambda at: self._settle(state, np.sort(groups[at]), past_epochs[at], newest, window),
                range(len(groups)),
            )
            state.reused += sum(settled)

    def _settle(self, state: KteState, group, past_epochs, newest: int, window: int | None) -> int:
        """One group: who keeps the newest epoch, and the carriers; returns the pairs used again."""
        reused = 0
        on = state.retained[newest]
        here = group[on[group]]
        if len(here) < self.k:
            on[here] = False
            here = here[:0]
        chosen = None
        if len(here) and window is not None:
            active = np.append(past_epochs, newest)
            chosen = self._choose(state, here, active, window, may_leave=True)
            on[here[chosen.left]] = False
            here = chosen.members
        off = len(group) - len(here)
        if 0 < off < self.k and len(here):  # absence must be shared by k as well
            on[here] = False
            here, chosen = here[:0], None
        if chosen is not None and window is not None:
            reused += state.keep(chosen, window, self.k)
        rest = group[~on[group]]
        if len(rest) and len(past_epochs) and window is not None:
            chosen = self._choose(state, rest, past_epochs, window, may_leave=False)
            reused += state.keep(chosen, window, self.k)
        return reused

    def _choose(self, state: KteState, members, epochs, window: int, *, may_leave: bool):
        first = 0
        if self.forget_steps is not None:
            first = max(0, window - max(1, self.forget_steps // self.epoch_steps))
        used = state.carries[:, first * (self.k - 1) : window * (self.k - 1)]
        near = NearPairs(
            samples=state.samples,
            members=members,
            epochs=epochs,
            used=used,
            group=self._held(state, members, epochs, window),
            longer=round(self.longer * self.epoch_steps),
            again=None if may_leave or window == 0 else self._still(state, members, window),
        )
        alone = near.alone(self.price * self.epoch_steps) if may_leave else None
        return choose_carriers(near, k=self.k, alone=alone)

    def _still(self, state: KteState, members, window: int) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of the window before that may go on: both are inactive in the newest epoch. By position."""
        k1 = self.k - 1
        rank = np.full(state.samples.users + 1, -1, np.int64)
        rank[members] = np.arange(len(members))
        carried = rank[state.carries[members, (window - 1) * k1 : window * k1]]  # -1 stays -1
        carrier, column = np.nonzero(carried >= 0)
        return carrier, carried[carrier, column]

    def _held(self, state: KteState, members, epochs, window: int) -> np.ndarray:
        """int64 [members, epochs, ...]: whom each record holds already, itself first; -1 ends the list."""
        k1 = self.k - 1
        carriers = np.full((len(members), len(epochs), 1 + state.n * k1), -1, np.int64)
        carriers[:, :, 0] = members[:, None]
        for column, epoch in enumerate(epochs):
            first = max(0, int(epoch) - state.n)
            if first < window:
                carried = state.carries[members, first * k1 : window * k1]
                carriers[:, column, 1 : 1 + carried.shape[1]] = carried
        return carriers

    def merge(self, state: KteState, tell: Callable[[str, int, int], None] | None = None) -> Boxes:
        """Records from the carriers of all windows."""
        parts = []
        for epoch in range(state.samples.epochs):
            parts.append(self.merge_one(state, epoch))
            if tell:
                tell("merge records", epoch + 1, state.samples.epochs)
        record = np.concatenate([part[0] for part in parts])
        boxes = np.concatenate([part[1] for part in parts])
        return Boxes.of(record, *boxes.T, records=state.samples.users)

    def merge_one(self, state: KteState, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Records and boxes [count, 6] of one epoch."""
        samples = state.samples
        members = np.flatnonzero(state.retained[epoch]).astype(np.int64)
        first, last = max(0, epoch - state.n), min(epoch, state.windows - 1)
        carried = state.carries[members, first * (self.k - 1) : (last + 1) * (self.k - 1)]
        group, count = _distinct(members, carried)
        rows = int((samples.first[epoch, members + 1] - samples.first[epoch, members]).sum())
        record, boxes = np.empty(rows, np.int32), np.empty((rows + 1, 6), np.int32)
        merged = merge_epoch(
            samples.t, samples.x, samples.y, samples.first, epoch, members, group, count, record, boxes
        )
        return record[:merged], boxes[:merged]


@dataclass(kw_only=True, eq=False)
class KteState:
    """What is decided: flags of retained (epoch, user), and whom each user carries in each window."""

    samples: EpochSamples = field(repr=False)
    n: int
    windows: int
    retained: np.ndarray = field(repr=False)  # bool [epochs, users]
    carries: np.ndarray = field(repr=False)  # int32 [users, windows * (k - 1)], -1 for nobody
    done: int = 0
    reused: int = 0

    def keep(self, chosen: Carried, window: int, k: int) -> int:
        columns = slice(window * (k - 1), (window + 1) * (k - 1))
        self.carries[chosen.members, columns] = chosen.members[chosen.carries]
        return chosen.reused


def _distinct(members: np.ndarray, carried: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each member and those it carries, each once: int64 [members, ...] and how many."""
    group = np.sort(np.column_stack([members, np.where(carried < 0, members[:, None], carried)]), axis=1)
    new = np.ones(group.shape, np.bool_)
    new[:, 1:] = group[:, 1:] != group[:, :-1]
    place = np.argsort(~new, axis=1, kind="stable")
    return np.ascontiguousarray(np.take_along_axis(group, place, axis=1)), new.sum(axis=1)
