"""Parts of users in counting queries: users by the size of their part, and sums of clipped parts.

A user's part in a query is the number of visits to its zones in its slots, in lattice units: a visit counts
the share of its area weights that lies in the zones, once per place and slot. For each query the kernel puts
every user with a part into one class of sizes, and adds min(part, clip) to the sum of each public clip.
On the output it is checked that a user's rows are together, that no more users are in classes than there are,
and that no sum is above its clip times these users.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numba import njit

from shoal.engine.buckets import by_user
from shoal.engine.engine import Engine, Progress, Sums
from shoal.engine.visits import find_visits
from shoal.errors import GuaranteeError
from shoal.space.setting import Questions
from shoal.stages.exact import UserSums


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryKernel:
    """Sizes and clipped sums of user-complete batches with columns user, time_us, site."""

    edges_us: np.ndarray
    questions: Questions
    run_key: bytes = field(repr=False)

    def zero(self) -> Sums:
        queries, clips = self.questions.clips.shape
        return {
            "sizes": np.zeros((queries, clips + 1), np.int64),
            "sums": np.zeros((queries, clips), np.int64),
        }

    def __call__(self, batch: pa.RecordBatch) -> Sums:
        sums, questions = self.zero(), self.questions
        if batch.num_rows == 0:
            return sums
        users = by_user(batch.column("user"), self.run_key)
        user, slot, place = find_visits(batch, users, self.edges_us, questions.by_place.shape[1])
        tables = questions.by_place, questions.in_slots, questions.clips
        _add_parts(user, slot, place, *tables, sums["sizes"], sums["sums"])
        check_sums(sums, questions.clips, user)
        return sums


def check_sums(sums: Sums, clips: np.ndarray, user: np.ndarray) -> None:
    """Refuses sums of a batch that its users cannot have."""
    counted = sums["sizes"].sum(axis=1)
    changes = np.count_nonzero(np.diff(user)) + bool(user.size)
    if changes != np.unique(user).size or counted.max(initial=0) > changes:
        raise GuaranteeError("bound-not-held", "a user is counted in more than one class of a query.")
    if _above(sums, clips):
        raise GuaranteeError("bound-not-held", "a user adds more to a query than its clip allows.")


def _above(sums: Sums, clips: np.ndarray) -> bool:
    """Whether a sum exceeds its clip times its users; divided, since the product may not fit into 64 bits."""
    return bool((-(-sums["sums"] // clips) > sums["sizes"].sum(axis=1)[:, None]).any())


@njit(cache=True, nogil=True)
def _add_parts(user, slot, place, by_place, in_slots, clips, sizes, sums):
    start = 0
    while start < user.size:
        stop = start
        while stop < user.size and user[stop] == user[start]:
            stop += 1
        for query in range(by_place.shape[0]):
            part = 0
            for i in range(start, stop):
                if in_slots[query, slot[i]]:
                    part += by_place[query, place[i]]
            if part > 0:
                number = 0
                while number < clips.shape[1] and part > clips[query, number]:
                    number += 1
                sizes[query, number] += 1
                for clip in range(clips.shape[1]):
                    sums[query, clip] += min(part, clips[query, clip])
        start = stop


def user_sums(
    engine: Engine, events: Iterable[pa.RecordBatch], kernel: QueryKernel, progress: Progress | None = None
) -> UserSums:
    """Sizes and clipped sums over all users, checked again as a whole."""
    sums, clips = engine.sum_users(events, kernel, progress), kernel.questions.clips
    if _above(sums, clips):
        raise GuaranteeError("bound-not-held", "the sums are larger than the clips of their users allow.")
    return UserSums(sizes=sums["sizes"], sums=sums["sums"], clips=clips)
