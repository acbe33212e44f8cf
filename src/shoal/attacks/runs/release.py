"""An adversary's run on the raw data and on one release of it, told with how it spreads over people.

The plan of the release says what was released of what; the adversary is a name. Everything found goes to the
owner's folder. The ledger lists the look at raw data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from shoal.attacks.runs.source import note_look, write_findings
from shoal.errors import PlanError
from shoal.kinds.source import Progress

BINS = 50


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One attack: settings of the release's plan, the release, and where the findings go."""

    settings: Mapping[str, Any]
    release: Path
    owner: Path  # the release's owner's folder
    out: Path
    known_from: str | None = None  # inference: since when the adversary watched; None: a week before
    prior: str = "freq_roi"


@dataclass(frozen=True, kw_only=True)
class Adversary:
    """What it tries, what it knows, and which kinds of release it can be tried on."""

    name: str
    goal: str
    knows: str
    kinds: tuple[str, ...]
    run: Callable[[Asked, Progress], dict[str, Any]]
    slow: str = ""  # a warning, where it takes long


def attack_release(name: str, asked: Asked, progress: Progress) -> dict[str, Any]:
    """Run it; plain values for the page, the findings on disk."""
    adversary = adversary_named(name)
    note_look(asked.settings, name, asked.out)
    told = adversary.run(asked, progress)
    return {"adversary": name, "goal": adversary.goal, "knows": adversary.knows, **told}


def adversary_named(name: str) -> Adversary:
    if name not in ADVERSARIES:
        raise PlanError("adversary", "there is no such adversary.", f"Choose from {', '.join(ADVERSARIES)}.")
    return ADVERSARIES[name]


def _inference(asked: Asked, tell: Progress) -> dict[str, Any]:
    """Where people are: from what was known of them before the release, and its counts."""
    from shoal.attacks.runs.inference import InferencePlan, attack_inference
    from shoal.attacks.runs.report import summary, write_inference

    start = asked.settings["window"]["start"]
    begins = asked.known_from or (datetime.fromisoformat(start) - timedelta(days=7)).isoformat()
    settings = {**asked.settings, "window": {**asked.settings["window"], "start": begins}}
    plan = InferencePlan(split=start, priors=(asked.prior,), release=asked.release)
    result = attack_inference(settings, plan, progress=tell)
    tell.stage("draw the page")
    title = f"Inference attack: {asked.settings['population']}"
    paths = write_inference(asked.out, result, title)
    said = summary(result)
    raw, released = ({o.inference: o for o in each.outcomes if o.prior} for each in result.attacked[:2])
    series = {
        "prior knowledge alone": raw["prior"].divergence,
        "with raw counts": _strongest(raw),
        "with the release": _strongest(released),
    }
    means = {name: float(values.mean()) for name, values in series.items()}
    sentence = (
        f"About where somebody is, an adversary who knows their habits is wrong by "
        f"{means['prior knowledge alone']:.3f} on average (0: knows all, 1: all wrong); raw counts bring it "
        f"to {means['with raw counts']:.3f}, the release to {means['with the release']:.3f}."
    )
    return {
        "sentence": f"{sentence} {_gap_words(*means.values())}",
        "summary": said,
        "spread": spread(series, "error about a person (0: all known, 1: all wrong)", "people"),
        "page": paths["html"].name,
    }


def _strongest(outcomes: Mapping[str, Any]) -> np.ndarray:
    """Errors per person of the inference that errs least on these counts: each set has its own best."""
    tried = [outcome.divergence for how, outcome in outcomes.items() if how != "prior"]
    return min(tried, key=lambda errors: errors.mean())


def _gap_words(alone: float, raw: float, released: float) -> str:
    """What the three means say about the release."""
    if alone - raw < 0.01:
        return "Counts add next to nothing to what this adversary knows."
    kept = (released - raw) / (alone - raw)
    if kept < 0.1:
        return (
            "So the release tells this adversary as much as raw counts do: how crowds move is its purpose. "
            "What it hides is whether any one person is in them at all: see the membership adversary."
        )
    return f"So the release takes back {min(kept, 1):.0%} of what raw counts would have given."


