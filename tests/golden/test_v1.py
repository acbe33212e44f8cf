"""Releases and a ledger of the version before: later versions find, verify, show, publish and reuse them."""

import json
import shutil
from pathlib import Path

import pytest

from shoal.kinds.ask import Ask
from shoal.kinds.density.plan import DensityPlan
from shoal.kinds.density.prepare import prepare_density
from shoal.kinds.histogram.plan import HistogramPlan
from shoal.kinds.histogram.prepare import prepare_histogram
from shoal.kinds.plan import read_plan
from shoal.kinds.query.plan import QueryPlan
from shoal.kinds.query.prepare import prepare_query
from shoal.kinds.run import run
from shoal.kinds.synthetic.plan import SyntheticPlan
from shoal.kinds.synthetic.prepare import prepare_synthetic
from shoal.kinds.trajectories.plan import TrajectoryPlan
from shoal.kinds.trajectories.prepare import prepare_trajectories
from shoal.privacy.ledger import open_ledger
from shoal.privacy.ledger.state import GENESIS, link
from shoal.release.evidence import gather_evidence
from shoal.release.publish import publish
from shoal.release.verify import check_release

V1 = Path(__file__).parent / "v1"
MADE_AT = "/srv/golden"
RELEASES = sorted(path.name for path in (V1 / "releases").iterdir())
RUNS = {
    "density": (DensityPlan, prepare_density),
    "histogram": (HistogramPlan, prepare_histogram),
    "synthetic": (SyntheticPlan, prepare_synthetic),
    "trajectories": (TrajectoryPlan, prepare_trajectories),
}
# made by flags over another plan, or from a source that this machine does not read
WITHOUT_PLAN = ("density-pure", "density-spark", "query-gaussian", "query-laplace", "query-weights")


@pytest.fixture
def golden(tmp_path, monkeypatch):
    """The folder as it was, somewhere else: rows of the ledger are written again with paths of this place."""
    folder = tmp_path / "golden"
    shutil.copytree(V1, folder)
    folder.chmod(0o700)
    old, previous = open_ledger(folder / "ledger.sqlite").store.rows(), GENESIS
    (folder / "ledger.sqlite").unlink()
    moved = open_ledger(folder / "ledger.sqlite")
    for row in old:
        content = json.loads(row.content.replace(MADE_AT, str(folder)))
        made = link(previous, content.pop("seq"), content)
        moved.store.append(lambda _, made=made: made)
        previous = made.digest
    monkeypatch.setenv("SHOAL_LEDGER", str(folder / "ledger.sqlite"))
    return folder


def test_the_ledger_opens_as_it_was_written(tmp_path):
    shutil.copy(V1 / "ledger.sqlite", tmp_path / "ledger.sqlite")
    ledger = open_ledger(tmp_path / "ledger.sqlite")
    assert [each.code for each in ledger.verify()] in ([], ["permissions"])
    golden, pure = (ledger.state().population(name) for name in ("golden", "golden-pure"))
    assert (golden.spent_nano, pure.spent_nano, len(golden.spends)) == (3_785_418_861, 10**9, 17)
    assert {(each.unit, each.law, each.tau, each.pot) for each in golden.spends} == {
        ("unknown", "zcdp", 0, "one")
    }
    assert all(each.source_digest is None for each in golden.released.values())


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_verifies_and_is_published(golden, name):
    assert check_release(golden / "releases" / name).problems == ()
    ledger = open_ledger()
    publish(ledger, golden / "releases" / name, golden / "public")
    assert check_release(golden / "public").problems == ()
    evidence = gather_evidence(golden / "releases" / name, ledger)
    assert any(row["this"] for row in evidence.rows)


def prepared_of(golden, name):
    plan, prepare = RUNS[name.partition("-")[0]]
    return prepare(plan.from_settings(read_plan(golden / "plans" / f"{name}.toml")))


@pytest.mark.parametrize("name", [name for name in RELEASES if name not in WITHOUT_PLAN])
def test_its_plan_finds_it_under_the_key_of_its_version(golden, name):
    stored = open_ledger().find("golden", prepared_of(golden, name).earlier_key())
    assert stored.path == str(golden / "releases" / name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "density-gaussian" else pytest.mark.exhaustive)
        for name in RELEASES
        if name not in WITHOUT_PLAN
    ],
)
def test_its_plan_returns_it_and_spends_nothing(golden, name):
    ledger = open_ledger()
    before = ledger.state().population("golden").spent_nano
    made = run(prepared_of(golden, name), ledger)
    assert (made.reused, made.release) == (True, golden / "releases" / name)
    assert ledger.state().population("golden").spent_nano == before


def test_a_query_returns_its_stored_answers(golden):
    flags = {"epsilon": 0.5, "mechanism": "gaussian"}
    settings = read_plan(golden / "plans" / "density-gaussian.toml")
    asked = QueryPlan.from_settings(settings, flags, (Ask(name="query", zones=("z0", "z1")),))
    made = run(prepare_query(asked), open_ledger())
    assert (made.reused, made.release) == (True, golden / "releases" / "query-gaussian")


def test_the_command_shows_and_verifies_them(golden, command):
    for arguments in (
        ("ledger", "show", "golden"),
        ("ledger", "verify"),
        ("verify", golden / "releases" / "density-best"),
        ("inspect", golden / "releases" / "histogram-boxes"),
        ("histogram", "query", golden / "releases" / "histogram-boxes", "--box", "5.0,47.3,5.02,47.32"),
        ("evidence", golden / "releases" / "trajectories", "--out", golden / "evidence.html"),
    ):
        code, out, err = command(*arguments)
        assert code == 0, (arguments, out, err)
