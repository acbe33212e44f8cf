"""Every kind lists what would stop its run, in a dry run that exits with 0."""

import json

import pytest
from tests.golden.record import arguments, world

from shoal.privacy.ledger import open_ledger

RELEASES = {
    "density": (*arguments("density-gaussian"),),
    "histogram": (*arguments("histogram-prish"), "--delta", "1e-6"),
    "synthetic": (*arguments("synthetic-gaussian"),),
    "commute": (*arguments("synthetic-commute"), "--delta", "1e-6"),
    "trajectories": (*arguments("trajectories"),),
    "query": (*arguments("query-gaussian"),),
}
SPENDING = sorted(set(RELEASES) - {"trajectories"})


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
    from shoal.privacy.accounting import Loss

    ledger = open_ledger()
    ledger.reserve("golden", Loss(1), key="k" * 64, what="another release", unit="trip")
    (only,) = obstacles(kind)
    assert "counted per trip" in only
