"""Estimates of peak memory and release size per kind, from public numbers of the plan alone.

Fitted to whole runs on little data, report included; `make bench-memory` measures ten plans anew.
"""

from __future__ import annotations

from shoal.release.resources import MEGA, Needs

BASE = 480 * MEGA  # the interpreter with its libraries, and the owner's report
SMALL_FILES = 8 * MEGA  # owner's report, manifest, README


def density_needs(zones: int, slots: int) -> Needs:
    """Arrays over zones and slots, the geometry of the zones; CSV and Parquet of every zone and slot."""
    cells = zones * slots
    return Needs(memory=BASE + 120 * cells + 13_000 * zones, disk=SMALL_FILES + 95 * cells + 4_000 * zones)


def query_needs(zones: int, slots: int, queries: int) -> Needs:
    """The table of zones and slots that queries are answered from."""
    return Needs(
        memory=BASE + 40 * zones * slots + 10_000 * zones, disk=SMALL_FILES + 500 * queries + 2_000 * zones
    )


def histogram_needs(cells: int, rectangles: int) -> Needs:
    """Faces and edges of the map with the noisy tables above them; the rectangles that are served."""
    return Needs(
        memory=BASE + 340 * cells + 1_000 * rectangles, disk=SMALL_FILES + 10 * cells + 100 * rectangles
    )


def synthetic_needs(cells: int, trips: int) -> Needs:
    """Tables of the model over the cells of the map; the drawn trips, in memory and in the files."""
    return Needs(memory=BASE + 1_000 * cells + 2_500 * trips, disk=SMALL_FILES + 2_500 * trips)


def commute_needs(sites: int, slots: int, people: int) -> Needs:
    """Tables over the sites and slots; the drawn people with their events.

    The number of events of a person is measured with noise, so with a small budget a run may need several
    times more or less.
    """
    return Needs(
        memory=BASE + 2_000 * sites + 1_000 * slots + 5_000 * people, disk=SMALL_FILES + 3_000 * people
    )
