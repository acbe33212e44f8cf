"""DuckDB and Spark give the same sums bit by bit: any kernel, any partitions, any order of rows."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from tests.loops import tiers
from tests.spark.conftest import HOUR, SITES, START

from shoal.engine.buckets import MOST_EVENTS
from shoal.engine.clipped import ClippedKernel, Measure, SizeKernel
from shoal.engine.commute import CommuteKernel
from shoal.engine.engine import DuckEngine
from shoal.engine.visits import VisitKernel
from shoal.errors import EngineError, GuaranteeError
from shoal.events.readers import PlacedEvents, SiteEvents
from shoal.events.schema import SourcePlan
from shoal.events.source import open_source
from shoal.space.clock import Clock
from shoal.space.geography import open_geography
from shoal.space.places import Sites
from shoal.space.plan import SpacePlan
from shoal.space.setting import commute_setting
from shoal.stages.exact import TIME_LATTICE, View

KEY = bytes(range(1, 17))
WINDOW = (START, START + 168 * HOUR)
EDGES = np.arange(START, START + 169 * HOUR, HOUR)


def visit_kernel(ell=7, key=KEY):
    return VisitKernel(edges_us=EDGES, sites=len(SITES), ell=ell, cap=40, run_key=key)


def clipped_kernel():
    rng = np.random.default_rng(3)
    space = rng.integers(0, 2**20 // 4, (4, len(SITES))).astype(np.int64)
    time = rng.integers(-TIME_LATTICE, TIME_LATTICE, (168, 5)).astype(np.int64)
    views = [
        View(space=scipy.sparse.csr_array(space), space_lattice=2**20, time=time, clip=clip)
        for clip in (0.5, 2.0)
    ]
    measures = tuple(Measure.of(view, len(SITES)) for view in views)
    return ClippedKernel(edges_us=EDGES, places=len(SITES), measures=measures, run_key=KEY, most=30)


def size_kernel():
    per_visit = np.random.default_rng(5).integers(0, 2**20, len(SITES))
    return SizeKernel(edges_us=EDGES, per_visit=per_visit, lattice=2**20, run_key=KEY)


def commute_kernel(norm):
    rng = np.random.default_rng(4)
    sites = Sites(SITES, rng.uniform(2.3, 2.4, 12), rng.uniform(48.8, 48.9, 12))
    clock = Clock(start="2026-03-02", end="2026-03-09", time_zone="Europe/Paris")
    return CommuteKernel(setting=commute_setting(sites, clock), norm=norm, run_key=KEY)


KERNELS = {
    "visits": visit_kernel,
    "clipped": clipped_kernel,
    "sizes": size_kernel,
    "commute, sums": lambda: commute_kernel(1),
    "commute, squares": lambda: commute_kernel(2),
}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def described(source):
    return SiteEvents(source=source, sites=SITES, window_us=WINDOW)


def on_spark(spark, folder):
    return described(spark.open_source(SourcePlan(paths=(str(folder),))))


@pytest.mark.parametrize(("partitions", "shuffled"), [(1, False), (7, True), (64, True)])
def test_visits_are_the_same_for_any_partitions_and_order(engine, events, partitions, shuffled):
    here = DuckEngine(threads=1).sum_users(described(open_source(events())), visit_kernel())
    spark = engine(partitions)
    there = spark.sum_users(on_spark(spark, events(shuffled)), visit_kernel())
    assert int(here["counts"].sum()) > 1_000
    assert_same(here, there)


@pytest.mark.parametrize("name", list(KERNELS)[1:])
def test_every_kernel_is_the_same(engine, events, name):
    kernel = KERNELS[name]()
    here = DuckEngine().sum_users(described(open_source(events())), kernel)
    spark = engine(7)
    there = spark.sum_users(on_spark(spark, events(True)), kernel)
    assert any(values.any() for values in here.values())
    assert_same(here, there)


def test_users_named_by_text_are_the_same_and_nobody_sums_to_nothing(engine, events):
    here = DuckEngine().sum_users(described(open_source(events(text_users=True))), visit_kernel())
    spark = engine(5)
    assert_same(here, spark.sum_users(on_spark(spark, events(True, text_users=True)), visit_kernel()))
    assert int(here["users"]) == 300
    spark = engine(3)
    source = spark.open_source(SourcePlan(paths=(str(events()),)))
    nobody = SiteEvents(source=source, sites=SITES, window_us=(0, 1))
    assert_same(visit_kernel().zero(), spark.sum_users(nobody, visit_kernel()))


def test_several_sums_of_the_same_events_read_them_twice_at_most(engine, events):
    spark = engine(3)
    described_once = on_spark(spark, events())
    first = spark.sum_users(described_once, visit_kernel(1))
    kept = [spark.sum_users(described(described_once.source), visit_kernel(1)) for _ in range(2)]
    assert spark._kept is not None
    for again in kept:
        assert_same(first, again)
    other = spark.sum_users(described_once, visit_kernel(1, bytes(16)))  # another key: read anew
    assert spark._kept is None
    assert (other["counts"] != first["counts"]).any()


def test_other_sites_are_other_events(engine, events):
    """The order of sites is part of what is kept."""
    spark = engine(3)
    source = spark.open_source(SourcePlan(paths=(str(events()),)))
    turned = SITES[::-1]
    for sites in (SITES, turned, turned):
        found = spark.sum_users(SiteEvents(source=source, sites=sites, window_us=WINDOW), visit_kernel())
        here = SiteEvents(source=open_source(events()), sites=sites, window_us=WINDOW)
        assert_same(DuckEngine().sum_users(here, visit_kernel()), found)


def test_points_are_placed_in_tasks(engine, points):
    plan = SpacePlan(box=(0, 0, 2000, 2000), cell_m=250)
    geography = open_geography(plan, has_sites=False, planar=True)
    kernel = VisitKernel(edges_us=EDGES[:25], sites=geography.places, ell=5, cap=10, run_key=KEY)
    window = (START, START + 24 * HOUR)
    spark = engine(4)
    sources = open_source(points), spark.open_source(SourcePlan(paths=(str(points),)))
    here, there = (
        each.sum_users(PlacedEvents(source=source, geography=geography, window_us=window), kernel)
        for each, source in zip((DuckEngine(), spark), sources, strict=True)
    )
    assert int(here["users"]) == 120
    assert_same(here, there)


def test_batches_of_this_process_can_be_summed_there(engine):
    rng = np.random.default_rng(1)
    batches = [
        pa.record_batch(
            {
                "user": rng.integers(0, 50, 400),
                "time_us": START + rng.integers(0, 168 * HOUR, 400),
                "site": pa.array(rng.integers(-1, 12, 400), pa.int32()),
            }
        )
        for _ in range(3)
    ]
    assert_same(DuckEngine().sum_users(batches, visit_kernel()), engine(3).sum_users(batches, visit_kernel()))


@pytest.mark.parametrize("rows", tiers([600_000, 2_600_000], (600_000,)))
def test_one_user_with_millions_of_events_is_cut_alike(engine, tmp_path, rows):
    """More than the public cap in every part file, among users with few events."""
    rng = np.random.default_rng(2)
    folder = tmp_path / "events"
    folder.mkdir()
    for at in range(2):
        user = np.where(np.arange(rows) % 26 == 0, rng.integers(2, 5_000, rows), 1)
        time = START + rng.integers(0, 168 * HOUR, user.size)
        site = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 12, user.size)), pa.array(SITES))
        table = {
            "user": user,
            "time": pa.array(time, pa.timestamp("us", "UTC")),
            "site": site.cast(pa.string()),
        }
        pq.write_table(pa.table(table), folder / f"part-{at}.parquet")
    kernel = commute_kernel(1)  # it counts events, so that the cut shows
    here = DuckEngine().sum_users(described(open_source(folder)), kernel)
    spark = engine(2)
    there = spark.sum_users(on_spark(spark, folder), kernel)
    assert 2 * rows * 25 // 26 > MOST_EVENTS
    assert_same(here, there)


def test_a_part_summed_in_two_places_is_noticed():
    from shoal.engine.spark.jobs import Slots

    slots = Slots.of(visit_kernel().zero())
    once = [
        (row["part"][0].as_py(), row["payload"][0].as_py())
        for row in slots.spread(visit_kernel().zero(), {4})
    ]
    assert slots.join(once, 8)["users"] == 0
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        slots.join([*once, *once], 8)
    with pytest.raises(GuaranteeError, match="bound-not-held"):
        slots.join(once, 4)  # no such part


def test_errors_of_tasks_carry_no_words_of_theirs(engine, events):
    """A message may quote rows: its kind and place are passed on."""
    spark = engine(2)
    source = spark.open_source(SourcePlan(paths=(str(events()),)))
    with pytest.raises(EngineError, match=r"task-failed: .*TypeError at __init__.py:\d+") as caught:
        source.any_row(sites=SITES, window_us=WINDOW, test=json.loads)  # "the JSON object must be ..."
    assert "JSON" not in str(caught.value)


def test_workers_with_other_versions_are_refused(engine, events, monkeypatch):
    import shoal.engine.spark.tasks as tasks

    spark = engine(2)
    source = spark.open_source(SourcePlan(paths=(str(events()),)))
    monkeypatch.setattr(tasks, "versions", lambda: (("shoal", "0.0.1"), ("numpy", "1.0")))
    with pytest.raises(EngineError, match=r"worker-versions: .* not 0\.0\.1"):
        spark.sum_users(described(source), visit_kernel())


def test_what_was_kept_is_let_go(spark, events):
    from shoal.engine.spark.engine import SparkEngine

    before = spark.sparkContext._jsc.getPersistentRDDs().size()
    with SparkEngine(session=spark, partitions=2) as engine:
        kept = engine.jobs.keep(spark.range(10))
        assert kept.count() == 10
        described_events = on_spark(engine, events())
        for _ in range(3):
            engine.sum_users(described_events, visit_kernel())
        assert spark.sparkContext._jsc.getPersistentRDDs().size() > before
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == before
