"""Table of methods: how each is built, its claimed guarantee, the size and the worst user of its audit.

An audit case is named kind-method, followed by the noise family where a method has several, and by any other
option that decides how its mechanism is built. Trips are audited on eight places of a grid of a few cells: a
user moves from place to place, and a trip ends after a pause without events.

>>> METHODS["density"]["best"].families, list(METHODS["synthetic"])
(('gaussian',), ['bridges', 'commute'])
>>> entry = METHODS["density"]["laplace"].cases["density-laplace"]
>>> entry.name, entry.build(1.0, None, entry.tight).loss().pure_epsilon_nano
('density-scaled-laplace', 1000000000)
"""

from __future__ import annotations

from dataclasses import replace

from shoal.mechanisms.audit_size import MANY_PLACES, PATHS, AuditSize
from shoal.mechanisms.method import Build, Entry, Method, by_name, one_case

HERE = "shoal.mechanisms"
PEOPLE = "people per zone and slot"

# Many visits in one slot, so that every clip is reached.
CROWDED = AuditSize(layout=MANY_PLACES, slots=1, ell=1, cap=len(MANY_PLACES[0]))
EVERYWHERE = tuple((0, place) for place in range(CROWDED.places))
WEIGHED = 0.95  # the weight of a user with a thousand visits is only a few lattice steps, rounded down
AUDIT_CLIP = 1.5  # of the one clipped measurement
AUDIT_UPDATES = 2  # of four questions


def counts_of(place: str) -> Build:
    """Counts per zone and slot, each user in at most ell slots."""
    return Build(place=place, takes="counts", asks=("ell",))


def scaled(counts: str) -> Build:
    """Counts with the noisy totals needed to scale them up."""
    place = f"{HERE}.density.counts:ScaledCounts.of"
    return Build(place=place, takes="scalable", asks=("ell", "cap"), given={"counts": counts})


PLAIN_COUNTS = f"{HERE}.density.counts:DensityCounts.of"


def laplace(entry: Entry, guarantee: str) -> Entry:
    """The same mechanism with Laplace noise: pure differential privacy."""
    name = f"{entry.name.removesuffix('-gaussian')}-laplace"
    return replace(entry, name=name, guarantee=guarantee, pure=True)


SCALED = Entry(
    name="density-scaled",
    make=scaled(PLAIN_COUNTS),
    releases=f"{PEOPLE}, and the totals that scale sampled visits up to all visits",
    guarantee="rho-zCDP, rho = M^2 / (2 s^2) + ell^2 / (2 s'^2) + rho of the counts",
    spends=("visits", "kept", "counts"),
    pure=False,
)
SCALED_LAPLACE = laplace(SCALED, "epsilon-DP, epsilon = M / b + ell / b' + epsilon of the counts")
BEST = Entry(
    name="density-best",
    make=Build(place=f"{HERE}.density.best:DensityBest.within", takes="visits", asks=("users",)),
    releases=f"{PEOPLE}, from all visits, measured coarse to fine",
    guarantee="rho-zCDP, rho = the sum of the shares of users, sizes, visits, city, regions, zones",
    spends=("users", "sizes", "visits", "city", "regions", "zones"),
    pure=False,
    tight=CROWDED,
    worst=EVERYWHERE,
    reach=dict.fromkeys(("visits", "city", "regions", "zones"), WEIGHED),
)
SCALED_UP = "shoal.postprocess.density.numbers:scaled_density"
DENSITY = by_name(
    one_case(
        "density",
        "best",
        "all visits, measured coarse to fine with Gaussian noise, smoothed over zones",
        BEST,
        "users",
        finish="shoal.postprocess.density.best:finish_best",
    ),
    one_case(
        "density",
        "gaussian",
        "plain counts, Gaussian noise, scaled up (GPA)",
        SCALED,
        *("ell", "cap"),
        finish=SCALED_UP,
    ),
    one_case(
        "density",
        "laplace",
        "plain counts, Laplace noise, scaled up, pure (LPA)",
        SCALED_LAPLACE,
        *("ell", "cap"),
        finish=SCALED_UP,
    ),
)


