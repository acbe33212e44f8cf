"""`shoal trajectories compare` from files to the owner's table."""

import json
import stat

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from shoal.cli.trajectories import compare
from shoal.errors import PlanError

DAY = ("--start", "2026-03-02", "--end", "2026-03-03", "--time-zone", "UTC", "--origin", "-4.4,5.1")


@pytest.fixture
def samples(tmp_path):
    rng = np.random.default_rng(5)
    user = np.repeat(np.arange(30) * 7, 8)
    start = np.datetime64("2026-03-02T00:00", "us").astype(np.int64)
    columns = {
        "user": user,
        "time": pa.array(start + rng.integers(0, 1440, 240) * 60_000_000, pa.timestamp("us", tz="UTC")),
        "lon": -4.3 + rng.integers(0, 5, 240) * 0.01,
        "lat": 5.2 + rng.integers(0, 5, 240) * 0.01,
    }
    path = tmp_path / "samples.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def call(*arguments):
    result = CliRunner().invoke(compare, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_table_as_json_on_disk_and_in_words(samples, tmp_path, monkeypatch):
    out = tmp_path / "owner"
    result = call(samples, *DAY, "--methods", "raw,km1", "--users", 20, "--out", out, "--json")
    told = json.loads(result.stdout)
    assert [row["method"] for row in told["rows"]] == ["raw", "km1"]
    assert (told["users"], told["of_users"], told["k"], told["tau_minutes"]) == (20, 30, 2, 30)
    assert "owner" in told["for"]
    written = out / "compare.json"
    assert json.loads(written.read_text())["rows"][1]["broken"] == 0
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert [row["method"] for row in json.loads(written.read_text())["rows"]] == ["raw", "km1"]
    monkeypatch.setenv("COLUMNS", "160")
    result = call(samples, *DAY, "--methods", "raw", "--methods", "nwa", "--out", tmp_path / "owner")
    assert "Not truthful." in result.stdout
    assert "owner's eyes only" in result.stdout
    assert result.stdout.count("nwa") >= 3


def test_a_plan_says_the_same_as_flags(samples, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'k = 3\ntau_minutes = 60\n[source]\npaths = ["samples.parquet"]\n'
        '[window]\nstart = "2026-03-02"\nend = "2026-03-03"\ntime_zone = "UTC"\n'
        "[space]\norigin = [-4.4, 5.1]\n"
    )
    out = tmp_path / "owner"
    by_plan = json.loads(call("--plan", plan, "--methods", "km1", "--out", out, "--json").stdout)
    flags = ("--k", 3, "--tau-minutes", 60, "--methods", "km1", "--out", out, "--json")
    by_flags = json.loads(call(samples, *DAY, *flags).stdout)
    for told in (by_plan, by_flags):
        told["rows"][0].pop("seconds")
    assert by_plan == by_flags


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--methods", "glove"), "compare-method"),
        (("--k", "1"), "plan-range"),
        (("--tau-minutes", "30", "--epoch-minutes", "20"), "trajectories-tau"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_written(samples, tmp_path, flags, code):
    out = tmp_path / "owner"
    with pytest.raises(PlanError, match=code):
        call(samples, *DAY, *flags, "--out", out)
    assert not out.exists()
