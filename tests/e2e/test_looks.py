"""Looks at private data: every one that a choice may follow from is in the ledger, and manifests say so."""

import json

import pytest

from shoal.privacy.ledger import open_ledger

NOT_PROOF = "does not prove"


def kinds():
    return [note["kind"] for note in open_ledger().state().population("town").notes]


def released(town, command, name):
    town.flags["--out"] = town.folder / name
    code, _, err = command(*town.arguments(), "--method", "gaussian")
    assert (code, err.strip()) == (0, "")
    said = json.loads((town.folder / name / "manifest.json").read_text())["tuned_on_private_data"]
    return said, (town.folder / name / "README.md").read_text()


def test_no_look_is_none_recorded_never_false(town, command):
    said, readme = released(town, command, "release")
    assert said == "none recorded"
    assert NOT_PROOF in readme
    code, out, _ = command("verify", town.folder / "release")
    assert code == 0
    assert NOT_PROOF in out


@pytest.mark.parametrize("look", ["seeded", "attack", "inspect"])
def test_a_look_is_recorded_and_later_manifests_say_so(town, command, look):
    flags = {name: str(value) for name, value in town.flags.items()}
    looks = {
        "seeded": [*town.arguments(), "--method", "gaussian", "--seed", "3"],
        "attack": ["attack", "unicity", town.source, "--out", town.folder / "own", "--points", "1"],
        "inspect": ["inspect", town.source, "--sites", flags["--sites"], "--population", "town"],
    }
    if look == "attack":
        for name in ("--zones", "--sites", "--start", "--end", "--time-zone"):
            looks["attack"] += [name, flags[name]]
        plan = town.folder / "plan.toml"
        plan.write_text('population = "town"\n')
        looks["attack"] += ["--plan", plan]
    code, _, err = command(*looks[look])
    assert (code, err.strip()) == (0, "")
    assert {"disclosure", "tuned"} <= set(kinds())
    assert open_ledger().state().population("town").spent_nano == 0
    said, readme = released(town, command, "later")
    assert said == "recorded"
    assert "records a look at private data" in readme
    assert NOT_PROOF not in readme


def test_an_inspection_without_a_population_says_that_it_is_not_recorded(town, command):
    arguments = ["inspect", town.source, "--sites", town.flags["--sites"]]
    code, out, err = command(*arguments)
    assert (code, err.strip()) == (0, "")
    assert "exact numbers of private data" in out
    code, out, err = command(*arguments, "--json")
    assert json.loads(out)["users"] == 3
    assert "exact numbers of private data" in err
    assert kinds() == []
    code, _, err = command(*arguments, "--population", "nobody")
    assert (code, err.split(":")[0]) == (4, "unknown-population")


def test_a_new_plan_for_a_window_that_a_report_shows_is_recorded(town, command):
    said, readme = released(town, command, "first")
    assert said == "none recorded"
    assert "only those on the same window are counted" in readme
    town.flags["--epsilon"] = 0.05
    code, _, err = command(*town.arguments(), "--method", "gaussian", "--out", town.folder / "second")
    assert (code, err.strip()) == (0, "")
    assert [note["kind"] for note in open_ledger().state().population("town").notes].count("tuned") == 1
    said = json.loads((town.folder / "second" / "manifest.json").read_text())["tuned_on_private_data"]
    assert said == "recorded"
