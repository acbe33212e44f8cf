"""Verification that k records fit every observation of length tau, and attacks with more knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.attacks.runs.findings import Findings
from shoal.attacks.runs.plans import TrackerPlan
from shoal.errors import PlanError
from shoal.kinds.run import Progress
from shoal.kinds.trajectories.published import RECORDS, find_key
from shoal.kinds.trajectories.verify import verify_trajectories
from shoal.release.verify import sha256_file


def run(settings: Mapping[str, Any], plan: TrackerPlan, progress: Progress) -> Findings:
    """Verify the guarantee against the samples of the release."""
    key = find_key(plan.owner, sha256_file(plan.release / RECORDS))
    if key is None:
        raise PlanError(
            "record-key", "the owner's folder has no key of these records.", "Keep the key with the release."
        )
    source = {name: value for name, value in settings["source"].items() if name != "paths"}
    sites = {name: value for name, value in settings["space"].items() if name.startswith("site")}
    verdict = verify_trajectories(
        settings["source"]["paths"],
        plan.release,
        key,
        source={**source, "time_zone": source.get("time_zone") or settings["window"]["time_zone"]},
        sites=sites or None,
        progress=progress,
    )
    figures = verdict.to_plain()
    more_knowledge = (figures["measured"] or {}).get("more_knowledge", [])
    bars = [
        {"name": each["knows"], "share": each["fewer_than_k_share"]}
        for each in more_knowledge
        if each.get("windows")
    ]
    sentence = (
        f"The guarantee {'holds' if verdict.passed else 'is REFUTED'}: for every person and every period of "
        f"{verdict.tau_minutes} minutes at least {verdict.k} records must fit; {figures['violations']:,} of "
        f"{figures['pairs_checked']:,} pairs fail. The guarantee does not cover an adversary who knows more "
        "than one period: see below."
    )
    return Findings(
        figures=figures,
        sentence=sentence,
        chart={"bars": bars, "bars_of": f"people for whom fewer than {verdict.k} records fit"},
    )
