""" """

import numpy as np
import pytest
import scipy.sparse
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree
from tests.loops import for_each

from shoal.errors import GeometryError, GuaranteeError
from shoal.space.checks import LONLAT, equal_area_crs, transform_xy
from shoal.space.geography import (
    LATTICE,
    AreaWeights,
    envelope,
    round_columns,
    to_plane,
    voronoi_cells,
    voronoi_weights,
)
from shoal.space.grid import square_grid
from shoal.space.places import Sites, Zones


def make_sites(xy, crs=None) -> Sites:
    xy = np.asarray(xy, float).reshape(-1, 2)
    return Sites(ids=tuple(f"S{k}" for k in range(len(xy))), x=xy[:, 0], y=xy[:, 1], crs=crs)


def make_zones(shapes, crs=None) -> Zones:
    ids = tuple(f"Z{k}" for k in range(len(shapes)))
    return Zones(ids=ids, names=ids, geometry=np.array(shapes, dtype=object), crs=crs)


def triangle_zones(side: float, parts: int) -> Zones:
    """A square of `side`, cut into 2 * parts**2 triangles: an irregular partition."""
    step, shapes = side / parts, []
    for row in range(parts):
        for column in range(parts):
            a, b = (column * step, row * step), ((column + 1) * step, row * step)
            c, d = ((column + 1) * step, (row + 1) * step), (column * step, (row + 1) * step)
            shapes += [shapely.Polygon([a, b, c]), shapely.Polygon([a, c, d])]
    return make_zones(shapes)


def dense(weights: AreaWeights) -> np.ndarray:
    return weights.matrix.toarray() / weights.lattice


def sampled_weights(sites: Sites, zones: Zones, envelope, points: int, seed: int) -> np.ndarray:
    """Oracle: throw points, find the nearest site and the zone of each, count."""
    rng = np.random.default_rng(seed)
    west, south, east, north = envelope.bounds
    xy = rng.uniform((west, south), (east, north), (points, 2))
    xy = xy[shapely.contains_xy(envelope, xy[:, 0], xy[:, 1])]
    nearest = cKDTree(np.column_stack([sites.x, sites.y])).query(xy)[1]
    counts = np.zeros((zones.count, sites.count))
    for k, shape in enumerate(zones.geometry):
        counts[k] = np.bincount(
            nearest[shapely.contains_xy(shape, xy[:, 0], xy[:, 1])], minlength=sites.count
        )
    union = shapely.union_all(zones.geometry)
    inside = shapely.contains_xy(union, sites.x, sites.y)
    whole = np.where(inside, counts.sum(axis=0), np.bincount(nearest, minlength=sites.count))
    return counts / np.maximum(whole, 1)


@pytest.mark.parametrize("seed", [1, 2])
def test_weights_against_thrown_points(seed):
    rng = np.random.default_rng(seed)
    zones = triangle_zones(1000.0, 3)
    sites = make_sites(rng.uniform(-300, 1300, (25, 2)))  # some inside, some outside
    corners = np.concatenate([np.column_stack([sites.x, sites.y]), shapely.get_coordinates(zones.geometry)])
    hull = shapely.MultiPoint(corners).convex_hull
    envelope = hull.buffer((hull.area / 25) ** 0.5)
    weights = voronoi_weights(sites, zones)
    oracle = sampled_weights(sites, zones, envelope, 400_000, seed)
    assert np.abs(dense(weights) - oracle).max() < 0.02
    assert np.abs(weights.lost - (1 - oracle.sum(axis=0))).max() < 0.02
    assert (weights.lost > 0.05).any()
    assert (weights.lost == 0).any()


def test_lonlat_weights_against_thrown_points_on_the_globe():
    """Far north a degree of longitude is a third of one of latitude: areas must not be taken in degrees."""
    zones = square_grid((18.5, 69.5, 19.5, 69.8), 6000.0)
    rng = np.random.default_rng(3)
    plane = equal_area_crs(zones.bounds)
    lon, lat = rng.uniform(18.6, 19.4, 12), rng.uniform(69.53, 69.77, 12)
    weights = voronoi_weights(make_sites(np.column_stack([lon, lat]), LONLAT), zones)
    flat = make_zones(
        [
            shapely.transform(g, lambda p: np.column_stack(transform_xy(*p.T, LONLAT, plane)))
            for g in zones.geometry
        ]
    )
    x, y = transform_xy(lon, lat, LONLAT, plane)
    flat_sites = make_sites(np.column_stack([x, y]))
    oracle = sampled_weights(flat_sites, flat, shapely.box(*flat.bounds), 300_000, 3)
    assert np.abs(dense(weights) - oracle).max() < 0.02


