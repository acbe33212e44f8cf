"""The owner's folder of a trajectory release: record key, verdict, figures, report; none of it public."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.attacks.models.box_attacks import Known, attack_points
from shoal.attacks.tracker.evidence import Verified
from shoal.attacks.tracker.files import Key
from shoal.attacks.tracker.leakage import TWO_APART, measure
from shoal.kinds.run import release_name
from shoal.kinds.source import Progress
from shoal.kinds.trajectories.prepare import OpenSamples
from shoal.kinds.trajectories.report import TrajectoryFacts, local_zone, raw_views, trajectory_report
from shoal.kinds.trajectories.report import Verified as Verdict
from shoal.metrics.trajectories import LocalClock, TrajectoryUtility, trajectory_utility
from shoal.release.folder import Committed
from shoal.release.page.page import plain
from shoal.release.staging import private_file
from shoal.release.verify import sha256_file
from shoal.stages.trajectories import Boxes

if TYPE_CHECKING:
    from shoal.kinds.trajectories.prepare import PreparedTrajectories

TARGETS = 2000  # people attacked with a few points, before and after
POINTS = (1, 2, 3, 4)


def keep_verification(owner: Path, verified: Verified, key: Key) -> Path:
    """verification.json: the verdict with its counter-examples, users by their own ids."""
    verdict = verified.to_plain()
    for example in (*verdict["examples"], *verdict["structure_examples"]):
        if "user" in example:
            name = key.users[example["user"]]
            example["user"] = name if isinstance(name, str) else int(name)
    return write_private(owner / "verification.json", verdict)


def moved_key(path: Path) -> None:
    """A key of an earlier release is kept under a name of its own: without it nothing can be verified."""
    if path.is_file():
        path.rename(path.with_name(f"record_key-{sha256_file(path)[:8]}.parquet"))


def write_trajectory_report(
    owner: Path,
    prepared: PreparedTrajectories,
    committed: Committed,
    read: OpenSamples,
    boxes: Boxes,
    verified: Verified,
    ids: np.ndarray | None,
    pairs_again: int,
    attacks: tuple[dict[str, Any], list[dict[str, Any]]],
    tell: Progress,
) -> tuple[Path, dict[str, Any]]:
    """report.html and utility.json; returns the page and the figures. `attacks`: as published."""
    plan, lattice = prepared.plan, read.lattice
    tau, epoch = plan.minutes()
    measured, unicity = attacks
    for pair in measured["same_record"]["worst"]:  # numbers become the owner's ids
        pair["user"] = read.names[pair["user"]].as_py()
        pair["record"] = pair["record"] if ids is None else int(ids[pair["record"]])
    tell.stage("draw the report")
    clock = LocalClock.of(
        lattice.start, steps=lattice.steps, minutes=lattice.minutes, zone=local_zone(plan.window.time_zone)
    )
    utility = trajectory_utility(
        read.samples, boxes, minutes=lattice.minutes, metres=lattice.metres, clock=clock
    )
    maps, picture = raw_views(
        read.samples,
        boxes,
        lattice,
        clock,
        name_of=lambda user: str(read.names[user].as_py()),
        record_of=lambda user: None if ids is None else int(ids[user]),
    )
    manifest = json.loads((committed.path / "manifest.json").read_text("utf-8"))
    overlaps = any(each["overlaps"] for each in manifest["read_from_data"].get("earlier_releases", ()))
    facts = TrajectoryFacts(
        title=f"Trajectories of {plan.population}: {release_name(committed)}",
        k=plan.k,
        tau_minutes=tau,
        epoch_minutes=epoch,
        lattice=lattice,
        time_zone=plan.window.time_zone,
        users=read.samples.users,
        utility=utility,
        verified=Verdict(
            pairs=verified.pairs_checked,
            violations=verified.violations,
            faults=sum(verified.structure.values()),
        ),
        measured=measured,
        unicity=unicity,
        maps=maps,
        picture=picture,
        runs=runs_so_far(owner, run_row(prepared, utility, verified)),
        notices=[*([manifest["promise"]] if overlaps else []), *prepared.notes(), *_wide(utility)],
        public={**manifest["public"], "read_from_data": manifest["read_from_data"]},
    )
    report = trajectory_report(owner / "report.html", facts)
    figures = figures_of(utility, verified, measured, unicity)
    figures |= {"users": read.samples.users, "rows": read.rows, "repeated": read.rows - read.samples.count}
    figures["pairs_again"] = pairs_again
    write_private(owner / "utility.json", {"manifest_sha256": committed.manifest_sha256, **figures})
    return report, figures


def run_row(prepared: PreparedTrajectories, utility: TrajectoryUtility, verified: Verified) -> dict[str, Any]:
    """This run as a point of the picture against tau."""
    plan, box = prepared.plan, utility.granularity.per_box
    tau, epoch = plan.minutes()
    row: dict[str, Any] = {
        "data": f"{plan.population}, k = {plan.k}",
        "users": verified.users,
        "k": plan.k,
        "tau_min": tau,
        "epoch_min": epoch,
        "violations": verified.violations,
        "suppressed": utility.suppressed_share,
    }
    for name, spread in (("space_m", box.space_m), ("time_min", box.time_min)):
        row |= {f"{which}_{name}": getattr(spread, which) for which in ("q1", "median", "q3")}
    return row


def runs_so_far(owner: Path, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs with this owner's folder, kept in runs.json; one that was repeated counts once."""
    path = owner / "runs.json"
    try:
        earlier = json.loads(path.read_text("utf-8"))["runs"]
    except (OSError, ValueError, KeyError, TypeError):
        earlier = []
    one = ("data", "users", "tau_min", "epoch_min")
    runs = [run for run in earlier if any(run.get(name) != row[name] for name in one)] + [row]
    write_private(path, plain({"runs": runs}))
    return runs


