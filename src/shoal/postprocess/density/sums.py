"""Intervals of sums of a density over zones and slots, from a covariance by levels.

Errors of counts are not independent: all share that of the total, those of a slot the error of its share,
those of a zone the errors of its coefficients. The error of a count p of zone z in slot s is

    p (total + slot_s + uneven_z) + sum_k coefficient_zk column_sk + residual_zs

with independent parts, then scaled so that slots follow the city's profile and its shares sum to one. Errors
of near zones are correlated, because they share sites and because counts are smoothed over zones. A sum is a
linear function of the parts, so its variance is a quadratic form: no draws are needed. 100 draws of all
counts would take 100 times the space and leave a width that is off by 7 % at random.

The correlation of near zones is NEAR exp(-distance / REACH) plus that of shared sites, fitted to errors on
simulated cities (town, paris, events-city), reach in distances of a zone to the nearest one.

Where counts have plain noise, their errors are independent and a sum is centred on the sum of the noisy
counts before negative ones were removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array
from scipy.spatial import KDTree

from shoal.postprocess.density.numbers import Z95
from shoal.space.geography import Setting
from shoal.space.setting import zone_overlap
from shoal.stages.noisy import CountDoubt, DensityEstimate

SHARED_ERROR = 1.4  # of the product of both logarithms: 0 as squares, 2 as a sum
MOST_LOG = 60.0  # of an interval's upper end: finite where nothing is known
DIGITS = 3  # of published variances
NEAR, NEAR_WITH_SITES = 0.3, 0.6  # share of the errors that near zones have in common
REACH = 2.0
LEAST_SHARED = 0.02  # correlation


@dataclass(frozen=True, kw_only=True)
class Covariance:
    """Covariance of the counts of a release by levels; all of it is published."""

    total: tuple[float, float]  # 95 % limits of the total, over the published one
    slots: np.ndarray = field(repr=False)  # float64 [slots], relative variances
    uneven: float  # relative variance of a zone
    coefficients: np.ndarray = field(repr=False)  # float64 [zones, columns], variances
    columns: np.ndarray = field(repr=False)  # float64 [slots, columns], people
    residual: np.ndarray = field(repr=False)  # float64 [zones, slots], variances
    together: csr_array = field(repr=False)  # float64 [zones, zones]: correlation of errors of zones
    centre: np.ndarray | None = field(
        default=None, repr=False
    )  # float64 [zones, slots]: counts of plain noise

    def variances(self, people: np.ndarray) -> np.ndarray:
        """float64 [zones, slots]: of single counts, without the error of the total."""
        of_zones = self.coefficients @ (self.columns**2).T + self.residual
        return of_zones + (self.slots + self.uneven) * people**2


@dataclass(frozen=True, kw_only=True)
class Total:
    """People in a set of zones and slots, added up, with a 95 % interval."""

    people: float
    low: float
    high: float


def covariance_of(estimate: DensityEstimate, setting: Setting, decimals: int = 1) -> Covariance | None:
    """The covariance in the form that is published; None where the method states none."""
    doubt, (zones, slots) = estimate.doubt, estimate.people.shape
    if doubt is None:
        return None
    if isinstance(doubt, CountDoubt):
        return Covariance(
            total=_pair(1 - Z95 * doubt.relative, 1 + Z95 * doubt.relative),
            slots=np.zeros(slots),
            uneven=0.0,
            coefficients=np.zeros((zones, 0)),
            columns=np.zeros((slots, 0)),
            residual=rounded(doubt.variance),
            together=csr_array(eye_array(zones)),
            centre=single(np.round(doubt.centre, decimals)),
        )
    visits, low, high = doubt.total.visits, doubt.total.low, doubt.total.high
    # people per coefficient are nearly a factor of the zone times one of the slot
    of_zone, of_slot = doubt.per_coefficient.mean(axis=1), doubt.per_coefficient.mean(axis=0)
    of_slot = of_slot / max(float(of_slot.mean()), 1e-300)
    coefficients = rounded(doubt.coefficients * of_zone[:, None] ** 2 * doubt.width**2)
    columns = rounded(doubt.basis * of_slot[:, None])
    residual = doubt.cell_variance() * doubt.width**2 - coefficients @ (columns**2).T
    for peak in doubt.peaks:  # an error of its size is one of a column of its own
        residual[peak.zone] = np.maximum(residual[peak.zone], 0.0) + peak.alone
        columns = np.column_stack([columns, rounded(peak.together)])
        coefficients = np.column_stack([coefficients, np.arange(zones) == peak.zone])
    return Covariance(
        total=_pair(low / visits, high / visits),
        slots=rounded(doubt.slots**2 * doubt.width**2),
        uneven=float(rounded(np.array(doubt.uneven * doubt.width**2))),
        coefficients=coefficients,
        columns=columns,
        residual=rounded(np.maximum(residual, 0.0)),
        together=correlation_of_zones(setting),
    )


def _pair(low: float, high: float) -> tuple[float, float]:
    return float(np.float32(low)), float(np.float32(high))


def correlation_of_zones(setting: Setting) -> csr_array:
    """Correlations of the errors of zones of at least LEAST_SHARED, one on the diagonal; all of it public."""
    zones, overlap = setting.zones, zone_overlap(setting.weights)
    scale = diags_array(1 / np.sqrt(np.maximum(overlap.diagonal(), 1e-300)))
    share = NEAR_WITH_SITES if overlap.nnz > zones else NEAR
    tree = KDTree(setting.zone_xy_m)
    nearest = tree.query(setting.zone_xy_m, k=min(2, zones))[0].reshape(zones, -1)[:, -1]
    reach = REACH * max(float(np.median(nearest)), 1e-9)
    pairs = tree.sparse_distance_matrix(tree, reach * np.log(share / LEAST_SHARED), output_type="coo_matrix")
    near = csr_array((np.exp(-pairs.data / reach), (pairs.row, pairs.col)), shape=overlap.shape)
    both = csr_array((1 - share) * (scale @ overlap @ scale) + share * near).tocoo()
    values = rounded(both.data)
    known = (values >= LEAST_SHARED) & (both.row != both.col)
    strong = csr_array((values[known], (both.row[known], both.col[known])), shape=overlap.shape)
    return csr_array(strong + eye_array(zones))


def rounded(values: np.ndarray) -> np.ndarray:
    """To DIGITS significant digits and single precision, so that a file of them is small.

    >>> rounded(np.array([0.0123456, 0.0])).tolist()
    [0.012299999594688416, 0.0]
    """
    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-30)))
    unit = 10.0 ** (size - DIGITS + 1)
    return single(np.round(values / unit) * unit)


def single(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, np.float32).astype(np.float64)


def total_of(people: np.ndarray, covariance: Covariance, zones: np.ndarray, slots: np.ndarray) -> Total:
    """People in some zones (numbers) during some slots (numbers) with a 95 % interval."""
    inside = np.zeros(len(people), bool)
    inside[zones] = True
    counts = people[:, slots]
    value = float(counts[inside].sum())
    if covariance.centre is not None:
        centre = float(covariance.centre[np.ix_(inside, slots)].sum())
        return _plain(
            value, centre, float(covariance.residual[np.ix_(inside, slots)].sum()), covariance.total
        )
    share = _over(counts[inside].sum(axis=0), counts.sum(axis=0))
    weight = inside[:, None] - share  # of the error of each count, once slots follow the profile
    variance = _of_slots(people, covariance, slots, counts[inside].sum(axis=0)[None])[0]
    variance += covariance.uneven * float(((counts * weight).sum(axis=1) ** 2).sum())
    for errors in (
        np.sqrt(covariance.coefficients) * (weight @ covariance.columns[slots]),
        np.sqrt(covariance.residual[:, slots]) * weight,
    ):
        variance += float((errors * (covariance.together @ errors)).sum())
    return limited(np.array(value), np.array(max(variance, 0.0)), covariance.total)[0]


def totals_by_zone(people: np.ndarray, covariance: Covariance, slots: np.ndarray) -> list[Total]:
    """The same for every single zone."""
    if covariance.centre is not None:
        return [total_of(people, covariance, np.array([zone]), slots) for zone in range(len(people))]
    counts = people[:, slots]
    share = _over(counts, counts.sum(axis=0))
    variance = _of_slots(people, covariance, slots, counts)
    variance += covariance.uneven * ((1 - share) * counts).sum(axis=1) ** 2
    columns = covariance.columns[slots]
    own = np.broadcast_to(columns.sum(axis=0), covariance.coefficients.shape)
    variance += _of_zone(covariance.together, covariance.coefficients, own, share @ columns)
    variance += _of_zone(covariance.together, covariance.residual[:, slots], np.ones(share.shape), share)
    return limited(counts.sum(axis=1), np.maximum(variance, 0.0), covariance.total)


def _of_zone(together: csr_array, variance: np.ndarray, own: np.ndarray, all_: np.ndarray) -> np.ndarray:
    """float64 [zones]: variance of `own` times a zone's errors minus `all_` times the errors of all zones."""
    root = np.sqrt(variance)
    with_all = root * (together @ root)
    return (own**2 * variance - 2 * own * all_ * with_all + all_**2 * with_all.sum(axis=0)).sum(axis=1)


