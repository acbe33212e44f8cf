"""Tests of drawn noise for repeated values, correlated cells and a coarser lattice.

For each spend of a mechanism the primitive is called twice, at the mechanism's scale, on an empty table of a
few zones and many slots, so that it returns its noise alone. True noise fails each of the about fifty tests
with probability about 2e-9 (six deviations). Noise that is used again is always detected, and so is a
correlation above 0.05 (0.11 in a quick audit).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import chi2, rankdata

from shoal.auditing.lower_bounds import Query
from shoal.privacy.noise import PARALLEL_FROM, Noise, OsNoise

DEVIATIONS = 6.0
ZONES, CALLS = 4, 2
SLOTS = 10_000  # with the zones as many draws as make the noise module use a second process
SINGLES = 40
SLACK = 20  # repeats more than the normal limit, since small numbers of them are not normal
FAMILIES = {"laplace": "discrete laplace", "gaussian": "discrete gaussian"}
PART = 15_000  # draws of one process that are looked at
SCALES = (("laplace", 1.45), ("laplace", 2.6), ("gaussian", 0.7), ("gaussian", 1.45), ("gaussian", 1.45e6))
MODULI = (3, 5, 7, 11, 13, 256)


@dataclass(frozen=True, eq=False)
class Drawn:
    """Noise in lattice units [calls, zones, slots], and what it claims to be."""

    units: np.ndarray
    family: str
    scale: float
    singles: tuple[int, ...] = ()  # the same number, asked for again and again


def draw_noise(queries: list[Query], noise: Noise, *, slots: int = SLOTS) -> list[Drawn]:
    """The noise of an empty table for each spend at its scale: two calls, one after the other."""
    of_spend = {query.name: query for query in queries if query.kind in FAMILIES}

    def draw(query: Query, *shape: int) -> np.ndarray:
        return getattr(noise, query.kind)(query.name, np.zeros(shape, np.int64), query.scale)

    return [
        Drawn(
            np.stack([draw(query, ZONES, slots) for _ in range(CALLS)]),
            FAMILIES[query.kind],
            query.scale,
            tuple(int(draw(query, 1)[0]) for _ in range(SINGLES)),
        )
        for query in of_spend.values()
    ]


def noise_faults(drawn: Drawn) -> Iterator[str]:
    """Everything that true noise would not show."""
    fine = drawn.scale >= 32  # below it values come again, and remainders differ, as they should
    # At a scale of 1 all of them are equal with probability 2e-13.
    if len(drawn.singles) > 1 and drawn.scale >= 1 and len(set(drawn.singles)) == 1:
        yield "a single number has the same noise whenever it is asked for"
    yield from correlations(drawn)
    yield from residues(drawn) if fine else ()
    yield from repeats(drawn) if fine else ()


def scale_faults() -> list[str]:
    """Scales that this process and its children draw at, against those asked for, from the size of the noise.

    Large draws are shared among processes; the first come from this one, the last from its child.
    """
    noise, faults = OsNoise(processes=2), []
    for kind, scale in SCALES:
        drawn = getattr(noise, kind)("scale", np.zeros(PARALLEL_FROM, np.int64), scale)
        for whose, part in (("this process", drawn[:PART]), ("a child process", drawn[-PART:])):
            if kind == "laplace":  # mean size of discrete Laplace noise
                size, expected = np.abs(part), 1 / np.sinh(1 / scale)
            else:  # variance of a rounded normal
                size, expected = np.square(part.astype(np.float64)), scale**2 + 1 / 12
            if abs(size.mean() - expected) > DEVIATIONS * size.std() / np.sqrt(size.size):
                faults.append(f"{kind} noise of {whose} is not of scale {scale:g}")
    return faults


def repeats(drawn: Drawn) -> Iterator[str]:
    """More pairs of equal values than independent draws have."""
    n = drawn.units.size
    _, times = np.unique(drawn.units, return_counts=True)
    equal = int((times * (times - 1) // 2).sum())
    # Mean of the probability of a drawn value, and of its square: sums of P^2 and P^3 over the lattice.
    if drawn.family == "discrete laplace":
        one, two = 1 / (4 * drawn.scale), 1 / (12 * drawn.scale**2)
    else:
        one, two = 1 / (2 * np.sqrt(np.pi) * drawn.scale), 1 / (2 * np.sqrt(3) * np.pi * drawn.scale**2)
    expected = n * (n - 1) / 2 * one
    deviation = np.sqrt(expected + n**3 * (two - one**2))
    if equal > expected + DEVIATIONS * deviation + SLACK:
        yield f"noise comes again: {equal:,} equal pairs, about {expected:,.0f} expected"


def residues(drawn: Drawn) -> Iterator[str]:
    """Remainders, bit by bit and by small numbers, are uniform: noise uses the whole lattice."""
    step = int(np.gcd.reduce(drawn.units, axis=None))
    if step != 1:
        yield f"noise is a multiple of {step} lattice steps"
        return
    flat = drawn.units.ravel()
    # The law is flat to one part in a thousand over a 32nd of its scale.
    for bit in range(int(np.log2(drawn.scale / 32))):
        share = np.mean((flat >> bit) & 1)
        if abs(share - 0.5) * 2 * np.sqrt(flat.size) > DEVIATIONS:
            yield f"bit {bit} of the noise is set in {share:.1%} of the draws"
    for modulus in MODULI:
        if modulus * 32 <= drawn.scale:
            counts = np.bincount(flat % modulus, minlength=modulus)
            expected = flat.size / modulus
            if chi2.sf(((counts - expected) ** 2).sum() / expected, modulus - 1) < 2e-9:
                yield f"remainders of the noise by {modulus} are not uniform"


def correlations(drawn: Drawn) -> Iterator[str]:
    """Ranks of values, sizes and signs do not go together between zones, slots and calls."""
    for what, measure in (("values", np.asarray), ("sizes", np.abs), ("signs", np.sign)):
        # Ranks bound the influence of the tails, so that the deviation is that of a normal; ties share one.
        ranks = rankdata(measure(drawn.units).ravel()).reshape(drawn.units.shape)
        for place, one, other in _places(ranks):
            if np.ptp(one) == 0 or np.ptp(other) == 0:  # noise far below a lattice step, or on one side only
                continue
            correlation = np.corrcoef(one.ravel(), other.ravel())[0, 1]
            if abs(correlation) * np.sqrt(one.size) > DEVIATIONS:
                yield f"{what} of the noise go together in {place}: correlation {correlation:.3f}"


def _places(cells: np.ndarray) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    yield "two calls", cells[0], cells[1]
    yield "neighbouring slots", cells[:, :, :-1], cells[:, :, 1:]
    half = cells.shape[2] // 2
    yield "slots half the window apart", cells[:, :, :half], cells[:, :, half : 2 * half]
    for one, other in combinations(range(cells.shape[1]), 2):
        yield f"zones {one} and {other}", cells[:, one], cells[:, other]
