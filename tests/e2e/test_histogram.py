"""`shoal histogram` from points to answers, with a nearly exact stand-in and brute force as the oracle."""

import csv
import json
import math
import re
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.flows import histogram_methods
from shoal.mechanisms.adders import LaplaceAdder
from shoal.privacy.ledger import open_ledger
from shoal.release.histogram_published import read_histogram
from shoal.release.verify import check_release
from shoal.space.euler import Euler
from shoal.space.rectangles import Rectangles
from shoal.stages.histogram import NoisyHistogram

SIDE = 8
START = 1_772_406_000_000_000  # 2026-03-02 00:00 in Paris
MINUTE = 60_000_000


@dataclass(frozen=True, kw_only=True)
class StandIn:
    """Noise on the exact trips of every cell and of every pair of neighbours: many answers, all paid for."""

    adder: LaplaceAdder
    sensitivity: int
    scaled_up: bool
    name: str = "histogram-stand-in"

    @classmethod
    def within(cls, budget, setting):
        sensitivity = (1 + 3 * SIDE * SIDE - 2 * SIDE) * setting.per_unit + (setting.cap or 0)
        adder = LaplaceAdder.within(budget.left, sensitivity)
        return cls(adder=adder, sensitivity=sensitivity, scaled_up=setting.cap is not None)

    def loss(self):
        return self.adder.cost(self.sensitivity)

    def spends(self):
        return (("cells", self.loss()),)

    def describe(self):
        return {"name": self.name, "scale": self.adder.scale}

    def __call__(self, trips, noise):
        at = range(SIDE)
        faces = Rectangles.of([(x, x + 1, y, y + 1) for y in at for x in at])
        east = Rectangles.of([(x, x + 2, y, y + 1) for y in at for x in at[:-1]])
        north = Rectangles.of([(x, x + 1, y, y + 2) for y in at[:-1] for x in at])
        exact = [trips.distinct(each) for each in (faces, east, north)]
        totals = [trips.count(), trips.all_trips()] if self.scaled_up else [trips.count()]
        exact = np.concatenate([*exact, totals]).astype(np.int64)
        noisy = self.adder.add(noise, "cells", exact).astype(float)
        f, e, n, count = np.split(noisy, [SIDE**2, SIDE * (2 * SIDE - 1), 3 * SIDE**2 - 2 * SIDE])
        f, e, n = f.reshape(SIDE, SIDE), e.reshape(SIDE, SIDE - 1), n.reshape(SIDE - 1, SIDE)
        both = Euler(faces=f, east=f[:, 1:] + f[:, :-1] - e, north=f[1:] + f[:-1] - n)
        every = float(count[1]) if self.scaled_up else None
        return NoisyHistogram(euler=both, trips=float(count[0]), all_trips=every, violated_before=0.25)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    class Method(histogram_methods.HistogramMethod):
        def build(self, budget, setting):
            return StandIn.within(budget, setting)

    monkeypatch.setitem(histogram_methods.METHODS, "stand-in", Method("stand-in", "StandIn", "Stands in."))


