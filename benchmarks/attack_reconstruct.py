"""What answers and counts give away: bits from counting queries, membership, unicity.

    make bench-attack-reconstruct     rows on the screen and in out/attack-reconstruct.jsonl; QUICK=1: small

Reconstruction: random subsets of random bits, epsilon for all answers together. Membership: groups of a
simulated town, an adversary who knows a person's visits and a sample of others. With --docs a full run also
writes docs/results/attack-reconstruct.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.city import simulated_city
from benchmarks.table import machine_class, report

DOCS = Path(__file__).parents[1] / "docs" / "results"
NAME = "attack-reconstruct"
FULL = {"bits": 2000, "queries": 8000, "users": 40_000, "group": 2000, "worlds": 40, "targets": 200}
QUICK = {"bits": 300, "queries": 1200, "users": 3000, "group": 500, "worlds": 10, "targets": 100}
ANSWERS = (None, 100.0, 10.0, 1.0)
DEFENCES = ("best", "gaussian", "laplace", "scm-event", "threshold")
DEFENDED_AT = (1.0, 10.0)
WANTED = 0.95  # of the bits, from exact answers


def main(quick: bool, docs: bool) -> None:
    size = QUICK if quick else FULL
    bits = [_bits(size, epsilon) for epsilon in ANSWERS]
    report(NAME, bits, "bits recovered from counting queries")
    met = bits[0]["share_recovered"] >= WANTED
    print(f"exact answers: asked for {WANTED:.0%} of the bits: {'met' if met else 'missed'}")
    source = _town(size["users"])
    members = _members(source, size)
    report(NAME, members, "membership in the counts of a group")
    unique = _unique(source)
    report(NAME, unique, "people that a few points single out")
    if docs and not quick:
        _write_docs(bits, members, unique, size)


def _bits(size: dict, epsilon: float | None) -> dict:
    from shoal.attacks.runs.reconstruct import reconstruct_random

    run = reconstruct_random(bits=size["bits"], queries=size["queries"], epsilon=epsilon, seed=1)
    names = ("bits", "queries", "epsilon", "share_recovered", "share_at_most", "seconds")
    return {"what": "reconstruction", **{name: run[name] for name in names}, "fit": run["used"]}


def _town(users: int):
    from shoal.attacks.runs.counts import open_attack_source
    from shoal.kinds.plan import read_plan
    from shoal.kinds.simulated import write_city_plan

    return open_attack_source(read_plan(write_city_plan(simulated_city("town", users))))


def _members(source, size: dict) -> list[dict]:
    from shoal.attacks.runs.membership import attack_source
    from shoal.attacks.runs.plans import MembershipPlan

    rows = []
    for defence in (None, *DEFENCES):
        plan = MembershipPlan(
            group=size["group"],
            worlds=size["worlds"],
            targets=size["targets"],
            defences=(defence,) if defence else (),
            epsilons=DEFENDED_AT,
        )
        start = time.perf_counter()
        counted, attacked = attack_source(source, plan)
        seconds = time.perf_counter() - start
        rows += [
            {
                "what": "membership",
                **{name: row[name] for name in ("counts", "set_at", "visits", "visits_median", "auc")},
                "auc_at_most": row["auc_at_most"],
                "tpr_at_0.1%": row["tpr_at_fpr_0.001"],
                "users": counted["users"],
                "group": counted["group"],
                "seconds": seconds,  # of all rows of this method
            }
            for row, _ in attacked
            if row["counts"] == (defence or "raw")
        ]
        print(f"membership, {defence or 'raw counts'}: {seconds:.1f} s", flush=True)
    return rows


def _unique(source) -> list[dict]:
    from shoal.attacks.models.unicity import coarser, unicity

    rows = []
    for merged in (1, 6, 24):
        start = time.perf_counter()
        found = unicity(coarser(source.visits, slots_merged=merged), (1, 2, 3, 4))
        seconds = time.perf_counter() - start
        shares = {f"points_{each.points}": each.share for each in found}
        minutes = merged * source.clock.slot_minutes
        users = source.visits.users
        rows.append({"what": "unicity", "users": users, "minutes": minutes, **shares, "seconds": seconds})
    return rows


def _write_docs(bits: list[dict], members: list[dict], unique: list[dict], size: dict) -> None:
    text = f"""# Attacks on queries and counts

{time.strftime("%Y-%m-%d")}, {machine_class()}; `make bench-attack-reconstruct`.

## Bits from counting queries

Random subsets of random bits; epsilon is for all answers together. Guessing gives 50 %; no adversary can
expect more than "at most".

{_table(("bits", "queries", "epsilon", "recovered", "at most", "seconds"), map(_bits_row, bits))}

## Membership

Simulated town, {members[0]["users"]:,} people, one week by the hour; {size["worlds"]} groups of
{size["group"]:,}, {size["targets"]} targets of few and of many visits. The adversary knows a target's visits
and everybody outside the pool. AUC 0.5 is chance; found: members found at 0.1 % false alarms. A method's
epsilon is what it was set at; "at most" stands where that is a guarantee for a user.

{_table(("counts", "set at", "visits", "median", "AUC", "at most", "found"), map(_member_row, members))}

A figure near 0.5 is a failure of this adversary, not a proof: the guarantee is the bound.

## Unicity

The same people; points are zone and slot.

{_table(("minutes", "1 point", "2", "3", "4", "seconds"), map(_unique_row, unique))}
"""
    (DOCS / f"{NAME}.md").write_text(text, "utf-8")
    print(f"written: {NAME}.md")


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headings, ("---:",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _bits_row(row: dict) -> tuple[str, ...]:
    private = row["epsilon"] is not None
    return (
        f"{row['bits']:,}",
        f"{row['queries']:,}",
        f"{row['epsilon']:g}" if private else "exact answers",
        f"{row['share_recovered']:.1%}",
        f"{row['share_at_most']:.1%}" if private else "",
        f"{row['seconds']:.1f}",
    )


def _member_row(row: dict) -> tuple[str, ...]:
    return (
        row["counts"],
        "" if row["set_at"] is None else f"{row['set_at']:g}",
        row["visits"],
        f"{row['visits_median']:g}",
        f"{row['auc']:.3f}",
        "" if row["auc_at_most"] is None else f"{row['auc_at_most']:.3f}",
        "" if row["tpr_at_0.1%"] is None else f"{row['tpr_at_0.1%']:.1%}",
    )


def _unique_row(row: dict) -> tuple[str, ...]:
    shares = (f"{row[f'points_{p}']:.1%}" for p in (1, 2, 3, 4))
    return (str(row["minutes"]), *shares, f"{row['seconds']:.1f}")


if __name__ == "__main__":
    main(quick="--quick" in sys.argv, docs="--docs" in sys.argv)
