"""What names a run, and what happens around it: reports, disclosures, questions, failures."""

import json
import os
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import GuaranteeError, OutputError, PlanError, ShoalError
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.density.prepare import prepare_density
from shoal.kinds.plan import merge, read_plan
from shoal.kinds.run import run
from shoal.mechanisms.density.counts import DensityCounts
from shoal.privacy.ledger import open_ledger

START = 1_772_406_000_000_000  # 2026-03-02 00:00 in Paris


@pytest.fixture
def settings(tmp_path):
    """Two zones, three people, one day, as settings of a plan."""
    squares = []
    for i, zone in enumerate("AB"):
        x, y = 2.3 + 0.01 * i, 48.8
        ring = [[x, y], [x + 0.01, y], [x + 0.01, y + 0.01], [x, y + 0.01], [x, y]]
        geometry = {"type": "Polygon", "coordinates": [ring]}
        squares.append({"type": "Feature", "properties": {"zone": zone}, "geometry": geometry})
    (tmp_path / "zones.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": squares}))
    times = pa.array([START, START + 10, START + 20], pa.timestamp("us", "UTC"))
    table = pa.table({"user": [1, 2, 3], "time": times, "lon": [2.305] * 3, "lat": [48.805] * 3})
    pq.write_table(table, tmp_path / "events.parquet")
    return {
        "population": "town",
        "epsilon": 1.0,
        "source": {"paths": (str(tmp_path / "events.parquet"),)},
        "space": {"zones": str(tmp_path / "zones.geojson")},
        "window": {"start": "2026-03-02", "end": "2026-03-03", "time_zone": "Europe/Paris"},
        "out": str(tmp_path / "release"),
        "owner": str(tmp_path / "owner"),
    }


@pytest.fixture
def ledger(tmp_path):
    book = open_ledger(tmp_path / "ledger.sqlite")
    book.create("town", currency="rho", limit_nano=10**9, delta=1e-6)
    return book


def prepared(settings, **changes):
    return prepare_density(DensityPlan.from_settings(merge(settings, changes)))


def spent(ledger):
    return ledger.state().population("town").spent_nano