ANSWERS = Entry(
    name="query-gaussian",
    make=Build(place=f"{HERE}.query.answers:QueryAnswers.of", takes="user sums", asks=("questions",)),
    releases="visits in sets of zones and slots, from all visits of clipped users",
    guarantee="rho-zCDP, rho = sum over queries of 1 / (2 s_i^2) + c_i^2 / (2 sigma_i^2)",
    spends=("sizes", "answers"),
    pure=False,
    worst=((0, 0), (1, 0)),  # every visit that there can be: any clip is reached
)
ANSWERS_LAPLACE = replace(
    laplace(ANSWERS, "epsilon-DP, epsilon = sum over queries of 1 / b'_i + c_i / b_i"),
    bugs_at=4.0,  # four queries with two spends each, so that each is small
)
LEARNED_ANSWERS = Entry(
    name="query-weights",
    make=Build(
        place=f"{HERE}.query.weights:QueryWeights.of", takes="counts", asks=("questions", "ell", "updates")
    ),
    releases="visits in many sets of zones and slots, from a table trained on a few noisy answers",
    guarantee="rho-zCDP, rho = total + c (2 E / b)^2 / 2 + c Delta^2 / (2 sigma^2) + error",
    spends=("total", "test", "answers", "error"),
    pure=False,
    small={"updates": AUDIT_UPDATES},
)
QUERY = by_name(
    one_case("query", "gaussian", "independent Gaussian noise on every answer", ANSWERS),
    one_case("query", "laplace", "independent Laplace noise on every answer, pure", ANSWERS_LAPLACE),
    one_case(
        "query",
        "weights",
        "private multiplicative weights: a few noisy answers train a table that answers the others",
        LEARNED_ANSWERS,
        *("ell", "updates"),
    ),
)

TWO_TRIPS = AuditSize(layout=PATHS, slots=6, ell=2, cap=4)
ONE_OF_TWO = AuditSize(layout=PATHS, slots=2, ell=1, cap=2)  # tight
# Two trips alike, one of which is kept, through all given rectangles.
THROUGH = ((0, 0), (0, 1), (1, 0), (1, 1))
MANY_TRIPS = 10**12  # declared: the schedule of boxes is then at its end, at any epsilon
AUDIT_BOXES = 48  # of the pool: its size costs time, not privacy
TOTALS = ("trips", "all_trips")
MODEL = "trips in any rectangle of a grid"
BOXES = Entry(
    name="histogram-boxes",
    make=Build(place=f"{HERE}.histogram.boxes:HistogramBoxes.within", takes="trips"),
    releases=f"{MODEL}, from a weighted pool of boxes",
    guarantee="epsilon-DP, epsilon = trips + all_trips + boxes, the shares of whose histograms add up",
    spends=(*TOTALS, "boxes"),
    pure=True,
    small={"boxes": AUDIT_BOXES},
    size=TWO_TRIPS,
    tight=ONE_OF_TWO,
    worst=THROUGH,
    reach={"boxes": 0.9},
)
# The number of trips is declared, not measured; rectangles are measured where it is large.
DECLARED_BOXES = replace(
    BOXES,
    name="histogram-boxes-large",
    guarantee="epsilon-DP, epsilon = all_trips + boxes, the shares of whose histograms and rectangles add up",
    spends=("all_trips", "boxes"),
    trips=MANY_TRIPS,
    size=replace(TWO_TRIPS, cells=4),  # its histograms are fine: fewer cells, fewer bins
    tight=replace(ONE_OF_TWO, cells=4),
    reach={"boxes": 0.75},  # choices are paid for, and do not show along one path
)
HISTOGRAM = by_name(
    Method(
        kind="histogram",
        name="boxes",
        summary="A weighted pool of synthetic trips, fitted to noisy histograms of trips' bounding boxes.",
        cases={"histogram-boxes": BOXES, "histogram-boxes-declared": DECLARED_BOXES},
    ),
)

PATH_TRIPS = replace(TWO_TRIPS, cells=4)
TIGHT_TRIPS = AuditSize(layout=PATHS, slots=2, ell=2, cap=2, cells=4)
ONE_TRIP = AuditSize(layout=PATHS, slots=1, ell=1, cap=1, cells=4, each_trip=True)
CALLS = AuditSize(layout=PATHS, slots=14, ell=2, cap=4)  # from the evening to the next noon
# Two trips alike, each with moves, turns and a stay: the third and the last site are in one cell.
STAYS_AT_THE_END = tuple((slot, site) for slot in (0, 1) for site in (0, 1, 2, 7))
# A home at night, a work place in the morning, a third site.
COMMUTES = ((0, 0), (11, 1), (1, 2))
TRIPS = "a model of movement, and any number of trips drawn from it"
PURE_TABLES = "epsilon-DP, epsilon = trips + {0}, by shares that add up"
RHO_TABLES = "rho-zCDP, rho = trips + {0}, by shares that add up"


