"""The owner's report of trajectories in a real browser: drawn, offline, no wider than the window."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime

import numpy as np
import pytest

from shoal.kinds.trajectories.picture import raw_views
from shoal.kinds.trajectories.report import TrajectoryFacts, Verified, trajectory_report
from shoal.metrics.trajectories import LocalClock, trajectory_utility
from shoal.space.lattice import Lattice
from shoal.stages.trajectories import Boxes, LatticeSamples

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
NASTY = "</script><img src=x onerror=\"document.title='broken'\"><b>"
PEOPLE = "() => document.getElementById('map-raw').data[0].z.flat().reduce((sum, z) => sum + (z || 0), 0)"
MOVE = """(hour) => {
  const slider = document.getElementById('map-hour');
  slider.value = hour;
  slider.dispatchEvent(new Event('input'));
}"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


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
        verified=Verified(pairs=1000, violations=0),
        measured={
            "leakage_by_lag": [{"from_epochs": 0, "to_epochs": 1, "share": 0.2}],
            "more_knowledge": [{"knows": NASTY, "fewer_than_k_share": 0.9, "only_one_share": 0.8}],
        },
        unicity=[{"points": 4, "raw": 0.97}],
        runs=[
            {"tau_min": tau, "data": NASTY, "median_space_m": 500.0, "suppressed": 0.01} for tau in (10, 60)
        ],
        maps=maps,
        picture=picture,
    )


def test_the_page_is_drawn_offline_and_fits_its_window(tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    facts = town_facts()
    path = trajectory_report(tmp_path / "report.html", facts)
    requests, problems = [], []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(path.as_uri())
        page.wait_for_selector("#runs-suppressed .main-svg")
        drawn = page.evaluate(
            "() => [...document.querySelectorAll('.js-plotly-plot')].map((chart) => chart.id)"
        )
        at_eight = page.evaluate(PEOPLE)
        page.evaluate(MOVE, 3)
        at_three = page.evaluate(PEOPLE)
        label = page.text_content("#map-hour-label")
        title = page.title()
        images = page.locator("img, h1 b").count()
        hidden = page.is_hidden("#failure")
        page.set_viewport_size({"width": 380, "height": 800})
        # Charts follow the window a moment later; a page that stays wider runs into the time limit.
        page.wait_for_function("() => document.documentElement.scrollWidth <= 380", timeout=10_000)
        browser.close()
    assert len(drawn) == 16  # every chart of the page
    assert at_eight == pytest.approx(facts.maps.raw[8].sum(), rel=0.01)
    assert at_three == pytest.approx(facts.maps.raw[3].sum(), rel=0.01)
    assert label == "03:00 to 04:00"
    assert title == f"Town {NASTY}"
    assert images == 0
    assert hidden
    assert requests == [path.as_uri()]
    assert problems == []
