"""The nearest consistent Euler histogram: against HiGHS, by hand, and at the edges of the grid."""

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import block_diag, coo_array, eye_array, hstack, vstack
from tests.loops import for_each

from shoal.errors import PlanError
from shoal_baselines.postprocess.euler_consistent import consistent, violations


def flat(parts):
    return np.concatenate([np.ravel(part) for part in parts])


def order_matrix(rows, columns):
    """One row per (edge, face) pair: edge - face, which must be <= 0. Columns as in `flat`."""
    pairs = []
    edge = rows * columns
    for down, right in ((0, 1), (1, 0)):
        for r in range(rows - down):
            for c in range(columns - right):
                pairs += [(edge, r * columns + c), (edge, (r + down) * columns + c + right)]
                edge += 1
    if not pairs:
        return coo_array((0, edge))
    edges, faces = np.array(pairs).T
    line = np.arange(len(pairs))
    ones = np.ones(len(pairs))
    entries = (np.append(ones, -ones), (np.append(line, line), np.append(edges, faces)))
    return coo_array(entries, shape=(len(pairs), edge))


def by_highs(histograms, lean=0.0):
    """The linear program of all `histograms` at once: values = given + up - down, at the least up + down.

    A small `lean` picks, of the nearest ones, that with the least sum.
    """
    given = np.concatenate([flat(each) for each in histograms])
    order = block_diag([order_matrix(*each[0].shape) for each in histograms])
    rules = vstack([order, -eye_array(len(given))]).tocsr()
    cost = np.repeat([1.0 + lean, 1.0 - lean], len(given))
    solved = linprog(cost, A_ub=hstack([rules, -rules]), b_ub=-rules @ given, method="highs")
    assert solved.status == 0
    up, down = np.split(solved.x, 2)
    return np.split(given + up - down, np.cumsum([flat(each).size for each in histograms])[:-1])


def histogram(rng, rows, columns):
    """Independent faces and edges of one of several kinds: ties, zeros and negatives among them."""
    draw = [
        lambda shape: rng.integers(0, 4, shape),
        lambda shape: rng.integers(-3, 20, shape),
        lambda shape: rng.random(shape) * 10,
        lambda shape: rng.normal(0, 5, shape),
        lambda shape: rng.integers(0, 6, shape) / 3 + 0.1,
        lambda shape: np.where(rng.random(shape) < 0.5, 0.0, rng.exponential(3, shape)),
    ][rng.integers(6)]
    shapes = (rows, columns), (rows, columns - 1), (rows - 1, columns)
    lift = rng.choice([0.0, 0.0, 1.0, 3.0])
    return tuple(np.asarray(draw(shape), float) + lift * (k == 0) for k, shape in enumerate(shapes))


def assert_exactly_consistent(faces, east, north):
    assert min(part.min(initial=0.0) for part in (faces, east, north)) >= 0
    assert (east <= faces[:, :-1]).all()
    assert (east <= faces[:, 1:]).all()
    assert (north <= faces[:-1]).all()
    assert (north <= faces[1:]).all()


