"""`shoal density run` from files to a release, for every shape of input, from the command line."""

import json
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from tests.worlds import ring_of, zones_json

from shoal.events.simulate import preset_named
from shoal.events.simulate.city import simulate_city
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.density.prepare import prepare_density
from shoal.kinds.plan import read_plan
from shoal.kinds.run import run as release
from shoal.kinds.simulated import write_city_plan
from shoal.privacy.ledger import open_ledger
from shoal.space.places import read_zones

NEARLY_EXACT = ["--method", "laplace", "--epsilon", "40000", "--cap", "500", "--decimals", "3"]


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    """A small simulated town with all kinds of records."""
    folder = tmp_path_factory.mktemp("city") / "town"
    kinds = ("events", "trips", "samples", "transit")
    simulate_city(replace(preset_named("town"), users=400, what=kinds), folder, seed=3)
    return folder


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))
    book = open_ledger()
    book.create("town", currency="rho", limit_nano=10**18, delta=1e-6)
    return book


def run(city, out, source, *flags):
    card = json.loads((city / "city.json").read_text())
    window = [part for side in ("start", "end") for part in (f"--{side}", card["window"][side][:19])]
    places = ["--population", "town", "--out", out / "release", "--owner", out / "owner"]
    return ["density", "run", source, *window, "--time-zone", card["time_zone"], *places, *flags]


def released(out):
    table = pq.read_table(out / "release" / "density.parquet")
    zones = len(set(table["zone"].to_pylist()))
    return table["people"].to_numpy().reshape(zones, -1)


def test_site_events_spread_over_zones_by_area(city, tmp_path, ledger, command):
    flags = ["--zones", city / "zones.geojson", "--sites", city / "sites.csv", "--ell", "168", *NEARLY_EXACT]
    code, _, err = command(*run(city, tmp_path, city / "events", *flags))
    assert (code, err) == (0, "")
    people = released(tmp_path)
    events = pq.read_table(city / "events", columns=["user", "time", "site"])
    hours = events["time"].cast(pa.int64()).to_numpy() // (3600 * 10**6)
    users, sites = events["user"].to_pylist(), events["site"].to_pylist()
    visits = len(set(zip(users, hours.tolist(), sites, strict=True)))  # at each site of an hour
    kept = set(zip(users, hours.tolist(), strict=True))  # one of them is kept, then all are scaled up
    assert len(kept) < 0.9 * visits
    assert people.shape == (120, 168)
    assert people.sum() == pytest.approx(visits, rel=1e-3)
    first = int(hours.min()) - 1_772_406_000 // 3600
    for offset, count in Counter(hour - hours.min() for _, hour in kept).items():
        assert people[:, first + offset].sum() == pytest.approx(count * visits / len(kept), rel=2e-3, abs=0.5)
    report = (tmp_path / "owner" / "report.html").read_text()
    assert "Owner's eyes only" in report
    assert "raw" not in json.dumps(json.loads((tmp_path / "release" / "manifest.json").read_text()))


