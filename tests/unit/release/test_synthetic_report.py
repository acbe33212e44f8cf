"""Words, tables and pictures of a page of synthetic trips."""

import re
from dataclasses import fields
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from tests.unit.release.conftest import payload_of

from shoal.attacks.models.nearest_record import Nearest, OwnRecords
from shoal.kinds.synthetic.report import (
    SyntheticReportInputs,
    frequent_ways,
    local_hours,
    occurrences,
    synthetic_report_html,
)
from shoal.metrics.synthetic import SyntheticUtility, synthetic_utility
from shoal.space.cell_paths import CellPaths
from shoal.space.cells import CellGrid

GRID = CellGrid(box=(0.0, 0.0, 6000.0, 4000.0), columns=6, rows=4, planar=True)
EAST = [(0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 3, 0)]
NORTH = [(5, 0, 2), (11, 3, 0), (17, 4, 0)]


def paths(*trips):
    return CellPaths.of(GRID, 60, trips)


def page(real, synthetic, **more):
    inputs = SyntheticReportInputs(
        title="T",
        manifest={"unit": "One trip.", "promise": "P."},
        counts={"Synthetic trips": synthetic.count},
        synthetic=synthetic,
        real=real,
        figures=None if real is None else vars(synthetic_utility(real, synthetic)),
        **more,
    )
    return synthetic_report_html(inputs)


def test_every_figure_has_its_sentence_and_nothing_at_all_a_page():
    html = page(paths(EAST), paths(EAST, NORTH))
    table = html.split("<th>Meaning</th>")[1].split("</table>")[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("</tr>")[1:-1]]
    assert len(rows) == len(fields(SyntheticUtility))
    assert all(best in ("0 is best", "1 is best") and sense.endswith(".") for _, _, best, sense in rows)
    for real, made in ((paths(), paths(EAST)), (paths(EAST), paths()), (paths(), paths())):
        html = page(real, made)
        assert payload_of(html)["spread"]["hours"]["bins"] == 24
    assert "noise alone" in page(paths(), paths(EAST))


def test_shares_and_maps_have_one_scale_open_at_the_end():
    long = [(cell, cell, 0) for cell in (0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0)]
    drawn = payload_of(page(paths(EAST, NORTH, NORTH), paths(*[NORTH] * 999, long)))
    moves = drawn["spread"]["moves"]
    assert moves["open"]
    assert moves["real"] == pytest.approx([0, 0, 2 / 3, 1 / 3, 0])
    assert moves["synthetic"] == pytest.approx([0, 0, 0.999, 0, 0.001])  # the rare one is in the last bin
    both = payload_of(page(paths(EAST), paths(NORTH)))["map"]
    assert both["end"] == pytest.approx(1000)
    assert both["differenceEnd"] == pytest.approx(1000)
    assert "real" not in payload_of(page(None, paths(NORTH)))["map"]


def test_hours_are_local_also_when_clocks_change():
    start_us = np.arange(0, 400 * 86_400_000_000, 5_000_000_011)
    for zone in ("Europe/Paris", "Asia/Kathmandu", "America/St_Johns"):
        plain = [
            datetime.fromtimestamp(int(us) // 1_000_000, UTC).astimezone(ZoneInfo(zone)).hour
            for us in start_us
        ]
        assert local_hours(start_us, zone).tolist() == plain


def test_occurrences_are_those_of_a_plain_loop():
    generator = np.random.default_rng(1)
    lists = [[int(c) for c in generator.integers(0, 3, generator.integers(1, 9))] for _ in range(40)]
    some = paths(*[[(cell, i, 0) for i, cell in enumerate(cells)] for cells in lists])
    for pattern in ((0, 1), (1, 2, 0), (2, 2, 1), (0, 1, 0, 1, 0)):
        plain = sum(
            tuple(cells[at : at + len(pattern)]) == pattern for cells in lists for at in range(len(cells))
        )
        assert occurrences(some, pattern) == plain


def test_ways_are_set_side_by_side_and_replay_is_said():
    html = page(paths(EAST, EAST), paths(EAST, NORTH))
    row = html.split("0,0 → 1,0 → 2,0</td>")[1].split("</tr>")[0]
    assert re.findall(r">([\d.,]+)<", row)[:2] == ["1,000.0", "500.0"]
    assert "beyond 100" in html  # the way north is not among the real ones
    assert frequent_ways(paths([(0, 0, 0)]), paths([(1, 0, 0)])) is None

    def near(copies):
        sides = [np.concatenate([np.zeros(share), np.ones(300 - share)]) for share in copies]
        synthetic, real = (Nearest(distance_m=metres, second_m=metres + 1) for metres in sides)
        return OwnRecords(synthetic=synthetic, real=real)

    assert "no more often" in page(paths(EAST), paths(EAST), nearest=near((30, 30)))
    assert "look at them before publishing" in page(paths(EAST), paths(EAST), nearest=near((150, 30)))
