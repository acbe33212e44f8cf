"""The Hilbert order: every cell once, each a neighbour of the last, quarters one after the other."""

import numpy as np
import pytest
from tests.loops import for_each

from shoal_baselines.postprocess.cells import hilbert_order


@for_each("side", [1, 2, 4, 32])
def test_steps_go_to_neighbours(side):
    order = hilbert_order(side, side)
    assert sorted(order.tolist()) == list(range(side * side))
    row, column = np.divmod(order, side)
    assert (np.abs(np.diff(row)) + np.abs(np.diff(column)) == 1).all()


def test_dyadic_pieces_are_squares():
    row, column = np.divmod(hilbert_order(16, 16), 16)
    for length in (4, 16, 64):
        side = int(length**0.5)
        pieces = np.stack([row // side, column // side]).reshape(2, -1, length)
        assert (pieces == pieces[:, :, :1]).all()


@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (1, 7), (9, 2)])
def test_other_grids_have_every_cell_once(rows, columns):
    assert sorted(hilbert_order(rows, columns).tolist()) == list(range(rows * columns))
