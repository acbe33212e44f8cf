"""The published answers to queries, read again: what they determine of the manifest."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from shoal.kinds.verdict import (
    PER_MEAN,
    Z95,
    Change,
    Verdict,
    from_size,
    judged,
    unit_noise,
    with_epsilons,
)
from shoal.release.manifest import Manifest
from shoal.release.query_files import FILES, read_answers
from shoal.release.readme import as_cell
from shoal.release.verify import Decimals, clock_of, count_of

__all__ = ["FILES", "problems", "verdict"]


SMALLEST = 0.1  # visits: an answer of zero is that small
LIMITS = (0.1, 0.3, 1.0)  # of the mean error of an answer, over the answer
SUMMARY = "An answer is off by about {error} of itself (the median over the queries)."


def verdict(folder: Path, manifest: Manifest) -> Verdict:
    """From the answers and their intervals."""
    rows, guarantee = read_answers(folder), manifest.guarantee
    shares = [(row["visits_high"] - row["visits"]) / max(row["visits"], SMALLEST) for row in rows]
    now = PER_MEAN / Z95 * float(np.median(shares))
    noise, pure = unit_noise(guarantee), not guarantee["delta"]
    changes = with_epsilons(guarantee, lambda other: now * other / noise)
    for part in (2, 4):
        if len(rows) >= part:
            fewer = now / (part if pure else math.sqrt(part))
            changes.append(Change(lever="queries", what=f"{len(rows) // part:,} queries", error=fewer))
    return judged(now, LIMITS, SUMMARY, changes)


def verdict_of(halves: list[float | None]) -> Verdict:
    """Before the run: how large an answer must be, given half the widths of the intervals."""
    known = [half for half in halves if half is not None]
    if not known:
        return Verdict(grade=None, summary="The width of the intervals is measured in the run.")
    mean = PER_MEAN / Z95 * float(np.median(known))
    return from_size("visits in an answer", "", lambda visits: mean / visits, LIMITS)


def problems(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Mismatches of queries, slots or intervals between manifest and answers."""
    public = manifest.public
    rows, slots = read_answers(folder), count_of(public["slots"])
    lines = (folder / "queries.jsonl").read_text("utf-8").splitlines()
    queries = [json.loads(line) for line in lines]
    sizes = [(len(each["zones"]), len(each["slots"])) for each in queries]
    same = sizes == [(row["zones"], row["slots"]) for row in rows] and len(rows) == public["queries"]
    named = (
        row["query"] in (each["name"], as_cell(each["name"]))
        for row, each in zip(rows, queries, strict=False)
    )
    if not (same and all(named)):
        yield "the answers are not those of the queries, or another number."
    if any(not 0 <= slot < slots for each in queries for slot in each["slots"]):
        yield "a query asks for a slot outside the window."
    zones = {zone for each in queries for zone in each["zones"]}
    if len(zones) > public["zones"]["count"]:
        yield "the queries name more zones than the manifest counts."
    if any(not 0 <= row["visits_low"] <= row["visits_high"] for row in rows):
        yield "answers.csv holds an interval that no release has."
    if sum(row["how"] == "noise" for row in rows) > public.get("updates", len(rows)):
        yield "more queries were answered with noise than the manifest allows."
    digits = Decimals(count_of(public["decimals"]))
    digits.see(*(np.array([row[name] for row in rows]) for name in ("visits", "visits_low", "visits_high")))
    yield from digits.problems("answers.csv")
    yield from clock_of(public, slots)
