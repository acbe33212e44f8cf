"""Densities at the edge: other units and names, files that change, a full disk, what the ledger says."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from shoal.privacy.ledger import open_ledger


def test_another_unit_is_named_with_its_column(town, command):
    town.flags.update({"--unit": "vehicle-day", "--column": "user=user"})
    code, _, _ = command(*town.arguments())
    assert code == 0
    manifest = json.loads((town.folder / "release" / "manifest.json").read_text())
    assert manifest["unit"].startswith('One vehicle-day: all events with one value of the column "user".')
    assert manifest["guarantee"]["unit"] == "vehicle-day"
    assert "user" not in manifest["promise"]
    assert "not persons" in (town.folder / "release" / "README.md").read_text()


def test_times_and_sites_written_in_other_ways_can_be_described(town, command):
    town.csv("user,time,site\n1,02/03/2026 08:15:00,S0\n")
    sites = town.folder / "sites.csv"
    sites.write_text(sites.read_text().replace("site,lon,lat", "mast,east,north"))
    described = {"--site-id": "mast", "--site-lon": "east", "--site-lat": "north"}
    town.flags.update({**described, "--time-format": "%d/%m/%Y %H:%M:%S", "--zones-layer": "zones"})
    code, _, err = command(*town.arguments())
    assert code == 0, err
    sites = [str(part) for pair in described.items() for part in pair]
    arguments = ["inspect", str(town.source), "--sites", str(town.flags["--sites"]), *sites]
    arguments += ["--time-format", "%d/%m/%Y %H:%M:%S", "--time-zone", "UTC", "--json"]
    code, out, _ = command(*arguments)
    assert (code, json.loads(out)["bad_rows"]) == (0, 0)


def test_files_that_change_during_a_run_tell_nothing(town, monkeypatch, command):
    """After the reserve, an error in the rows is generic, and the reserve is recorded as spent."""
    from shoal.kinds.density.build import DensityBuild

    check = DensityBuild.check

    def check_and_change(self):
        check(self)
        town.events(user=[77], time=[town.start], site=["SECRET"])

    monkeypatch.setattr(DensityBuild, "check", check_and_change)
    code, out, err = command(*town.arguments())
    assert code == 3
    assert err.startswith("source-changed: ")
    assert "spent" in err
    assert "SECRET" not in out + err
    assert "77" not in err
    population = open_ledger().state().population("town")
    assert population.spent_nano > 0
    assert [spend.status for spend in population.spends] == ["unresolved (counts as spent)"]
    assert not (town.folder / "release").exists()


def test_unexpected_errors_show_no_traceback(town, monkeypatch, command):
    def broken(*args, **kwargs):
        raise RuntimeError("user 123456 is at S0")

    monkeypatch.setattr("shoal.kinds.density.prepare.prepare_density", broken)
    code, _, err = command(*town.arguments())
    assert code == 1
    assert err.startswith("internal-error: ")
    assert "123456" not in err


def test_no_space_for_spilled_events_is_said(town, monkeypatch, command):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shoal.scratch._make", full)
    monkeypatch.setattr("shoal.engine.engine.MEBIBYTE", 0)
    code, _, err = command(*town.arguments())
    assert code == 5
    assert err.startswith("temp-folder: ")
    assert not (town.folder / "release").exists()


def test_points_outside_every_zone_are_counted_nowhere(town, command):
    town.events(user=[1, 2], time=[town.start, town.start], lon=[2.305, 9.0], lat=[48.805, 9.0])
    town.flags.update({"--sites": None, "--epsilon": "20", "--delta": "0.5", "--decimals": "0"})
    town.flags["--method"] = "gaussian"  # its noise is below a person at this epsilon
    open_ledger().raise_limit("town", 10**12)
    assert command(*town.arguments())[0] == 0
    people = pq.read_table(town.folder / "release" / "density.parquet")["people"].to_numpy()
    assert people.size == 4 * 24
    assert np.abs(people).sum() < 60


@pytest.mark.parametrize(
    ("method", "ell", "noted"), [("gaussian", 25, True), ("gaussian", 24, False), ("best", 25, False)]
)
def test_more_visits_than_slots_are_noted_and_change_nothing(town, command, method, ell, noted):
    town.flags |= {"--method": method, "--ell": ell}
    words = "ell = 25 is more than the 24 slots"
    code, out, _ = command(*town.arguments(), "--dry-run")
    assert code == 0
    assert (words in " ".join(out.split())) == noted
    code, out, _ = command(*town.arguments(), "--dry-run", "--json")
    told = json.loads(out)
    assert len(told["notes"]) == noted
    if method == "gaussian":
        town.flags["--ell"] = 24
        _, out, _ = command(*town.arguments(), "--dry-run", "--json")
        assert json.loads(out)["public"]["noise_scale_people"] == told["public"]["noise_scale_people"]
        town.flags["--ell"] = ell
    code, out, _ = command(*town.arguments())
    assert code == 0
    assert (words in out) == noted


@pytest.mark.parametrize(
    ("start", "end", "window"),
    [
        ("2026-03-02", "2026-03-03", "2026-03-02 to 2026-03-03"),
        ("2026-03-02T06:00", "2026-03-03", "2026-03-02 06:00 to 2026-03-03 00:00"),
        ("2026-03-02T06:00", "2026-03-02T10:30", "2026-03-02 06:00 to 2026-03-02 10:30"),
    ],
)
def test_the_ledger_says_which_hours_and_whose_report(town, command, start, end, window):
    town.flags |= {"--method": "gaussian", "--start": start, "--end": end, "--slot-minutes": 30}
    assert command(*town.arguments(), "--allow-empty")[0] == 0
    seeded = ("--seed", "3", "--owner", town.folder / "tried")
    assert command(*town.arguments(), "--allow-empty", *seeded)[0] == 0
    population = open_ledger().state().population("town")
    what = f"density, gaussian, {window}"
    assert [spend.what for spend in population.spends] == [what]
    seen = [note["what"] for note in population.notes if note["kind"] == "disclosure"]
    assert seen == [
        f"owner's report with exact counts, on release: {what}",
        f"seeded, not for publication: {what}",
        f"owner's report with exact counts, on seeded-3: {what}",
    ]