SAME = {
    "explicit defaults": {"ell": 30, "delta": 1e-6, "method": "best", "decimals": 1},
    "what a setting of the source means by default": {"source": {"on_bad_row": "stop"}},
    "the start with its time": {"window": {"start": "2026-03-02T00:00"}},
    "another licence": {"licence": "CC BY 4.0"},
    "another folder": {"out": "elsewhere"},
    "what best does not use": {"ell": 29, "cap": 100, "nights": False},
}
OTHER = {
    "epsilon": {"epsilon": 1.1},
    "declared users": {"users": 1000},
    "window": {"window": {"end": "2026-03-04"}},
    "slots": {"window": {"slot_minutes": 30}},
    "bad rows": {"source": {"on_bad_row": "drop"}},
    "run id": {"run_id": "2"},
    "method": {"method": "efpag"},
    "rho": {"rho": 0.02435597},
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_question_has_the_same_name(settings, name):
    assert prepared(settings, **SAME[name]).key() == prepared(settings).key()


@pytest.mark.parametrize("name", OTHER)
def test_another_question_has_another_name(settings, name):
    assert prepared(settings, **OTHER[name]).key() != prepared(settings).key()


@pytest.mark.parametrize(
    ("method", "change"),
    [
        ("efpag", {"cap": 100}),
        ("efpag", {"nights": False}),
        ("efpag", {"ell": 29}),
        ("gaussian", {"cap": 100}),
        ("gaussian", {"ell": 29}),
    ],
)
def test_options_that_a_method_uses_name_its_run(settings, method, change):
    settings = {**settings, "method": method}
    assert prepared(settings).key() != prepared(settings, **change).key()
    assert prepared(settings).key() == prepared(settings, users=1000).key()


@pytest.mark.parametrize(
    ("method", "change"),
    [("gaussian", {"nights": False}), ("efpag-repaired", {"ell": 29}), ("scm-full", {"ell": 29})],
)
def test_options_that_a_method_does_not_use_leave_its_name(settings, method, change):
    settings = {**settings, "method": method}
    assert prepared(settings).key() == prepared(settings, **change).key()


def test_files_enter_the_key_by_their_names_and_the_digest_by_their_content(settings, tmp_path):
    first = prepared(settings)
    shutil.copy(tmp_path / "events.parquet", tmp_path / "copy.parquet")
    copied = prepared(settings, source={"paths": (str(tmp_path / "copy.parquet"),)})
    assert (copied.key() == first.key(), copied.source_digest() == first.source_digest()) == (False, True)
    digest = first.source_digest()
    table = pq.read_table(tmp_path / "events.parquet")
    pq.write_table(table.slice(1), tmp_path / "events.parquet")
    changed = prepared(settings)
    assert (changed.key() == first.key(), changed.source_digest() == digest) == (True, False)
    named = [
        prepared(settings, source={"source_name": "calls", "paths": (str(tmp_path / name),)})
        for name in ("events.parquet", "copy.parquet")
    ]
    assert named[0].key() == named[1].key() != first.key()


def test_each_release_keeps_its_report(settings, ledger, tmp_path):
    first = run(prepared(settings), ledger)
    page = first.report.read_bytes()
    second = run(prepared(settings, epsilon=0.5, out=str(tmp_path / "second")), ledger)
    assert second.report == first.report
    assert second.report.read_bytes() != page
    again = run(prepared(settings), ledger)
    assert again.reused
    assert again.report.name.startswith("report-")
    assert again.report.read_bytes() == page
    assert run(prepared(settings, epsilon=0.5), ledger).report == second.report


def test_a_lost_report_is_drawn_again_for_free(settings, ledger, tmp_path):
    made = run(prepared(settings), ledger)
    before = spent(ledger)
    shutil.rmtree(tmp_path / "owner")
    again = run(prepared(settings), ledger)
    assert again.reused
    assert again.report.is_file()
    assert again.release == made.release
    assert spent(ledger) == before


def test_figures_that_do_not_exist_are_null(settings, ledger, tmp_path):
    empty = pq.read_table(tmp_path / "events.parquet").slice(0, 0)
    pq.write_table(empty, tmp_path / "events.parquet")
    run(prepared(settings), ledger, allow_empty=True)
    text = (tmp_path / "owner" / "utility.json").read_text()
    assert "NaN" not in text
    assert json.loads(text)["mean_relative_error"] is None


def test_a_run_that_would_count_nothing_stops_before_spending(settings, ledger, tmp_path):
    late = {"window": {"start": "2027-03-02", "end": "2027-03-03"}}
    with pytest.raises(PlanError, match="nobody-counted"):
        run(prepared(settings, **late), ledger)
    assert spent(ledger) == 0
    assert not (tmp_path / "release").exists()
    assert run(prepared(settings, **late), ledger, allow_empty=True).release.exists()
    assert spent(ledger) > 0


def test_a_failed_report_says_that_the_release_is_there(settings, ledger, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("shoal.kinds.owner.write_page", full)
        with pytest.raises(OutputError, match="the release is in place") as caught:
            run(prepared(settings), ledger)
    assert "spends nothing" in caught.value.remedy
    paid = spent(ledger)
    again = run(prepared(settings), ledger)
    assert again.reused
    assert again.report.is_file()
    assert spent(ledger) == paid > 0


@pytest.mark.parametrize("seed", [None, 7])
def test_what_the_owner_sees_is_noted_before_it_is_there(settings, ledger, tmp_path, monkeypatch, seed):
    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("shoal.kinds.run.write_for_owner", stopped)
    monkeypatch.setattr("shoal.kinds.owner.write_page", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(prepared(settings, seed=seed), ledger)
    notes = [note["kind"] for note in ledger.state().population("town").notes]
    assert notes == ["disclosure"] + (["tuned"] if seed else [])


def test_raw_figures_stay_out_of_any_release(settings, ledger, tmp_path):
    made = run(prepared(settings), ledger)
    (tmp_path / "link").symlink_to(made.release)
    for owner in (made.release, made.release / "inside", tmp_path / "link" / "inside"):
        with pytest.raises(OutputError, match="owner-in-release"):
            run(prepared(settings, epsilon=0.3, out=str(tmp_path / "new"), owner=str(owner)), ledger)
    assert sorted(os.listdir(made.release)) == [
        "README.md",
        "covariance.parquet",
        "density.csv",
        "density.parquet",
        "manifest.json",
        "totals.parquet",
        "zones.geojson",
        "zones.parquet",
    ]


def test_noise_too_small_for_what_was_asked_is_refused(settings, monkeypatch):
    within = DensityCounts.within

    def careless(family, amount, **given):
        mechanism = within(family, amount, **given)
        return replace(mechanism, noise=replace(mechanism.noise, scale=mechanism.noise.scale / 5))

    monkeypatch.setattr(DensityCounts, "within", careless)
    with pytest.raises(GuaranteeError, match="over-budget"):
        prepared(settings, method="gaussian")


def test_a_plan_file_is_relative_to_itself(tmp_path):
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "a.toml").write_text(
        'out = "../r"\n[source]\npaths = "e.csv"\n[space]\nzones = "z"\n'
    )
    read = read_plan(tmp_path / "plans" / "a.toml")
    assert read["out"] == str(tmp_path / "r")
    assert read["source"]["paths"] == (str(tmp_path / "plans" / "e.csv"),)
    assert read["space"]["zones"] == str(tmp_path / "plans" / "z")


def test_flags_win_and_silence_changes_nothing():
    merged = merge(
        {"epsilon": 1, "window": {"start": "a", "end": "b"}}, {"epsilon": None, "window": {"end": "c"}}
    )
    assert merged == {"epsilon": 1, "window": {"start": "a", "end": "c"}}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"epsilon": 60.0}, "budget-exceeded"),
        ({"population": "nobody"}, "unknown-population"),
        ({"licence": "two\nlines"}, "plan-licence"),
        ({}, "folder-exists"),
    ],
)
def test_what_can_be_known_before_is_said_before_the_rows_are_read(
    settings, ledger, monkeypatch, changes, code
):
    if code == "folder-exists":
        os.mkdir(settings["out"])

    def touched(*args, **kwargs):
        raise AssertionError("a row was read")

    monkeypatch.setattr("shoal.events.readers.check_rows", touched)
    with pytest.raises(ShoalError, match=code):
        run(prepared(settings, **changes), ledger)
    assert spent(ledger) == 0
