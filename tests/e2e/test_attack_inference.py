"""`shoal attack inference` on a simulated town, raw, defended and on a release."""

import json
import stat
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from shoal.events.simulate import preset_named
from shoal.events.simulate.city import simulate_city
from shoal.kinds.simulated import write_city_plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked") / "town"
    preset = replace(preset_named("town"), users=400, zones=12, sites=16, weeks=2)
    simulate_city(preset, folder, seed=4)
    write_city_plan(folder, population="town", owner="owner")
    return folder / "density.toml"


def attack(command, plan, *flags):
    return command("attack", "inference", "--plan", plan, *flags)


def test_raw_and_protected_counts_are_attacked_alike(plan, tmp_path, command):
    flags = ["--prior", "freq_roi,last_day", "--defence", "gaussian,scm-event,spotme", "--epsilon", "0.1,1"]
    code, out, err = attack(command, plan, *flags, "--seed", "1", "--out", tmp_path / "own", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    found = {(r["prior"], r["inference"], r["defence"], r["set_at"], r["measure"]): r for r in told["rows"]}
    raw = found["freq_roi", "max_user", None, None, "all"]
    assert raw["privacy_loss"] > 0.3
    assert raw["privacy_gain"] is None
    strong, weak = (found["freq_roi", "max_user", "gaussian", e, "all"] for e in (0.1, 1.0))
    assert strong["mre"] > weak["mre"] > 0
    assert strong["privacy_gain"] >= weak["privacy_gain"] >= 0
    assert {r["epsilon"] for r in told["rows"] if r["defence"] == "gaussian"} == {0.1, 1.0}
    assert {r["epsilon"] for r in told["rows"] if r["defence"] in ("scm-event", "spotme")} == {None}
    alone = found["freq_roi", "prior", "gaussian", 0.1, "divergence"]
    assert alone["error"] == found["freq_roi", "prior", None, None, "divergence"]["error"]
    table = pq.read_table(tmp_path / "own" / "inference.parquet")
    assert "epsilon" not in table.column_names  # a comparator's setting is no guarantee
    assert table.num_rows == 400 * (9 + 5 * 9)  # no epsilon sets the noise of spotme
    assert stat.S_IMODE((tmp_path / "own" / "inference.json").stat().st_mode) == 0o600
    page = (tmp_path / "own" / "inference.html").read_text("utf-8")
    assert "eyes only: contains figures computed on raw data" in page
    assert told["summary"][0].replace("'", "&#39;") in page


def test_a_release_of_the_inferred_week_is_attacked(plan, tmp_path, command):
    window = ["--start", "2026-03-09", "--end", "2026-03-16"]
    assert command("ledger", "create", "town", "--epsilon", "4", "--delta", "1e-6")[0] == 0
    folder = tmp_path / "release"
    code, _, err = command(
        "density", "run", "--plan", plan, *window, "--out", folder, "--owner", tmp_path / "owner"
    )
    assert code == 0, err
    code, out, err = attack(
        command, plan, "--prior", "freq_roi", "--release", folder, "--out", tmp_path / "own", "--json"
    )
    assert (code, err) == (0, "")
    of_release = [r for r in json.loads(out)["rows"] if r["defence"] == "release"]
    assert of_release
    assert all(r["set_at"] is None and r["mre"] > 0 for r in of_release)
    assert "inference attack on raw events" in command("ledger", "show", "town", "--json")[1]
    code, _, err = attack(command, plan, "--release", folder, "--split", "2026-03-10", "--prior", "freq_roi")
    assert code == 2
    assert "attack-release-slots" in err
    code, _, err = attack(command, plan, "--prior", "freq_roi", "--out", folder)
    assert code == 5
    assert "attack-in-release" in err
    code, _, err = attack(command, plan, "--prior", "freq_roi", "--out", folder / "deeper")
    assert code == 5
    assert "inside-release" in err
    assert command("verify", folder)[0] == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--prior", "tarot"], "attack-prior"),
        (["--inference", "guess"], "attack-inference"),
        (["--split", "noon"], "attack-split"),
        (["--split", "2030-01-01"], "attack-split"),
        (["--slot-minutes", "1080"], "slot"),
        (["--start", "2026-03-09", "--end", "2026-03-12"], "attack-periods"),
        (["--start", "2031-03-03", "--end", "2031-03-17"], "nobody"),
        (["--release", "nowhere", "--prior", "freq_roi"], "attack-release"),
        (["--defence", "magic", "--prior", "freq_roi"], "plan-method"),
        (["--prior", "roi_day_week", "--split", "2026-03-04"], "attack-observed"),
    ],
)
def test_bad_input_is_said_and_nothing_is_written(plan, tmp_path, command, flags, said):
    code, _, err = attack(command, plan, *flags, "--out", tmp_path / "own")
    assert code in (2, 3)
    assert said in err
    assert "Traceback" not in err
    assert not (tmp_path / "own").exists()


def test_the_words_and_the_table_are_printed(plan, tmp_path, command):
    code, out, err = attack(command, plan, "--prior", "freq_roi", "--out", tmp_path / "own")
    assert code == 0, err
    assert out.startswith("An adversary who knows people's habits has a mean error of ")
    assert "max_user" in out
    assert "owner's eyes only" in out
