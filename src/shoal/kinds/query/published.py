"""The published answers to queries, read again: what they determine of the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from shoal.release.manifest import Manifest
from shoal.release.query_files import FILES, read_answers
from shoal.release.readme import as_cell
from shoal.release.verify import Decimals, clock_of, count_of

__all__ = ["FILES", "problems"]


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
