"""`shoal density compare`: on a simulated city nothing private is read; on private data it leaves a mark."""

import json
import stat
from dataclasses import replace

import pytest

from shoal.events.simulate import preset_named
from shoal.events.simulate.city import simulate_city
from shoal.kinds.density.plan import COMPARATORS, METHODS
from shoal.kinds.simulated import write_city_plan
from shoal.privacy.ledger import open_ledger

SMALL = ["--users", "300", "--repetitions", "1", "--epsilon", "0.3,1"]


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare") / "town"
    simulate_city(replace(preset_named("town"), users=200, zones=12, sites=16), folder, seed=4)
    write_city_plan(folder, population="town", owner="owner")
    return folder


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("SHOAL_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.chdir(tmp_path)
    book = open_ledger()
    book.create("town", currency="rho", limit_nano=10**9, delta=1e-6)
    return book


def test_a_simulated_comparison_reads_no_event_and_spends_nothing(
    city, tmp_path, ledger, command, monkeypatch
):
    def touched(*args, **kwargs):
        raise AssertionError("a row was read")

    for name in ("events.readers.check_rows", "events.readers.scan", "events.source.open_planned"):
        monkeypatch.setattr(f"shoal.{name}", touched)
    head = ledger.head()
    flags = ["--method", "efpag,gaussian", "--method", "threshold", *SMALL]
    code, out, err = command("density", "compare", "--plan", city / "density.toml", *flags, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert ledger.head() == head
    assert told["on_private_data"] is False
    assert "12 zones, 16 sites, 168 slots" in told["what"]  # the plan's own map
    assert [each["name"] for each in told["methods"]] == ["efpag", "gaussian", "threshold"]
    assert len(told["runs"]) == 3 * 2
    by_method = {(row["method"], row["set_at"]): row for row in told["means"]}
    assert by_method["gaussian", 0.3]["mre"] > by_method["gaussian", 1.0]["mre"]
    assert by_method["gaussian", 1.0]["epsilon"] == 1.0
    assert by_method["threshold", 1.0]["epsilon"] is None
    page = (tmp_path / "comparison" / "compare.html").read_text()
    assert "simulated city" in page
    assert json.loads((tmp_path / "comparison" / "compare.json").read_text())["means"] == told["means"]


def test_methods_for_comparison_only_show_what_they_truly_promise(ledger, command):
    flags = ["--method", ",".join(["laplace", *COMPARATORS]), *SMALL, "--city", "town"]
    code, out, err = command("density", "compare", *flags)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines() if line.split()[:1] == ["none"]]
    assert {line[1].rstrip(",") for line in lines} == set(COMPARATORS)  # no epsilon stands beside them
    told = " ".join(out.split())
    assert told.count("For comparison only.") == len(COMPARATORS)
    assert "A user with v visits has v times that: up to 26880, for one at every place and slot." in told
    assert "published exactly" in told


def test_one_repetition_is_said_to_be_little(ledger, tmp_path, command):
    flags = ["--method", "gaussian", "--users", "300", "--epsilon", "1"]
    for repetitions, said in (("1", True), ("2", False)):  # and the error is in percent, as on the page
        code, out, _ = command("density", "compare", *flags, "--repetitions", repetitions)
        assert code == 0
        assert ("may be random. `--repetitions 10`" in out) == said
        row = next(line.split() for line in out.splitlines() if line.split()[:2] == ["1", "gaussian"])
        (mean,) = json.loads((tmp_path / "comparison" / "compare.json").read_text())["means"]
        assert row[2] == f"{100 * mean['mre']:,.1f}%"
        assert ("may be random" in (tmp_path / "comparison" / "compare.html").read_text()) == said


def test_the_same_seed_gives_the_same_figures_whatever_else_is_compared(ledger, command):
    def mre(*methods, seed):
        flags = ["--method", ",".join(methods), *SMALL, "--seed", seed, "--json"]
        code, out, _ = command("density", "compare", *flags)
        assert code == 0
        return [run["mre"] for run in json.loads(out)["runs"] if run["method"] == "laplace"]

    assert mre("laplace", seed=5) == mre("gaussian", "laplace", seed=5)
    assert mre("laplace", seed=5) != mre("laplace", seed=6)


def test_a_comparison_on_private_data_is_the_owners_and_marks_the_population(city, tmp_path, ledger, command):
    flags = ["--method", "gaussian", "--epsilon", "1", "--repetitions", "1", "--owner", tmp_path / "owner"]
    code, out, err = command(
        "density", "compare", "--plan", city / "density.toml", *flags, "--on-private-data"
    )
    assert (code, err) == (0, "")
    assert "not covered by any promise" in " ".join(out.split())
    population = ledger.state().population("town")
    assert population.spent_nano == 0
    assert population.tuned
    kinds = [note["kind"] for note in population.notes]
    assert kinds == ["disclosure", "tuned"]
    assert population.notes[0]["path"] == str((tmp_path / "owner" / "compare.html").resolve())
    for name in ("compare.html", "compare.json"):
        assert stat.S_IMODE((tmp_path / "owner" / name).stat().st_mode) == 0o600
    assert not (tmp_path / "comparison").exists()
    place = ["--out", tmp_path / "release", "--owner", tmp_path / "owner"]
    code, _, err = command("density", "run", "--plan", city / "density.toml", *place)
    assert (code, err) == (0, "")
    manifest = json.loads((tmp_path / "release" / "manifest.json").read_text())
    assert manifest["tuned_on_private_data"] == "recorded"
    assert "records a look at private data" in (tmp_path / "release" / "README.md").read_text()


def test_private_figures_go_nowhere_else(city, tmp_path, ledger, command):
    plan = ["--plan", city / "density.toml", "--on-private-data", "--epsilon", "1"]
    code, _, err = command("density", "compare", *plan, "--out", tmp_path / "public")
    assert code == 2
    assert err.startswith("compare-private")
    (tmp_path / "manifest.json").write_text("{}")
    code, _, err = command("density", "compare", *plan, "--owner", tmp_path / "owner")
    assert code == 5
    assert err.startswith("owner-in-release")
    code, _, err = command("density", "compare", *plan, "--population", "nobody")
    assert code == 4
    assert not ledger.is_tuned("town")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--method", "magic"], "plan-method"),
        (["--epsilon", "0"], "epsilon-range"),
        (["--epsilon", ""], "compare-epsilon"),
        (["--repetitions", "0"], "compare-repetitions"),
        (["--delta", "2"], "delta-range"),
    ],
)
def test_bad_comparisons_are_refused_before_any_work(ledger, command, flags, said):
    code, _, err = command("density", "compare", *flags)
    assert code == 2
    assert err.startswith(said)


def test_comparators_cannot_be_released(city, ledger, command):
    for name in COMPARATORS:
        code, _, err = command("density", "run", "--plan", city / "density.toml", "--method", name)
        assert code == 2
        assert err.startswith("plan-comparison")
    assert "gaussian" in METHODS
