"""The published methods behind the same `Method` as those of shoal: what builds them, promises and audits.

METHODS hold what they claim and may be released. COMPARATORS have no guarantee for users, or less than their
epsilon reads like, and can be compared only. Nothing is imported before it is used.

>>> METHODS["density"]["efpag"].pure, COMPARATORS["density"]["threshold"].sound
(False, False)
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from shoal.mechanisms.audit_size import COVERED, ONE_PLACE, ONE_ZONE, PATHS, AuditSize
from shoal.mechanisms.method import Build, Entry, Method, by_name, one_case
from shoal.mechanisms.methods import (
    BOXES,
    BRIDGES,
    MODEL,
    PATH_TRIPS,
    PEOPLE,
    SCALED,
    SCALED_LAPLACE,
    SCALED_UP,
    TOTALS,
    counts_of,
    either,
    laplace,
    scaled,
)

HERE = "shoal_baselines.mechanisms"
PLAIN = "shoal.postprocess.density.numbers:plain_density"
SCHEME = "shoal_baselines.postprocess.scheme:finish_with"
REPAIRED_ELL = 20  # as the repaired scheme was measured
SPOTME_P = 0.5  # of the published range .1 to .9 (Pyrgelis et al. 2017, table 5)
THRESHOLD_K = 10  # people: a usual rule of thumb

# One zone: the engine counts a user once per slot, so with more the claim is never reached.
IN_ONE_ZONE = AuditSize(layout=ONE_ZONE, slots=6, ell=6)
AT_ONE_PLACE = AuditSize(layout=ONE_PLACE, slots=1, ell=1, cap=1)
FEW_COMPONENTS = {"k": 4}  # of six slots: so that some are left out
FOURIER = f"{HERE}.fpa:DensityFpa.of"
EVERY_ZONE = f"{HERE}.scm_full:DensityScmFull.of"
SLOW = f"{PEOPLE}, from their Fourier components of lowest frequency"
FPA = Entry(
    name="density-fpa",
    make=counts_of(FOURIER),
    releases=SLOW,
    guarantee="rho-zCDP, rho = ell max_s |W_s|_2^2 |C|^2 / (2 sigma^2)",
    spends=("coefficients",),
    pure=False,
    small=FEW_COMPONENTS,
)
PARTS = (
    FPA,
    laplace(FPA, "epsilon-DP, epsilon = max_s |W_s|_1 (sum of the ell largest |c_t|_1) / b"),
    Entry(
        name="density-scm-full",
        make=counts_of(EVERY_ZONE),
        releases=PEOPLE,
        guarantee="epsilon-DP, epsilon = zones slots / b",
        spends=("counts",),
        pure=True,
        size=IN_ONE_ZONE,
        tight=AT_ONE_PLACE,
    ),
)
SCALED_FPA = replace(
    SCALED,
    name="density-scaled-fpa",
    make=scaled(FOURIER),
    releases=f"{SLOW}, and what scales them up to all visits",
    guarantee="rho-zCDP, rho = M^2 / (2 s^2) + ell^2 / (2 s'^2) + rho of the coefficients",
    spends=("visits", "kept", "coefficients"),
    small=FEW_COMPONENTS,
)
SCALED_FPA_LAPLACE = laplace(
    SCALED_FPA, "epsilon-DP, epsilon = M / b + ell / b' + epsilon of the coefficients"
)
SCALED_FULL = replace(
    SCALED_LAPLACE,
    name="density-scaled-scm-full",
    make=scaled(EVERY_ZONE),
    releases=f"{PEOPLE}, and what scales them up to all visits",
    guarantee="epsilon-DP, epsilon = M / b + slots / b' + zones slots / b''",
    size=IN_ONE_ZONE,
    tight=AT_ONE_PLACE,
)


def _scheme(place: str, **given: str) -> Build:
    return Build(place=f"{HERE}.{place}.of", takes="cover", asks=("ell", "cap"), given=given)


EFPAG = Entry(
    name="density-efpag",
    make=_scheme("efpag:DensityEfpag", variant="improved"),
    releases=f"{PEOPLE}, by clusters of cells and their Fourier components; totals by one visit per user",
    guarantee="rho-zCDP, rho = 1 / (2 s^2) + M^2 / (2 s'^2) + eps0^2 / 8 + ell / (2 sigma^2)",
    spends=("totals", "visits", "select", "coefficients"),
    pure=False,
    size=AuditSize(layout=COVERED, slots=8, ell=6, cap=7),
    # The choice of k pays for a range of twice the shift; a visit of two slots moves it by sqrt(1/2) of one.
    reach={"select": 0.125},
)
BASIC = replace(
    EFPAG,
    name="density-efpag-basic",
    make=_scheme("efpag:DensityEfpag", variant="basic"),
    releases=f"{PEOPLE}, by clusters of cells and their Fourier components; totals of the bounded series",
    guarantee="rho-zCDP, rho = ell^2 / (2 s^2) + eps0^2 / 8 + ell / (2 sigma^2)",
    spends=("totals", "select", "coefficients"),
)
REPAIRED = replace(
    EFPAG,
    name="density-efpag-repaired",
    make=_scheme("efpag:DensityEfpag", variant="repaired"),
    releases=f"{PEOPLE}, by larger clusters of cells; totals of the bounded series, scaled up",
    guarantee="rho-zCDP, rho = ell^2 / (2 s^2) + M^2 / (2 s'^2) + eps0^2 / 8 + ell / (2 sigma^2)",
)
EFPA = replace(
    EFPAG,
    name="density-efpa",
    make=_scheme("efpa:DensityEfpa"),
    guarantee="epsilon-DP, epsilon = 1 / b + M / b' + eps0 + eps1, each for all clusters together",
    pure=True,
    reach={"select": 0.35},
)


_clustered = partial(one_case, "density", finish=SCHEME)
_scaled_up = partial(one_case, "density", finish=SCALED_UP)
BOUNDS = ("ell", "cap")
DENSITY = by_name(
    _clustered(
        "efpag", "clusters of cells, few Fourier components each, Gaussian noise", EFPAG, *BOUNDS, "nights"
    ),
    _clustered("efpag-basic", "efpag before its improvements", BASIC, "ell", nights=False),
    _clustered(
        "efpag-repaired",
        f"efpag with larger clusters, ell {REPAIRED_ELL}",
        REPAIRED,
        *("cap", "nights"),
        ell=REPAIRED_ELL,
    ),
    _clustered("efpa", "efpag with Laplace noise, pure", EFPA, *BOUNDS, "nights"),
    _scaled_up(
        "fpa", "the Fourier components of lowest frequency of each zone, Gaussian noise", SCALED_FPA, *BOUNDS
    ),
    _scaled_up(
        "fpa-laplace",
        "the Fourier components of lowest frequency of each zone, Laplace noise, pure",
        SCALED_FPA_LAPLACE,
        *BOUNDS,
    ),
    _scaled_up("scm-cap", "laplace under its name in SCM (cap level)", SCALED_LAPLACE, *BOUNDS),
    _scaled_up("scm-full", "noise for a visit in every zone and slot, pure", SCALED_FULL, "cap"),
)


def _compared(name: str, summary: str, place: str, *asks: str, **given: Any) -> Method:
    build = Build(place=f"shoal_baselines.comparators.{place}.of", takes="", asks=asks, given=given)
    return Method(
        kind="density", name=name, summary=summary, compared=build, finish_at=PLAIN, set_by_epsilon=not given
    )


COMPARED = by_name(
    _compared(
        "published",
        "efpag with the noise its paper prints, exact number of users (delta 2e-6)",
        "published_density:PublishedEfpag",
        "ell",
    ),
    _compared(
        "published-efpa",
        "efpa with the noise its paper prints, exact number of users",
        "published_density:PublishedEfpa",
        "ell",
    ),
    _compared(
        "published-later",
        "the later survey's form: zones as cells, totals with too little noise (delta 2e-6)",
        "published_density:PublishedLater",
        "ell",
    ),
    _compared("scm-event", "counts with Laplace noise for one visit (SCM, event level)", "counts:ScmEvent"),
    _compared(
        "scm-zone", "counts with Laplace noise for one zone's series (SCM, zone level)", "counts:ScmZone"
    ),
    _compared(
        "spotme",
        f"every user answers at random with probability {SPOTME_P:g}, else truly (SpotMe)",
        "counts:SpotMe",
        p=SPOTME_P,
    ),
    _compared(
        "threshold",
        f"exact counts of {THRESHOLD_K} and more, others hidden (threshold suppression)",
        "counts:Threshold",
        k=THRESHOLD_K,
    ),
)

ONE_TRIP = AuditSize(layout=PATHS, slots=6, ell=1, cap=3)
STAYS = ((0, 1), (1, 1))  # two trips alike, one of which is kept, within one cell of half of the rectangles
SHARES = "shares of trips in cells of a grid"
PURE = "epsilon-DP, epsilon = trips + all_trips"
RHO = "rho-zCDP, rho = trips + all_trips"
DAWA_COSTS = "sum over levels (2 m)^2 / (2 sigma_i^2) + m^2 / (2 sigma^2)"


def _histogram(
    name: str, summary: str, pure: Entry, guarantee: str, reach: dict[str, float] | None = None
) -> Method:
    """With a budget in rho, a user has one trip at most."""
    cases = either("histogram", name, pure, guarantee)
    gaussian = f"histogram-{name}-gaussian"
    cases[gaussian] = replace(cases[gaussian], size=ONE_TRIP, reach=reach or {})
    return Method(kind="histogram", name=name, summary=summary, cases=cases)


def _trips(name: str, of: str, releases: str, guarantee: str, spends: tuple[str, ...], **more: Any) -> Entry:
    build = Build(place=f"{HERE}.histogram_{name}:{of}.within", takes="trips")
    entry = replace(BOXES, make=build, releases=releases, guarantee=guarantee, spends=(*TOTALS, *spends))
    return replace(entry, name=f"histogram-{name}", **{"small": {}, "reach": {}, **more})


HISTOGRAM = by_name(
    _histogram(
        "dqam",
        "Regions of like density, then rectangles chosen and measured, weights moved region by region.",
        _trips(
            "dqam",
            "HistogramDqam",
            f"{MODEL}, learned from few of them and the densities of regions",
            f"{PURE} + sum over levels 2 m / b_i + m / b'' + T (2 m / b + m / b')",
            ("costs", "densities", "select", "answers"),
            small={"rounds": 4, "first": 0},
            reach={"costs": 0.75},  # a trip that is spread is more even
        ),
        f"{RHO} + {DAWA_COSTS} + T ((2 m / b)^2 / 8 + m^2 / (2 sigma'^2))",
        {"costs": 0.38},
    ),
    _histogram(
        "prish",
        "Rectangles chosen where the histogram is off, measured, weights moved cell by cell.",
        _trips(
            "prish",
            "HistogramPrish",
            f"{MODEL}, learned from few of them",
            f"{PURE} + T (2 m / b + m / b')",
            ("select", "answers"),
            small={"rounds": 4},  # of six rectangles, so that one more is a bug
        ),
        f"{RHO} + T ((2 m / b)^2 / 8 + m^2 / (2 sigma^2))",
    ),
    _histogram(
        "mwem",
        "Multiplicative weights on shares of trips in cells.",
        _trips(
            "mwem",
            "HistogramMwem",
            f"{SHARES}, learned from few rectangles",
            f"{PURE} + T (2 m / b + m / b')",
            ("select", "answers"),
            small={
                "rounds": 2
            },  # where shares are measured: they add up over three of the rectangles at most
            worst=STAYS,
            reach={"select": 0.8, "answers": 0.5},  # the stay is in half of the rectangles
        ),
        f"{RHO} + T ((2 m / b)^2 / 8 + m^2 / (2 sigma^2))",
        {"select": 0.64, "answers": 0.5},
    ),
    _histogram(
        "dawa",
        "Shares of trips in cells, in buckets along a Hilbert curve.",
        _trips(
            "dawa",
            "HistogramDawa",
            f"{SHARES}, in buckets along a curve",
            f"{PURE} + sum over levels 2 m / b_i + m / b",
            ("costs", "buckets"),
            worst=STAYS,
        ),
        f"{RHO} + {DAWA_COSTS}",
    ),
    _histogram(
        "laplace",
        "Noise on every cell's share of trips.",
        _trips("laplace", "HistogramLaplace", SHARES, f"{PURE} + m / b", ("cells",), worst=STAYS),
        f"{RHO} + m^2 / (2 sigma^2)",
    ),
)


def _chain(name: str, of: str, summary: str, *tables: str, **more: Any) -> Method:
    """Generators from tables of what comes next."""
    entry = replace(
        BRIDGES,
        name=f"synthetic-{name}",
        make=Build(place=f"{HERE}.synthetic_{name}:{of}.within", takes="paths"),
        guarantee=f"epsilon-DP, epsilon = trips + {' + '.join(tables)}, by shares that add up",
        spends=("trips", *tables),
        small={},
        size=PATH_TRIPS,
        follows=True,
        **more,
    )
    return Method(kind="synthetic", name=name, summary=summary, cases=either("synthetic", name, entry))


TREE_HEIGHT = 9  # of shoal_baselines.mechanisms.synthetic_prefix
SYNTHETIC = by_name(
    _chain(
        "markov",
        "SyntheticMarkov",
        "A noisy chain over cells, step by step until it ends.",
        *("hours", "starts", "steps"),
    ),
    _chain(
        "ngram",
        "SyntheticNgram",
        "The next step by the one to three cells before it.",
        *("hours", "starts", "grams_2", "grams_3", "grams_4"),
    ),
    _chain(
        "prefix",
        "SyntheticPrefix",
        "A noisy tree of how trips begin and go on.",
        *("hours", "stays", "starts", *(f"level_{i + 1}" for i in range(TREE_HEIGHT))),
        worst=tuple((slot, site) for slot in (0, 1) for site in range(5)),  # trips of nine moves
    ),
    _chain(
        "dpt",
        "SyntheticDpt",
        "Chains on grids of several sizes, each for its own speeds.",
        *("hours", "starts", "level_1", "level_2"),
    ),
)
METHODS = {"density": DENSITY, "histogram": HISTOGRAM, "synthetic": SYNTHETIC}
COMPARATORS = {"density": COMPARED}
