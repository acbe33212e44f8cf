"""The engine: same sums whatever the order, split, threads or spilling; nothing left behind."""

import os
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from shoal.engine.density import bound_visits, exact_counts
from shoal.engine.duck import DuckEngine
from shoal.engine.visits import VisitKernel
from shoal.errors import GuaranteeError
from shoal.space.weights import AreaWeights

HOUR = 3_600_000_000
KERNEL = VisitKernel(
    edges_us=np.arange(25, dtype=np.int64) * HOUR, sites=7, ell=4, cap=10, run_key=bytes(range(16))
)


def events(rows=30_000, users=900, strings=False, seed=5):
    rng = np.random.default_rng(seed)
    user = pa.array(rng.integers(0, users, rows) * 7919 - 400)
    return pa.RecordBatch.from_arrays(
        [
            user.cast(pa.string()) if strings else user,
            pa.array(rng.integers(-HOUR, 25 * HOUR, rows)),
            pa.array(rng.integers(-1, 7, rows).astype(np.int32)),
        ],
        names=["user", "time_us", "site"],
    )


def cut(batch, pieces):
    bounds = np.linspace(0, batch.num_rows, pieces + 1).astype(int)
    return [batch.slice(a, b - a) for a, b in pairwise(bounds)]


def same(first, second):
    return all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("strings", [False, True])
def test_order_split_threads_and_spilling_change_nothing(strings, tmp_path):
    batch = events(strings=strings)
    whole = KERNEL(batch)  # every user in one batch: no engine involved
    order = pa.array(np.random.default_rng(2).permutation(batch.num_rows))
    assert whole["counts"].sum() > 0
    for pieces in (1, 7, 64):
        for threads in (1, 3):
            for spill in (0, 256):
                engine = DuckEngine(threads=threads, spill_mib=spill, temp_folder=str(tmp_path))
                assert same(engine.sum_users(cut(batch.take(order), pieces), KERNEL), whole)
    assert os.listdir(tmp_path) == []


def test_no_events_at_all():
    assert same(DuckEngine().sum_users([], KERNEL), KERNEL.zero())


def test_the_spill_folder_is_removed_after_a_failure(tmp_path):
    def broken():
        yield events(2000)
        raise RuntimeError("the file went away")

    with pytest.raises(RuntimeError):
        DuckEngine(spill_mib=0, temp_folder=str(tmp_path)).sum_users(broken(), KERNEL)
    assert os.listdir(tmp_path) == []


def test_spilled_events_are_private_to_the_owner(tmp_path):
    modes = []

    def watching():
        for batch in cut(events(4000), 4):
            yield batch
            modes.extend(os.stat(tmp_path / name).st_mode & 0o777 for name in os.listdir(tmp_path))

    DuckEngine(spill_mib=0, temp_folder=str(tmp_path)).sum_users(watching(), KERNEL)
    assert set(modes) == {0o700}


def test_progress_tells_every_row_twice():
    told = {"read": 0, "count": 0}

    def tell(what, rows):
        told[what] += rows

    DuckEngine().sum_users(cut(events(5000), 3), KERNEL, tell)
    assert told == {"read": 5000, "count": 5000}


class Cheating:
    """An engine that counts some users twice."""

    name = "cheating"

    def sum_users(self, batches, kernel, progress=None):
        sums = DuckEngine().sum_users(batches, kernel)
        return {**sums, "counts": sums["counts"] * 5}


def test_sums_beyond_the_bound_are_refused():
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        bound_visits(Cheating(), [events()], KERNEL)


def test_exact_counts_are_whole_units_of_bounded_visits():
    bounded, density = bound_visits(DuckEngine(), [events()], KERNEL)
    exact = exact_counts(bounded, AreaWeights.identity(7))
    assert np.array_equal(exact.units, bounded.counts * exact.lattice)
    assert bounded.counts.sum() <= 4 * bounded.users
    assert (density.counts >= bounded.counts).all()
    assert "counts" not in repr(bounded)