def zcdp(entry: Entry, guarantee: str = "") -> Entry:
    """The same mechanism with Gaussian noise: its budget is in rho, its sensitivity in norm 2."""
    guarantee = guarantee or RHO_TABLES.format(" + ".join(entry.spends[1:]))
    return replace(entry, name=f"{entry.name}-zcdp", guarantee=guarantee, pure=False)


# Without calibration, which draws thousands of trips from the noisy model: it costs time, not privacy.
BRIDGES = Entry(
    name="synthetic-bridges",
    make=Build(place=f"{HERE}.synthetic.bridges:SyntheticBridges.within", takes="paths"),
    releases=TRIPS,
    guarantee=PURE_TABLES.format("tables"),
    spends=("trips", "tables"),
    pure=True,
    small={"calibrate": False},
    size=replace(PATH_TRIPS, cells=8),  # so many cells that places are measured by blocks, too
    tight=TIGHT_TRIPS,
    worst=STAYS_AT_THE_END,
)
EACH_TRIP = replace(
    BRIDGES, name="synthetic-bridges-trip", size=ONE_TRIP, tight=ONE_TRIP, worst=STAYS_AT_THE_END[:4]
)
# Turns by cell are measured from few trips on, so that small populations come to either side of the rule.
CORNERS = replace(
    EACH_TRIP,
    name="synthetic-bridges-2nd",
    small={**EACH_TRIP.small, "corners_from": 1.0},  # in deviations of their noise
    follows=True,
)
COMMUTE = Entry(
    name="synthetic-commute",
    make=Build(place=f"{HERE}.synthetic.commute:SyntheticCommute.within", takes="commutes"),
    releases="homes, work places and calls, and any number of people drawn from them",
    guarantee="epsilon-DP, epsilon = sum over tables of 1 / b_i",
    spends=(
        *("users", "people", "homes", "works", "distances"),
        *("flows", "hours", "places", "elsewhere", "reach"),
    ),
    pure=True,
    size=CALLS,
    tight=CALLS,
    worst=COMMUTES,
    bugs_at=8.0,  # ten spends, so that each is small
)


def either(kind: str, name: str, pure: Entry, guarantee: str = "") -> dict[str, Entry]:
    """Audit cases of a method with a pure and a Gaussian variant."""
    return {f"{kind}-{name}-laplace": pure, f"{kind}-{name}-gaussian": zcdp(pure, guarantee)}


SYNTHETIC = by_name(
    Method(
        kind="synthetic",
        name="bridges",
        summary="Starts, ends, lengths and flows from noisy tables; paths between them follow noisy moves.",
        cases={
            **either("synthetic", "bridges", BRIDGES),
            # The unit is one trip, and second-order moves are measured where trips are many.
            "synthetic-bridges-laplace-trip": CORNERS,
            "synthetic-bridges-gaussian-trip": zcdp(CORNERS),
        },
    ),
    Method(
        kind="synthetic",
        name="commute",
        summary="Homes, work places, commutes and hours of calls, from records that name sites.",
        cases=either("synthetic", "commute", COMMUTE, "rho-zCDP, rho = sum over tables of 1 / (2 sigma_i^2)"),
    ),
)
METHODS = {"density": DENSITY, "query": QUERY, "histogram": HISTOGRAM, "synthetic": SYNTHETIC}

# Components that are audited by themselves although no release consists of one alone.
COUNTS = Entry(
    name="density-gaussian",
    make=counts_of(PLAIN_COUNTS),
    releases=PEOPLE,
    guarantee="rho-zCDP, rho = ell max_s |W_s|_2^2 / (2 sigma^2)",
    spends=("counts",),
    pure=False,
    thorough=True,
)
PARTS = (
    COUNTS,
    laplace(COUNTS, "epsilon-DP, epsilon = ell max_s |W_s|_1 / b"),
    Entry(
        name="clipped-gaussian",
        make=Build(place=f"{HERE}.density.clipped_gaussian:ClippedGaussian.of", takes="clipped"),
        releases="one sum over users, each clipped in the measured norm",
        guarantee="rho-zCDP, rho = (clip + rounding)^2 / (2 sigma^2)",
        spends=("clipped",),
        pure=False,
        small={"clip": AUDIT_CLIP},
        tight=CROWDED,
        worst=EVERYWHERE,
        reach={"clipped": WEIGHED},
    ),
    EACH_TRIP,
)