@pytest.mark.parametrize("where", ["zones", "grid", "h3"])
def test_points_are_counted_in_the_zone_they_lie_in(city, tmp_path, ledger, command, where):
    zones = read_zones(city / "zones.geojson")
    west, south, east, north = zones.bounds
    box = f"{west},{south},{east},{north}"
    flags = {
        "zones": ["--zones", city / "zones.geojson"],
        "grid": ["--box", box, "--cell-m", "2000"],
        "h3": ["--box", box, "--h3", "7"],
    }[where]
    arguments = run(city, tmp_path, city / "samples", *flags, "--ell", "168", *NEARLY_EXACT)
    code, _, err = command(*arguments)
    assert (code, err) == (0, "")
    people = released(tmp_path)
    made = read_zones(tmp_path / "release" / "zones.parquet")
    table = pq.read_table(city / "samples")
    points = shapely.points(table["lon"].to_numpy(), table["lat"].to_numpy())
    tree = shapely.STRtree(made.geometry)
    inside = defaultdict(set)
    for point, zone in zip(*tree.query(points, predicate="intersects"), strict=True):
        inside[point].add(int(zone))
    moments = table["time"].cast(pa.timestamp("s", "UTC")).cast(pa.int64()).to_numpy()
    users = table["user"].to_numpy()
    start = 1_772_406_000
    per_slot = defaultdict(set)
    for i in inside:
        if start <= moments[i] < start + 168 * 3600:
            per_slot[users[i], (moments[i] - start) // 3600].update(inside[i])
    sure = Counter()
    for (_, hour), places in per_slot.items():
        if len(places) == 1:
            sure[next(iter(places)), int(hour)] += 1
    visits = sum(len(places) for places in per_slot.values())  # at each place of an hour
    scaled_up = visits / len(per_slot)
    exact = np.zeros(people.shape)
    for (zone, hour), count in sure.items():
        exact[zone, hour] = count
    assert exact.sum() > 100
    assert (people >= 0.998 * scaled_up * exact - 0.3).all()  # far beyond the noise
    assert people.sum() == pytest.approx(visits, abs=10)


@pytest.mark.parametrize("kind", ["trips", "transit"])
def test_trips_and_transit_run(city, tmp_path, ledger, command, kind):
    flags = ["--zones", city / "zones.geojson", "--ell", "168", *NEARLY_EXACT]
    if kind == "transit":
        flags += ["--sites", city / "stations.csv"]
    code, _, err = command(*run(city, tmp_path, city / kind, *flags))
    assert (code, err) == (0, "")
    assert released(tmp_path).sum() > 10


def test_a_week_with_a_clock_change_has_169_hours(tmp_path, ledger, command):
    """Autumn in Paris: the hour from 2 to 3 comes twice and is released twice."""
    (tmp_path / "zones.geojson").write_text(zones_json([("all", [ring_of(2, 48, 3, 49)])]))
    rows = "\n".join(f"{u},2026-10-25T0{h}:30:00Z,2.5,48.5" for h in (0, 1) for u in range(h + 1))
    (tmp_path / "events.csv").write_text("user,time,lon,lat\n" + rows + "\n")
    window = ["--start", "2026-10-19", "--end", "2026-10-26", "--time-zone", "Europe/Paris"]
    places = ["--population", "town", "--out", tmp_path / "release", "--owner", tmp_path / "owner"]
    arguments = [
        "density",
        "run",
        tmp_path / "events.csv",
        "--zones",
        tmp_path / "zones.geojson",
        *window,
        *places,
    ]
    code, _, err = command(*[*arguments, *NEARLY_EXACT, "--cap", "5", "--ell", "5"])
    assert (code, err) == (0, "")
    table = pq.read_table(tmp_path / "release" / "density.parquet")
    people = dict(zip(table["slot_start"].to_pylist(), table["people"].to_pylist(), strict=True))
    assert len(people) == 169
    assert people["2026-10-25T02:00+02:00"] == pytest.approx(1, abs=0.05)
    assert people["2026-10-25T02:00+01:00"] == pytest.approx(2, abs=0.05)


def test_the_manifest_states_guarantee_method_and_spends(city, tmp_path, ledger, command):
    plan = write_city_plan(
        city, population="town", out=str(tmp_path / "release"), owner=str(tmp_path / "owner")
    )
    code, out, _ = command(*["density", "run", "--plan", plan, "--epsilon", "0.5", "--json"])
    told = json.loads(out)
    manifest = json.loads((tmp_path / "release" / "manifest.json").read_text())
    assert code == 0
    assert next(iter(manifest)) == "unit"
    assert manifest["unit"].startswith("One user")
    assert manifest["guarantee"]["epsilon"] == told["guarantee"]["epsilon"] == 0.5
    assert manifest["guarantee"]["delta"] == 1e-6
    assert manifest["public"]["method"] == "best"
    assert "ell" not in manifest["public"]  # no sample is kept
    assert {spend["mechanism"] for spend in manifest["spends"]} == {"density-best"}
    assert [spend["name"] for spend in manifest["spends"]] == [
        "sizes",
        "visits",
        "city",
        "regions",
        "zones",
    ]
    spent = ledger.state().population("town").spent_nano
    assert spent == sum(round(spend["rho"] * 1e9) for spend in manifest["spends"])
    assert "- A count is the number of users observed in the zone during the slot. A user observed at" in (
        tmp_path / "release" / "README.md"
    ).read_text().replace("\n", " ")


def test_a_dry_run_says_what_is_counted_and_the_error_to_expect(city, tmp_path, ledger, command):
    plan = write_city_plan(
        city, population="town", out=str(tmp_path / "release"), owner=str(tmp_path / "owner")
    )

    code, out, _ = command(*["density", "run", "--plan", plan, "--dry-run"])
    assert code == 0
    told = " ".join(out.split())
    for word in (
        "method best",
        "all visits, once per user, place and slot",
        "rho = 0.02435597:",
        "the profile of the whole city over the slots",
        "efpag",
        "for 400 users, as declared",
        "visits per user and week (the mean that was counted in those cities;",
        "120 zones",
        "168 slots",
        "One user",
    ):
        assert word in told
    code, out, _ = command(*["density", "run", "--plan", plan, "--method", "gaussian", "--dry-run"])
    assert "expected noise" in out
    code, out, _ = command(*["density", "run", "--plan", plan, "--method", "gaussian", "--dry-run", "--json"])
    told = json.loads(out)
    sigma = told["public"]["noise_scale_people"]
    assert told["expected_error"]["mean_absolute"] == pytest.approx(sigma * (2 / np.pi) ** 0.5)
    assert told["spends"][-1]["pays_for"] == "the count of every zone and slot"


def test_the_expected_error_is_the_error(city, tmp_path, ledger):
    """What the dry run says of the noise holds for the noise that is drawn (20,160 cells; 3 %)."""
    from shoal.engine.visits import scalable_counts
    from shoal.kinds.density.published import read_density
    from shoal.kinds.density.verdict import expected_error
    from shoal.privacy.noise import OsNoise
    from shoal.stages.bounded import BoundedVisits

    plan = write_city_plan(
        city, population="town", out=str(tmp_path / "release"), owner=str(tmp_path / "owner")
    )
    prepared = prepare_density(DensityPlan.from_settings({**read_plan(plan), "method": "gaussian"}))
    result = release(prepared, ledger)
    told = expected_error(prepared.mechanism.noise_of_count, prepared.geography.zones.count)
    nobody = np.zeros((160, 168), np.int64)
    empty = BoundedVisits(counts=nobody, one_visit=nobody[:, 0], users=0, visits_capped=0, ell=30, cap=250)
    noisy = prepared.mechanism(scalable_counts(empty, prepared.setting.weights), OsNoise()).counts.values
    assert np.abs(noisy).mean() == pytest.approx(told.mean_absolute, rel=0.03)
    assert noisy.sum(axis=0).std() == pytest.approx(told.city_slot, rel=0.25)
    estimate = read_density(result.release, 120, 168)
    inner = (estimate.low > 0) & (estimate.people > estimate.low + 1)
    widths = (estimate.high - estimate.low)[inner]
    # scaled up, so never narrower; the measured totals may happen to leave no cell clear of zero
    assert (widths / 2 > 0.99 * told.half_interval).all()
    negative = (estimate.low == 0).mean()
    assert negative > 0.5  # 400 people over 120 zones: mostly noise, and the intervals say so
