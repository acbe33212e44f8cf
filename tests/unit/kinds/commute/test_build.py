"""The pieces of a synthetic release of site events on a small simulated town."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from shoal.events.readers import scan
from shoal.events.schema import SourcePlan
from shoal.events.simulate import preset_named, simulate_city
from shoal.events.source import open_planned
from shoal.kinds.commute.build import commute_utility, exact_commutes, real_events, write_events
from shoal.mechanisms.synthetic.commute import SyntheticCommute
from shoal.metrics.commute import lives_of
from shoal.privacy.accounting import Budget
from shoal.privacy.noise import SeededNoise
from shoal.space.clock import Clock
from shoal.space.places import read_sites
from shoal.space.setting import commute_setting
from shoal.stages.commutes import LATTICE


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    folder = tmp_path_factory.mktemp("town") / "city"
    simulate_city(replace(preset_named("town"), users=3000), folder, seed=4)
    card = json.loads((folder / "city.json").read_text("utf-8"))
    source = open_planned(SourcePlan(paths=(str(folder / card["sources"]["events"]["glob"]),)))
    sites = read_sites(folder / "sites.csv")
    window = {name: card["window"][name][:19] for name in ("start", "end")}
    clock = Clock(**window, time_zone=card["time_zone"])
    edges = (int(clock.edges_us[0]), int(clock.edges_us[-1]))
    batches = [b.select(["user", "time_us", "site"]) for b in scan(source, sites=sites.ids, window_us=edges)]
    return sites, commute_setting(sites, clock), batches


def drawn(town, epsilon, delta=None, without=(), seed=1):
    _, setting, batches = town
    mechanism = SyntheticCommute.within(Budget.of(epsilon, delta), setting, without=without)
    exact = exact_commutes(batches, setting, bytes(16), norm=mechanism.norm)
    model = mechanism(exact, SeededNoise(seed))
    return model, model.generate(round(model.users), seed)


def test_tables_are_those_of_the_metrics(town):
    """The kernel against homes found by sorting: two codes, one answer."""
    _, setting, batches = town
    exact, lives = exact_commutes(batches, setting, bytes(16)), lives_of(real_events(batches), setting)
    assert exact.tables["users"][0] == LATTICE * lives.home.size
    homes = np.bincount(lives.home[lives.home >= 0], minlength=setting.sites)
    assert (exact.tables["homes"][:2].sum(axis=0) == LATTICE * homes).all()
    commutes = lives.both & (lives.home != lives.work)
    works = np.bincount(lives.work[commutes], minlength=setting.sites)
    assert (exact.tables["works"] == LATTICE * works).all()


@pytest.mark.parametrize("delta", [None, 1e-6])
def test_without_noise_commutes_and_hours_are_near(town, delta):
    _, setting, batches = town
    model, events = drawn(town, 1e4, delta)
    assert model.users == pytest.approx(3000, abs=2)
    figures = commute_utility(real_events(batches), events, setting)
    assert figures["commute_emd_km"] < 0.1
    assert figures["commuters_error"] < 0.03
    assert figures["hours_error"] < 0.004
    assert figures["homes_jsd"] < 0.03
    naive = commute_utility(real_events(batches), drawn(town, 1e4, delta, ("distances", "flows"))[1], setting)
    assert naive["commute_emd_km"] > 2 * figures["commute_emd_km"]


def test_little_budget_is_valid_and_seeds_of_any_size_draw_people(town):
    model, events = drawn(town, 0.001)
    assert model.users >= 1
    assert events.count >= events.people
    # One after the other in one process: the run's seed is any 64 bits.
    model, _ = drawn(town, 10.0)
    for seed in (7, 2**64 - 1, 2**63):
        events = model.generate(20, seed)
        assert events.people == 20
        again = model.generate(20, seed)
        assert np.array_equal(events.time_us, again.time_us)


def test_files_are_in_the_columns_of_site_events(town, tmp_path):
    sites, _, _ = town
    _, events = drawn(town, 1.0)
    write_events(tmp_path, events, sites)
    table = pq.read_table(tmp_path / "events.parquet")
    assert table.column_names == ["user", "time", "site", "lon", "lat"]
    assert table.num_rows == events.count == pyarrow.csv.read_csv(tmp_path / "events.csv").num_rows
    assert str(table["time"].type) == "timestamp[us, tz=UTC]"
    assert table["user"][0].as_py() == "s0000001"
    place = dict(zip(sites.ids, zip(sites.x, sites.y, strict=True), strict=True))
    row = table.slice(7, 1).to_pylist()[0]
    assert (row["lon"], row["lat"]) == pytest.approx(place[row["site"]])
    source = open_planned(SourcePlan(paths=(str(tmp_path / "events.csv"),), shape="site"))
    assert sum(batch.num_rows for batch in scan(source, sites=sites.ids)) == events.count