def test_a_column_holds_one_visit_where_zones_have_holes_and_overlaps():
    rng = np.random.default_rng(4)
    weights = voronoi_weights(make_sites(rng.uniform(1, 999, (40, 2))), triangle_zones(1000.0, 4))
    assert set(weights.matrix.sum(axis=0).tolist()) == {LATTICE}
    assert weights.column_l1 == LATTICE
    assert not weights.lost.any()
    ring = [
        shapely.box(0, 0, 300, 100),
        shapely.box(0, 200, 300, 300),
        shapely.box(0, 100, 100, 200),
        shapely.box(200, 100, 300, 200),
    ]
    weights = voronoi_weights(make_sites([(50, 50), (250, 250)]), make_zones(ring))
    assert (weights.matrix.sum(axis=0) == LATTICE).all()
    zones = make_zones([shapely.box(0, 0, 60, 100), shapely.box(40, 0, 100, 100)])
    weights = voronoi_weights(make_sites([(50, 50), (500, 50)]), zones)
    assert weights.column_l1 == LATTICE


def test_order_changes_nothing_and_sites_on_one_mast_have_the_weights_of_one():
    rng = np.random.default_rng(5)
    xy = rng.uniform(-100, 1100, (60, 2))
    xy[10] = xy[40]
    zones = triangle_zones(1000.0, 4)
    shuffle = rng.permutation(60)
    plain, shuffled = voronoi_weights(make_sites(xy), zones), voronoi_weights(make_sites(xy[shuffle]), zones)
    assert (plain.matrix.toarray()[:, shuffle] == shuffled.matrix.toarray()).all()
    assert (plain.lost[shuffle] == shuffled.lost).all()
    rng = np.random.default_rng(6)
    xy = rng.uniform(0, 1000, (10, 2))
    zones = triangle_zones(1000.0, 2)
    single = voronoi_weights(make_sites(xy), zones).matrix.toarray()
    double = voronoi_weights(make_sites(np.concatenate([xy, xy[:3], xy[:1] + 1e-5])), zones).matrix.toarray()
    assert (double[:, :10] == single).all()
    assert (double[:, 10:13] == single[:, :3]).all()
    assert (double[:, 13] == single[:, 0]).all()


