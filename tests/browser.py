"""Pages in a real browser: what they draw, what they ask of the network, what goes wrong."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
NASTY = "</script><img src=x onerror=\"document.title='broken'\"><b>bold</b>"
CHARTS = "() => [...document.querySelectorAll('.js-plotly-plot')].map((chart) => chart.id)"
SUM = "(id) => document.getElementById(id).data[0].z.flat().reduce((sum, z) => sum + (z || 0), 0)"
in_a_browser = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]


@dataclass
class OpenPage:
    page: Any
    path: Path
    requests: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def charts(self) -> list[str]:
        return self.page.evaluate(CHARTS)

    def sum_of(self, chart: str) -> float:
        return self.page.evaluate(SUM, chart)

    def settle(self) -> None:
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 150)))")

    def check(self, title: str) -> None:
        """Opened offline, no error; no name became markup; a narrow window does not scroll sideways."""
        assert self.page.title() == title
        assert self.page.locator("img, h1 b, h2 b, td b, option b, button b").count() == 0
        assert self.page.is_hidden("#failure")
        self.page.set_viewport_size({"width": 380, "height": 800})
        # Charts follow the window a moment later; a page that stays wider runs into the time limit.
        self.page.wait_for_function("() => document.documentElement.scrollWidth <= 380", timeout=10_000)
        assert self.requests == [self.path.as_uri()]
        assert self.problems == []


def open_page(browser: Any, path: Path, drawn: str) -> OpenPage:
    """The page, once the chart `drawn` is there."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    opened = OpenPage(page, path)
    page.on("request", lambda request: opened.requests.append(request.url))
    page.on("console", lambda line: opened.problems.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: opened.problems.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector(f"#{drawn} .main-svg")
    return opened
