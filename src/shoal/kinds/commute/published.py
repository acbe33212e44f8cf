"""The published files of synthetic events at sites: their columns, and what they determine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.kinds.verdict import PER_MEAN, Change, Verdict, from_size, judged, unit_noise, with_epsilons
from shoal.release.manifest import Manifest
from shoal.release.verify import repeated_values
from shoal.space.clock import window_of

COLUMNS = {
    "user": "id of a synthetic person, s and a number",
    "time": "when the call was made, UTC (a timestamp in Parquet, ISO 8601 text in CSV)",
    "site": "id of the site, as in the public list",
    "lon": "longitude of the site (x where the list is planar)",
    "lat": "latitude of the site (y where the list is planar)",
}
FILES = {"events.parquet": COLUMNS, "events.csv": COLUMNS}


LIMITS = (0.15, 0.4, 1.0)  # of the mean error of the number of homes at a site, over their mean
SUMMARY = (
    "The number of homes at a site is off by about {error} of the mean; numbers by hour and over many sites "
    "are closer."
)


def verdict(folder: Path, manifest: Manifest) -> Verdict:
    """From the published number of people and the noise of the homes."""
    public, noted = manifest.public, manifest.input
    return verdict_of(noted.get("users_with_noise"), public["mechanism"], manifest.guarantee)


def verdict_of(users: float | None, described: Mapping[str, Any], guarantee: Mapping[str, Any]) -> Verdict:
    sites, noise = described["sites"], described["noise_users"]["homes"]

    def error(users: float, noise: float = noise, sites: int = sites) -> float:
        return PER_MEAN * noise * sites / max(users, 1.0)

    if users is None:
        return from_size("people", "", error, LIMITS)
    changes = [
        Change(
            lever="sites",
            what=f"{sites // factor:,} groups of sites instead of {sites:,} sites",
            error=error(users, sites=sites // factor),
        )
        for factor in (2, 4, 10)
        if sites >= 2 * factor
    ]
    scale = noise / unit_noise(guarantee)
    changes += with_epsilons(guarantee, lambda noise: error(users, noise * scale))
    return judged(error(users), LIMITS, SUMMARY, changes)


def problems(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Mismatches of window, people or sites between manifest and events."""
    public, people = manifest.public, manifest.input["synthetic_people"]
    begin, end = window_of(public)
    table = pq.read_table(folder / "events.parquet", columns=["user", "time", "site"])
    time = table["time"].cast(pa.int64()).to_numpy()
    if ((time < begin) | (time >= end)).any():
        yield "events.parquet has events outside the window."
    if len(table["user"].unique()) > people or public["count"] not in (None, people):
        yield "the number of synthetic people is not the one in events.parquet."
    if len(table["site"].unique()) > public["sites"]["count"] or public["synthetic"] is not True:
        yield "events.parquet has more sites than the manifest counts, or it is not called synthetic."
    yield from repeated_values(manifest)
