"""Maps of cells as a page draws them: blocks of cells where there are too many, the end of the colours."""

from __future__ import annotations

import numpy as np

MOST_DRAWN = 256  # cells along a side of a map; finer ones are drawn in blocks
COLOUR_QUANTILE = 0.995  # the few fullest cells share the last colour


def drawn_blocks(faces: np.ndarray) -> tuple[np.ndarray, int]:
    """Means of square blocks of cells, where a side has more than can be told apart."""
    block = -(-max(faces.shape) // MOST_DRAWN)
    if block == 1:
        return faces, 1
    rows, columns = (-(-side // block) for side in faces.shape)
    padded = np.full((rows * block, columns * block), np.nan)
    padded[: faces.shape[0], : faces.shape[1]] = faces
    return np.nanmean(padded.reshape(rows, block, columns, block), axis=(1, 3)), block


def colour_end(values: np.ndarray) -> float:
    """The value that the last colour stands for."""
    some = values[values > 0]
    return float(np.quantile(some, COLOUR_QUANTILE)) if some.size else 1.0
