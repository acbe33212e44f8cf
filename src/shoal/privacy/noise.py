"""The one place that draws randomness for privacy, and the scale of noise that a budget allows.

A `Noise` takes the exact query and returns the noisy answer, so that an audit can record the answers
given on one data set and hand them out again on its neighbour (shoal/auditing/replay.py).

Primitives, all on integers of a public lattice:
  laplace   exact + discrete Laplace,  P(z) ~ exp(-|z| / scale)      cost  |dq|_1 / scale  (pure)
  gaussian  exact + rounded Gaussian of deviation sigma              cost  |dq|_2^2 / (2 sigma^2)  (GDP, zCDP)
  choose    index i with P(i) ~ exp(score_i / scale)                 cost  r^2 / 8 (zCDP) or r (pure),
            r = (max - min of the score change) / scale, the bounded range of the exponential mechanism
  run_key   16 secret bytes that key the engine's choices of visits; never stored, never printed

`OsNoise` draws through OpenDP's samplers, seeded by the operating system, with exact arithmetic: no
floating-point tails. Gaussian noise is discrete Gaussian noise on a lattice finer by a power of two, on which
sigma is at least 2^52 steps, rounded to the lattice of the query. Rounding commutes with whole shifts, so it
is post-processing: the cost under zCDP is that of the discrete Gaussian, exactly, and the curve of the
continuous one holds up to a total variation below 2e-27 (gaussian.py). `SeededNoise` is for tests and
repeatable experiments; what it makes is not publishable, and the ledger refuses it.

The two families of noise have the scale that a budget allows, and the exact cost of a scale. `power` is the
most that one unit changes a query by: the L1 norm of the change for discrete Laplace noise, its squared L2
norm for discrete Gaussian noise. With n the norm of the family and s the scale,

    cost = power / (n s^n),        so epsilon = power / s and rho = power / (2 s^2).

A choice with P(i) ~ exp(score_i / s), each score moved by at most `shift`, has the bounded range
r = 2 shift / s and costs epsilon = r or rho = r^2 / 8: the cost of noise on a power of 2 shift or shift^2.

>>> Adder.within(GAUSSIAN, 1_000_000, 30).cost(30).rho_nano
1000000
>>> Adder.within(LAPLACE, 10**9, 30).scale
30.0

The sparse vector technique is one more primitive: which of many values is the first above a threshold.

first_above   smallest i with margin_i + Laplace(2 scale) >= Laplace(scale), or the number of values if none
              cost  2 |dq|_inf / scale  (pure), however many values there are

Margins are values less the threshold, in whole lattice units. One draw for the threshold, a fresh one for
each value; nothing but the index comes out. This is AboveThreshold (Dwork and Roth 2014, algorithm 1) for one
answer above: after it, a new call draws a new threshold. The proof fixes the noise of all values before i.
With the user the threshold's noise is moved by |dq|_inf, which costs |dq|_inf / scale, and the noise of
value i by 2 |dq|_inf, which costs 2 |dq|_inf / (2 scale). Noise and moves are whole numbers, so it holds on
the lattice.

The noise of single values is never seen, so recording it as answers would overstate the cost. The audit
therefore has noises with a `first_above` of their own, which are asked instead of two draws from here.

>>> first_above(SeededNoise(1), "test", np.array([-900, -900, 900, 900]), 10.0)
2
"""

from __future__ import annotations

import math
import os
import secrets
import subprocess
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np

from shoal.errors import GuaranteeError
from shoal.privacy.accounting import NANO, Allowance, Budget, Loss, ceil_nano, compose
from shoal.privacy.gaussian import FINEST

LARGEST = 2**61  # of counts and of noise: their sum stays inside int64
MOST_FINER = 61
LARGEST_SCALE = 2.0**55  # noise beyond LARGEST is then a matter of e^-64
PARALLEL_FROM = 40_000  # draws; below this a second process costs more than it saves


@runtime_checkable
class Noise(Protocol):
    """Source of the noisy answers of a mechanism."""

    publishable: bool

    def run_key(self) -> bytes: ...
    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray: ...
    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray: ...
    def choose(self, name: str, scores: np.ndarray, scale: float) -> int: ...


class OsNoise:
    """Noise from the operating system's entropy through OpenDP's discrete samplers."""

    publishable = True

    def __init__(self, processes: int | None = None) -> None:
        self._processes = processes or min(os.cpu_count() or 1, 8)

    def run_key(self) -> bytes:
        return secrets.token_bytes(16)

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        return _add("laplace", exact, scale, self._processes)

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        return _add("gaussian", exact, sigma, self._processes)

    def choose(self, name: str, scores: np.ndarray, scale: float) -> int:
        _check_query(scores, scale)
        from opendp.measurements import make_noisy_max
        from opendp.measures import zero_concentrated_divergence
        from opendp.metrics import linf_distance

        # Under the zCDP measure OpenDP adds Gumbel noise, which is the exponential mechanism exactly.
        pick = make_noisy_max(_vectors(), linf_distance(T="i64"), zero_concentrated_divergence(), scale=scale)
        return int(pick(scores.tolist()))


