"""Records that name sites: released and verified by the same file of places."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

SPOTS = np.array([[2.311, 48.811], [2.352, 48.843], [2.363, 48.804], [2.404, 48.865]])


@pytest.fixture
def towers(walks):
    """The same people, seen by four towers."""
    near = np.abs(walks.lon[:, None] - SPOTS[:, 0]) + np.abs(walks.lat[:, None] - SPOTS[:, 1])
    walks.near = near.argmin(axis=1)
    table = pq.read_table(walks.source).drop_columns(["lon", "lat"])
    table = table.append_column("site", [[f"T{number}" for number in walks.near]])
    pq.write_table(table, walks.source)
    places(walks, SPOTS)
    walks.flags["--sites"] = walks.folder / "towers.csv"
    return walks


def places(walks, spots, header="site,lon,lat"):
    lines = [f"T{number},{lon},{lat}" for number, (lon, lat) in enumerate(spots.tolist())]
    (walks.folder / "towers.csv").write_text("\n".join([header, *lines]) + "\n")


def test_a_release_of_tower_records_is_verified_by_the_same_towers(towers, command):
    code, out, err = command(*towers.arguments("--json"))
    assert (code, err) == (0, "")
    assert json.loads(out)["verified"]
    file = towers.folder / "towers.csv"
    code, out, err = command(*towers.verify_arguments("--sites", file, "--json"))
    told = json.loads(out)
    assert (code, err, told["passed"], told["users"]) == (0, "", True, towers.users)
    seen = {
        (user, minute, site)
        for user, minute, site in zip(
            towers.user, (towers.time - towers.start) // towers.minute, towers.near, strict=True
        )
    }
    assert told["samples"] == len(seen)
    path = towers.folder / "release" / "records.parquet"
    table = pq.read_table(path)
    path.chmod(0o600)
    pq.write_table(table.slice(table.num_rows // 2), path)
    assert command(*towers.verify_arguments("--sites", file, "--windows", 0))[0] == 1


def test_boxes_hold_the_towers_cells(towers, command):
    assert command(*towers.arguments())[0] == 0
    rows = pq.read_table(towers.folder / "release" / "records.parquet")
    cells = (SPOTS - (2.3, 48.8)) * (111_320 * np.cos(np.radians(48.8)), 110_574) // 100
    assert rows.num_rows > 20
    for low, high, column in (("x0", "x1", 0), ("y0", "y1", 1)):
        assert set(rows[low].to_pylist()) <= set(cells[:, column].astype(int))
        assert set(rows[high].to_pylist()) <= set(cells[:, column].astype(int))


def test_columns_of_other_names(towers, command):
    places(towers, SPOTS, header="mast,east,north")
    named = ("--site-id", "mast", "--site-lon", "east", "--site-lat", "north")
    assert command(*towers.arguments(*named))[0] == 0
    file = ("--sites", towers.folder / "towers.csv", "--windows", 0)
    assert command(*towers.verify_arguments(*file, *named))[0] == 0
    code, _, err = command(*towers.verify_arguments(*file))
    assert (code, "Traceback" in err) == (3, False)


def test_planar_towers(towers, command):
    places(towers, (SPOTS - (2.3, 48.8)) * (73_000, 110_000), header="site,x,y")
    assert command(*towers.arguments("--origin", "0,0"))[0] == 0
    file = ("--sites", towers.folder / "towers.csv", "--windows", 0)
    assert command(*towers.verify_arguments(*file))[0] == 0


def test_what_is_wrong_with_sites_is_said(towers, command):
    assert command(*towers.arguments())[0] == 0
    code, _, err = command(*towers.verify_arguments())
    assert (code, err.split(":")[0]) == (2, "sites-missing")
    code, _, err = command(*towers.verify_arguments("--site-id", "site"))
    assert (code, err.split(":")[0]) == (2, "sites-missing")
    code, _, err = command(*towers.verify_arguments("--sites", towers.folder / "none.csv"))
    assert (code, "Traceback" in err) == (3, False)
    places(towers, SPOTS + 0.01)
    code, _, err = command(*towers.verify_arguments("--sites", towers.folder / "towers.csv"))
    assert (code, err.split(":")[0]) == (2, "verify-sites")
    towers.flags["--sites"] = None
    code, _, err = command(*towers.arguments("--out", towers.folder / "other"))
    assert (code, err.split(":")[0]) == (2, "sites-missing")


def test_a_record_of_an_unknown_site_is_a_bad_row(towers, command):
    places(towers, SPOTS[:3])
    code, _, err = command(*towers.arguments())
    assert code == 3
    assert "site" in err
    code, out, _ = command(*towers.arguments("--on-bad-row", "drop", "--json"))
    assert (code, json.loads(out)["rows"]) == (0, int((towers.near < 3).sum()))
    file = ("--sites", towers.folder / "towers.csv", "--windows", 0)
    assert command(*towers.verify_arguments(*file, "--on-bad-row", "drop"))[0] == 0


def test_sites_are_ignored_where_records_have_places(walks, command):
    assert command(*walks.arguments())[0] == 0
    places(walks, SPOTS)
    assert command(*walks.verify_arguments("--sites", walks.folder / "towers.csv", "--windows", 0))[0] == 0
