"""Reconstruction from a log of counting queries, and the same attack on random bits.

log      cells fixed by the queries alone, differences that count only a few, and a reconstruction of counts
events   held against the owner's events: are the counts right, and who was seen at zones that are left out?
demo     random subsets of random bits, answered exactly or with noise

The survey's last step of query auditing (section 3.1.1): equipped with the data, compare it with what the
attack found. The comparison looks at the data, so whether to answer must not be decided by it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence, Set
from math import exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from shoal.attacks.models.reconstruct import (
    Difference,
    Query,
    determined_cells,
    find_differences,
    random_bits,
    random_subsets,
    reconstruct,
)
from shoal.attacks.runs.counts import AttackSource, open_attack_source
from shoal.attacks.runs.findings import Column, Findings, table_of
from shoal.attacks.runs.plans import ReconstructPlan
from shoal.errors import SourceError
from shoal.kinds.describe import Table
from shoal.kinds.plan import DEFAULT_DELTA
from shoal.kinds.run import Progress
from shoal.privacy.accounting import NANO, check_epsilon, rho_for
from shoal.privacy.noise import SeededNoise

KEYS = ("zones", "slots", "except", "answer")
HOW = 'Write one query a line: {"zones": ["A", "B"], "slots": [0, 1], "answer": 12}.'
MOST_CELLS = 3000  # elimination and factorisation grow with the cube
SHOWN = 20  # rows on the screen; the file has all
COLUMNS = (
    Column("zone", "zone"),
    Column("slot", "slot", "d"),
    Column("count", "count", "d"),
    Column("fixed", "fixed"),
)
LEGEND = (
    "fixed: the only count consistent with the queries, if their answers are exact; with noisy or "
    "contradictory answers it is wrong."
)


Log = Sequence[tuple[Query, float | None]]  # queries in their order, with their answers where there are any


def run(settings: Mapping[str, Any] | None, plan: ReconstructPlan, progress: Progress) -> Findings:
    """Attack the log; where settings of a density plan are given, hold the findings against its events."""
    if plan.log is None:
        return _demonstration(plan, progress)
    progress.stage("read the log")
    log = read_query_log(plan.log)
    source = open_attack_source(settings, progress=progress) if settings is not None else None
    seen_at = people_seen_at(source, log) if source else None
    progress.stage("attack")
    figures = attack_log(log, fewer_than=plan.fewer_than, most=plan.most, seen_at=seen_at)
    figures["check"] = check_counts(source, figures["counts"]) if source else None
    sentence, *notes = _sentences(figures)
    return Findings(figures=figures, tables=_tables(figures), sentence=sentence, notes=notes)


def _difference(each: Difference) -> dict[str, Any]:
    return {
        "words": each.words(),
        "plus": [number + 1 for number in each.plus],
        "minus": [number + 1 for number in each.minus],
        "size": each.size,
        "of": "people" if each.people else "cells",
        "except": sorted(each.people),
        "cells": [{"zone": zone, "slot": slot} for zone, slot in sorted(each.cells, key=repr)],
    }


def _tables(figures: Mapping[str, Any]) -> list[Table]:
    tables = []
    if figures["differences"]:
        title = "Queries whose difference counts only a few"
        columns = (Column("words", "difference"),)
        tables.append(table_of(columns, figures["differences"], title=title, most=SHOWN))
    if figures["counts"] is not None:
        fixed = {(each["zone"], each["slot"]) for each in figures["disclosed"]}
        rows = [
            {**each, "fixed": "yes" if (each["zone"], each["slot"]) in fixed else ""}
            for each in figures["counts"]
        ]
        title = f"Most probable counts, fitted to {figures['answered']} answers (fit: {figures['fit']})"
        tables.append(table_of(COLUMNS, rows, title=title, below=LEGEND, most=SHOWN))
    return tables


def _sentences(figures: Mapping[str, Any]) -> list[str]:
    lines = [
        f"The answers to {figures['queries']} queries fix {len(figures['disclosed'])} of {figures['cells']} "
        "cells (a zone in a slot) exactly, whatever the data are."
    ]
    if not figures["differences"]:
        lines.append("No two or three queries differ by a few only.")
    if figures["counts"] is None:
        lines.append("The log has no answers: no count was reconstructed.")
    elif figures["check"] is not None:
        visited = figures["check"]["share_right_of_visited"]
        of_visited = "" if visited is None else f", and {visited:.1%} of those with a visit"
        lines.append(f"{figures['check']['share_right']:.1%} of the counts are right{of_visited}.")
    return lines


def _demonstration(plan: ReconstructPlan, progress: Progress) -> Findings:
    progress.stage("solve")
    run = reconstruct_random(bits=plan.bits, queries=plan.queries, epsilon=plan.epsilon, seed=plan.seed)
    answers = "exact answers"
    summary = [f"Solved in {run['seconds']:.1f} s (fit: {run['used']})."]
    if plan.epsilon is not None:
        answers = f"answers at epsilon {plan.epsilon:g} for all together"
        summary.append(f"No adversary can expect more than {run['share_at_most']:.1%} at this epsilon.")
    sentence = (
        f"From {answers} to {plan.queries:,} random subsets, {run['share_recovered']:.1%} of {plan.bits:,} "
        f"random bits were recovered; guessing gives {run['share_by_guessing']:.0%}."
    )
    return Findings(figures=run, sentence=sentence, notes=summary, stored=False)


def reconstruct_random(*, bits: int, queries: int, epsilon: float | None, seed: int = 1) -> dict[str, Any]:
    """Fair bits, subsets of about half of them; epsilon is for all answers together, None: exact answers.

    One bit changes each answer by at most 1, so discrete Gaussian noise of sigma on each costs
    queries / (2 sigma^2) in rho; sigma follows from epsilon at delta 1e-6. `share_at_most` is what
    (epsilon, delta) lets any adversary get of a fair bit.
    """
    truth, subsets = random_bits(bits, seed), random_subsets(bits, queries, seed + 1)
    answers = np.rint(subsets.astype(np.float32) @ truth.astype(np.float32)).astype(np.int64)
    sigma, at_most = 0.0, 1.0
    if epsilon is not None:
        rho = rho_for(check_epsilon(epsilon), DEFAULT_DELTA) / NANO
        sigma = sqrt(queries / (2 * rho))
        answers = SeededNoise(seed).gaussian("subsets", answers, sigma)
        at_most = (1 + DEFAULT_DELTA * exp(-epsilon)) / (1 + exp(-epsilon))
    start = time.perf_counter()
    solved = reconstruct(subsets, answers)
    return {
        "bits": bits,
        "queries": queries,
        "epsilon": epsilon,
        "delta": None if epsilon is None else DEFAULT_DELTA,
        "sigma": sigma,
        "share_recovered": solved.share_recovered(truth),
        "share_by_guessing": 0.5,
        "share_at_most": at_most,
        "used": solved.used,
        "seconds": time.perf_counter() - start,
    }


def read_query_log(path: str | Path) -> Log:
    """JSON lines of zones, slots, except and answer; the last two may be missing."""
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise SourceError("log-file", f"the query log {path} cannot be read.", "Check the path.") from None
    log = [_query_of(line, number) for number, line in enumerate(lines, 1) if line.strip()]
    if not log:
        raise SourceError("log-empty", f"the query log {path} has no query.", HOW)
    return log


def _query_of(line: str, number: int) -> tuple[Query, float | None]:
    def bad(problem: str) -> SourceError:
        return SourceError("log-line", f"line {number} of the query log {problem}.", HOW)

    try:
        given: Any = json.loads(line)
    except json.JSONDecodeError:
        raise bad("is not JSON") from None
    if not isinstance(given, dict):
        raise bad("is not an object")
    unknown = [key for key in given if key not in KEYS]
    if unknown:
        raise bad(f'has an unknown key "{unknown[0]}"; known are {", ".join(KEYS)}')
    zones, slots, left_out = given.get("zones"), given.get("slots"), given.get("except", [])
    if not _listed(zones, (str, int)) or not zones:
        raise bad("needs zones, a list of names")
    if not _listed(slots, int) or not slots or min(slots) < 0:
        raise bad("needs slots, a list of whole numbers from 0")
    if not _listed(left_out, str):
        raise bad("has an except that is not a list of names")
    answer = given.get("answer")
    if answer is not None and (isinstance(answer, bool) or not isinstance(answer, int | float)):
        raise bad("has an answer that is not a number")
    if answer is not None and not abs(answer) < 1e15:
        raise bad("has an answer that is not finite or far too large")
    return Query.over((str(zone) for zone in zones), slots, left_out), answer


def _listed(values: Any, kind: Any) -> bool:
    if not isinstance(values, list):
        return False
    return all(isinstance(each, kind) and not isinstance(each, bool) for each in values)


def attack_log(
    log: Log,
    *,
    fewer_than: int = 5,
    most: float | None = None,
    seen_at: Mapping[str, Set[int]] | None = None,
) -> dict[str, Any]:
    """Disclosed cells and differences from the queries; where there are answers, a reconstruction of counts.

    Queries that leave somebody out enter the differences only: their answers are about other visits.
    """
    whole = [(query, answer) for query, answer in log if not query.leaves_out]
    cells: list[Any] = sorted({cell for query, _ in whole for cell in query.cells})
    if len(cells) > MOST_CELLS:
        raise SourceError(
            "log-cells",
            f"the log asks for {len(cells)} cells; up to {MOST_CELLS} can be solved for.",
            "Attack a part of the log, or coarser cells.",
        )
    matrix = _matrix([query for query, _ in whole], cells)
    fixed = determined_cells(matrix) if whole else np.zeros(0, bool)
    differences = find_differences([query for query, _ in log], fewer_than=fewer_than, seen_at=seen_at)
    answered = [row for row, (_, answer) in enumerate(whole) if answer is not None]
    counts = None
    if answered:
        answers = np.array([whole[row][1] for row in answered], float)
        upper = most if most is not None else max(1.0, float(answers.max()))
        counts = reconstruct(matrix[answered], answers, most=upper)
    return {
        "queries": len(log),
        "cells": len(cells),
        "disclosed": [
            {"zone": zone, "slot": slot} for (zone, slot), one in zip(cells, fixed, strict=True) if one
        ],
        "differences": [_difference(each) for each in differences],
        "answered": len(answered),
        "fit": counts and counts.used,
        "mean_residual": counts and counts.residual,
        "counts": counts
        and [
            {"zone": zone, "slot": slot, "count": int(count), "fitted": round(float(fitted), 4)}
            for (zone, slot), count, fitted in zip(cells, counts.rounded, counts.fitted, strict=True)
        ],
    }


def _matrix(queries: Sequence[Query], cells: Sequence[Any]) -> csr_matrix:
    column = {cell: number for number, cell in enumerate(cells)}
    entries = [(row, column[cell]) for row, query in enumerate(queries) for cell in query.cells]
    rows, columns = np.array(entries, np.int64).reshape(-1, 2).T
    return csr_matrix((np.ones(len(entries)), (rows, columns)), shape=(len(queries), len(cells)))


def check_counts(source: AttackSource, counts: list[dict[str, Any]] | None) -> dict[str, float | None]:
    """Reconstructed counts against the true ones: share of cells whose rounded count is right, the same of
    cells with a visit, and the mean error in people per cell; None where the log has no answers."""
    if counts is None:
        return dict.fromkeys(("share_right", "share_right_of_visited", "mean_error"))
    number, exact = _zone_numbers(source), source.visits.counts()
    for row in counts:
        if row["zone"] not in number or row["slot"] >= source.visits.slots:
            raise SourceError(
                "log-cell",
                f'the log asks for zone "{row["zone"]}" in slot {row["slot"]}, which the plan does not have.',
                "Use the ids of the plan's zones, and slots counted from 0 at the start of its window.",
            )
    truth = np.array([exact[number[row["zone"]], row["slot"]] for row in counts])
    right, visited = np.array([row["count"] for row in counts]) == truth, truth > 0
    return {
        "share_right": float(right.mean()),
        "share_right_of_visited": float(right[visited].mean()) if visited.any() else None,
        "mean_error": float(np.abs(np.array([row["fitted"] for row in counts]) - truth).mean()),
    }


def people_seen_at(source: AttackSource, log: Log) -> dict[str, Set[int]]:
    """For each zone that a query leaves out: who was seen there in the window."""
    number = _zone_numbers(source)
    people: dict[str, Set[int]] = {}
    for name in {name for query, _ in log for name in query.leaves_out}:
        if name not in number:
            raise SourceError(
                "log-except",
                f'the log leaves out those of "{name}", which is no zone of the plan.',
                "Name zones in except, or attack the log without a plan.",
            )
        there = source.visits.place == number[name]
        people[name] = frozenset(np.unique(source.visits.user[there]).tolist())
    return people


def _zone_numbers(source: AttackSource) -> dict[str, int]:
    return {str(zone): number for number, zone in enumerate(source.geography.zones.ids)}