class Paths:
    """Trips on a planar map of 8 x 8 cells of 100 m, written as points, and how to run a release of them."""

    def __init__(self, folder):
        self.folder = folder
        self.source = folder / "trips.parquet"
        self.flags = {
            "--box": "0,0,800,800",
            "--cells": 8,
            "--start": "2026-03-02",
            "--end": "2026-03-03",
            "--time-zone": "Europe/Paris",
            "--population": "rich",
            "--epsilon": 40000,
            "--given": 50,
            "--method": "stand-in",
            "--out": folder / "release",
            "--owner": folder / "owner",
        }

    def write(self, trips):
        """trips: (user, [(x, y), ...]); one minute between points."""
        rows = [
            (user, number, START + i * MINUTE, float(x), float(y))
            for number, (user, points) in enumerate(trips)
            for i, (x, y) in enumerate(points)
        ]
        user, trip, time, x, y = (list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 5
        columns = {
            "user": pa.array(user, pa.int64()),
            "trip": pa.array(trip, pa.int64()),
            "time": pa.array(time, pa.timestamp("us", "UTC")),
            "x": pa.array(x, pa.float64()),
            "y": pa.array(y, pa.float64()),
        }
        pq.write_table(pa.table(columns), self.source)

    def lonlat(self):
        """The same points as longitudes and latitudes."""
        table = pq.read_table(self.source)
        pq.write_table(table.rename_columns(["user", "trip", "time", "lon", "lat"]), self.source)

    def arguments(self, *more):
        named = [
            str(part) for flag, value in self.flags.items() if value is not None for part in (flag, value)
        ]
        return ["histogram", "run", str(self.source), *named, *map(str, more)]


@pytest.fixture
def paths(tmp_path):
    open_ledger().create("rich", currency="epsilon", limit_nano=10**18)
    open_ledger().create("poor", currency="epsilon", limit_nano=10**9)
    return Paths(tmp_path)


TRIPS = [
    (1, [(50, 50), (350, 50)]),  # along the bottom row
    (1, [(50, 150), (50, 750)]),  # up the first column
    (2, [(750, 750), (450, 450)]),  # a diagonal
    (3, [(250, 250)]),  # stays in a cell
]


def ask(command, release, *flags):
    code, out, err = command("histogram", "query", release, *flags, "--json")
    assert (code, err) == (0, "")
    return {answer["name"]: answer for answer in json.loads(out)["answers"]}


def released(paths, command, *flags):
    code, out, err = command(*paths.arguments(*flags))
    assert code == 0, err
    return paths.folder / "release", out, err


def spent(population="rich"):
    return open_ledger().state().population(population).spent_nano


def test_run_then_query_counts_distinct_trips(paths, command):
    paths.write(TRIPS)
    release, out, _ = released(paths, command)
    assert not check_release(release).problems
    assert {file.name for file in release.iterdir()} == {"histogram.parquet", "manifest.json", "README.md"}
    for box, trips in (("0,0,800,800", 4), ("0,0,400,100", 1), ("0,0,100,800", 2), ("400,400,800,800", 1)):
        answer = ask(command, release, "--box", box)["box"]
        assert answer["trips"] == pytest.approx(trips, abs=0.05), box
        assert answer["snapped"] == [float(side) for side in box.split(",")]
    assert round(read_histogram(release).trips) == 4
    assert "shoal histogram query" in out
    assert "epsilon = 40000.0000 spent" in out


def test_what_the_readme_says_of_the_file_is_so(paths, command, monkeypatch):
    """The snippet for DuckDB answers as the package does; the grid in the README finds a point's cell."""
    paths.write(TRIPS)
    release, _, _ = released(paths, command)
    readme = (release / "README.md").read_text()
    query = re.search(r"```sql\n(.*?)```", readme, re.S)[1]
    for before, after in (("10", "0"), ("19", "4"), ("30", "1"), ("44", "7")):
        query = query.replace(f" {before} ", f" {after} ")
    monkeypatch.chdir(release)
    found = duckdb.execute(query).fetchall()[0][0]
    assert found == pytest.approx(float(read_histogram(release).answer([(0, 100, 500, 800)])[0]))
    assert round(found) == 3
    assert "column floor((x - 0.0) / (800.0 - 0.0) * 8)" in readme
    assert "a cell is 100 wide and 100 high" in readme


def test_the_python_side_says_the_same(paths, command):
    paths.write(TRIPS)
    settings = shoal.read_plan(_toml(paths))
    prepared = shoal.prepare_histogram(shoal.HistogramPlan.from_settings(settings))
    made = shoal.run_histogram(prepared, shoal.open_ledger())
    histogram = shoal.read_histogram(made.release)
    assert histogram.answer([(0, 0, 400, 100), (0, 0, 800, 800)]).round().tolist() == [1, 4]
    alone = shoal.read_histogram(made.release / "histogram.parquet")
    assert alone.answer((0, 0, 800, 800)).round().tolist() == [4]
    assert not alone.manifest
    code, out, _ = command("histogram", "run", "--plan", _toml(paths))
    assert code == 0
    assert "released before" in out
    with _toml(paths).open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write("trips_per_user = 5\ntrips_cap = 9\n" + text)
    code, out, _ = command(
        "histogram", "run", "--plan", paths.folder / "plan.toml", "--unit", "trip", "--dry-run"
    )
    assert (code, "One trip" in out) == (0, True)


def _toml(paths):
    plan = paths.folder / "plan.toml"
    plan.write_text(
        """population = "rich"
epsilon = 40000
method = "stand-in"
given = 50
out = "release"
owner = "owner"

[source]
paths = ["trips.parquet"]

[space]
box = [0, 0, 800, 800]
cells = 8

[window]
start = "2026-03-02"
end = "2026-03-03"
time_zone = "Europe/Paris"
"""
    )
    return plan


def test_one_user_counts_with_a_bounded_number_of_trips(paths, command):
    paths.write([(1, [(50, 50)])] * 30 + [(2, [(750, 750)])])
    release, out, _ = released(paths, command)
    assert [
        round(ask(command, release, "--box", b)["box"]["trips"]) for b in ("0,0,100,100", "700,700,800,800")
    ] == [
        10,
        1,
    ]
    assert "at most 10 trips of a user" in out
    paths.flags["--out"] = paths.folder / "second"
    code, _, err = command(*paths.arguments("--trips-per-user", 3, "--trips-cap", 20))
    assert code == 0, err
    answer = ask(command, paths.folder / "second", "--box", "0,0,800,800")["box"]
    assert answer["trips"] == pytest.approx(21, abs=0.05)  # 20 of user 1 under the cap, 1 of user 2
    assert "at most 20" in (paths.folder / "second" / "README.md").read_text()


def test_the_unit_trip_is_said_first_and_keeps_every_trip(paths, command):
    paths.write([(1, [(50, 50)])] * 30)
    release, out, _ = released(paths, command, "--unit", "trip")
    assert round(ask(command, release, "--box", "0,0,100,100")["box"]["trips"]) == 30
    first = json.loads((release / "manifest.json").read_text())["unit"]
    assert first.startswith("One trip: ")
    assert "not protected as a person" in first
    assert "not protected as a person" in out
    paths.flags["--out"] = paths.folder / "second"
    for more in (("--trips-per-user", 5), ("--trips-cap", 5)):
        code, _, err = command(*paths.arguments("--unit", "trip", *more))
        assert (code, err.split(":")[0]) == (2, "trip-bound")


def test_points_outside_the_box_cut_a_trip_and_leave_no_count(paths, command):
    """In, out, in again: two trips; the release says the rule and nowhere how often it was used."""
    paths.write([(1, [(50, 50), (50, -350), (750, 50)]), (2, [(-5, -5), (-9, -9)])])
    release, _, _ = released(paths, command)
    assert round(read_histogram(release).trips) == 2
    assert round(ask(command, release, "--box", "300,0,500,800")["box"]["trips"]) == 0
    seen = json.loads((paths.folder / "owner" / "utility.json").read_text())
    assert seen["points_outside_share"] == pytest.approx(3 / 5)  # for the owner alone
    manifest = json.loads((release / "manifest.json").read_text())
    assert manifest["public"]["points_outside_the_box"].startswith("dropped")
    assert manifest["input"] == {
        "shape": "trip-point",
        "columns": ["time", "trip", "user", "x", "y"],
        "trips_with_noise": 2.0,
    }


def test_jumps_follow_the_straight_line_unless_cut(paths, command):
    paths.write([(1, [(50, 50), (750, 50)])])
    release, _, _ = released(paths, command)
    assert round(ask(command, release, "--box", "300,0,500,100")["box"]["trips"]) == 1
    paths.flags["--out"] = paths.folder / "cut"
    code, _, err = command(*paths.arguments("--jump-m", 500))
    assert code == 0, err
    cut = read_histogram(paths.folder / "cut")
    assert cut.answer([(300, 0, 500, 100), (0, 0, 800, 800)]).round().tolist() == [0, 2]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"--box": "170,-20,-170,0"}, "box-antimeridian"),
        ({"--box": "0,800,800,0"}, "box-range"),
        ({"--box": "0,0,0,800"}, "box-range"),
        ({"--box": None}, "box-missing"),
        ({"--cells": "many"}, "grid-size"),
        ({"--cells": 100000}, "grid-size"),
        ({"--method": "prich"}, "histogram-method"),
        ({"--trips-per-user": 0}, "plan-range"),
        ({"--trips-cap": 3}, "plan-range"),
        ({"--epsilon": 0}, "epsilon-range"),
        ({"--epsilon": None}, "plan-incomplete"),
        ({"--start": None}, "plan-incomplete"),
        ({"--population": "nobody"}, "unknown-population"),
        ({"--given": 0}, "plan-range"),
        ({"--jump-m": -5}, "plan-range"),
        ({"--population": "poor"}, "budget-exceeded"),
        ({"--unit": "cab"}, "plan-unit"),
    ],
)
def test_bad_plans_say_the_rule_and_spend_nothing(paths, command, change, code):
    paths.write(TRIPS)
    if code == "box-antimeridian":
        paths.lonlat()
    paths.flags |= change
    status, _, err = command(*paths.arguments())
    assert status in (2, 4)
    assert err.split(":")[0] == code, err
    assert "Traceback" not in err
    assert spent() == spent("poor") == 0
    assert not (paths.folder / "release").exists()


