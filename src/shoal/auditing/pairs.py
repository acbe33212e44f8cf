"""Neighbouring tables of events: edge cases by name, crowds of every size, ties, and more from a seed.

A pair is a table and one user's rows. The neighbour is the table with those rows mixed in. The user is new
in it, so the two differ by exactly one user. Events are small Arrow batches, and a released table of zones
and slots is written as lines of CSV.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC
from functools import cache, cached_property

import numpy as np
import pyarrow as pa

from shoal.mechanisms.audit_size import START
from shoal.stages.noisy import DensityEstimate

HOUR_US = 3_600_000_000
START_US = int(START.replace(tzinfo=UTC).timestamp()) * 1_000_000
Event = tuple[int | str, int, int]  # user, time_us, site


def table_bytes(estimate: DensityEstimate) -> bytes:
    """Every zone and slot as a line of CSV, also the zeros."""
    zones, slots = estimate.people.shape
    people, low, high = estimate.people.tolist(), estimate.low.tolist(), estimate.high.tolist()
    lines = [
        f"{zone},{slot},{people[zone][slot]},{low[zone][slot]},{high[zone][slot]}"
        for zone in range(zones)
        for slot in range(slots)
    ]
    return "\n".join(["zone,slot,people,low,high", *lines, ""]).encode()


def read_table(released: bytes, column: str = "high") -> np.ndarray:
    """One column of released bytes, in order of the rows: what an adversary reads."""
    header, *lines = released.decode().split("\n")[:-1]
    position = header.split(",").index(column)
    return np.array([float(line.split(",")[position]) for line in lines])


def event_table(events: list[Event], *, batch_rows: int = 4) -> list[pa.RecordBatch]:
    """Normalised events as small Arrow batches; ids are all int64 or all strings."""
    users = [user for user, _, _ in events]
    kind = pa.string() if any(isinstance(user, str) for user in users) else pa.int64()
    ids = [str(user) for user in users] if kind == pa.string() else users
    table = pa.table(
        {
            "user": pa.array(ids, kind),
            "time_us": pa.array([time for _, time, _ in events], pa.int64()),
            "site": pa.array([site for _, _, site in events], pa.int32()),
        }
    )
    return table.to_batches(max_chunksize=batch_rows)


NEW = 10**6  # the added user, in no table
FAR = 2**63 - 1
CROWDS = (*range(65), 99, 100, 127, 128, 255)  # thresholds someone may compare a raw count with


@dataclass(frozen=True)
class Pair:
    """A table of events and the rows of one more user."""

    name: str
    table: tuple[Event, ...]
    added: tuple[Event, ...]
    thorough: bool = True  # every kind of transcript; else two, where only a number of people is at stake

    @cached_property
    def tables(self) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
        """Both sides as Arrow batches, small ones where order and splits are at stake as well."""
        rows = 4 if self.thorough else 1000
        return event_table(self.before(), batch_rows=rows), event_table(self.after(), batch_rows=rows)

    def before(self) -> list[Event]:
        return list(self.table)

    def after(self) -> list[Event]:
        """The table with the user's rows spread through it, not simply appended."""
        rows = list(self.table)
        for i, row in enumerate(self.added):
            rows.insert((7 * i + 3) % (len(rows) + 1), row)
        return rows


def at(slot: int, offset_us: int = 1) -> int:
    return START_US + slot * HOUR_US + offset_us


