"""The toy kind of examples/new_kind, registered as CONTRIBUTING.md says, is a kind like any other."""

import json
from pathlib import Path

import pytest
from tests.golden.record import world

import shoal.kinds
import shoal.mechanisms
from shoal.auditing.replay import RecordingNoise
from shoal.kinds.describe import dry_run
from shoal.kinds.kind import KINDS, Kind
from shoal.kinds.run import run
from shoal.mechanisms.method import Build, Entry, Method, by_name
from shoal.mechanisms.methods import METHODS
from shoal.privacy.ledger import open_ledger
from shoal.privacy.noise import SeededNoise
from shoal.release.verify import check_release

EXAMPLE = Path(__file__).parents[2] / "examples" / "new_kind"
KIND = Kind(
    name="headcount",
    title="Headcount",
    releases="How many users have an event in a window.",
    command="shoal headcount run",
    shapes=("site",),
    main_file="headcount.csv",
    plan_at="headcount.plan:HeadcountPlan",
    methods_at="",
)
LAPLACE = Entry(
    name="headcount-laplace",
    make=Build(place="shoal.mechanisms.headcount:HeadcountLaplace.of", takes="users"),
    releases="the number of users",
    guarantee="epsilon-DP, epsilon = 1 / b",
    spends=("users",),
    pure=True,
)


@pytest.fixture
def headcount(tmp_path, monkeypatch):
    """The toy kind in the tables, its files on the paths of the packages, in the folder of a small city."""
    monkeypatch.setattr(shoal.kinds, "__path__", [*shoal.kinds.__path__, str(EXAMPLE / "kinds")])
    monkeypatch.setattr(
        shoal.mechanisms, "__path__", [*shoal.mechanisms.__path__, str(EXAMPLE / "mechanisms")]
    )
    monkeypatch.setitem(KINDS, "headcount", KIND)
    method = Method(kind="headcount", name="laplace", summary="Laplace noise", cases={LAPLACE.name: LAPLACE})
    monkeypatch.setitem(METHODS, "headcount", by_name(method))
    world(tmp_path)
    monkeypatch.chdir(tmp_path)
    settings = {
        "population": "golden",
        "source": {"paths": ("events.parquet",), "time_unit": "s"},
        "window": {"start": "2026-03-02", "end": "2026-03-04", "time_zone": "Europe/Paris"},
        "sites": "sites.csv",
        "epsilon": 0.5,
    }
    return KIND.prepare(KIND.plan.from_settings(settings))


def test_a_dry_run_says_what_that_of_every_kind_says(headcount):
    summary = dry_run(headcount, open_ledger("ledger.sqlite"))
    assert summary["obstacles"] == []
    assert summary["guarantee"]["epsilon"] == 0.5
    assert [spend["pays_for"] for spend in summary["spends"]] == ["the number of users"]


def spent_in(ledger):
    return sum(pot.spent_nano for pot in ledger.state().population("golden").pots.values())


def test_a_run_publishes_a_number_once(headcount):
    ledger = open_ledger("ledger.sqlite")
    made = run(headcount, ledger)
    head, number = (made.release / "headcount.csv").read_text().split()
    assert head == "users"
    assert int(number) >= 0
    manifest = json.loads((made.release / "manifest.json").read_text())
    assert manifest["public"]["scale"] == 2.0
    assert check_release(made.release).problems == ()
    spent = spent_in(ledger)
    assert spent > 0
    again = run(headcount, ledger)
    assert (again.release, again.reused) == (made.release, True)
    assert spent_in(ledger) == spent


def test_the_noise_is_asked_with_the_claimed_scale_around_the_exact_number(headcount, tmp_path):
    noise = RecordingNoise(SeededNoise(1), bytes(16))
    (tmp_path / "noisy").mkdir()
    KIND.build(headcount).noisy(tmp_path / "noisy", KIND.build(headcount).events(), noise)
    (call,) = [each for each in noise.calls if each.name == "users"]
    assert call.scale == 2.0
    assert call.exact.tolist() == [users_of("events.parquet", headcount)]


def users_of(path, prepared):
    """Users with an event in the window, counted with pandas."""
    import pandas as pd

    events = pd.read_parquet(path)
    time = events[prepared.source.columns["time"]] * 1_000_000
    edges = prepared.clock.edges_us
    inside = (time >= edges[0]) & (time < edges[-1])
    return events[inside][prepared.source.columns["user"]].nunique()
