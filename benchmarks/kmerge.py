"""k-merge: seconds and nanoseconds per sample against samples and trajectories, on kind and on worst data.

    make bench-kmerge     k = 2, 3, 5, 10 trajectories of 100 to 100,000 samples each, made from a seed

interleaved   samples of all trajectories at random steps of the same stretch: time should be linear.
blocks        one trajectory after the other, so that the only box is all of them and every start is tried
              for every end in the last block: quadratic, the worst case. Up to 10,000 samples each.

Seconds are processor time of the Python function, sorting included, the best of several runs. The baseline,
in the same run on small sizes, is alg. 1 of the paper as printed, in plain Python: it goes back from each
sample and tests every set from scratch. Both costs must be equal. With --docs a full run writes
docs/results/kmerge.md and .svg.
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.table import machine_class, report
from benchmarks.trajectories_plot import merge_plot
from shoal.anonymise.kmerge import k_merge

DOCS = Path(__file__).parents[1] / "docs" / "results"
TRAJECTORIES = (2, 3, 5, 10)
FULL = {"interleaved": (100, 1_000, 10_000, 100_000), "blocks": (100, 1_000, 3_000, 10_000)}
QUICK = {"interleaved": (100, 1_000, 10_000), "blocks": (100, 1_000)}
BASELINE_SAMPLES = {"interleaved": 10_000, "blocks": 300}  # of all trajectories together, at most
LINEAR = 1.25  # power of samples up to which growth counts as linear: sorting and caches are in it


def main(quick: bool, docs: bool) -> None:
    k_merge(_made(2, 10, "interleaved"))  # compiled before the clock starts
    rows = []
    for data, sizes in (QUICK if quick else FULL).items():
        for k in TRAJECTORIES:
            rows += [_row(k, samples, data) for samples in sizes]
    report("kmerge", rows, "k-merge: time of the best merge of k trajectories")
    powers = {k: _power(rows, k, "interleaved") for k in TRAJECTORIES}
    print("interleaved, time grows as samples to the power:", _listed(powers))
    print(f"asked for: linear (under {LINEAR}): {'met' if max(powers.values()) < LINEAR else 'missed'}")
    thousand = max(row["seconds"] for row in rows if row["samples"] == 1_000 and row["data"] == "interleaved")
    print(f"2 to 10 trajectories of 1,000 samples: {1e3 * thousand:.1f} ms at most")
    if docs and not quick:
        _write_docs(rows, powers)


def _row(k: int, samples: int, data: str) -> dict:
    parts = _made(k, samples, data)
    seconds, merge = _timed(lambda: k_merge(parts))
    row = {
        "k": k,
        "samples": samples,
        "data": data,
        "seconds": seconds,
        "ns_per_sample": 1e9 * seconds / (k * samples),
        "boxes": merge.count,
        "printed_s": None,
        "ratio": None,
    }
    if k * samples <= BASELINE_SAMPLES[data]:
        start = time.thread_time()
        cost = merge_as_printed(parts)
        row["printed_s"] = time.thread_time() - start
        row["ratio"] = row["printed_s"] / seconds
        if cost != merge.cost:
            sys.exit(f"costs differ at k = {k}, {samples} samples, {data}: {merge.cost} and {cost}.")
    return row


def _made(k: int, samples: int, data: str) -> list[np.ndarray]:
    """k walks on the lattice. No two samples share a step: the printed algorithm leaves such ties open."""
    draw = np.random.default_rng([k, samples])
    total = k * samples
    t = np.cumsum(draw.integers(1, 6, total))
    owner = np.repeat(np.arange(k), samples)
    if data == "interleaved":
        owner = draw.permutation(owner)
    parts = []
    for each in range(k):
        place = np.cumsum(draw.integers(-2, 3, (samples, 2)), axis=0)
        parts.append(np.column_stack([t[owner == each], place]))
    return parts


def _timed(call) -> tuple[float, object]:
    """Best time of up to 20 calls within half a second, at least one; and the outcome."""
    best, spent, runs = math.inf, 0.0, 0
    while runs == 0 or (spent < 0.5 and runs < 20):
        start = time.thread_time()
        outcome = call()
        seconds = time.thread_time() - start
        best, spent, runs = min(best, seconds), spent + seconds, runs + 1
    return best, outcome


def merge_as_printed(parts: list[np.ndarray]) -> float:
    """Cost of the best merge by alg. 1, lines 3 to 17; cost[0] is that of nothing."""
    rows = sorted((*map(int, row), owner) for owner, part in enumerate(parts) for row in part)
    k, cost = len(parts), [0.0]
    for end in range(1, len(rows) + 1):
        begin, best = end - 1, math.inf
        while begin >= 0 and not _complete(rows[begin:end], k):
            begin -= 1
        while begin >= 0 and _elementary(rows[begin:end], k):
            best = min(best, cost[begin] + _cost(rows[begin:end]))
            begin -= 1
        cost.append(best)
    return cost[-1]


def _complete(rows: list[tuple], k: int) -> bool:
    return len({row[3] for row in rows}) == k


def _elementary(rows: list[tuple], k: int) -> bool:
    """No cut leaves two complete sets: after the shortest complete beginning, the rest lacks someone."""
    seen = set()
    for place, row in enumerate(rows):
        seen.add(row[3])
        if len(seen) == k:
            return not _complete(rows[place + 1 :], k)
    return False


def _cost(rows: list[tuple]) -> float:
    t, x, y, _ = zip(*rows, strict=True)
    return (max(t) - min(t) + 1) * (max(x) - min(x) + max(y) - min(y) + 2)


def _power(rows: list[dict], k: int, data: str) -> float:
    """By which power of samples time grows from the second size to the last; the first is overhead."""
    chosen = [row for row in rows if row["k"] == k and row["data"] == data]
    low, high = chosen[1 if len(chosen) > 2 else 0], chosen[-1]
    return math.log(high["seconds"] / low["seconds"]) / math.log(high["samples"] / low["samples"])


def _listed(powers: dict[int, float]) -> str:
    return ", ".join(f"{power:.2f} (k = {k})" for k, power in powers.items())


def _write_docs(rows: list[dict], powers: dict[int, float]) -> None:
    in_all = [{**row, "samples": row["k"] * row["samples"]} for row in rows]
    merge_plot(in_all, DOCS / "kmerge.svg")
    lines = [
        f"| {row['data']} | {row['k']} | {row['samples']:,} | {_shown(row['seconds'])} | "
        f"{row['ns_per_sample']:,.0f} | {row['boxes']:,} | {_shown(row['printed_s'])} | "
        f"{'' if row['ratio'] is None else format(row['ratio'], ',.0f')} |"
        for row in rows
    ]
    text = f"""# Time of k-merge

{time.strftime("%Y-%m-%d")}, {machine_class()}; `make bench-kmerge`: the best merge of k trajectories, called
from Python, sorting included; seconds of processor time on one core, best of several runs. Interleaved:
samples of all at random steps of the same period. Blocks: one trajectory after the other, the worst case.
The baseline is algorithm 1 as printed, in plain Python; its cost was the same every time.

Time grows as samples to the power p; linear is 1. From 1,000 samples each on:

- interleaved: {_listed(powers)}
- blocks: {_listed({k: _power(rows, k, "blocks") for k in TRAJECTORIES})}

![seconds against samples](kmerge.svg)

| data | k | samples each | seconds | ns per sample | boxes | as printed, seconds | ratio |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""
    (DOCS / "kmerge.md").write_text(text + "\n".join(lines) + "\n", "utf-8")
    print("written: kmerge.md, kmerge.svg")


def _shown(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2g}" if seconds < 10 else f"{seconds:.0f}"


if __name__ == "__main__":
    main(quick="--quick" in sys.argv, docs="--docs" in sys.argv)
