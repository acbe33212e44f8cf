import numpy as np
import pytest
import shapely
from scipy.spatial import cKDTree
from tests.loops import for_each

from shoal.space.geography import envelope, to_plane, voronoi_cells
from shoal.space.places import Sites, Zones


def plane_of(xy, side=1000.0):
    xy = np.asarray(xy, float)
    ids = tuple(f"S{k}" for k in range(len(xy)))
    west, south = xy.min(axis=0)
    zone = np.array([shapely.box(west, south, west + side, south + side)], dtype=object)
    return to_plane(Sites(ids, xy[:, 0], xy[:, 1], None), Zones(("Z",), ("Z",), zone, None))


def square_lattice(columns, rows, step=100.0):
    x, y = np.meshgrid(np.arange(columns) * step, np.arange(rows) * step)
    return np.column_stack([x.ravel(), y.ravel()])


RNG_SITES = np.random.default_rng(1).uniform(0, 1000, (300, 2))
LAYOUTS = {
    "random": RNG_SITES,
    "square square_lattice": square_lattice(12, 9),  # four cocircular sites at every corner
    "one line": np.column_stack([np.linspace(0, 1000, 20), np.linspace(0, 1000, 20)]),
    "two": np.array([[0.0, 0.0], [1000.0, 0.0]]),
    "clusters millimetres wide": np.concatenate([RNG_SITES[:20] + k * 0.003 for k in range(5)]),
    "far from the origin": RNG_SITES + np.array([650_000.0, 6_860_000.0]),
    "one far away": np.concatenate([RNG_SITES[:30], [[9000.0, 500.0]]]),
}


@for_each("name", LAYOUTS)
def test_cells_part_the_envelope_and_hold_what_is_nearest(name):
    plane = plane_of(LAYOUTS[name])
    cells, bound = voronoi_cells(plane), envelope(plane)
    assert len(cells) == len(plane.xy)
    assert shapely.is_valid(cells).all()
    assert shapely.area(cells).sum() == pytest.approx(bound.area, rel=1e-9)
    rng = np.random.default_rng(2)
    west, south, east, north = bound.bounds
    points = rng.uniform((west, south), (east, north), (2000, 2))
    points = points[shapely.contains_xy(bound, points[:, 0], points[:, 1])]
    distance, nearest = cKDTree(plane.xy).query(points, k=2)
    clear = distance[:, 1] - distance[:, 0] > 1e-6
    inside = shapely.contains_xy(cells[nearest[clear, 0]], points[clear, 0], points[clear, 1])
    assert clear.sum() > 1000
    assert inside.all()


def test_positions_that_agree_to_the_millimetre_are_one():
    plane = plane_of([[0, 0], [500, 500], [0.0002, 0.0001], [500, 500]])
    assert len(plane.xy) == 2
    assert plane.cell_of_site[0] == plane.cell_of_site[2] != plane.cell_of_site[1]


def test_a_single_site_owns_the_envelope():
    plane = plane_of([[10.0, 10.0]])
    assert voronoi_cells(plane)[0].equals(envelope(plane))


def test_zones_that_share_part_of_a_long_edge_still_meet_in_the_plane():
    """A degree of a parallel bends by a hundred metres in the plane; a neighbour's corner lies on it."""
    shapes = [shapely.box(2, 48, 3, 49), shapely.box(2, 49, 2.5, 50), shapely.box(2.5, 49, 3, 50)]
    zones = Zones(("a", "b", "c"), ("a", "b", "c"), np.array(shapes, dtype=object), "EPSG:4326")
    plane = to_plane(Sites(("S",), np.array([2.5]), np.array([49.2]), "EPSG:4326"), zones)
    area = shapely.area(plane.zones)
    union = shapely.union_all(plane.zones)
    holes = sum(shapely.Polygon(ring).area for part in shapely.get_parts(union) for ring in part.interiors)
    assert abs(area.sum() - union.area) / area.sum() < 1e-7
    assert holes / area.sum() < 1e-7
