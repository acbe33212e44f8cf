"""The engine: same sums whatever the order, split, threads or spilling; nothing left behind."""

import os
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import scipy.sparse

import shoal.engine.engine as engine_module
from shoal.auditing.end_to_end.worlds import ChoppedEngine
from shoal.engine.buckets import cut_users
from shoal.engine.clipped import ClippedKernel, Measure
from shoal.engine.engine import DuckEngine
from shoal.engine.visits import VisitKernel, bound_visits, exact_counts
from shoal.errors import GuaranteeError, PlanError
from shoal.space.geography import AreaWeights
from shoal.stages.exact import View, on_lattice

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


def clipped_kernel():
    space = scipy.sparse.csr_array(np.eye(7, dtype=np.int64) * 2**20)
    view = View(space=space, space_lattice=2**20, time=on_lattice(np.eye(24)), clip=1.5)
    return ClippedKernel(
        edges_us=KERNEL.edges_us, places=7, measures=(Measure.of(view, 7),), run_key=KERNEL.run_key
    )


@pytest.mark.parametrize("kernel", [KERNEL, clipped_kernel()], ids=["visits", "clipped"])
@pytest.mark.parametrize("strings", [False, True])
def test_a_user_with_rows_on_disk_and_in_memory_is_bounded_once(kernel, strings, tmp_path):
    batch = events(rows=1200, users=3, strings=strings)  # far more slots of each user than are kept
    batches = cut(batch, 5)
    spilled = []

    def partly():
        for each in batches:
            yield each
            spilled.append(bool(os.listdir(tmp_path)))

    engine = DuckEngine(threads=1, spill_mib=3.5 * batches[0].nbytes / 2**20, temp_folder=str(tmp_path))
    assert same(engine.sum_users(partly(), kernel), kernel(batch))
    assert spilled == [False, False, False, True, True]  # four batches are on disk, the last is in memory


@pytest.mark.parametrize("kernel", [KERNEL, clipped_kernel()], ids=["visits", "clipped"])
@pytest.mark.parametrize("strings", [False, True])
@pytest.mark.parametrize("rows_per_call", [1, 90, 1000])
def test_calls_of_few_rows_tear_nobody_apart(rows_per_call, strings, kernel, tmp_path, monkeypatch):
    """A user's rows are more than a call of the kernel should have: they come in one call all the same."""
    batch = events(rows=1200, users=9, strings=strings)
    monkeypatch.setattr(engine_module, "ROWS_PER_CALL", rows_per_call)
    for threads in (1, 3):
        engine = DuckEngine(threads=threads, spill_mib=0.004, temp_folder=str(tmp_path))
        assert same(engine.sum_users(cut(batch, 40), kernel), kernel(batch))


@pytest.mark.parametrize("most", [1, 60, 1200])
@pytest.mark.parametrize("kernel", [KERNEL, clipped_kernel()], ids=["visits", "clipped"])
def test_every_size_of_the_engine_made_small(kernel, most, tmp_path):
    """The engine of the end-to-end audit: the sums are those of the whole table, cut at the same number."""
    batch = events(rows=1200, users=9)
    engine = ChoppedEngine(threads=1, rows_per_call=3, most_events=most, temp_folder=str(tmp_path))
    assert same(engine.sum_users([batch], kernel), kernel(cut_users(batch, kernel.run_key, most)))
    assert engine_module.ROWS_PER_CALL == 400_000
    assert engine_module.cut_users is cut_users


@pytest.mark.parametrize("most", [1, 7, 60])
def test_a_kernel_that_takes_few_visits_of_a_user_takes_them_whatever_the_split(most, tmp_path):
    """MOST_VISITS made small: the thinned visits of a user have the norm that the clip allows."""
    batch, kernel = events(rows=1200, users=9), replace(clipped_kernel(), most=most)
    engine = ChoppedEngine(threads=1, rows_per_call=3, temp_folder=str(tmp_path))
    sums = engine.sum_users([batch], kernel)
    assert same(sums, kernel(batch))
    assert not same(sums, clipped_kernel()(batch))
    for user in set(batch["user"].to_pylist()):
        own = kernel(batch.filter(pc.equal(batch["user"], user)))["units0"]
        assert 0 < np.count_nonzero(own) <= most


def test_progress_tells_every_row_twice_and_no_events_are_zeros():
    assert same(DuckEngine().sum_users([], KERNEL), KERNEL.zero())
    told = {"read": 0, "count": 0}

    def tell(what, rows):
        told[what] += rows

    DuckEngine().sum_users(cut(events(5000), 3), KERNEL, tell)
    assert told == {"read": 5000, "count": 5000}
    with pytest.raises(PlanError, match="threads must be 0"):
        DuckEngine(threads=-1)


def test_the_spill_folder_is_private_and_removed_after_a_failure(tmp_path):
    def broken():
        yield events(2000)
        raise RuntimeError("the file went away")

    with pytest.raises(RuntimeError):
        DuckEngine(spill_mib=0, temp_folder=str(tmp_path)).sum_users(broken(), KERNEL)
    assert os.listdir(tmp_path) == []
    modes = []

    def watching():
        for batch in cut(events(4000), 4):
            yield batch
            modes.extend(os.stat(tmp_path / name).st_mode & 0o777 for name in os.listdir(tmp_path))

    DuckEngine(spill_mib=0, temp_folder=str(tmp_path)).sum_users(watching(), KERNEL)
    assert set(modes) == {0o700}


class Cheating:
    """An engine that counts some users twice."""

    name = "cheating"

    def sum_users(self, batches, kernel, progress=None):
        sums = DuckEngine().sum_users(batches, kernel)
        return {**sums, "counts": sums["counts"] * 5}


def test_sums_beyond_the_bound_are_refused_and_counts_whole_units_of_bounded_visits():
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        bound_visits(Cheating(), [events()], KERNEL)
    bounded, density = bound_visits(DuckEngine(), [events()], KERNEL)
    exact = exact_counts(bounded, AreaWeights.identity(7))
    assert np.array_equal(exact.units, bounded.counts * exact.lattice)
    assert bounded.counts.sum() <= 4 * bounded.users
    assert (density.counts >= bounded.counts).all()
    assert "counts" not in repr(bounded)
