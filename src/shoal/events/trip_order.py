"""Points of each user brought into the order of trip, time and place; users stay where they are.

Sources mostly hold stretches that are in order already, so stretches are found and merged.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit


def in_order(batch: pa.RecordBatch, new_user: np.ndarray) -> pa.RecordBatch:
    """Rows sorted by trip, time_us, x, y and flag within each user; `new_user` is true where one begins."""
    none = np.zeros(batch.num_rows, np.int64)
    names = batch.schema.names
    trip = ranks(batch["trip"]) if "trip" in names else none
    flag = batch["flag"].to_numpy(zero_copy_only=False).astype(np.int64) if "flag" in names else none
    time_us, x, y = (batch[name].to_numpy() for name in ("time_us", "x", "y"))
    first = np.append(np.flatnonzero(new_user), batch.num_rows)
    order = np.empty(batch.num_rows, np.int64)
    if not _sort(first, trip, time_us, x, y, flag, order):
        return batch
    return batch.take(pa.array(order))


def ranks(column: pa.Array) -> np.ndarray:
    """Integers in the order of the values: integers themselves, texts by their bytes."""
    if pa.types.is_integer(column.type):
        return column.to_numpy()
    encoded = column.dictionary_encode()
    place = np.empty(len(encoded.dictionary), np.int64)
    place[pc.call_function("sort_indices", [encoded.dictionary]).to_numpy()] = np.arange(place.size)
    return place[encoded.indices.to_numpy()]


@njit(cache=True, nogil=True)
def _sort(first, trip, time_us, x, y, flag, order):
    """Fill `order`; returns whether any row has to move."""
    moved = False
    longest = 0
    for user in range(first.size - 1):
        longest = max(longest, first[user + 1] - first[user])
    spare = np.empty(longest, np.int64)
    runs = np.empty(longest + 1, np.int64)
    for row in range(order.size):
        order[row] = row
    for user in range(first.size - 1):
        start, end = first[user], first[user + 1]
        count = 0
        for row in range(start, end):
            if row == start or _before(row, row - 1, trip, time_us, x, y, flag):
                runs[count] = row
                count += 1
        runs[count] = end
        if count > 1:
            moved = True
            _merge_runs(runs, count, trip, time_us, x, y, flag, order, spare)
    return moved


@njit(cache=True, nogil=True)
def _merge_runs(runs, count, trip, time_us, x, y, flag, order, spare):
    """Neighbouring runs merged in pairs until one is left; runs[count] is the end of the last."""
    while count > 1:
        kept = 0
        for k in range(0, count - 1, 2):
            start, middle, end = runs[k], runs[k + 1], runs[k + 2]
            _merge(start, middle, end, trip, time_us, x, y, flag, order, spare)
            runs[kept] = start
            kept += 1
        if count % 2:
            runs[kept] = runs[count - 1]
            kept += 1
        runs[kept] = runs[count]
        count = kept


@njit(cache=True, nogil=True)
def _merge(start, middle, end, trip, time_us, x, y, flag, order, spare):
    """order[start:middle] and order[middle:end], both sorted, into one."""
    size = middle - start
    for i in range(size):
        spare[i] = order[start + i]
    i, j, at = 0, middle, start
    while i < size:
        if j < end and _before(order[j], spare[i], trip, time_us, x, y, flag):
            order[at] = order[j]
            j += 1
        else:
            order[at] = spare[i]
            i += 1
        at += 1


@njit(cache=True, nogil=True, inline="always")
def _before(a, b, trip, time_us, x, y, flag):
    if trip[a] != trip[b]:
        return trip[a] < trip[b]
    if time_us[a] != time_us[b]:
        return time_us[a] < time_us[b]
    if x[a] != x[b]:
        return x[a] < x[b]
    if y[a] != y[b]:
        return y[a] < y[b]
    return flag[a] < flag[b]