@for_each("xy", [[(5, 5)], [(2, 5), (8, 5)], [(2, 2), (5, 5), (8, 8)], [(1, 1), (1, 9), (9, 1), (9, 9)]])
def test_few_collinear_and_cocircular_sites(xy):
    halves = make_zones([shapely.box(0, 0, 5, 10), shapely.box(5, 0, 10, 10)])
    weights = voronoi_weights(make_sites(xy), halves)
    assert (weights.matrix.sum(axis=0) == LATTICE).all()
    # By symmetry, or because each cell is one half: areas over all sites are shared evenly.
    assert weights.matrix.sum(axis=1).tolist() == [len(xy) * LATTICE // 2] * 2


def test_a_city_larger_than_the_zones_costs_weight():
    zones = make_zones([shapely.box(0, 0, 100, 100)])
    sites = make_sites([(50, 50)])
    assert voronoi_weights(sites, zones).lost[0] == 0
    wide = voronoi_weights(sites, zones, city=shapely.box(0, 0, 400, 100))
    assert wide.lost[0] == pytest.approx(0.75)
    assert wide.column_l1 == LATTICE // 4


def test_sites_and_zones_in_different_coordinates_agree():
    lonlat = square_grid((2.25, 48.82, 2.42, 48.90), 1500.0)
    rng = np.random.default_rng(7)
    xy = np.column_stack([rng.uniform(2.26, 2.41, 20), rng.uniform(48.83, 48.89, 20)])
    x, y = transform_xy(xy[:, 0], xy[:, 1], LONLAT, "EPSG:2154")
    same = voronoi_weights(make_sites(xy, LONLAT), lonlat)
    mixed = voronoi_weights(make_sites(np.column_stack([x, y]), "EPSG:2154"), lonlat)
    assert np.abs((same.matrix - mixed.matrix).toarray()).max() <= LATTICE * 1e-5


@for_each(
    ("code", "xy", "crs"),
    [
        ("crs-mixed", [(2.3, 48.85)], None),
        ("sites-swapped", [(48.85, 2.3)], LONLAT),
        ("sites-away", [(-122.4, 37.7)], LONLAT),
        ("empty-file", [], LONLAT),
    ],
)
def test_sites_that_do_not_fit_the_zones(code, xy, crs):
    zones = square_grid((2.25, 48.82, 2.42, 48.90), 3000.0)
    with pytest.raises(GeometryError, match=code):
        voronoi_weights(make_sites(xy, crs), zones)


def test_spread_is_the_exact_integer_product_or_refused():
    rng = np.random.default_rng(8)
    weights = voronoi_weights(make_sites(rng.uniform(0, 1000, (30, 2))), triangle_zones(1000.0, 3))
    counts = rng.integers(0, 2**36, (30, 5))  # float64 would lose the last bits
    expected = weights.matrix.toarray().astype(object) @ counts.astype(object)
    assert (weights.spread(counts).astype(object) == expected).all()
    assert weights.spread(counts).dtype == np.int64
    weights = AreaWeights.identity(2)
    with pytest.raises(GuaranteeError):
        weights.spread(np.array([[2**45], [0]]))
    with pytest.raises(GeometryError):
        weights.spread(np.zeros((3, 1), np.int64))
    with pytest.raises(GeometryError):
        weights.spread(np.zeros((2, 1)))


def test_norms_and_shares_against_dense_columns():
    rng = np.random.default_rng(9)
    weights = voronoi_weights(make_sites(rng.uniform(-500, 1500, (30, 2))), triangle_zones(1000.0, 3))
    columns = weights.matrix.toarray().astype(object)
    assert weights.column_l1 == max(columns.sum(axis=0))
    assert weights.column_l2_squared == max((columns**2).sum(axis=0))
    half = LATTICE // 2
    matrix = scipy.sparse.csr_array(np.array([[LATTICE, 0], [0, half], [0, 0]]))
    weights = AreaWeights(matrix=matrix, lattice=LATTICE, lost=np.zeros(2))
    np.testing.assert_allclose(weights.site_share, [1.0, 0.5, 0.0])
    assert (AreaWeights.identity(4).matrix.toarray() == LATTICE * np.eye(4)).all()


@pytest.mark.parametrize("entries", [[[LATTICE + 1]], [[LATTICE], [1]], [[-1]]])
def test_weights_above_one_visit_are_refused(entries):
    matrix = scipy.sparse.csr_array(np.array(entries, np.int64))
    with pytest.raises(GuaranteeError):
        AreaWeights(matrix=matrix, lattice=LATTICE, lost=np.zeros(1))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=12).filter(
            lambda c: sum(c) > 1e-3
        ),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.floats(1e-5, 1), min_size=6, max_size=6),
)
def test_rounding_keeps_sums_and_stays_near(columns, kept):
    column = np.repeat(np.arange(len(columns)), [len(c) for c in columns])
    share = np.concatenate([np.array(c) / sum(c) * k for c, k in zip(columns, kept, strict=False)])
    total = np.array(kept[: len(columns)])
    units = round_columns(column, share, total)
    exact = share * LATTICE
    assert (units >= 0).all()
    assert (units[exact < 1] == 0).all()
    for j in range(len(columns)):
        mine = column == j
        whole = int(np.floor(total[j] * LATTICE))
        if (exact[mine] >= 1).any():
            assert units[mine].sum() == whole
            assert whole <= LATTICE
        slack = (mine & (exact < 1)).sum() + 1  # what vanished slivers hand on, plus rounding
        assert (np.abs(units[mine] - exact[mine]) < slack + 1e-6).all()


@for_each(
    ("exact", "units"),
    [
        ([2.875, 3.25, 4.875], [3, 3, 5]),
        ([2.25, 3.75, 5.0], [2, 4, 5]),
        ([2.5, 3.5], [3, 3]),  # a tie goes to the earlier zone
        ([0.75, 3.25], [0, 4]),  # a sliver vanishes, what it held goes to the rest
        ([0.5, 0.75], [0, 0]),
    ],
)
def test_rounding_by_largest_remainder(exact, units):
    share = np.array(exact) / LATTICE  # exact in binary
    found = round_columns(np.zeros(len(exact), int), share, np.array([share.sum()]))
    assert found.tolist() == units


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


def test_positions_that_agree_to_the_millimetre_are_one_and_a_single_one_owns_the_envelope():
    plane = plane_of([[0, 0], [500, 500], [0.0002, 0.0001], [500, 500]])
    assert len(plane.xy) == 2
    assert plane.cell_of_site[0] == plane.cell_of_site[2] != plane.cell_of_site[1]
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
