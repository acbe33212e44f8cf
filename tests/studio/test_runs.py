"""Releases through the server: the whole way, refused plans, cancel, and kill -9 in the middle."""

import html
import os
import shutil
import signal
import time
import zipfile
from io import BytesIO
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest
from tests.loops import tiers

from shoal.kinds.histogram.plan import METHODS as HISTOGRAM
from shoal.kinds.histogram.plan import MapPlan
from shoal.kinds.synthetic.plan import METHODS as SYNTHETIC
from shoal.privacy.ledger import open_ledger
from shoal.release.verify import check_release


def plan_of(of, **more):
    return {
        "kind": "density",
        "source": of,
        "population": "town",
        "name": "week-1",
        "epsilon": 1.0,
        "delta": 1e-6,
        **more,
    }


def spends():
    return open_ledger().state().population("town").spends


def started(live, form, **more):
    told = live.post("/runs", {"plan": form, **more})
    assert told.status_code == 202, told.text
    return told.json()["id"]


def test_a_density_from_source_to_evidence(town, tmp_path):
    plan = plan_of(town.source)
    told = town.post("/plan", plan).json()
    assert told["obstacles"] == []
    assert told["budget"]["cost_nano"] > 0
    assert next(each for each in told["expected_methods"] if each["method"] == "best")["error_share"] > 0
    assert spends() == []

    run = check_events_are_streamed_until_the_run_ends(town, started(town, plan))
    assert run["status"] == "done", run
    release = run["result"]["manifest_sha256"]
    assert check_release(tmp_path / "work" / "releases" / "week-1").problems == ()
    assert [each.status for each in spends()] == ["committed"]
    check_owner_files_are_readable_by_the_owner_alone(town)
    check_the_same_name_is_refused_before_anything_is_spent(town)

    look = town.post(f"/releases/{release}/view").json()
    assert look["slots"] == 168
    assert len(look["zones"]["ids"]) == 30
    assert look["raw"]["mre"] > 0
    assert town.post(f"/releases/{release}/view", {"raw": False}).json()["raw"] is None
    assert town.post(f"/releases/{release}/verify").json()["ok"]

    assert not open_ledger().is_tuned("town")
    assert town.ended(town.post(f"/sources/{town.source}/check").json()["id"])["status"] == "done"
    assert open_ledger().is_tuned("town")  # the exact numbers of the source's population were seen

    attack = town.ended(town.post("/attacks", {"release": release, "adversary": "inference"}).json()["id"])
    assert attack["status"] == "done", attack
    names = [each["name"] for each in attack["result"]["spread"]["series"]]
    assert names == ["prior knowledge alone", "with raw counts", "with the release"]

    plain, annex = (
        httpx.get(
            f"http://127.0.0.1:{town.port}"
            + town.post("/evidence", {"release": release, "annex": each}).json()["address"]
        )
        for each in (False, True)
    )
    assert "Owner's eyes only" in annex.text
    assert attack["result"]["sentence"][:40] in html.unescape(annex.text)
    for word in ("Owner's eyes only", attack["result"]["sentence"][:40], "annex</h2>"):
        assert word not in html.unescape(plain.text)
    assert release in plain.text
    assert "sandbox" in plain.headers["content-security-policy"]

    folder = town.post(f"/releases/{release}/open", {"what": "folder"}).json()["address"]
    names = zipfile.ZipFile(BytesIO(httpx.get(f"http://127.0.0.1:{town.port}{folder}").content)).namelist()
    assert "week-1/manifest.json" in names
    assert not any("exact" in name or "report" in name for name in names)
    assert town.post(f"/releases/{release}/publish", {"name": "week-1"}).json()["folder"] == "public/week-1"
    again = town.post(f"/releases/{release}/publish", {"name": "week-1"})
    assert again.status_code == 400
    assert town.post("/ledger/verify").json()["ok"]
    check_an_attack_is_refused_once_the_data_is_another(town, release)


