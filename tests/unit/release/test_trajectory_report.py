"""The owner's report of trajectories: says the claim and its limits, runs no name, asks no server."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from tests.unit.release.conftest import payload_of, without_scripts

from shoal.attacks.tracker.evidence import Verified
from shoal.errors import PlanError
from shoal.kinds.trajectories.report import (
    TrajectoryFacts,
    map_side,
    raw_views,
    record_picture,
    trajectory_report_html,
    typical_user,
)
from shoal.metrics.trajectories import LocalClock, trajectory_utility
from shoal.metrics.trajectory_density import hourly_maps
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples

LATTICE = Lattice(start=datetime(2026, 3, 2, tzinfo=UTC), steps=2880, origin=(2.0, 48.0))
PRIVATE = "user-4711"
MEASURED = {
    "candidates_quartiles": (3.0, 4.0, 9.0),
    "leakage_by_lag": [
        {
            "from_epochs": 0,
            "to_epochs": 1,
            "share": 0.2,
            "samples_before": 10,
            "covered_before": 1,
            "samples_after": 10,
            "covered_after": 3,
        },
        {"from_epochs": 1, "to_epochs": 2, "share": None, "samples_before": 0, "samples_after": 0},
    ],
    "more_knowledge": [
        {"knows": "two windows", "fewer_than_k_share": 0.915, "only_one_share": 0.8, "quartiles": [1, 1, 2]},
        {"knows": "nothing drawn", "fewer_than_k_share": None, "only_one_share": None, "quartiles": None},
    ],
    "same_record": {
        "users": 6,
        "always_same": 2,
        "worst": [{"user": 1, "record": 2, "share": 1.0, "back": 0.5}],
    },
    "windows": 5000,
    "seed": 9,
    "limits": "said elsewhere on the page",
}


def town(users=6, seed=3):
    """Samples and boxes around every second one of them."""
    rng = np.random.default_rng(seed)
    user, t, x, y = (rng.integers(0, high, 300) for high in (users, LATTICE.steps, 80, 60))
    samples = LatticeSamples.of(user, t, x, y, users=users, steps=LATTICE.steps)
    u, t, x, y = (column[::2] for column in (samples.user, samples.t, samples.x, samples.y))
    return samples, Boxes.of(u, t, t, x - 2, x + 3, y, y, records=users)


def verdict(pairs, violations=0, faults=0):
    counted = {"pairs_checked": pairs, "violations": violations, "users_hit": violations}
    return Verified(k=3, tau=120, users=6, **counted, structure={"overlap": faults}, examples=[])


def facts(**changes) -> TrajectoryFacts:
    samples, boxes = town()
    clock = LocalClock.of(LATTICE.start, steps=LATTICE.steps, minutes=1, zone=UTC)
    made = TrajectoryFacts(
        title="Trajectories",
        k=3,
        tau_minutes=120,
        epoch_minutes=60,
        lattice=LATTICE,
        time_zone="Europe/Paris",
        users=samples.users,
        utility=trajectory_utility(samples, boxes, minutes=1, metres=100.0, clock=clock),
        verified=verdict(17_274),
        measured=MEASURED,
        unicity=[{"points": 4, "raw": 0.97, "released": 0.01}],
        runs=[
            {"tau_min": tau, "data": "town", "median_space_m": 400.0, "suppressed": 0.01} for tau in (60, 30)
        ],
        maps=hourly_maps(samples, boxes, clock.hour, cell_cells=10, slot_steps=60),
        picture=record_picture(samples, boxes, 1, name=PRIVATE, record=5, first_step=0, steps=1440),
    )
    return replace(made, **changes)


def test_the_claim_its_check_and_its_limits_are_said():
    page = without_scripts(trajectory_report_html(facts()))
    assert "any period of 2 hours" in page
    assert "at least 3 published records" in page
    assert "k = 3, tau = 2 hours, epoch = 60 minutes" in page
    assert "Verified." in page
    assert "17,274 pairs" in page
    assert "The claim does not compose, and protects against the stated adversary only." in page
    assert "Owner's eyes only" in page
    assert "epsilon" not in page.lower()
    for found in (verdict(10, violations=2), verdict(10, faults=1)):
        failed = without_scripts(trajectory_report_html(facts(verified=found)))
        assert "The claim does not hold." in failed
        assert "Do not publish.</p>" in failed
        assert "<b>Verified.</b>" not in failed


def test_figures_of_the_page_are_those_of_the_metrics():
    made = facts()
    page = trajectory_report_html(made)
    shown = payload_of(page)
    own = made.utility.granularity.per_sample
    assert f"{own.space_m.mean:.0f} m" in page or f"{own.space_m.mean / 1000:.1f} km" in page
    assert shown["byHour"]["samples"] == made.utility.by_hour.samples.tolist()
    assert shown["byDay"]["days"] == ["Mon 2 Mar", "Tue 3 Mar"]
    assert shown["byDay"]["suppressed"] == pytest.approx(made.utility.by_day.suppressed_share.tolist())
    assert shown["leakage"] == [{"label": "0-1 h", "share": 0.2, "before": 0.1, "after": 0.3}]
    assert shown["knowledge"] == [
        {"knows": "two windows", "fewer": 0.915, "one": 0.8, "quartiles": [1, 1, 2]}
    ]
    assert shown["runs"][0]["tau"] == [30, 60]
    assert "Records that fit a known period: median 4, quartiles 3 and 9." in page
    assert "Measured on 5,000 random periods (seed 9); not part of the guarantee." in page
    assert "For 2 of 6 people, one and the same other record fits every period" in page
    assert all(part in without_scripts(page) for part in ("91.5 %", "Fewer than 3 fit", "1 / 1 / 2"))
    raw = np.frombuffer(base64.b64decode(shown["maps"]["raw"]), "<f4")
    assert raw == pytest.approx(made.maps.raw.ravel(), rel=1e-6)


def test_the_picture_lies_on_the_lattice_in_local_time():
    samples, boxes = town()
    shown = payload_of(trajectory_report_html(facts()))["picture"]
    assert shown["start"] == "2026-03-02T01:00"  # midnight UTC in Paris
    own = (samples.user == 1) & (samples.t < 1440)
    assert shown["t"] == pytest.approx((samples.t[own] + 0.5).tolist())
    assert shown["x"] == pytest.approx(((samples.x[own] + 0.5) * 0.1).tolist())
    here = (boxes.record == 1) & (boxes.t0 < 1440)
    assert [row[2] for row in shown["boxes"]] == pytest.approx((boxes.x0[here] * 0.1).tolist())
    assert [row[3] for row in shown["boxes"]] == pytest.approx(((boxes.x1[here] + 1) * 0.1).tolist())
    rows = zip(samples.t[own], samples.x[own], samples.y[own], strict=True)
    kept = {(int(t), int(x), int(y)) for t, x, y in zip(boxes.t0, boxes.x0 + 2, boxes.y0, strict=True)}
    assert shown["retained"] == [tuple(map(int, row)) in kept for row in rows]
    assert 0 < sum(shown["retained"]) < len(shown["retained"])


def test_nothing_optional_or_nothing_released_still_makes_a_page():
    page = trajectory_report_html(facts(measured={}, unicity=(), runs=(), maps=None, picture=None))
    shown = payload_of(page)
    assert shown["maps"] is shown["picture"] is None
    assert PRIVATE not in page
    assert "Nothing was measured beyond the claim." in page
    samples, _ = town()
    nothing = Boxes.of(*([[]] * 7), records=samples.users)
    clock = LocalClock.of(LATTICE.start, steps=LATTICE.steps, minutes=1, zone=UTC)
    utility = trajectory_utility(samples, nothing, minutes=1, metres=100.0, clock=clock)
    user = typical_user(samples, nothing, first_step=0, steps=1440)
    picture = record_picture(samples, nothing, user, name="u", first_step=0, steps=1440)
    maps = hourly_maps(samples, nothing, clock.hour, cell_cells=10, slot_steps=60)
    page = trajectory_report_html(facts(utility=utility, picture=picture, maps=maps))
    assert "not defined" in page
    assert payload_of(page)["picture"]["boxes"] == []
    with pytest.raises(PlanError, match="no time zone"):
        trajectory_report_html(facts(time_zone="Mars/Base"))
    with pytest.raises(PlanError, match="no user number"):
        record_picture(*town(), 6, name="u", first_step=0, steps=10)


def test_a_typical_user_and_maps_of_few_cells():
    rows = [(u, t, 0, 0) for u in range(20) for t in range(4)]
    rows += [(u, t, 0, 0) for u in range(3, 9) for t in range(4, 8)]  # more samples than the others
    samples = LatticeSamples.of(*np.array(rows).T, users=20, steps=10)
    width = np.full(20, 4)
    width[[3, 5, 6, 7, 8]] = 9, 0, 8, 1, 30
    width = width[samples.user]
    zero = np.zeros(samples.count)
    boxes = Boxes.of(samples.user, samples.t, samples.t, zero, width, zero, zero, records=20)
    assert typical_user(samples, boxes, first_step=0, steps=10) == 4
    wide = LatticeSamples.of([0, 0], [0, 1], [0, 10_000], [0, 10_000], users=1, steps=2)
    assert map_side(wide) == 200
    assert map_side(LatticeSamples.of([0], [0], [5], [5], users=1, steps=2)) == 1


@pytest.mark.parametrize(("zone", "first"), [("UTC", 0), ("Asia/Tokyo", 900)])
def test_views_start_at_the_first_local_midnight(zone, first):
    lattice = Lattice(start=LATTICE.start, steps=5 * 1440, origin=LATTICE.origin)
    samples, boxes = town()
    samples = replace(samples, steps=lattice.steps)
    clock = LocalClock.of(lattice.start, steps=lattice.steps, minutes=1, zone=ZoneInfo(zone))
    names = {"name_of": "user {}".format, "record_of": lambda user: 70 + user}
    maps, picture = raw_views(samples, boxes, lattice, clock, **names)
    assert (picture.first_step, picture.steps) == (first, 2880)
    user = int(picture.user.split()[1])
    assert picture.record == 70 + user
    own = (samples.user == user) & (samples.t >= first) & (samples.t < first + 2880)
    assert picture.samples[:, 0].tolist() == samples.t[own].tolist()
    assert maps.raw.shape[0] == 24
