from __future__ import annotations

import h3
import numpy as np
import pytest
import shapely

from shoal.errors import ShoalError
from shoal.space.h3zones import h3_zones

PARIS = (2.25, 48.82, 2.42, 48.90)


def test_points_are_located_in_the_cell_h3_names():
    zones = h3_zones(PARIS, 8)
    rng = np.random.default_rng(1)
    x, y = rng.uniform(PARIS[0], PARIS[2], 500), rng.uniform(PARIS[1], PARIS[3], 500)
    index = {cell: k for k, cell in enumerate(zones.ids)}
    expected = [index.get(h3.latlng_to_cell(lat, lon, 8), -1) for lon, lat in zip(x, y, strict=True)]
    found = zones.locate(x, y)
    assert (found != expected).sum() <= 1  # edges are arcs in H3 and straight in degrees here
    assert (found >= 0).mean() > 0.9


def test_ids_are_sorted_and_centres_lie_in_the_area():
    area = shapely.box(*PARIS).difference(shapely.Point(2.34, 48.86).buffer(0.02))
    zones = h3_zones(area, 8)
    assert list(zones.ids) == sorted(zones.ids)
    assert all(area.contains(shapely.Point(*h3.cell_to_latlng(cell)[::-1])) for cell in zones.ids)
    assert zones.count < h3_zones(PARIS, 8).count


def test_two_parts_give_no_cell_twice():
    left, right = shapely.box(2.25, 48.82, 2.33, 48.90), shapely.box(2.34, 48.82, 2.42, 48.90)
    zones = h3_zones(shapely.MultiPolygon([left, right]), 8)
    assert len(set(zones.ids)) == zones.count
    assert set(zones.ids) == set(h3_zones(left, 8).ids) | set(h3_zones(right, 8).ids)


@pytest.mark.parametrize(
    ("code", "area", "resolution"),
    [
        ("h3-resolution", PARIS, 16),
        ("h3-resolution", PARIS, 8.0),
        ("h3-area", shapely.Point(2, 48), 8),
        ("h3-area", (2.30000, 48.85, 2.30001, 48.85001), 5),
        ("grid-size", (0, 40, 10, 50), 12),
        ("lonlat-range", (0, 0, 5000, 5000), 8),
        ("antimeridian", (179.5, -17, 180, -16), 4),
    ],
)
def test_bad_areas(code, area, resolution):
    with pytest.raises(ShoalError) as caught:
        h3_zones(area, resolution)
    assert caught.value.code == code