def test_nobody_on_the_map_is_said_and_is_a_release(paths, command):
    """Swapped coordinates: the owner is warned before the spend; noise alone is released honestly."""
    paths.write([(1, [(5000, 50), (5100, 50)])])
    release, _, err = released(paths, command)
    assert "Warning: No point lies in the window and the box" in err
    assert round(read_histogram(release).trips) == 0
    assert ask(command, release, "--box", "0,0,800,800")["box"]["trips"] == pytest.approx(0, abs=0.05)


def test_an_empty_file_is_a_release_too(paths, command):
    paths.write([])
    release, _, _ = released(paths, command)
    assert not check_release(release).problems
    assert round(read_histogram(release).trips) == 0


def test_bad_rows_stop_before_the_spend(paths, command):
    paths.write([(1, [(50, 50), (math.nan, 50)])])
    code, _, err = command(*paths.arguments())
    assert (code, err.split(":")[0]) == (3, "bad-row")
    assert spent() == 0
    code, _, err = command(*paths.arguments("--on-bad-row", "drop"))
    assert code == 0, err


def test_trips_can_be_found_by_a_rule(paths, command):
    """Points without trip ids, an hour apart: one trip or two, as the rule says."""
    time = [START, START + MINUTE, START + 61 * MINUTE, START + 62 * MINUTE]
    columns = {"user": [1] * 4, "time": pa.array(time, pa.timestamp("us", "UTC"))}
    columns |= {"x": [50.0, 150.0, 650.0, 750.0], "y": [50.0] * 4}
    pq.write_table(pa.table(columns), paths.source)
    code, _, err = command(*paths.arguments())
    assert (code, err.split(":")[0]) == (2, "trip-rule")
    release, _, _ = released(paths, command, "--gap-minutes", 30)
    assert round(read_histogram(release).trips) == 2
    assert json.loads((release / "manifest.json").read_text())["public"]["trip_rule"]["gap_minutes"] == 30
    columns["occupied"] = [True, False, True, True]
    pq.write_table(pa.table(columns), paths.source)
    paths.flags["--out"] = paths.folder / "by-flag"
    code, _, err = command(*paths.arguments("--trip-flag", "--min-points", 2))
    assert code == 0, err
    found = read_histogram(paths.folder / "by-flag")
    assert found.answer([(0, 0, 300, 800), (600, 0, 800, 800)]).round().tolist() == [0, 1]