def _of_slots(people: np.ndarray, covariance: Covariance, slots: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """float64 [sets]: variance by the slots' shares of the city, which sum to one.

    `sums` are people per set and slot.
    """
    city = people.sum(axis=0)
    share = city / max(float(city.sum()), 1e-300)
    moved = np.zeros((len(sums), len(city)))
    moved[:, slots] = sums
    moved -= sums.sum(axis=1, keepdims=True) * share
    return moved**2 @ covariance.slots


def limited(people: np.ndarray, variance: np.ndarray, total: tuple[float, float]) -> list[Total]:
    """Sums with their ends, for a variance that leaves out the error of the total."""
    low, high = ends(people, Z95 * np.sqrt(variance), total)
    parts = (each.ravel().tolist() for each in np.broadcast_arrays(people, low, high))
    return [Total(people=p, low=a, high=b) for p, a, b in zip(*parts, strict=True)]


def ends(people: np.ndarray, half: np.ndarray, total: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Ends of 95 % intervals: half the width, and the limits of the total over its published number.

    The upper end combines both in logarithms: as squares where the total is well known, more where it is
    not, since an error of the total is the same for all counts.
    """
    low = people - np.hypot(half, (1 - total[0]) * people)
    people = np.maximum(people, 1e-9)
    own, up = np.log1p(half / people), np.log(total[1])
    together = np.sqrt(own**2 + up**2 + SHARED_ERROR * min(up, 1.0) * own * up)
    return np.maximum(low, 0.0), people * np.exp(np.minimum(together, MOST_LOG))


def _plain(value: float, centre: float, variance: float, total: tuple[float, float]) -> Total:
    half = float(np.hypot(Z95 * np.sqrt(variance), (total[1] - 1) * max(value, centre)))
    return Total(people=value, low=min(max(centre - half, 0.0), value), high=max(centre + half, value))


def _over(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros(np.broadcast_shapes(part.shape, whole.shape)), where=whole > 0)


def ready(
    people: np.ndarray, covariance: Covariance, day: np.ndarray
) -> Iterator[tuple[str, int | None, int, int, Total]]:
    """Sums that every release has: kind, zone, first and last slot, total; `day` is the day of each slot."""
    everyone, slots = np.arange(len(people)), np.arange(people.shape[1])
    days = day - day.min()
    for kind, of_slot in (("zone-day", days), ("zone-week", days // 7)):
        for number in np.unique(of_slot):
            chosen = np.flatnonzero(of_slot == number)
            for zone, total in enumerate(totals_by_zone(people, covariance, chosen)):
                yield kind, zone, int(chosen[0]), int(chosen[-1]), total
    for kind, of_slot in (("city-slot", slots), ("city-day", days), ("city", np.zeros_like(slots))):
        for number in np.unique(of_slot):
            chosen = np.flatnonzero(of_slot == number)
            yield kind, None, int(chosen[0]), int(chosen[-1]), total_of(people, covariance, everyone, chosen)
