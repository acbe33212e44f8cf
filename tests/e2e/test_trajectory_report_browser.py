"""The owner's report of trajectories in a real browser: drawn, offline, no wider than the window."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from tests.browser import NASTY, in_a_browser, open_page

from shoal.attacks.tracker.evidence import Verified
from shoal.kinds.trajectories.report import TrajectoryFacts, raw_views, trajectory_report_html
from shoal.metrics.trajectories import LocalClock, trajectory_utility
from shoal.release.page.page import write_page
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples

MOVE = """(hour) => {
  const slider = document.getElementById('map-hour');
  slider.value = hour;
  slider.dispatchEvent(new Event('input'));
}"""

pytestmark = in_a_browser


def town_facts() -> TrajectoryFacts:
    lattice = Lattice(start=datetime(2026, 3, 2, tzinfo=UTC), steps=4320, origin=(2.0, 48.0))
    rng = np.random.default_rng(1)
    user, t, x, y = (rng.integers(0, high, 2000) for high in (20, lattice.steps, 80, 60))
    samples = LatticeSamples.of(user, t, x, y, users=20, steps=lattice.steps)
    u, t, x, y = (column[samples.t % 5 > 0] for column in (samples.user, samples.t, samples.x, samples.y))
    boxes = Boxes.of(u, t, t, x - 2, x + 3, y, y + 4, records=20)
    clock = LocalClock.of(lattice.start, steps=lattice.steps, minutes=1, zone=UTC)
    maps, picture = raw_views(samples, boxes, lattice, clock, name_of=lambda user: NASTY)
    return TrajectoryFacts(
        title=f"Town {NASTY}",
        k=2,
        tau_minutes=30,
        epoch_minutes=30,
        lattice=lattice,
        time_zone="Europe/Paris",
        users=20,
        utility=trajectory_utility(samples, boxes, minutes=1, metres=100.0, clock=clock),
        verified=Verified(
            k=2, tau=30, users=20, pairs_checked=1000, violations=0, users_hit=0, structure={}, examples=[]
        ),
        measured={
            "windows": 9,
            "seed": 1,
            "candidates_quartiles": (2, 3, 4),
            "same_record": {"users": 0, "worst": []},
            "leakage_by_lag": [
                {
                    "from_epochs": 0,
                    "to_epochs": 1,
                    "share": 0.2,
                    "samples_before": 5,
                    "covered_before": 1,
                    "samples_after": 0,
                    "covered_after": 0,
                }
            ],
            "more_knowledge": [
                {"knows": NASTY, "fewer_than_k_share": 0.9, "only_one_share": 0.8, "quartiles": (1, 1, 2)}
            ],
        },
        unicity=[{"points": 4, "raw": 0.97}],
        runs=[
            {"tau_min": tau, "data": NASTY, "median_space_m": 500.0, "suppressed": 0.01} for tau in (10, 60)
        ],
        maps=maps,
        picture=picture,
    )


def test_the_page_is_drawn_offline_and_fits_its_window(browser, tmp_path):
    facts = town_facts()
    report = open_page(
        browser, write_page(tmp_path / "report.html", trajectory_report_html(facts)), "runs-suppressed"
    )
    assert len(report.charts()) == 16  # every chart of the page
    assert report.sum_of("map-raw") == pytest.approx(facts.maps.raw[8].sum(), rel=0.01)
    report.page.evaluate(MOVE, 3)
    assert report.sum_of("map-raw") == pytest.approx(facts.maps.raw[3].sum(), rel=0.01)
    assert report.page.text_content("#map-hour-label") == "03:00 to 04:00"
    report.check(f"Town {NASTY}")
