"""Every kind of release has its folder and its parts, and the table of kinds loads none of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.golden.record import arguments, world
from tests.loops import for_each

from shoal.kinds import KINDS
from shoal.kinds.run import Build
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import open_ledger
from shoal.release.manifest import CASES

FOLDER = Path(__file__).parents[2] / "src" / "shoal" / "kinds"


def test_every_folder_is_a_kind_and_every_kind_a_folder():
    assert {path.parent.name for path in FOLDER.glob("*/__init__.py")} == set(KINDS)


@for_each("kind", KINDS.values(), ids=KINDS)
def test_the_parts_of_a_kind_are_where_the_table_says(kind):
    assert hasattr(kind.plan, "from_settings")
    for part in (kind.prepare, kind.build):
        assert callable(part)
        assert part.__doc__
    assert kind.build.check is not Build.check
    assert kind.releases.endswith(".")
    assert "." in kind.main_file


@for_each("kind", KINDS.values(), ids=KINDS)
def test_every_private_kind_has_methods_and_each_an_audit_case(kind):
    assert bool(kind.methods) == kind.is_private
    named = "synthetic" if kind.name == "commute" else kind.name
    assert set(kind.methods) <= {case.method for case in CASES.values() if case.kind == named}


def test_methods_of_all_kinds_are_those_with_a_case():
    kinds = {"commute": "synthetic"}
    listed = {(kinds.get(name, name), method) for name, kind in KINDS.items() for method in kind.methods}
    assert listed == {(case.kind, case.method) for case in CASES.values()}


def test_the_table_loads_no_kind():
    code = "import sys, shoal.kinds; print([m for m in sys.modules if 'shoal.kinds.' in m or m == 'numpy'])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "['shoal.kinds.kind']"


RELEASES = {
    "density": (*arguments("density-gaussian"),),
    "histogram": (*arguments("histogram-prish"), "--delta", "1e-6"),
    "synthetic": (*arguments("synthetic-gaussian"),),
    "commute": (*arguments("synthetic-commute"), "--delta", "1e-6"),
    "trajectories": (*arguments("trajectories"),),
    "query": (*arguments("query-gaussian"),),
}
SPENDING = sorted(name for name, kind in KINDS.items() if kind.is_private)


@pytest.fixture
def obstacles(tmp_path, monkeypatch, command):
    world(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))

    def of(kind, *more):
        code, out, error = command(*RELEASES[kind], *more, "--dry-run", "--json")
        assert code == 0, error
        return json.loads(out)["obstacles"]

    return of


def test_every_kind_is_run():
    assert set(RELEASES) == set(KINDS)


@pytest.mark.parametrize("kind", RELEASES)
def test_nothing_stops_a_plan_that_fits(obstacles, kind):
    assert obstacles(kind) == []


@pytest.mark.parametrize("kind", RELEASES)
def test_a_population_that_does_not_exist(obstacles, kind):
    (only,) = obstacles(kind, "--population", "nobody")
    assert 'no population "nobody"' in only


@pytest.mark.parametrize("kind", RELEASES)
def test_a_folder_that_exists(obstacles, tmp_path, kind):
    (tmp_path / "there").mkdir()
    (only,) = obstacles(kind, "--out", "there")
    assert "there exists" in only


@pytest.mark.parametrize("kind", SPENDING)
def test_a_population_that_takes_pure_releases_only(obstacles, kind):
    open_ledger().create("pure", currency="epsilon", limit_nano=10**10)
    (only,) = obstacles(kind, "--population", "pure")
    assert "takes pure releases only" in only


@pytest.mark.parametrize("kind", SPENDING)
def test_a_budget_that_is_not_enough(obstacles, kind):
    open_ledger().create("poor", currency="rho", limit_nano=1)
    (only,) = obstacles(kind, "--population", "poor")
    assert "is left" in only


@pytest.mark.parametrize("kind", SPENDING)
def test_a_population_that_is_counted_per_another_unit(obstacles, kind):
    ledger = open_ledger()
    ledger.reserve("golden", Loss(1), key="k" * 64, what="another release", unit="trip")
    (only,) = obstacles(kind)
    assert "counted per trip" in only


@pytest.fixture
def city(tmp_path, monkeypatch):
    world(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))
    return tmp_path


@pytest.mark.parametrize("kind", RELEASES)
def test_a_dry_run_prints_what_it_says_to_programs_and_writes_nothing(city, command, kind):
    before = sorted(path.name for path in city.iterdir())
    code, out, error = command(*RELEASES[kind], "--dry-run")
    assert code == 0, error
    summary = json.loads(command(*RELEASES[kind], "--dry-run", "--json")[1])
    assert summary["dry_run"] is True
    for words in (*summary["notes"], summary["promise"].removesuffix(".")):
        assert words in out
    for spend in summary["spends"]:
        assert f"for {spend['pays_for']}" in out
    assert bool(summary["spends"]) == ("budget" in summary) == KINDS[kind].is_private
    assert sorted(path.name for path in city.iterdir()) == before


@pytest.mark.parametrize("kind", RELEASES)
def test_a_run_is_returned_when_it_is_asked_again(city, command, kind):
    """One main file, a README and a manifest; the second time nothing is spent and no row is read."""
    code, out, error = command(*RELEASES[kind], "--json")
    assert code == 0, error
    first = json.loads(out)
    release = Path(first["release"])
    assert {KINDS[kind].main_file, "README.md", "manifest.json"} <= {path.name for path in release.iterdir()}
    spent = open_ledger().state().population("golden").spent_nano
    assert bool(spent) == KINDS[kind].is_private
    again = json.loads(command(*RELEASES[kind], "--json")[1])
    assert (first["reused"], again["reused"], again["release"]) == (False, True, first["release"])
    assert open_ledger().state().population("golden").spent_nano == spent
    out = command(*RELEASES[kind])[1]
    assert "here it is again, and nothing was spent" in out
    assert "rows " not in out


PLACES = ("mechanisms", "anonymise", "postprocess", "attacks", "engine")
LIGHT = {"shoal.mechanisms.method", "shoal.mechanisms.methods", "shoal.mechanisms.audit_size"}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_plan_loads_no_mechanism_of_another_kind(kind):
    """Nor a baseline, an anonymiser, compiled kernels, arrays or geometry: it names methods by their table.

    So a command or a page that reads plans starts quickly.
    """
    code = f"import sys\nfrom shoal.kinds import KINDS\nKINDS[{kind.name!r}].plan\nprint(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    of_shoal = {name for name in loaded if name.startswith(tuple(f"shoal.{place}." for place in PLACES))}
    assert not {"numba", "numpy", "pyarrow", "duckdb", "shapely", "scipy", "pyproj"} & set(loaded)
    assert of_shoal <= LIGHT
    assert not [name for name in loaded if name.startswith("shoal_baselines")]
