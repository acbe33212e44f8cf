"""All visits of a batch: a user once per site and slot, however many events they have there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit

from shoal.engine.buckets import UserOrder
from shoal.errors import GuaranteeError


def find_visits(
    batch: pa.RecordBatch, users: UserOrder, edges_us: np.ndarray, sites: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """User number, slot and site of every visit, each user's together, in order of slot and site."""
    time_us = batch.column("time_us").to_numpy(zero_copy_only=False)
    site = batch.column("site").to_numpy(zero_copy_only=False)
    if site.size and int(site.max()) >= sites:
        raise GuaranteeError("site-out-of-list", "an event names a site outside the public list.")
    return _find(users.first, users.order, time_us, site, edges_us, sites)


@njit(cache=True, nogil=True)
def steps_are_even(edges):
    """Whether all slots are equally long, so that a division finds the slot."""
    even = True
    for t in range(edges.size - 1):
        even = even and edges[t + 1] - edges[t] == edges[1] - edges[0]
    return even


@njit(cache=True, nogil=True)
def slot_of_time(time, edges, even):
    """The slot of an instant inside the window."""
    if even:
        return (time - edges[0]) // (edges[1] - edges[0])
    return np.searchsorted(edges, time, side="right") - 1


@njit(cache=True, nogil=True)
def _find(first, order, time_us, site, edges, sites):
    even = steps_are_even(edges)
    last = edges[edges.size - 1]
    user_of = np.empty(order.size, np.int32)
    slot_of = np.empty(order.size, np.int32)
    site_of = np.empty(order.size, np.int32)
    longest = 0
    for u in range(first.size - 1):
        longest = max(longest, first[u + 1] - first[u])
    cells = np.empty(longest, np.int64)
    n = 0
    for u in range(first.size - 1):
        found = 0
        for i in range(first[u], first[u + 1]):
            t, s = time_us[order[i]], site[order[i]]
            if s >= 0 and edges[0] <= t < last:
                cells[found] = slot_of_time(t, edges, even) * sites + s
                found += 1
        sort_small(cells, found)
        for i in range(found):
            if i == 0 or cells[i] != cells[i - 1]:
                user_of[n], slot_of[n], site_of[n] = u, cells[i] // sites, cells[i] % sites
                n += 1
    return user_of[:n], slot_of[:n], site_of[:n]


@njit(cache=True, nogil=True)
def sort_small(values, n):
    """Ascending, in place; by insertion, since most users have a dozen events."""
    if n > 64:
        values[:n] = np.sort(values[:n])
        return
    for i in range(1, n):
        value = values[i]
        j = i - 1
        while j >= 0 and values[j] > value:
            values[j + 1] = values[j]
            j -= 1
        values[j + 1] = value
