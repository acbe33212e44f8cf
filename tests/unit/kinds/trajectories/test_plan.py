"""A trajectory plan from settings: what it must say, what it becomes, what it refuses."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shoal.errors import PlanError
from shoal.kinds.trajectories.plan import TrajectoryPlan

SETTINGS = {
    "population": "town",
    "source": {"paths": ("samples.parquet",)},
    "window": {"start": "2026-03-02", "end": "2026-03-04", "time_zone": "Europe/Paris"},
    "space": {"origin": [2.3, 48.8]},
}


def plan(**changed):
    return TrajectoryPlan.from_settings({**SETTINGS, **changed})


def test_the_lattice_is_the_window_in_steps_from_a_stated_origin():
    made = plan().lattice(planar=False)
    assert made.start == datetime(2026, 3, 1, 23, tzinfo=UTC)
    assert (made.steps, made.minutes, made.metres) == (2880, 1, 100.0)
    assert plan(step_minutes=5).lattice(planar=False).steps == 576
    with pytest.raises(PlanError, match="lattice-steps"):
        plan(step_minutes=7, tau_minutes=7).lattice(planar=False)
    with pytest.raises(PlanError, match="lattice-origin"):
        plan(space={}).lattice(planar=False)


@pytest.mark.parametrize(("start", "end", "hours"), [("03-29", "03-30", 23), ("10-25", "10-26", 25)])
def test_days_on_which_clocks_change_are_as_long_as_they_are(start, end, hours):
    window = {"start": f"2026-{start}", "end": f"2026-{end}", "time_zone": "Europe/Paris"}
    assert plan(window=window).lattice(planar=False).steps == hours * 60
    assert plan(window=window, full_length=True).minutes() == (hours * 60, hours * 60)


def test_tau_and_epoch_in_steps():
    made = plan(k=3, tau_minutes=60, epoch_minutes=20, step_minutes=5, forget_days=2).anonymiser()
    assert (made.k, made.tau_steps, made.epoch_steps, made.forget_steps) == (3, 12, 4, 576)
    alone = plan(tau_minutes=45).anonymiser()
    assert (alone.tau_steps, alone.epoch_steps, alone.forget_steps) == (45, 45, None)
    whole = plan(full_length=True, step_minutes=5).anonymiser()
    assert (whole.tau_steps, whole.epoch_steps) == (576, 576)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"tau_minutes": 30, "epoch_minutes": 20}, "trajectories-tau"),
        ({"tau_minutes": 20, "epoch_minutes": 30}, "trajectories-tau"),
        ({"tau_minutes": 31, "step_minutes": 5}, "trajectories-tau"),
        ({"tau_minutes": 30, "epoch_minutes": 6, "step_minutes": 5}, "trajectories-epoch"),
        ({"price": float("nan")}, "plan-range"),
        ({"licence": "two\nlines"}, "plan-licence"),
        ({"population": ""}, "plan-population"),
        ({"owner": "release/owner"}, "plan-folders"),
        ({"owner": "release"}, "plan-folders"),
        ({"space": {"origin": [2.3]}}, "lattice-origin"),
        ({"space": {"origin": [True, 1]}}, "lattice-origin"),
        ({"space": {"origin": "2.3,48.8"}}, "lattice-origin"),
        ({"space": "here"}, "plan-type"),
        ({"window": {"start": "2026-03-02", "end": "2026-03-04"}}, "plan-incomplete"),
    ],
)
def test_refused(changed, code):
    with pytest.raises(PlanError) as said:
        plan(**changed)
    assert said.value.code == code


@pytest.mark.parametrize("name", ["population", "source", "window"])
def test_what_must_be_said(name):
    with pytest.raises(PlanError, match=f"plan-incomplete.*{name}"):
        TrajectoryPlan.from_settings({key: value for key, value in SETTINGS.items() if key != name})


def test_the_remedy_for_tau_works():
    with pytest.raises(PlanError) as said:
        plan(tau_minutes=50, epoch_minutes=20)
    assert "--tau-minutes 60" in said.value.remedy
    assert "--epoch-minutes 25" in said.value.remedy
    plan(tau_minutes=60, epoch_minutes=20)
    assert replace(plan(), tau_minutes=50, epoch_minutes=25).minutes() == (50, 25)
    with pytest.raises(PlanError, match="step of 7 min") as said:
        plan(step_minutes=7, tau_minutes=30)
    assert "--tau-minutes 28" in said.value.remedy