class SeededNoise:
    """The same distributions from a seed: repeatable, for tests and experiments, never publishable."""

    publishable = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed))

    def run_key(self) -> bytes:
        return self._generator.bytes(16)

    def laplace(self, name: str, exact: np.ndarray, scale: float) -> np.ndarray:
        _check_query(exact, scale)
        # The difference of two geometrics is discrete Laplace.
        p = -np.expm1(-1.0 / scale)
        draws = self._generator.geometric(p, (2, *exact.shape))
        return exact + (draws[0] - draws[1])

    def gaussian(self, name: str, exact: np.ndarray, sigma: float) -> np.ndarray:
        _check_query(exact, sigma)
        return exact + np.rint(self._generator.normal(0.0, sigma, exact.shape)).astype(np.int64)

    def choose(self, name: str, scores: np.ndarray, scale: float) -> int:
        _check_query(scores, scale)
        return int(np.argmax(scores / scale + self._generator.gumbel(size=scores.shape)))


def _check_query(exact: np.ndarray, scale: float) -> None:
    if not isinstance(exact, np.ndarray) or exact.dtype != np.int64:
        raise GuaranteeError("noise-lattice", "noise is drawn on 64-bit integers of a public lattice only.")
    if not 0 < scale <= LARGEST_SCALE:
        raise GuaranteeError("noise-scale", "the scale of the noise must be above 0 and fit the lattice.")
    if exact.size and (int(exact.min()) < -LARGEST or int(exact.max()) > LARGEST):
        raise GuaranteeError("noise-lattice", "the counts do not fit the lattice; use a coarser one.")


def _add(kind: str, exact: np.ndarray, scale: float, processes: int) -> np.ndarray:
    """exact + integer noise. Noise does not depend on `exact`, so it may be drawn elsewhere."""
    _check_query(exact, scale)
    if exact.size < PARALLEL_FROM or processes < 2:
        noise = draw(kind, scale, exact.size)
    else:
        noise = _draw_in_processes(kind, scale, exact.size, processes)
    return exact + noise.reshape(exact.shape)


def draw(kind: str, scale: float, count: int) -> np.ndarray:
    """`count` independent draws of integer noise, by OpenDP's measurement on a vector of zeros."""
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance

    finer = 0  # powers of two
    if kind == "laplace":
        measurement = make_laplace(_vectors(), l1_distance(T="i64"), scale=scale)
    else:
        finer = min(max(FINEST + 1 - math.frexp(scale)[1], 0), MOST_FINER)
        measurement = make_gaussian(_vectors(), l2_distance(T="i64"), scale=math.ldexp(scale, finer))
    noise = np.empty(count, dtype=np.int64)
    for start in range(0, count, 10_000):
        stop = min(count, start + 10_000)
        noise[start:stop] = measurement([0] * (stop - start))
    # OpenDP saturates at the ends of int64; far inside them the addition is exact.
    if count and (int(noise.min()) < -LARGEST or int(noise.max()) > LARGEST):
        raise GuaranteeError("noise-scale", "the noise does not fit the lattice; use a coarser one.")
    return (noise + (1 << finer >> 1)) >> finer  # to the nearest step, halves up


def _vectors():
    from opendp.domains import atom_domain, vector_domain
    from opendp.mod import enable_features

    enable_features("contrib")
    return vector_domain(atom_domain(T="i64"))