def test_a_dry_run_spends_nothing_and_says_the_price(paths, command):
    paths.write(TRIPS)
    code, out, _ = command(*paths.arguments("--dry-run"))
    assert code == 0
    assert "8 x 8, each 100 x 100 m" in out
    assert "One user" in out
    code, out, _ = command(*paths.arguments("--dry-run", "--json"))
    told = json.loads(out)
    assert told["spends"][0]["epsilon"] == pytest.approx(40000)
    assert told["public"]["grid"] == {"box": [0, 0, 800, 800], "columns": 8, "rows": 8, "planar": True}
    assert spent() == 0
    assert not (paths.folder / "release").exists()


def test_a_seeded_run_stays_with_the_owner(paths, command):
    paths.write(TRIPS)
    code, out, _ = command(*paths.arguments("--seed", 7))
    assert code == 0
    assert "not for publication" in out
    assert spent() == 0
    assert not (paths.folder / "release").exists()
    seeded = paths.folder / "owner" / "seeded-7"
    assert json.loads((seeded / "manifest.json").read_text())["reproducible"] is True
    assert command("publish", seeded, paths.folder / "public")[0] != 0


def test_a_release_can_be_published_and_verified(paths, command):
    paths.write(TRIPS)
    release, _, _ = released(paths, command)
    assert command("publish", release, paths.folder / "public")[0] == 0
    code, out, _ = command("verify", paths.folder / "public")
    assert code == 0
    assert "One user" in out
    assert read_histogram(paths.folder / "public").answer((0, 0, 800, 800)).round().tolist() == [4]


