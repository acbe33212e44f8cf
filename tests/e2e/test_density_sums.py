"""Sums of a published density: ready tables, any set of zones and slots, and what a recipient can check."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.release.manifest import Manifest, sha256_file
from shoal.release.verify import content_problems

PARTS = {"covariance.parquet", "totals.parquet"}


def release(town, command, method):
    out = town.folder / method
    town.flags["--out"] = out
    code, _, error = command(*town.arguments(), "--method", method)
    assert (code, error.strip()) == (0, "")
    return out


@pytest.mark.parametrize("method", ["best", "gaussian"])
def test_ready_sums_are_those_of_the_command_and_of_python(town, command, method):
    out = release(town, command, method)
    density = shoal.read_density(out)
    rows = pq.read_table(out / "totals.parquet").to_pylist()
    assert {row["sum"] for row in rows} == {"zone-day", "zone-week", "city-slot", "city-day", "city"}
    for row in (rows[0], rows[-1]):
        zones = None if row["zone"] is None else [row["zone"]]
        total = density.total(zones, range(row["first_slot"], row["last_slot"] + 1))
        assert (total.people, total.low, total.high) == pytest.approx(
            (row["people"], row["people_low"], row["people_high"]), rel=5e-3, abs=1.01
        )
        assert total.low <= total.people <= total.high
    code, shown, error = command("density", "total", out, "--zones", density.zones.ids[0], "--json")
    assert (code, error) == (0, "")
    assert json.loads(shown) == vars(density.total([density.zones.ids[0]]))
    assert command("verify", out)[0] == 0


def test_a_sum_that_does_not_follow_from_the_covariance_is_found(town, command):
    out = release(town, command, "best")
    manifest = Manifest.from_json((out / "manifest.json").read_text())
    assert content_problems(out, manifest) == []
    path = out / "totals.parquet"
    table = pq.read_table(path)
    ends = pa.array([value / 2 for value in table["people_high"].to_pylist()])
    pq.write_table(table.set_column(table.column_names.index("people_high"), "people_high", ends), path)
    before = manifest.files[path.name].sha256
    assert sha256_file(path) != before
    assert any("people_high of totals.parquet" in each for each in content_problems(out, manifest))


def test_a_method_without_a_covariance_says_that_sums_have_no_interval(town, command):
    out = release(town, command, "efpag")
    assert not PARTS & {path.name for path in out.iterdir()}
    assert "Sums over zones or slots have no interval" in (out / "README.md").read_text()
    code, _, error = command("density", "total", out)
    assert (code, error.split(":")[0]) == (2, "no-sums")


def test_wrong_sets_are_named(town, command):
    out = release(town, command, "gaussian")
    for flags, part in ((["--zones", "nowhere"], "nowhere"), (["--from", "2026-03-02T07:13"], "no slot")):
        code, _, error = command("density", "total", out, *flags)
        assert code == 2
        assert part in error