def _draw_in_processes(kind: str, scale: float, count: int, processes: int) -> np.ndarray:
    """The sampler holds the interpreter, so more cores need more processes; they share nothing but a pipe."""
    shares = [count // processes + (i < count % processes) for i in range(processes)]
    # -P: nothing is imported from the working directory, which may hold anything.
    command = [sys.executable, "-P", "-m", "shoal.privacy.noise", kind, float(scale).hex()]
    children = [
        subprocess.Popen([*command, str(share)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        for share in shares[1:]
    ]
    own = draw(kind, scale, shares[0])
    outputs = [child.communicate()[0] for child in children]
    for child, output, share in zip(children, outputs, shares[1:], strict=True):
        if child.returncode != 0 or len(output) != 8 * share:
            raise GuaranteeError(
                "noise-process", "a process that draws noise ended early; nothing was released."
            )
    return np.concatenate([own, *(np.frombuffer(output, dtype=np.int64) for output in outputs)])


Z95 = 1.959964
FARTHEST = 2.0**59  # estimates beyond this are cut, so that scores fit the lattice of the noise


@dataclass(frozen=True)
class Family:
    """A distribution of integer noise. Its cost is in epsilon (norm 1) or in rho (norm 2)."""

    name: str
    norm: int
    scale_is: str  # for the recipient
    deviation: float  # standard deviation, in scales
    mean: float  # mean absolute noise, in scales
    half: float  # of the interval that holds the noise in 95 of 100 cases, in scales

    def scale(self, amount: int, power: int) -> float:
        """The least scale (to the last bit or two) whose cost stays within `amount`, in 1e-9."""
        bound = Fraction(power * NANO, self.norm * amount)
        scale = math.sqrt(bound) if self.norm == 2 else float(bound)
        while Fraction(scale) ** self.norm < bound:  # rounding may fall short
            scale = math.nextafter(scale, math.inf)
        return scale

    def amount(self, scale: float, power: int) -> int:
        """The cost in 1e-9, exact and rounded up."""
        return ceil_nano(Fraction(power) / (self.norm * Fraction(scale) ** self.norm))

    def as_loss(self, amount: int) -> Loss:
        """An amount in 1e-9 of the family's own currency as a loss."""
        return Loss.pure(amount) if self.norm == 1 else Loss.gaussian(amount)

    def cost(self, scale: float, power: int) -> Loss:
        return self.as_loss(self.amount(scale, power))

    def choice_scale(self, allowance: Allowance, power: int) -> float:
        """The least scale of a choice whose cost stays within an allowance; see `choice`."""
        return self.scale(allowance.amount if self.norm == 1 else allowance.step_rho_nano, power)

    def choice_cost(self, scale: float, power: int) -> Loss:
        """The cost of choices; see `choice`."""
        amount = self.amount(scale, power)
        return Loss.pure(amount) if self.norm == 1 else Loss.choice(amount)

    def choice(self, shift: int) -> int:
        """The power of a choice whose scores one unit moves by at most `shift` each, up or down."""
        return 2 * shift if self.norm == 1 else shift**2


LAPLACE = Family("laplace", 1, "mean size (the scale b)", math.sqrt(2.0), 1.0, math.log(20.0))
GAUSSIAN = Family("gaussian", 2, "standard deviation", 1.0, math.sqrt(2 / math.pi), Z95)


def family_of(budget: Budget | Allowance) -> Family:
    """Laplace noise for a pure budget, Gaussian noise for one in rho."""
    return LAPLACE if budget.pure else GAUSSIAN


@dataclass(frozen=True)
class Adder:
    """Discrete noise of one family and scale, in units of the query."""

    family: Family
    scale: float

    @classmethod
    def within(cls, family: Family, amount: int, sensitivity: int) -> Adder:
        """The least noise whose cost stays within `amount`, for a query whose L1 and L2 norms are equal."""
        return cls(family, family.scale(amount, sensitivity**family.norm))

    def amount(self, sensitivity: int) -> int:
        """The cost in 1e-9 of rho or epsilon, exact and rounded up."""
        return self.family.amount(self.scale, sensitivity**self.family.norm)

    def cost(self, sensitivity: int) -> Loss:
        return self.family.as_loss(self.amount(sensitivity))

    def add(self, noise: Noise, name: str, exact: np.ndarray) -> np.ndarray:
        if self.family == LAPLACE:
            return noise.laplace(name, exact, self.scale)
        return noise.gaussian(name, exact, self.scale)

    @property
    def deviation(self) -> float:
        """Standard deviation."""
        return self.family.deviation * self.scale

    @property
    def mean(self) -> float:
        """Mean absolute noise."""
        return self.family.mean * self.scale

    @property
    def half(self) -> float:
        """Half the width of the interval that holds the noise in 95 of 100 cases."""
        return self.family.half * self.scale


def adder_within(allowance: Allowance, sensitivity: int) -> Adder:
    """The least noise that a named share of a budget pays for."""
    return Adder.within(family_of(allowance), allowance.amount, sensitivity)


class Composed(ABC):
    """A mechanism whose steps have named losses, which add up."""

    @abstractmethod
    def spends(self) -> tuple[tuple[str, Loss], ...]: ...

    def loss(self) -> Loss:
        return compose(loss for _, loss in self.spends())


def ceil_sqrt(square: int) -> int:
    """The square root of a whole number, rounded up to a whole number."""
    root = math.isqrt(square)
    return root + (root * root < square)


def whole_estimates(estimates: np.ndarray) -> np.ndarray:
    """Estimates in whole trips that fit the lattice of the noise, whatever they were."""
    return np.clip(np.rint(np.nan_to_num(estimates)), -FARTHEST, FARTHEST).astype(np.int64)


VALUES_TO_THRESHOLD = 2.0  # scale of the noise of values over that of the threshold


def first_above(noise: Noise, name: str, margins: np.ndarray, scale: float) -> int:
    """Index of the first value whose noisy margin reaches the threshold's noise; `margins.size` if none."""
    own: Any = getattr(noise, "first_above", None)
    if own is not None:
        return int(own(name, margins, scale))
    threshold = noise.laplace(name, np.zeros(1, np.int64), scale)
    noisy = noise.laplace(name, margins, VALUES_TO_THRESHOLD * scale)
    reached = np.flatnonzero(noisy >= threshold[0])
    return int(reached[0]) if reached.size else int(margins.size)


if __name__ == "__main__":  # a child of _draw_in_processes: integers on standard output
    _kind, _scale, _count = sys.argv[1:]
    sys.stdout.buffer.write(draw(_kind, float.fromhex(_scale), int(_count)).tobytes())