def check_events_are_streamed_until_the_run_ends(town, run):
    told = []
    with town.client.stream("GET", f"/runs/{run}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        told = [line for line in stream.iter_lines() if line.startswith("data: ")]
    assert '"status": "done"' in told[-1]
    assert len(told) > 2
    assert '"check rows"' in told[-1]
    return town.ended(run)


def check_owner_files_are_readable_by_the_owner_alone(town):
    owner = town.folder / "owner" / "week-1"
    assert owner.stat().st_mode & 0o077 == 0
    listed = {path.name: path.stat().st_mode & 0o077 for path in owner.iterdir()}
    assert {"report.html", "exact.parquet", "utility.json"} <= set(listed)
    assert set(listed.values()) == {0}


def check_the_same_name_is_refused_before_anything_is_spent(town):
    told = town.post("/runs", {"plan": plan_of(town.source, epsilon=0.5)})
    assert told.status_code == 400
    assert "exists" in told.text
    assert len(spends()) == 1


def check_an_attack_is_refused_once_the_data_is_another(town, release):
    """Its sentence would compare other people with the release, and go into the annex under its name."""
    events = next((town.folder / "city" / "events").glob("*.parquet"))
    table = pq.read_table(events)
    pq.write_table(table.slice(0, table.num_rows // 2), events)
    attack = town.ended(town.post("/attacks", {"release": release, "adversary": "unicity"}).json()["id"])
    assert attack["status"] == "failed"
    assert attack["error"]["code"] == "data-changed"


def test_a_release_of_nobody_is_confirmed_and_a_cancelled_one_costs_what_the_page_says(town):
    check_where_nobody_would_be_counted_the_owner_is_asked(town)
    check_cancel_before_the_reserve_costs_nothing_and_a_waiting_run_never_starts(town)


def check_where_nobody_would_be_counted_the_owner_is_asked(town):
    empty = plan_of(town.source, start="2027-03-01", end="2027-03-08")
    run = town.ended(started(town, empty))
    assert run["status"] == "failed"
    assert run["error"]["code"] == "nobody-counted"
    assert spends() == []
    assert town.ended(started(town, empty, allow_empty=True))["status"] == "done"


def check_cancel_before_the_reserve_costs_nothing_and_a_waiting_run_never_starts(town):
    before = len(spends())
    first = started(town, plan_of(town.source, name="week-3"))
    second = started(town, plan_of(town.source, name="week-2", run_id="2"))
    assert town.get(f"/runs/{second}").json()["status"] == "waiting"
    assert town.post(f"/runs/{second}/cancel").json()["status"] == "stopped"
    town.post(f"/runs/{first}/cancel")
    run = town.ended(first)
    assert run["status"] in ("stopped", "done")
    said = run["aftermath"]["words"] if run["status"] == "stopped" else ""
    if run["status"] == "stopped":
        assert ("counts as spent" in said) == (len(spends()) > before)
    assert not (town.folder / "releases" / "week-2").exists()
    assert town.post(f"/runs/{first}/cancel").status_code == 200  # asked twice: nothing happens


def test_what_makes_no_sense_is_refused_before_anything_is_spent(town, command):
    """On one server: none of them changes what the others see, but for the last, which raises the budget."""
    check_a_wrong_plan_is_refused_with_what_to_do(town)
    check_real_people_and_simulated_ones_have_budgets_of_their_own(town)
    check_a_window_outside_the_declared_one_is_warned_of(town)
    check_sources_that_make_no_sense_are_refused_when_they_are_registered(town)
    check_records_of_sites_become_synthetic_events_and_points_become_trips_by_a_gap(town)
    check_every_kind_offers_its_methods_and_starts_with_the_defaults_of_its_plan(town)
    check_one_server_per_folder(town, command)
    check_a_budget_is_changed_at_its_own_delta_alone(town)
    assert spends() == []


def check_real_people_and_simulated_ones_have_budgets_of_their_own(town):
    open_ledger().create("simulated-town", currency="rho", limit_nano=10**9, delta=1e-6)
    told = town.post("/plan", plan_of(town.source, population="simulated-town"))
    assert told.status_code == 400
    assert told.json()["code"] == "population-simulated"


def check_a_window_outside_the_declared_one_is_warned_of(town):
    assert town.post("/plan", plan_of(town.source)).json()["warnings"] == []
    told = town.post("/plan", plan_of(town.source, start="2025-03-09", end="2025-03-16")).json()
    assert "declared for 2026-03-09 to 2026-03-16" in told["warnings"][0]


def check_a_budget_is_changed_at_its_own_delta_alone(town):
    told = town.post("/populations/town/raise", {"epsilon": 4, "delta": 0.5})
    assert told.status_code == 400
    assert told.json()["code"] == "budget-delta"
    raised = town.post("/populations/town/raise", {"epsilon": 5, "delta": 1e-6}).json()
    assert 4.9 < raised["epsilon"] <= 5


def register_points(town):
    rows = ["user,time,lon,lat", *(f"1,2026-03-09T0{i}:00:00Z,5.0{i},47.3" for i in range(9))]
    (town.folder / "points.csv").write_text("\n".join(rows) + "\n")
    form = {"name": "points", "paths": ["points.csv"], "start": "2026-03-09", "end": "2026-03-16"}
    return town.post("/sources", {**form, "time_zone": "Europe/Paris"}).json()["id"]


def check_records_of_sites_become_synthetic_events_and_points_become_trips_by_a_gap(town):
    told = town.post("/plan", plan_of(town.source, kind="synthetic", unit="user", cell_m=420)).json()
    assert told["obstacles"] == []
    assert "commute" in str(told["public"])
    plan = plan_of(
        register_points(town), kind="histogram", epsilon=0.5, delta=0, box=[5.0, 47.0, 5.2, 47.5], cells=16
    )
    assert "trip" in town.post("/plan", plan).json()["message"]
    assert town.post("/plan", {**plan, "gap_minutes": 30}).json()["obstacles"] == []


def check_every_kind_offers_its_methods_and_starts_with_the_defaults_of_its_plan(town):
    state = town.get("/state").json()
    names = {kind: [each["name"] for each in methods] for kind, methods in state["methods"].items()}
    assert names["histogram"] == list(HISTOGRAM)
    assert sorted(names["synthetic"]) == sorted(SYNTHETIC)
    assert {"best", "laplace"} <= set(names["density"])
    assert state["settings"]["histogram"]["cells"]["default"] == MapPlan.cells
    plan = plan_of(
        register_points(town), kind="histogram", epsilon=0.5, delta=0, box=[5, 47, 5.2, 47.5], gap_minutes=30
    )
    assert town.post("/plan", plan).json()["public"]["grid"]["columns"] == MapPlan.cells
    told = town.post("/plan", {**plan, "method": "dawa"}).json()
    assert told["public"]["method"] == "dawa"


def test_files_of_the_folder_are_never_run(tmp_path, small_city, serve, town_form):
    """A module beside the data is data; and a ledger named relative to where we are is one ledger for all."""
    work = tmp_path / "work"
    shutil.copytree(small_city, work / "city")
    for name in ("shoal.py", "numpy.py", "json.py"):
        (work / name).write_text("raise SystemExit('this file was run')\n")
    server = serve(".", cwd=work, SHOAL_LEDGER="own.sqlite")
    source = server.post("/sources", {**town_form, "population": None}).json()["id"]
    assert server.ended(server.post(f"/sources/{source}/check").json()["id"])["status"] == "done"
    made = server.post("/populations", {"population": "town", "epsilon": 4, "delta": 1e-6})
    assert made.status_code == 201
    assert server.ended(started(server, plan_of(source)))["status"] == "done"
    spends = server.get("/ledger").json()["populations"][0]["spends"]
    assert [each["status"] for each in spends] == ["committed"]
    assert (work / "own.sqlite").is_file()


def check_one_server_per_folder(town, command):
    """A second one would take the first one's runs for dead, and offer to spend again."""
    code, _, err = command("studio", "--port", "0", "--no-open", "--folder", town.folder)
    assert code == 5
    assert "folder-busy" in err


def check_sources_that_make_no_sense_are_refused_when_they_are_registered(town):
    good = {"name": "a", "paths": ["city/events"], "sites": "city/sites.csv"}
    for changed, word in (
        ({"sites": None}, "sites"),
        ({"start": "2 March", "end": "2026-03-09"}, "dates"),
        ({"start": "2026-03-09", "end": "2026-03-02"}, "ends before"),
        ({"start": "2026-03-09"}, "both dates"),
    ):
        told = town.post("/sources", {**good, **changed})
        assert told.status_code == 400, changed
        assert word in told.text
    assert town.post("/sources", good).status_code == 201


WRONG = [
    ({"epsilon": 0}, 422, "epsilon"),
    ({"epsilon": 100}, 400, "left"),
    ({"population": "nobody"}, 400, "population"),
    ({"name": "../out"}, 422, "name"),
    ({"source": "nothere"}, 404, "source"),
    ({"start": "2026-03-20"}, 400, "window"),
    ({"start": "yesterday"}, 400, "start"),
    ({"start": "1970-01-01"}, 400, "400 days"),
    ({"time_zone": "Mars/Base"}, 400, "time zone"),
    ({"method": "magic"}, 422, "method"),
    ({"kind": "histogram"}, 400, "histogram"),
    ({"map": "squares", "cell_m": 10}, 400, "cells"),
    ({"seed": 1}, 422, "seed"),
    ({"out": "/tmp"}, 422, "out"),
    ({"delta": "nan"}, 422, "delta"),
]


def check_a_wrong_plan_is_refused_with_what_to_do(town):
    for changed, status, word in WRONG:
        told = town.post("/runs", {"plan": plan_of(town.source, **changed)})
        assert told.status_code == status, f"{changed}: {told.text}"
        assert word in told.text, f"{changed}: {told.text}"
        assert "--" not in told.json()["remedy"], told.text
    assert spends() == []


def reserved(seconds=60):
    """Wait until the ledger holds a reserve."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if spends():
            return
        time.sleep(0.005)
    raise AssertionError("nothing was reserved")


def worker_of(live, run):
    """The process of a run."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if run.encode() in words:
                return int(folder.name)
    return None


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc to find the run's process")
@pytest.mark.parametrize("whom", tiers(["server", "both"], ("server",)))
def test_killed_in_the_middle_the_ledger_and_the_page_agree(town, whom):
    """kill -9 right after the reserve: spent, nothing half-written, and the page says so after a restart."""
    run = started(town, plan_of(town.source))
    reserved()
    worker = worker_of(town, run)
    if whom == "both" and worker:
        os.kill(worker, signal.SIGKILL)
    town.kill()
    until = time.monotonic() + 30
    while worker and Path(f"/proc/{worker}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not worker or not Path(f"/proc/{worker}").exists(), "the run outlived its server"
    status = [each.status for each in spends()]
    assert len(status) == 1
    folder = town.folder / "releases" / "week-1"
    assert folder.exists() == (status == ["committed"])

    town.start()
    told = town.get("/runs").json()[0]
    if status == ["committed"]:  # it was faster than the signal
        assert told["status"] in ("done", "interrupted")
        return
    assert told["status"] == "interrupted"
    assert "counts as spent" in told["aftermath"]["words"]
    assert told["aftermath"]["spent"].startswith("epsilon ")
    assert town.post("/ledger/verify").json()["ok"]
    again = town.ended(started(town, plan_of(town.source)))
    assert again["status"] == "done"
    assert len(spends()) == 2
    hidden = [path.name for path in (town.folder / "releases").iterdir() if path.name.startswith(".")]
    assert hidden == []  # what the dead run left was swept