def test_the_owner_sees_errors_and_a_comparison_that_is_remembered(paths, command, monkeypatch):
    paths.write(TRIPS * 20)
    other = replace(histogram_methods.METHODS["stand-in"], name="other")
    for name in [name for name in histogram_methods.METHODS if name != "stand-in"]:
        monkeypatch.delitem(histogram_methods.METHODS, name)
    monkeypatch.setitem(histogram_methods.METHODS, "other", other)
    released(paths, command, "--unit", "trip", "--compare")
    figures = json.loads((paths.folder / "owner" / "utility.json").read_text())
    assert (figures["trips"], figures["kept"]) == (80, 80)
    assert figures["unseen"] < 1  # nearly exact, and no path here loops
    assert figures["euler"] == figures["euler_blocks"] == 0
    assert figures["violated_before"] == 0.25
    assert [row["method"] for row in figures["compared"]] == [
        "stand-in",
        "other",
        "published-dqam",
        "published-prish",
    ]
    assert [row["sound"] for row in figures["compared"]] == [True, True, False, False]
    page = (paths.folder / "owner" / "report.html").read_text()
    assert "Owner&#x27;s eyes only" in page
    assert "No guarantee as published" in page
    state = open_ledger().state().population("rich")
    assert state.tuned
    paths.flags["--out"] = paths.folder / "later"
    assert command(*paths.arguments("--unit", "trip", "--run-id", "2"))[0] == 0
    assert json.loads((paths.folder / "later" / "manifest.json").read_text())["tuned_on_private_data"] is True
    assert len(list((paths.folder / "owner").glob("report*.html"))) == 2


