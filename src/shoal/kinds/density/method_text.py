"""For the recipient: what each method did to the counts, and how its numbers are to be read."""

from __future__ import annotations

import math
from typing import Any

Z95 = 1.959964
# What each named spend buys: for the dry run, the manifest and the owner's report, and as in docs/methods.md.
SPENDS = {
    "users": "the number of users, where it was not declared; picks the method's constants",
    "visits": "the number of all visits in the zones, which the counts are scaled to",
    "active": "that number again with very active users cut less; used where it is clearly larger",
    "city": "the course over the slots of all zones together",
    "regions": "groups of near zones: which courses over time there are in the city",
    "zones": "the zones themselves, in the courses that the regions showed",
    "kept": "the number of visits that were kept, so how much the counts are scaled up",
    "counts": "the count of every zone and slot",
    "totals": "the total of every cell, by which cells with few visits are joined into clusters",
    "select": "how many waves are kept of each course over the slots",
    "coefficients": "the waves that were kept: the courses over the slots",
}
NEGATIVE = (
    "Negative counts were removed in a way that keeps each slot's total where that is above zero: the same "
    "amount was taken off every zone of a slot and what fell below zero was set to zero. So where most zones "
    "of a slot are nearly empty, `people` in the busy ones is low by up to about the size of the noise, and "
    "the nearly empty ones are high on average: sum over zones rather than over the slots of a quiet zone."
)
INTERVAL = (
    "`people_low` and `people_high` are the ends of the 95 % interval around the noisy count, before "
    "negative counts were removed, scaled up with it and cut at zero. They also hold the noise of the "
    "scaling and the chance of which visits were kept, but not that zones differ in what the bound leaves "
    "out."
)
SHARED = "Noise is shared by the slots of a zone: sums over slots do not average it out."


def _plain(family: str, mean: float, half: float, scale_words: str) -> tuple[str, ...]:
    return (
        f"{family} noise was added to every zone and slot: before counts were scaled up it is {mean:.1f} on "
        f"average, and less than {half:.1f} in 95 of 100 cases. Counts much smaller than the noise say "
        "little. In the manifest, `noise_scale_people` is that noise of one count in people: its "
        f"{scale_words}.",
        "The noise of a sum of n counts grows like the square root of n.",
        NEGATIVE,
        INTERVAL,
    )


def read_gaussian(mechanism: Any) -> tuple[str, ...]:
    sigma = mechanism.counts.sigma / mechanism.counts.lattice
    return _plain("Gaussian", sigma * math.sqrt(2 / math.pi), Z95 * sigma, "standard deviation")


def read_laplace(mechanism: Any) -> tuple[str, ...]:
    scale = mechanism.counts.scale / mechanism.counts.lattice
    return _plain("Laplace", scale, scale * math.log(20), "mean size (the scale b)")


def read_waves(mechanism: Any) -> tuple[str, ...]:
    """Of methods that keep the slowest waves of each zone's series."""
    told = mechanism.counts.describe()
    return (
        f"Each zone's series was reduced to its {told['waves']} slowest waves before noise was added, so "
        "changes faster than those are not in it, whatever the budget.",
        f"The noise of one count has a standard deviation of {told['noise_scale_people']:.1f} people before "
        "counts were scaled up (`noise_scale_people` in the manifest). Neighbouring slots of a zone share "
        "it, so sums over slots do not average it out.",
        NEGATIVE,
        f"{INTERVAL} They do not cover what the waves leave out either.",
    )


def read_scheme(mechanism: Any) -> tuple[str, ...]:
    """Of the scheme of Acs and Castelluccia, in all its variants."""
    return (
        f"The city was cut into {mechanism.cells} cells; cells with few visits were joined with their "
        "neighbours into clusters by noisy totals. A cluster has one course over the slots, from its slowest "
        "waves with noise; each of its cells follows that course, scaled to the cell's own noisy total.",
        "So zones of one cluster rise and fall together, and what happens in one of them alone, or faster "
        "than the waves that were kept, is not in the numbers, whatever the budget.",
        SHARED,
        "`people_low` and `people_high` are the ends of a 95 % interval for the number before noise, made "
        "from the noise and from what the model is known to leave out on simulated cities; where zones "
        "differ more from their neighbours it is too narrow.",
    )


def read_best(mechanism: Any) -> tuple[str, ...]:
    """Of the method `best`."""
    return (
        "All visits were counted. Before each sum every user was scaled down to a bounded size, so very "
        "active users count less in the fine detail; totals were then brought to a number of visits bought "
        "separately.",
        "What was measured with noise are the city's slots, regions over the kinds of days and hours of a "
        "day, and zones in the few courses over time that regions showed; the rest is smoothing over "
        "neighbouring zones.",
        "So a zone follows courses that are found elsewhere in the city, and a sudden event in one zone "
        "alone appears only where it was large against the noise.",
        "Days of the week are taken in four kinds (Monday to Thursday, Friday, Saturday, Sunday), and nights "
        "are taken to be quiet until the city's own course is known: nothing else is assumed about the "
        "window.",
        SHARED,
        "`people_low` and `people_high` are the ends of a 95 % interval for the number before noise, made "
        "from the noise, from how unlike neighbouring zones are, and from how counts scatter; where few "
        "people were counted, the numbers are nearly flat and the interval says so.",
    )
