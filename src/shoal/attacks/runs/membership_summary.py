"""The figures of a membership attack as plain values and in words, for the owner."""

from __future__ import annotations

from typing import Any

from shoal.attacks.runs.membership import FALSE_ALARMS, MembershipResult


def membership_told(result: MembershipResult) -> dict[str, Any]:
    """Figures as plain values."""
    rows = [
        {
            "counts": each.defence or "raw",
            "set_at": each.epsilon,
            "visits": each.visits,
            "visits_median": each.visits_median,
            "auc": each.roc.auc,
            "auc_at_most": each.auc_at_most,
            "tpr_at_fpr_0.001": each.roc.tpr_at(FALSE_ALARMS),
            "tpr_at_most": each.tpr_at_most,
            "scores_in": each.roc.members,
            "scores_out": each.roc.others,
        }
        for each in result.found
    ]
    return {
        "summary": summary(rows, result),
        "users": result.users,
        "group": result.group,
        "worlds": result.worlds,
        "slots": result.slots,
        "knows": result.knows,
        "rows": rows,
    }


def summary(rows: list[dict[str, Any]], result: MembershipResult) -> list[str]:
    """The outcome in words, for people with many visits, who are found most easily."""
    knows = "the visits of a person" if result.knows == "visits" else "a person's habits from the past"
    said = []
    for row in rows:
        share = row["tpr_at_fpr_0.001"]
        found = "" if share is None else f", and finds {share:.1%} of members at 0.1 % false alarms"
        counts = "raw counts" if row["counts"] == "raw" else f"counts by {row['counts']} at {row['set_at']:g}"
        said.append(
            f"With {counts} of {result.group:,} people an adversary who knows {knows} with {row['visits']} "
            f"visits tells in from out in {row['auc']:.1%} of pairs{found}."
        )
    return said


def roc_columns(result: MembershipResult) -> dict[str, list[Any]]:
    """Every point of every curve, one row each."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("counts", "set_at", "visits", "false_positive", "true_positive")
    }
    for each in result.found:
        count = len(each.roc.false_positive)
        columns["counts"] += [each.defence or "raw"] * count
        columns["set_at"] += [each.epsilon] * count
        columns["visits"] += [each.visits] * count
        columns["false_positive"] += each.roc.false_positive.tolist()
        columns["true_positive"] += each.roc.true_positive.tolist()
    return columns