def _wide(utility: TrajectoryUtility) -> list[str]:
    if not utility.samples or not np.isnan(utility.density.relative_error):
        return []
    return ["The samples span too wide an area for densities: check for points far away."]


def measure_release(read: OpenSamples, boxes: Boxes, anonymiser, tell: Progress) -> dict[str, Any]:
    """Leakage and the effect of more knowledge, by the tracker."""
    samples = read.samples
    return measure(
        *(samples.user, samples.t, samples.x, samples.y),
        *(boxes.record, boxes.t0, boxes.t1, boxes.x0, boxes.x1, boxes.y0, boxes.y1),
        users=samples.users,
        steps=samples.steps,
        epoch=min(anonymiser.epoch_steps, samples.steps),
        k=anonymiser.k,
        tau=min(anonymiser.tau_steps, samples.steps),
        progress=tell,
    )


def before_and_after(read: OpenSamples, boxes: Boxes, tell: Progress) -> list[dict[str, Any]]:
    """Share of people that p random points of their own single out: raw pseudonyms, and this release."""
    samples = read.samples
    seen = (samples.user, samples.t, samples.x, samples.y)
    raw = (samples.user, samples.t, samples.t, samples.x, samples.x, samples.y, samples.y)
    released = (boxes.record, boxes.t0, boxes.t1, boxes.x0, boxes.x1, boxes.y0, boxes.y1)
    attacked = []
    for columns in (raw, released):
        known = Known.of(*seen, *columns, users=samples.users)
        attacked.append(attack_points(known, POINTS, targets=TARGETS))
        tell.advance(1)
    return [
        {
            "points": before.points,
            "raw": before.linked / before.people if before.people else None,
            "released": after.linked / after.people if after.people else None,
        }
        for before, after in zip(*attacked, strict=True)
    ]


def single_record_shares(measured: dict[str, Any], unicity: list[dict[str, Any]]) -> dict[str, float | None]:
    """Share of people for whom a single record fits two stretches of tau, or four points."""
    two = next(each for each in measured["more_knowledge"] if each["knows"] == TWO_APART)["only_one_share"]
    four = next(each for each in unicity if each["points"] == 4)["released"]
    shares = {"two_stretches_of_tau": two, "four_points": four}
    return {name: None if share is None else round(share, 3) for name, share in shares.items()}


def figures_of(
    utility: TrajectoryUtility, verified: Verified, measured: dict[str, Any], unicity: list[dict[str, Any]]
) -> dict[str, Any]:
    """All that is printed, as plain numbers."""
    verdict = {name: value for name, value in verified.to_plain().items() if "examples" not in name}
    return plain(
        {"utility": utility.to_plain(), "verified": verdict, "measured": measured, "unicity": unicity}
    )


def write_private(path: Path, figures: dict[str, Any]) -> Path:
    """JSON that only its owner may read."""
    with private_file(path, text=True) as file:
        json.dump(figures, file, indent=2)
        file.write("\n")
    return path
