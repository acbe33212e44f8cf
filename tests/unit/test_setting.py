"""A setting is described once: what the command, the page, the docs, the simulator and Python say follows."""

import json
from dataclasses import dataclass

import click
import pytest
from tests.loops import for_each
from tools.settings_tables import PAGE, with_tables

from shoal.cli.main import click_options, settings_from_flags, with_options
from shoal.errors import PlanError
from shoal.kinds import KINDS
from shoal.kinds.density.plan import CITY_PLAN, DensityPlan
from shoal.kinds.keys import key_of
from shoal.kinds.setting_forms import form_schema, json_schema, plan_text, table_of
from shoal.release.trip_files import FORMATS
from shoal.setting import Plan, check, is_number, leaves, rule, setting, settings_of, text_of
from shoal.stages.trajectories import PRICE
from shoal.studio.forms import PlanForm, field_problems

PLANS = {name: kind.plan for name, kind in KINDS.items() if name not in ("commute", "query")}
GOOD = {
    "population": "town",
    "epsilon": 1.0,
    "source": {"paths": ("events.csv",)},
    "window": {"start": "2026-03-02", "end": "2026-03-09", "time_zone": "UTC"},
    "space": {"zones": "zones.geojson"},
}
WRONG = {**GOOD, "epsilon": "0,5", "delta": 2, "window": {**GOOD["window"], "slot_minutes": 7}}


def run_of(plan):
    """A command with the flags of a plan; it returns the settings that were given."""

    @with_options(click_options(plan))
    def run(**flags):
        return settings_from_flags(plan, flags)

    return click.command("run")(run)


def help_of(plan):
    command = run_of(plan)
    return command.get_help(click.Context(command, info_name="run", terminal_width=200))


@dataclass(frozen=True, kw_only=True)
class OtherPlan(DensityPlan):
    """A density with one other default."""

    ell: int = setting(17, "Visits kept per user.", least=1, most=40, label="Visits kept")


def test_a_default_that_is_changed_in_one_place_is_changed_everywhere():
    assert "Visits kept per user.  [default: 17]" in help_of(OtherPlan)
    schema = form_schema(OtherPlan)["ell"]
    assert (schema["title"], schema["default"], schema["maximum"]) == ("Visits kept", 17, 40)
    assert json_schema(OtherPlan)["properties"]["ell"]["default"] == 17
    assert "| `ell` | a whole number from 1 to 40 | 17 | Visits kept per user. |" in table_of(OtherPlan)
    assert "\nell = 17  # Visits kept per user.\n" in plan_text(OtherPlan, "# a city", CITY_PLAN, {})
    assert OtherPlan.from_settings(GOOD).ell == 17


def test_the_tables_in_the_docs_are_those_of_the_plans():
    """Else run `python tools/settings_tables.py`."""
    text = PAGE.read_text("utf-8")
    assert with_tables(text) == text
    assert all(f"<!-- settings: {kind} -->" in text for kind in PLANS)


@for_each(("kind", "plan"), PLANS.items())
def test_every_setting_is_described_and_refused_outside_its_range(kind, plan):
    text = help_of(plan)
    for each in leaves(plan):
        assert each.setting.help.strip(), each.path
        assert each.flag == "source" or f"--{each.flag}" in text
        bounds = [each.setting.least, each.setting.above, each.setting.most, each.setting.below]
        if not is_number(each.hint) or all(bound is None for bound in bounds):
            continue
        low, high = (bounds[0] if bounds[0] is not None else bounds[1]), bounds[2]
        outside = [*([] if low is None else [low - 1]), *([] if high is None else [high + 1])]
        for value in outside:
            (fault,) = about(each, plan, value)
            assert text_of(value).rstrip("0.") in fault.message.replace(",", "")
        for value in (each.usual, each.setting.example):
            assert value is None or not about(each, plan, value)


def about(each, plan, value):
    """The faults that a value of one setting has by itself."""
    return [
        fault
        for fault in check(plan, nested(each.path, value))
        if fault.setting == each.path and fault.message.startswith(f"{each.named} must be")
    ]


def nested(path, value):
    table, _, name = path.rpartition(".")
    return {table: {name: value}} if table else {name: value}


def test_all_faults_are_reported_at_once_to_python():
    with pytest.raises(PlanError) as caught:
        DensityPlan.from_settings(WRONG)
    error = caught.value
    assert {fault.setting for fault in error.faults} == {"epsilon", "delta", "window.slot_minutes"}
    for words in ("'0,5', which has a decimal comma. Pass epsilon=0.5.", "delta must be", "slot_minutes=60"):
        assert words in str(error)
    assert "--epsilon 0.5" in error.for_command()
    copy = error.__reduce__()
    assert copy[0](*copy[1]).faults == error.faults


