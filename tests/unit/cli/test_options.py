"""Options that describe a source: flags, a TOML file, and which of the two wins."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from shoal.cli.inspect import print_source
from shoal.cli.main import source_options, trip_options
from shoal.errors import PlanError, SourceError
from shoal.events.source import open_planned

CSV = """who;when;lng;lat;busy
a;2026-06-01 14:00;2.3;48.8;1
a;2026-06-01 14:01;2.3;48.8;0
a;2026-06-01 15:00;2.4;48.8;1
"""


@click.command()
@source_options
@trip_options
@click.option("--json", "as_json", is_flag=True)
def inspect(source_options, trip_rule, as_json):
    print_source(open_planned(source_options), json=as_json, trip_rule=trip_rule)


def run(*arguments):
    result = CliRunner().invoke(inspect, [str(each) for each in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


@pytest.fixture
def events(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text(CSV)
    return path


def test_flags_describe_a_source(events):
    flags = [
        "--column",
        "user=who",
        "--column",
        "time=when",
        "--column",
        "flag=busy",
        "--time-zone",
        "Europe/Paris",
    ]
    found = json.loads(run(events, *flags, "--trip-flag", "--json"))
    assert (found["shape"], found["rows"], found["bad_rows"], found["users"]) == ("point", 3, 0, 1)
    assert (found["first_time"], found["last_time"]) == (
        "2026-06-01T12:00:00+00:00",
        "2026-06-01T13:00:00+00:00",
    )
    assert found["trips"] == 2
    assert json.loads(run(events, *flags, "--gap-minutes", 120, "--json"))["trips"] == 1


def test_a_file_says_the_same_and_flags_win(events, tmp_path):
    settings = tmp_path / "columns.toml"
    settings.write_text(
        'shape = "point"\ntime_zone = "UTC"\n\n[columns]\nuser = "who"\ntime = "when"\nlon = "busy"\n'
    )
    found = json.loads(run(events, "--columns", settings, "--column", "lon=lng", "--json"))
    assert (found["first_time"], found["columns"]["lon"]["name"]) == ("2026-06-01T14:00:00+00:00", "lng")
    found = json.loads(run(events, "--columns", settings, "--time-zone", "Asia/Tokyo", "--json"))
    assert (found["first_time"], found["columns"]["lon"]["name"]) == ("2026-06-01T05:00:00+00:00", "busy")


def test_a_format_of_times_from_a_flag_or_a_file(events, tmp_path):
    events.write_text("user;time;lng;lat\na;01/06/2026 14:00;2.3;48.8\nb;02/06/2026 15:30;-2.4;48.9\n")
    flags = ["--time-format", "%d/%m/%Y %H:%M", "--time-zone", "Europe/Paris"]
    settings = tmp_path / "columns.toml"
    settings.write_text('time_format = "%d/%m/%Y %H:%M"\ntime_zone = "Europe/Paris"\n')
    for described in (flags, ["--columns", settings]):
        found = json.loads(run(events, *described, "--json"))
        assert (found["first_time"], found["bad_rows"]) == ("2026-06-01T12:00:00+00:00", 0)
        assert found["time_format"] == "%d/%m/%Y %H:%M"


def test_the_range_of_places_is_shown_for_good_rows(events):
    events.write_text("user;time;lng;lat\na;2026-06-01T12:00Z;9;91\nb;2026-06-01T12:00Z;-2.4;48.9\n")
    drop = ["--on-bad-row", "drop"]
    found = json.loads(run(events, *drop, "--json"))
    assert (found["lon_range"], found["lat_range"]) == ([-2.4, -2.4], [48.9, 48.9])
    events.write_text("user;time;x;y\na;2026-06-01T12:00Z;1500;-7\nb;2026-06-01T12:00Z;250.5;8\n")
    found = json.loads(run(events, "--json"))
    assert (found["x_range"], found["y_range"]) == ([250.5, 1500.0], [-7.0, 8.0])
    shown = run(events)
    assert "x from, to" in shown
    assert "250.5, 1500" in shown
    events.write_text("user;time;site\na;2026-06-01T12:00Z;gare\n")
    assert not {"lon_range", "x_range"} & set(json.loads(run(events, "--json")))


def test_unreadable_times_and_reasons_are_shown_in_table_and_json(events):
    events.write_text("user;time;site\na;01/06/2026 [b]12h;gare\n")
    assert "01/06/2026 [b]12h" in run(events, "--on-bad-row", "drop")
    assert json.loads(run(events, "--on-bad-row", "drop", "--json"))["unread_time"] == "01/06/2026 [b]12h"
    flags = ["--column", "user=who", "--column", "time=when", "--column", "lat=lng", "--column", "lon=busy"]
    events.write_text(CSV + "a;2026-13-01 14:00;2;2;1\n")
    with pytest.raises(SourceError, match=r"1 bad-time .* line 5 of"):
        run(events, *flags, "--time-zone", "UTC")
    shown = run(events, *flags, "--time-zone", "UTC", "--on-bad-row", "drop")
    for words in (
        "bad-time",
        "events.csv:5",
        "first time (UTC)",
        "2026-06-01 14:00:00",
        "Guessed: shape point",
    ):
        assert words in shown


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--column", "user"], "bad-column-option"),
        (["--column", "user=who", "--column", "user=when"], "bad-column-option"),
        (["--columns", "nowhere.toml"], "columns-file"),
        (["--min-points", "3"], "trip-rule"),
        (["--stay-m", "3"], "trip-rule"),
    ],
)
def test_options_that_make_no_sense(events, arguments, code):
    with pytest.raises(PlanError, match=code):
        run(events, *arguments)


@pytest.mark.parametrize(
    "content", ["user =", 'usr = "x"', "shape = 3", "[columns]\nuser = 3", "point_seconds = true"]
)
def test_files_that_make_no_sense(events, tmp_path, content):
    (tmp_path / "columns.toml").write_text(content)
    with pytest.raises(PlanError, match="columns-file"):
        run(events, "--columns", tmp_path / "columns.toml")


def test_options_load_nothing_heavy():
    heavy = "{'duckdb', 'numba', 'numpy', 'pyarrow', 'rich'}"
    code = f"import sys, shoal.cli.main, shoal.cli.inspect; print({heavy} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"
    )


@pytest.mark.parametrize("kind", ["density", "histogram", "synthesize", "trajectories"])
def test_a_list_of_files_is_no_name_of_a_run(kind, tmp_path):
    """The shell makes one from a pattern, and which files match it is private."""
    from shoal.cli.main import shoal

    arguments = [kind, "run", "a.csv", "b.csv"]
    refused = CliRunner().invoke(shoal, [*arguments, "--out", str(tmp_path / "o")])
    assert isinstance(refused.exception, PlanError)
    assert refused.exception.code == "source-unnamed"
    named = CliRunner().invoke(shoal, [*arguments, "--source-name", "calls"])
    assert getattr(named.exception, "code", "") != "source-unnamed"
