"""What Gaussian noise really costs: its exact privacy curve, and how far the noise that is drawn is from it.

**Curve.** Whole numbers with L2 sensitivity D plus rounded Gaussian noise of deviation sigma are mu-GDP with
mu = D / sigma: rounding commutes with whole shifts, so the release is a function of the continuous mechanism
(Dong, Roth, Su 2022, theorem 2.7). With Phi the standard normal distribution function (Balle and Wang 2018,
theorem 8),

    delta(epsilon) = Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2).

mu^2 adds up under adaptive composition, and as a filter with a limit fixed in advance (Smith and Thakurta
2022; Koskela, Tobaben, Honkela 2023). An epsilon-DP step is mu-GDP for mu = -2 Phi^-1(1 / (1 + e^epsilon)):
its trade-off curve is two lines that meet at (p, p), p = 1 / (1 + e^epsilon), and a convex curve is below
them if it is below that corner.

A choice of bounded range r (the exponential mechanism) is dominated by two outcomes whose log odds differ by
r (Dong, Durfee, Rogers 2020). mu is then the difference of their normal quantiles. The quantile as a function
of the log odds has the slope Phi(x) Phi(-x) / phi(x), which falls in |x| (below), so the difference is
largest where the odds are symmetric, and mu <= sqrt(pi / 8) r; for a pure step likewise mu <= sqrt(pi / 2)
epsilon. Both are pi / 2 times the rho of zCDP (r^2 / 8 and epsilon^2 / 2), however a step is split into
smaller ones. The slope falls for x > 0 if h(x) = 1 / Phi(-x) - 1 / Phi(x) - x / phi(x) >= 0. h(0) = 0, and
phi h' = l^2 + m^2 - 1 - x^2 with l = phi / Phi(-x), m = phi / Phi(x). By Sampford 1953, l >= (3x + sqrt(x^2 +
8)) / 4, so l^2 >= x^2 + 1/2 + 3x / (sqrt(x^2 + 8) + x), which is 1 + x^2 or more from x = 1 / sqrt(3) on.
Below, m^2 falls from 0.63 to 0.22 while the last term rises from 0 to 1/2; their sum is at least 1/2
(tests/unit/privacy).

**Noise.** What is drawn is the discrete Gaussian p on a lattice on which sigma >= 2^52 steps, rounded to the
lattice of the counts (noise.py). Let r(n) be the normal mass of [n - 1/2, n + 1/2]. For all sigma >= 16,

    chi^2(r | p) <= c / sigma^4,   c = 1 / 285.

Proof. By Poisson summation p(n) = phi_sigma(n) / (1 + t), 0 < t <= 3 e^(-2 pi^2 sigma^2) < 10^-2000. So
r(n) / p(n) = (1 + t) (1 + A - B), where with u = n / sigma^2 and integrals over s from -1/2 to 1/2

    A = int (cosh(us) - 1) e^(-s^2 / 2 sigma^2) ds,   B = int 1 - e^(-s^2 / 2 sigma^2) ds.

By Taylor, e^(-1 / 8 sigma^2) u^2 / 24 <= A <= cosh(u / 2) u^2 / 24 and (1 - 3 / 80 sigma^2) / 24 sigma^2 <= B
<= 1 / 24 sigma^2. Again by Poisson summation, moments under p are those of the normal law up to 10^-1900: E
u^2 = sigma^-2 and, with k = 1 / sigma^2, E u^4 cosh^2(u / 2) = sigma^-4 (3 + e^(k/2) (k^2 + 6k + 3)) / 2.
Therefore

    576 sigma^4 E (A - B)^2 <= (3 + e^(k/2) (k^2 + 6k + 3)) / 2 - 2 e^(-k/8) (1 - 3k/80) + 1.

The right side rises with k and is below 2.0161 at k = 1/256, and 2.0161 / 576 < 1/285; t changes nothing.
QED.

Over d cells, drawn in any adaptive order, 1 + chi^2 multiplies, so the total variation is at most

    tau = sqrt((1 + c / sigma^4)^d - 1) / 2.

Couple every release with its ideal: they agree but for a probability of the sum of all tau. So each statement
about the ideal holds for the noise drawn with the slack (1 + e^epsilon) sum tau added to delta.

>>> round(delta_of(mu_within(1.0, 1e-6), 1.0), 15)
1e-06
>>> round(1 / mu_within(1.0, 1e-6), 4)           # sigma for sensitivity 1
4.2247
>>> 4.9e-12 < (1 + math.e) * tau(4.5 * 2**20, 10**6) < 5e-12
True
"""

from __future__ import annotations

import math
from statistics import NormalDist

FROM_SIGMA = 16.0  # the bound on c is proved from here on
C = 1 / 285
FINEST = 52  # noise is drawn where sigma is at least 2^52 steps
MOST_CELLS = 2**40  # of one spend: far more than memory holds
PURE_TO_GDP = 1.570797  # pi / 2, rounded up: mu^2 / 2 of a pure step or a choice over its rho
_MARGIN = 1e-9  # relative, of delta; checked against mpmath
_OFF = 2e-15  # of a difference of logarithms, relative to their size; matters for mu below about 1e-3


def delta_of(mu: float, epsilon: float) -> float:
    """delta(epsilon) of mu-GDP, rounded up."""
    if mu <= 0:
        return 0.0
    upper = _log_tail(epsilon / mu - mu / 2)
    apart = max(upper - epsilon - _log_tail(epsilon / mu + mu / 2), 0.0)
    off = _OFF * (1 + abs(upper) + epsilon)
    share = max(-math.expm1(-apart) * (1 + _MARGIN), -math.expm1(-apart - off))
    return min(math.exp(upper) * share, 1.0)


def mu_within(epsilon: float, delta: float) -> float:
    """The largest mu whose curve stays within (epsilon, delta), to the last few bits."""
    low, high = 0.0, 1.0
    while delta_of(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, epsilon) <= delta else (low, middle)
    return low


def mu_of_pure(epsilon: float) -> float:
    """The smallest mu for which every epsilon-DP step is mu-GDP, rounded up.

    >>> round(mu_of_pure(1.0), 6)
    1.232035
    """
    if epsilon > 30:  # Phi(-x) <= e^(-x^2 / 2) / 2
        return 2 * math.sqrt(2 * epsilon)
    if epsilon < 1e-3:  # where p is too near 1/2 for floating point
        return math.sqrt(math.pi / 2) * epsilon * (1 + 1e-12)
    return min(-2 * NormalDist().inv_cdf(1 / (1 + math.exp(epsilon))), 1.2533142 * epsilon) * (1 + 1e-12)


def tau(sigma: float, cells: int) -> float:
    """Bound on the total variation between `cells` draws of discrete and of rounded Gaussian noise."""
    if sigma < FROM_SIGMA:
        return 1.0
    squared = math.expm1(min(cells * math.log1p(C / sigma**4), 2.0))
    return min(math.sqrt(squared) / 2 * (1 + _MARGIN), 1.0)


def _log_tail(x: float) -> float:
    """log P(Z > x) of a standard normal Z."""
    if x < 20:
        return math.log(math.erfc(x / math.sqrt(2)) / 2)
    y = 1 / x**2  # asymptotic series of Mills' ratio
    series = -y + 3 * y**2 - 15 * y**3 + 105 * y**4 - 945 * y**5 + 10395 * y**6
    return -x * x / 2 - math.log(x * math.sqrt(2 * math.pi)) + math.log1p(series)