def _recovery(asked: Asked, tell: Progress) -> dict[str, Any]:
    """Whole trajectories: from counts alone."""
    from shoal.attacks.runs.recovery import RecoveryAttackPlan, attack_recovery, per_user, summary

    found = attack_recovery(asked.settings, RecoveryAttackPlan(release=asked.release), progress=tell)
    told = {"summary": summary(found), "rows": [each.row() for each in found]}
    write_findings(asked.out, "recovery", told, per_user(found))
    raw, released = found[:2]
    series = {
        "from raw counts": raw.score.share_right,
        "from the release": released.score.share_right,
        "guessing home all day": released.home_only.share_right,
    }
    sentence = (
        f"From raw counts alone {raw.score.points_recovered:.0%} of all positions are recovered, from the "
        f"release {released.score.points_recovered:.0%}; who leaves everybody at home gets "
        f"{released.home_only.points_recovered:.0%}."
    )
    return {
        "sentence": sentence,
        "summary": told["summary"],
        "spread": spread(series, "share of a person's positions that were recovered", "people"),
    }


def _membership(asked: Asked, tell: Progress) -> dict[str, Any]:
    """Whether a person is in the counts at all."""
    from shoal.attacks.runs.membership import MembershipPlan, attack_membership, membership_told, roc_columns

    settings = asked.settings
    said = {"delta": settings["delta"]} if settings.get("delta") else {}
    plan = MembershipPlan(
        defences=(settings.get("method") or "best",),
        epsilons=(float(settings["epsilon"]),),
        worlds=10,
        targets=50,
        **said,
    )
    result = attack_membership(settings, plan, tell)
    told = membership_told(result)
    write_findings(asked.out, "membership", told, roc_columns(result))
    many = {row["counts"]: row for row in told["rows"] if row["visits"] == "many"}
    protected = next(row for name, row in many.items() if name != "raw")
    sentence = (
        f"In groups of {result.group:,} people, who knows all visits of a person with many of them tells in "
        f"from out in {many['raw']['auc']:.0%} of pairs with raw counts, in {protected['auc']:.0%} with the "
        "method and price of this release (50 %: chance)."
    )
    curves = [
        {
            "name": f"{each.defence or 'raw'}, {each.visits} visits",
            "x": _thinned(each.roc.false_positive),
            "y": _thinned(each.roc.true_positive),
        }
        for each in result.found
    ]
    return {"sentence": sentence, "summary": told["summary"], "curves": curves}


def _unicity(asked: Asked, tell: Progress) -> dict[str, Any]:
    """How many people a few of their own points single out in the raw data."""
    from shoal.attacks.runs.unicity import UnicityPlan, attack_unicity, unicity_told

    source, found = attack_unicity(asked.settings, UnicityPlan(), tell)
    told = unicity_told(source, found)
    columns = {name: [row[name] for row in told["rows"]] for name in told["rows"][0]}
    write_findings(asked.out, "unicity", told, columns)
    bars = [
        {"name": f"{row['points']} point{'s' * (row['points'] > 1)}", "share": row["share"]}
        for row in told["rows"]
    ]
    last = told["rows"][-1]
    share = "no share can be given" if last["share"] is None else f"{last['share']:.0%} of people are unique"
    sentence = (
        f"In the raw records, by zone and slot, {share} by {last['points']} known points. The release has "
        "counts and no records: nobody's points are in it to be matched."
    )
    return {
        "sentence": sentence,
        "summary": told["summary"],
        "bars": bars,
        "bars_of": "people who are unique",
    }


def _synthetic(asked: Asked, tell: Progress) -> dict[str, Any]:
    """Whose trips synthetic ones were made from."""
    from shoal.attacks.runs.synthetic import (
        SyntheticAttackPlan,
        attack_synthetic,
        roc_columns,
        synthetic_told,
    )

    settings = asked.settings
    plan = SyntheticAttackPlan(
        defences=("raw", settings.get("method") or "bridges"),
        epsilons=(float(settings["epsilon"]),),
        delta=settings.get("delta"),
        worlds=8,
        targets=50,
    )
    result = attack_synthetic(settings, plan, tell)
    told = synthetic_told(result)
    write_findings(asked.out, "synthetic", told, roc_columns(result))
    best: dict[str, float] = {}
    for row in told["membership"]:
        best[row["release"]] = max(best.get(row["release"], 0.0), row["auc"])
    bars = [{"name": name, "share": value} for name, value in best.items()]
    ours = next(value for name, value in best.items() if name != "raw")
    sentence = (
        f"Who knows the trips of a {result.unit} tells in from out in {best['raw']:.0%} of pairs if the "
        f"trips themselves were published, in {ours:.0%} with synthetic ones by this method (50 %: chance; "
        "the best of four adversaries)."
    )
    return {
        "sentence": sentence,
        "summary": told["summary"],
        "bars": bars,
        "bars_of": "pairs told apart (0.5: chance)",
    }