def test_polygons_zones_and_files_of_boxes(paths, command):
    paths.write(TRIPS)
    square = [[[0, 0], [400, 0], [400, 100], [0, 100], [0, 0]]]
    corner = [[[0, 0], [100, 0], [100, 700], [800, 700], [800, 800], [0, 800], [0, 0]]]
    shapes = {"bottom": square, "corner": corner}
    features = [
        {
            "type": "Feature",
            "properties": {"zone": name},
            "geometry": {"type": "Polygon", "coordinates": ring},
        }
        for name, ring in shapes.items()
    ]
    zones = paths.folder / "zones.geojson"
    zones.write_text(json.dumps({"type": "FeatureCollection", "crs": None, "features": features}))
    release, _, _ = released(paths, command, "--zones", zones)
    assert (release / "zones.geojson").is_file()
    by_name = ask(command, release, "--zone", "corner")
    assert (
        round(by_name["corner"]["trips"]) == 3
    )  # along the bottom (its first cell), up the side, the far corner
    assert by_name["corner"]["cells"] == 15
    everything = ask(command, release, "--zones", zones)
    assert list(everything) == ["bottom", "corner"]
    polygon = paths.folder / "polygon.geojson"
    polygon.write_text(json.dumps({"type": "Polygon", "coordinates": square}))
    assert round(ask(command, release, "--polygon", polygon)["polygon"]["trips"]) == 1
    boxes = paths.folder / "boxes.csv"
    boxes.write_text("name,west,south,east,north\nwide,0,0,825,440\ntiny,1,1,2,2\noff,900,0,1000,9\n")
    code, out, _ = command("histogram", "query", release, "--csv", boxes)
    assert code == 0
    wide, tiny, off = csv.DictReader(out.splitlines())
    corners = ("west", "south", "east", "north")
    assert [float(wide[side]) for side in corners] == [0, 0, 825, 440]
    assert [float(wide[f"counted_{side}"]) for side in corners] == [0, 0, 800, 400]
    assert float(wide["missed"]) == pytest.approx(1 - 320 / (825 * 0.44), abs=1e-6)
    assert (float(wide["added"]), wide["cells"], round(float(wide["trips"]))) == (0, "32", 3)
    assert wide["notes"].startswith("3.0% of the area lies beyond the map")
    assert (tiny["trips"], tiny["cells"], tiny["counted_west"]) == ("", "0", "")
    assert "no cell has its centre" in tiny["notes"]
    assert "map, which is 0 to 800, 0 to 800" in off["notes"]
    two = ask(command, release, "--box", "0,0,400,100", "--box", "0,0,800,800")
    assert [(name, round(found["trips"])) for name, found in two.items()] == [("box 1", 1), ("box 2", 4)]
    for unread in (("--zones-crs", "EPSG:3857"), ("--repair-zones",)):
        code, _, err = command("histogram", "query", release, "--polygon", polygon, *unread)
        assert (code, err.split(":")[0]) == (2, "query-options")
        assert unread[0] in err
    code, _, err = command("histogram", "query", release, "--zone", "nowhere")
    assert (code, err.split(":")[0]) == (2, "zone-name")
    code, _, err = command("histogram", "query", release)
    assert (code, err.split(":")[0]) == (2, "query-area")
    code, _, err = command("histogram", "query", paths.folder, "--box", "0,0,1,1")
    assert (code, err.split(":")[0]) == (3, "not-a-histogram")


def test_the_given_rectangles_may_come_from_a_file(paths, command):
    paths.write(TRIPS)
    given = paths.folder / "given.csv"
    given.write_text("west,south,east,north\n0,0,400,400\n100,100,800,800\n")
    release, _, _ = released(paths, command, "--given-file", given)
    told = json.loads((release / "manifest.json").read_text())["public"]["given"]
    assert (told["rectangles"], told["from"], told["seed"]) == (2, "a file of the owner", None)


def test_the_public_page_is_drawn_from_the_file_alone(paths, command):
    paths.write(TRIPS)
    release, _, _ = released(paths, command)
    page = paths.folder / "page.html"
    code, _, _ = command("histogram", "report", release, "--out", page)
    assert code == 0
    assert "One user" in page.read_text()
    assert "eyes only" not in page.read_text()
    code, _, err = command("histogram", "report", release, "--out", release / "page.html")
    assert (code, err.split(":")[0]) == (5, "report-in-release")
    assert not check_release(release).problems