def test_all_faults_are_reported_at_once_by_the_command(tmp_path, command):
    path = tmp_path / "plan.toml"
    path.write_text(
        'population = "town"\nepsilon = 1\n[source]\npaths = ["e.csv"]\n[space]\nzones = "z.geojson"\n'
        '[window]\nstart = "2026-03-02"\nend = "2026-03-09"\ntime_zone = "UTC"\n'
    )
    flags = ("--epsilon", "0,5", "--delta", "2", "--slot-minutes", "7")
    code, out, error = command("density", "run", "--plan", path, *flags)
    assert (code, out) == (2, "")
    for flag in ("--epsilon 0.5", "--delta 1e-6", "--slot-minutes 60"):
        assert flag in error
    code, out, error = command("density", "run", "--plan", path, *flags, "--json")
    assert code == 2
    faults = json.loads(out)["error"]["faults"]
    assert {fault["setting"] for fault in faults} == {"epsilon", "delta", "window.slot_minutes"}


def test_the_page_reports_all_faults_by_field_and_takes_settings_with_a_label():
    problems = {each["field"]: each for each in field_problems(check(DensityPlan, WRONG))}
    assert set(problems) == {"epsilon", "delta", "slot_minutes"}
    assert problems["epsilon"]["remedy"] == 'Set "Epsilon" to 0.5.'
    assert problems["slot_minutes"]["message"].startswith('"Length of a slot" must be')
    names = set(PlanForm.model_fields)
    assert {"epsilon", "slot_minutes", "tau_minutes", "trips_per_user", "gap_minutes", "step_s"} <= names
    assert not {"seed", "out", "owner", "source_name", "keep_unsafe"} & names


@for_each(
    ("text", "words", "remedy"),
    [
        ("0,5", "a decimal comma", "Pass --cell-m 0.5."),
        ("500m", "the unit m in it", "Pass --cell-m 500."),
        ("500 m", "the unit m in it", "Pass --cell-m 500."),
        ("1,500", "commas between the digits", "Pass --cell-m 1500."),
        ("50%", "a percent sign", "Pass --cell-m 0.5."),
        ("500", "which is text", "Pass --cell-m 500."),
        ("wide", "got 'wide'", "Pass --cell-m 500, say."),
        ("-5 m", "the unit m in it", "Pass --cell-m 500, say."),  # not in its range: not recommended
    ],
)
def test_texts_that_were_meant_as_numbers(text, words, remedy):
    (fault,) = [
        each for each in check(DensityPlan, {"space": {"cell_m": text}}) if each.setting == "space.cell_m"
    ]
    assert words in fault.message
    assert fault.remedy == remedy


def test_texts_become_fractions_only_where_numbers_are_not_whole():
    (fault,) = [each for each in check(DensityPlan, {"users": "20,5 km"}) if each.setting == "users"]
    assert "a decimal comma and the unit km in it" in fault.message
    assert fault.remedy == "Pass --users 200000, say."


def test_flags_become_nested_settings_and_a_clock_is_set_twice():
    arguments = [
        "--epsilon",
        "2",
        "--time-zone",
        "UTC",
        "--no-nights",
        "--box",
        "1,2,3,4",
        "--column",
        "user=a",
    ]
    with run_of(DensityPlan).make_context("run", arguments) as context:
        assert context.command.invoke(context) == {
            "source": {"time_zone": "UTC", "columns": {"user": "a"}},
            "epsilon": 2.0,
            "nights": False,
            "space": {"box": (1.0, 2.0, 3.0, 4.0)},
            "window": {"time_zone": "UTC"},
        }


@dataclass(frozen=True, kw_only=True)
class Part(Plan):
    width: float = setting(1.0, "Width.", above=0)


@dataclass(frozen=True, kw_only=True)
class Toy(Plan):
    low: int = setting("Low.", key="lower", example=1)
    high: int = setting(9, "High.", key=True)
    colour: str = setting("red", "Colour.", choices=("red", "blue"), key=True, later=True)
    part: Part | None = setting(None, "A part.")

    @rule("low", "high")
    def _check_order(self) -> None:
        if self.low > self.high:
            raise PlanError("order", "low is above high.")


def codes(values):
    return [(fault.code, fault.setting) for fault in check(Toy, values)]


def test_rules_are_checked_where_what_they_are_about_is_right():
    assert codes({"low": 10}) == [("order", "low")]
    assert codes({"low": 10, "colour": "green"}) == [("plan-range", "colour"), ("order", "low")]
    assert codes({"low": "10", "high": 2}) == [("plan-type", "low")]
    assert codes({}) == [("plan-incomplete", "low")]
    assert codes({"low": 1, "part": {"width": 0, "height": 3}}) == [
        ("plan-name", "part.height"),
        ("plan-range", "part.width"),
    ]
    assert codes({"low": 1, "part": 3}) == [("plan-type", "part")]
    with pytest.raises(PlanError, match="order"):
        Toy(low=10)
    with pytest.raises(PlanError, match="low must be a whole number"):
        Toy(low=1.5)


def test_keys_survive_renaming_and_stated_choices_are_the_same():
    assert key_of(Toy(low=1)) == {"lower": 1, "high": 9}
    assert key_of(Toy(low=1, colour="blue")) == {"lower": 1, "high": 9, "colour": "blue"}
    formats = settings_of(PLANS["synthetic"])["formats"]
    assert formats.choices == tuple(FORMATS)
    assert settings_of(PLANS["trajectories"])["price"].default == PRICE