def _tracker(asked: Asked, tell: Progress) -> dict[str, Any]:
    """Whether k records fit whatever a tracker saw; what is learnt beyond."""
    from shoal.kinds.trajectories.verify import verify_trajectories
    from shoal.release.trajectory_files import RECORDS, find_key
    from shoal.release.verify import sha256_file

    key = find_key(asked.owner, sha256_file(asked.release / RECORDS))
    if key is None:
        raise PlanError(
            "record-key", "the owner's folder has no key of these records.", "Keep the key with the release."
        )
    source = {name: value for name, value in asked.settings["source"].items() if name != "paths"}
    space = asked.settings["space"]
    sites = {name: value for name, value in space.items() if name.startswith("site")}
    verdict = verify_trajectories(
        asked.settings["source"]["paths"],
        asked.release,
        key,
        source={**source, "time_zone": source.get("time_zone") or asked.settings["window"]["time_zone"]},
        sites=sites or None,
        progress=tell,
    )
    told = verdict.to_plain()
    write_findings(asked.out, "tracker", told)
    measured = told["measured"] or {}
    bars = [
        {"name": each["knows"], "share": each["fewer_than_k_share"]}
        for each in measured.get("more_knowledge", [])
        if each.get("windows")
    ]
    held = "held" if verdict.passed else "is REFUTED"
    sentence = (
        f"The promise {held}: for every person and every stretch of {verdict.tau_minutes} minutes at least "
        f"{verdict.k} records must fit; {told['violations']:,} of {told['pairs_checked']:,} fail. Who knows "
        "more than one stretch is not covered by it: see below."
    )
    return {
        "sentence": sentence,
        "summary": [],
        "bars": bars,
        "bars_of": f"people for whom fewer than {verdict.k} records fit",
    }


def spread(series: Mapping[str, np.ndarray], of: str, counted: str) -> dict[str, Any]:
    """Histograms of the same quantity, from 0 to 1, and their quartiles.

    >>> spread({"a": np.array([0.0, 1.0, 1.0])}, "error", "people")["series"][0]["quartiles"]
    [0.5, 1.0, 1.0]
    """
    edges = np.linspace(0.0, 1.0, BINS + 1)
    told = []
    for name, values in series.items():
        known = values[~np.isnan(values)]
        counts, _ = np.histogram(np.clip(known, 0.0, 1.0), edges)
        quartiles = [float(each) for each in np.quantile(known, [0.25, 0.5, 0.75])] if known.size else []
        mean = float(known.mean()) if known.size else None
        told.append({"name": name, "counts": counts.tolist(), "quartiles": quartiles, "mean": mean})
    return {"of": of, "counted": counted, "edges": edges.tolist(), "series": told}


def _thinned(values: np.ndarray, most: int = 400) -> list[float]:
    every = -(-len(values) // most) or 1
    return [*values[::every].tolist(), float(values[-1])]


ADVERSARIES = {
    each.name: each
    for each in (
        Adversary(
            name="membership",
            goal="Is a person in the counts at all?",
            knows="every visit of the person, and other people like them",
            kinds=("density",),
            run=_membership,
        ),
        Adversary(
            name="inference",
            goal="Where is each person, slot by slot?",
            knows="each person's habits, from before the release",
            kinds=("density",),
            run=_inference,
        ),
        Adversary(
            name="recovery",
            goal="What was everybody's whole trajectory?",
            knows="nothing about anybody",
            kinds=("density",),
            run=_recovery,
            slow="slow above some 5,000 people",
        ),
        Adversary(
            name="unicity",
            goal="How many people do a few known points single out?",
            knows="one to four places and times of a person",
            kinds=("density",),
            run=_unicity,
        ),
        Adversary(
            name="synthetic",
            goal="Whose trips were the synthetic ones made from?",
            knows="all trips of a person, and other people's",
            kinds=("synthetic",),
            run=_synthetic,
        ),
        Adversary(
            name="tracker",
            goal="Which record is whose?",
            knows="all that a person did for a stretch of tau, and more",
            kinds=("trajectories",),
            run=_tracker,
        ),
    )
}