def edge_pairs(slots: int, ell: int, sites: int = 4) -> list[Pair]:
    """The cases someone would forget: emptiness, caps, crowds, edges of the window, odd ids."""
    crowd = tuple((user, at(user % slots), user % sites) for user in range(9))
    in_one_cell = tuple((user, at(2), 1) for user in range(6))
    every_cell = tuple((100 * site + slot, at(slot), site) for site in range(sites) for slot in range(slots))
    # Three users in exactly half of the 3 x slots cells of zones and slots: one more moves the median.
    full = [(slot, 0) for slot in range(slots)] + [(slot, 3) for slot in range(slots // 2)]
    half_full = tuple((100 * i + n, at(slot), site) for i, (slot, site) in enumerate(full) for n in range(3))
    at_cap = tuple((user, at(slot), 0) for user in range(8) for slot in range(ell))

    def visits(count: int, site: int = 0) -> tuple[Event, ...]:
        return tuple((NEW, at(slot), site) for slot in range(count))

    cases = {
        "nobody, and one user at the cap": ((), visits(ell)),
        "nobody, and one user above the cap": ((), visits(slots)),
        "one light user among heavy ones": (at_cap, visits(1)),
        "half of the cells full": (half_full, tuple((NEW, at(s), 3) for s in range(slots // 2, slots))),
        "nobody, and one user with one visit": ((), visits(1, site=3)),
        "user at the cap in a crowd": (crowd, visits(ell)),
        "user above the cap in a crowd": (crowd, visits(slots, site=3)),
        "everything in one cell": (in_one_cell, ((NEW, at(2), 1),)),
        "one user in every cell": (every_cell, visits(slots)),
        "sole occupant of a zone": (in_one_cell, ((NEW, at(2), 3),)),
        "sole occupant of a slot": (in_one_cell, ((NEW, at(slots - 1), 1),)),
        "many events in one slot": (crowd, tuple((NEW, at(1, k), k % sites) for k in range(1, 40))),
        "the same event many times": (crowd, ((NEW, at(0), 0),) * 20),
        "outside every site": (crowd, ((NEW, at(0), -1), (NEW, at(1), -1))),
        "out of the window": (crowd, ((NEW, at(-1), 0), (NEW, at(slots, 0), 0), (NEW, at(10**4), 0))),
        "at the edges of the window": (crowd, ((NEW, at(0, 0), 0), (NEW, at(slots, -1), 0))),
        "extreme times": (crowd, ((NEW, -FAR - 1, 0), (NEW, FAR, 0), (NEW, 0, 0), (NEW, at(3), 3))),
        "user with no visit at all": ((), ((NEW, FAR, -1),)),
        "another site in every slot": ((), tuple((NEW, at(slot), slot % sites) for slot in range(ell))),
        "every site in every slot": (
            crowd,
            tuple((NEW, at(s), p) for s in range(slots) for p in range(sites)),
        ),
        "heavy others": (tuple((user, at(s), s % sites) for user in (1, 2) for s in range(slots)), visits(1)),
    }
    pairs = [Pair(name, table, added) for name, (table, added) in cases.items()]
    words = tuple((f"user-{user}", time, site) for user, time, site in crowd)
    pairs.append(
        Pair("ids that are words", words, tuple(("", time, site) for _, time, site in visits(slots)))
    )
    extreme = ((-FAR - 1, at(0), 0), (FAR, at(0), 0), (0, at(1), 1))
    pairs.append(Pair("extreme ids", extreme, visits(slots)))
    return pairs


def crowd_pairs(ell: int) -> list[Pair]:
    """m users in the same cells and one more, all of them at the cap, for every m of CROWDS.

    A rule on a raw count, total or number of users changes its mind between some m and m + 1, and then
    moves the counts by more than one user may. Site 0 lies in one zone; site 1 is shared by several, so its
    counts move by parts of visits.
    """
    return [crowd_pair(m, ell, site) for site in (0, 1) for m in CROWDS]


@cache
def crowd_pair(m: int, ell: int, site: int = 0) -> Pair:
    """m users in the same ell cells, and one more."""

    def stay(user: int) -> tuple[Event, ...]:
        return tuple((user, at(slot), site) for slot in range(ell))

    return Pair(
        f"{m} users and one more at site {site}",
        tuple(row for user in range(m) for row in stay(user)),
        stay(NEW),
        thorough=False,
    )


@cache
def lone_pair(visits: tuple[tuple[int, int], ...]) -> Pair:
    """Nobody, and one user with visits at slots and places."""
    rows = tuple((NEW, at(slot), place) for slot, place in visits)
    return Pair("nobody, and the user who costs the most", (), rows)


def tie_pairs(slots: int, sites: int = 4) -> list[Pair]:
    """Heavy others between whose slots, or sites, there is a tie, which the new user breaks."""
    slots_tie = tuple((user, at(slot), 0) for user in range(8) for slot in range(slots))
    sites_tie = tuple((user, at(2, site), site) for user in range(8) for site in range(sites))
    return [
        Pair("tie of slots, broken at the last", slots_tie, ((NEW, at(slots - 1), 0),), thorough=False),
        Pair("tie of slots, broken at the first", slots_tie, ((NEW, at(0), 0),), thorough=False),
        Pair("tie of sites, broken at the last", sites_tie, ((NEW, at(2), sites - 1),), thorough=False),
        Pair("tie of sites, broken at the first", sites_tie, ((NEW, at(2), 0),), thorough=False),
    ]


def random_pairs(seed: int, count: int, slots: int, sites: int = 4) -> list[Pair]:
    """More pairs from a seed: any users, times in and around the window, all sites and none."""
    rng = random.Random(seed)  # makes test input; nothing private depends on it

    def row(user: int) -> Event:
        return user, at(rng.randint(-1, slots), rng.randint(0, 3)), rng.randint(-1, sites - 1)

    return [
        Pair(
            f"random {i}",
            tuple(row(rng.randint(0, 6)) for _ in range(rng.randint(0, 30))),
            tuple(row(NEW) for _ in range(rng.randint(1, 15))),
        )
        for i in range(count)
    ]