@for_each("seed", range(10))
def test_as_near_as_the_linear_program(seed):
    rng = np.random.default_rng(seed)
    given = [histogram(rng, *rng.integers(2, 7, 2)) for _ in range(100)]
    for each, best in zip(given, by_highs(given), strict=True):
        made = consistent(*each)
        assert_exactly_consistent(*made)
        least = np.abs(best - flat(each)).sum()
        assert np.abs(flat(made) - flat(each)).sum() == pytest.approx(least, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_of_the_nearest_the_least_is_given(seed):
    """With at most 96 values, a lean of 1 / 1024 never outweighs a change of the distance."""
    rng = np.random.default_rng(100 + seed)
    given = [histogram(rng, *rng.integers(2, 7, 2)) for _ in range(100)]
    for each, best in zip(given, by_highs(given, lean=1 / 1024), strict=True):
        assert flat(consistent(*each)) == pytest.approx(best, abs=1e-7)


@for_each("shape", [(40, 40), (1, 300), (300, 1), (2, 150)])
def test_large_connected_violations(shape):
    rng = np.random.default_rng(7)
    parts = (rng.random(shape), rng.random((shape[0], shape[1] - 1)), rng.random((shape[0] - 1, shape[1])))
    made = consistent(*parts)
    assert_exactly_consistent(*made)
    (best,) = by_highs([parts])
    assert np.abs(flat(made) - flat(parts)).sum() == pytest.approx(np.abs(best - flat(parts)).sum(), rel=1e-7)


def row(faces, east):
    return np.array([faces], float), np.array([east], float), np.empty((0, len(faces)))


@for_each(
    ("given", "made"),
    [
        # one edge above both faces: lowering it costs 2, raising both 4
        (row([1, 1], [3]), row([1, 1], [1])),
        # two edges above the same face: raising it costs 1, lowering both 2
        (row([3, 1, 4], [2, 2]), row([3, 2, 4], [2, 2])),
        # up to 1 the middle face is worth raising (1 against 2), above it is not (2 against 2, 1 against 1)
        (row([4, 0, 1], [5, 3]), row([4, 1, 1], [1, 1])),
        # one edge above one face: both cost the same, and the edge comes down
        (row([1, 9], [3]), row([1, 9], [1])),
        # below 0 is 0, at first
        (row([-2, 5], [-1]), row([0, 5], [0])),
        (row([-2, 5], [1]), row([0, 5], [0])),
    ],
)
def test_worked_by_hand(given, made):
    for got, wanted in zip(consistent(*given), made, strict=True):
        assert got.tolist() == wanted.tolist()


def test_raised_by_four_edges_and_untouched_where_nothing_is_violated():
    faces = np.full((3, 3), 9.0)
    faces[1, 1] = 0.0
    east, north = np.zeros((3, 2)), np.zeros((2, 3))
    east[1], north[:, 1] = [1, 2], [3, 4]
    made = consistent(faces, east, north)
    assert made[0][1, 1] == 3.0  # up to 3 at least two edges want it; above, one, which comes down
    assert made[1][1].tolist() == [1, 2]
    assert made[2][:, 1].tolist() == [3, 3]
    rng = np.random.default_rng(3)
    faces, east, north = rng.random((8, 8)) + 1, rng.random((8, 7)), rng.random((7, 8))
    east[4, 4] = 5.0
    before = [part.copy() for part in (faces, east, north)]
    made = consistent(faces, east, north)
    assert [np.flatnonzero(a != b).size for a, b in zip(made, before, strict=True)] == [0, 1, 0]
    assert made[1][4, 4] == min(faces[4, 4], faces[4, 5])  # it then is one edge against two faces, or one
    assert all((a == b).all() for a, b in zip((faces, east, north), before, strict=True))


@for_each("shape", [(1, 1), (1, 6), (6, 1), (2, 2), (5, 4)])
def test_all_equal_stays(shape):
    parts = (
        np.full(shape, 3.7),
        np.full((shape[0], shape[1] - 1), 3.7),
        np.full((shape[0] - 1, shape[1]), 3.7),
    )
    assert all((got == part).all() for got, part in zip(consistent(*parts), parts, strict=True))
    assert violations(*parts)[0] == 0


@for_each("seed", range(5))
def test_twice_is_once_and_mirrored_is_mirrored(seed):
    parts = histogram(np.random.default_rng(seed), 12, 9)
    made = consistent(*parts)
    assert violations(*made)[0] == 0
    assert (flat(consistent(*made)) == flat(made)).all()
    mirrored = consistent(*(part[::-1] for part in parts))
    assert all((a[::-1] == b).all() for a, b in zip(mirrored, made, strict=True))
    faces, north, east = consistent(parts[0].T, parts[2].T, parts[1].T)
    assert all((b == a.T).all() for a, b in zip((faces, east, north), made, strict=True))


def test_violations_are_counted_each():
    given = row([-1, 2, 3], [1, 5])  # -1 < 0; 1 > -1; 5 > 2; 5 > 3
    assert violations(*given) == (4, 4 + 5)
    rounding = row([0.1 + 0.2 - 1e-12, 1], [0.1 + 0.2])
    assert violations(*rounding) == (0, 2 + 3)
    assert violations(np.array([[0.0]]), np.empty((1, 0)), np.empty((0, 1))) == (0, 1)


@for_each(
    ("given", "code"),
    [
        ((np.ones((2, 2)), np.ones((2, 2)), np.ones((1, 2))), "euler-shape"),
        ((np.ones((2, 3)), np.ones((1, 3)), np.ones((2, 2))), "euler-shape"),
        ((np.ones(3), np.ones(2), np.ones(0)), "euler-shape"),
        (row([1, np.nan], [0]), "euler-values"),
        (row([1, np.inf], [0]), "euler-values"),
    ],
)
@for_each("function", [consistent, violations])
def test_what_is_no_histogram_is_refused(function, given, code):
    with pytest.raises(PlanError) as refused:
        function(*given)
    assert refused.value.code == code
