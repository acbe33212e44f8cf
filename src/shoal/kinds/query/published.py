"""The published files of answered queries: answers with intervals, the queries as they were understood."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Sequence
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
from shoal.release.readme import as_cell
from shoal.release.verify import Decimals, clock_of, count_of
from shoal.space.setting import Question
from shoal.stages.noisy import Answers

FILES = {
    "answers.csv": {
        "query": "name of the query, as in queries.jsonl",
        "zones": "number of zones it covers",
        "slots": "number of slots it covers",
        "visits": "visits in these zones and slots, with noise, not negative; see README.md",
        "visits_low": "lower end of the 95 % interval, not below zero",
        "visits_high": "upper end of the 95 % interval",
        "clip": "visits of one user that were counted there, at most; what this omits is estimated (not for "
        "weights)",
        "how": "noise: measured with noise of its own. weights: answered by the trained table",
    },
    "queries.jsonl": {
        "name": "name of the query",
        "zones": "ids of its zones",
        "slots": "numbers of its slots, from 0",
    },
}


def write_queries(folder: Path, written: str) -> None:
    """The queries themselves, which are public."""
    (folder / "queries.jsonl").write_text(written, "utf-8")


def write_answers(folder: Path, answers: Answers, questions: Sequence[Question]) -> None:
    """The noisy answers into `folder`, one row per query."""
    with open(folder / "answers.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FILES["answers.csv"])
        numbers = (answers.visits, answers.low, answers.high, answers.clip)
        columns = (*(each.tolist() for each in numbers), answers.how)
        for question, *numbers in zip(questions, *columns, strict=True):
            writer.writerow([as_cell(question.name), len(question.zones), len(question.slots), *numbers])


def read_answers(folder: Path) -> list[dict]:
    """The rows of answers.csv, numbers as numbers."""
    with open(folder / "answers.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    whole, real = ("zones", "slots"), ("visits", "visits_low", "visits_high", "clip")
    return [
        {
            name: int(value) if name in whole else float(value) if name in real else value
            for name, value in row.items()
        }
        for row in rows
    ]


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
