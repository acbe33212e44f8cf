"""Prove or refute the claim of a trajectory release from raw data, released file and record key alone.

Its result names people and places: for the owner's eyes only. Nothing is spent and nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.attacks.tracker.evidence import Verified, verify_tables
from shoal.attacks.tracker.files import (
    KEY_STRUCTURE,
    Claim,
    Key,
    claim_of,
    keyed_tables,
    read_boxes,
    read_claim,
    read_key_file,
)
from shoal.attacks.tracker.index import build_index
from shoal.attacks.tracker.leakage import WINDOWS, measure_tables
from shoal.attacks.tracker.tables import Tables, check_claim
from shoal.engine.engine import WorksElsewhere
from shoal.errors import PlanError, SourceError
from shoal.events.readers import scan
from shoal.events.schema import EventSource
from shoal.events.source import open_source
from shoal.kinds.run import Progress, Silent
from shoal.kinds.trajectories.blocks import blocks_of, verify_blocks
from shoal.space.checks import LONLAT
from shoal.space.places import Sites, named_sites


@dataclass(frozen=True, kw_only=True)
class TrajectoryVerdict:
    """Verdict of the tracker, with the ids and the clock of the owner."""

    claim: Claim
    k: int
    tau_minutes: int
    verified: Verified
    measured: dict[str, Any] | None
    samples: int
    boxes: int
    key: Key = field(repr=False)

    @property
    def passed(self) -> bool:
        return self.verified.passed

    def user(self, number: int) -> int | str:
        value = self.key.users[number]
        return value if isinstance(value, str) else int(value)

    def record(self, number: int) -> int:
        return int(self.key.records[number])

    def to_plain(self) -> dict[str, Any]:
        """One JSON object; users and records by their own ids, starts also as times."""
        plain = self.verified.to_plain()
        plain["examples"] = [self._example(each) for each in plain["examples"]]
        plain["structure_examples"] = [self._named(each) for each in plain["structure_examples"]]
        measured = None
        if self.measured is not None:
            same = self.measured["same_record"]
            worst = [
                {**pair, "user": self.user(pair["user"]), "record": self.record(pair["record"])}
                for pair in same["worst"]
            ]
            measured = {**self.measured, "same_record": {**same, "worst": worst}}
        return {
            **plain,
            "tau_minutes": self.tau_minutes,
            "claimed": {"k": self.claim.k, "tau_minutes": self.claim.tau_minutes},
            "samples": self.samples,
            "boxes": self.boxes,
            "measured": measured,
        }

    def _example(self, example: dict[str, Any]) -> dict[str, Any]:
        start = example["start"]
        near = [{**miss, "record": self.record(miss["record"])} for miss in example["near_misses"]]
        return {
            "user": self.user(example["user"]),
            "start_step": start,
            "start_minute": start * self.claim.minutes,
            "start_time": self.claim.time_of(start),
            "fits": example["fits"],
            "near_misses": near,
        }

    def _named(self, example: dict[str, Any]) -> dict[str, Any]:
        named = {**example, "time": self.claim.time_of(example["step"])}
        if "user" in named:
            named["user"] = self.user(named["user"])
        if 0 <= named.get("record", -1) < self.key.size:
            named["record"] = self.record(named["record"])
        return named


def verify_trajectories(
    raw_paths: str | Path | Sequence[str | Path],
    release_folder: str | Path,
    key_path: str | Path,
    *,
    k: int | None = None,
    tau_minutes: int | None = None,
    source: Mapping[str, Any] | None = None,
    sites: Mapping[str, str] | None = None,
    windows: int = WINDOWS,
    seed: int = 0,
    progress: Progress | None = None,
) -> TrajectoryVerdict:
    """Read all three and check every user and every start; `windows` 0 leaves out the measured figures.

    Windows that are checked are one step longer than tau, as in a run: any tau minutes on the clock may touch
    one step more.
    k and tau are the manifest's unless given; `source` holds options of open_source, `sites` where records
    name sites: `sites` the file, and as a plan says them site_id, site_lon, site_lat, sites_crs.
    """
    tell = progress or Silent()
    folder = Path(release_folder)
    claim = read_claim(folder)
    asked_k = claim.k if k is None else k
    asked_tau = claim.tau_minutes if tau_minutes is None else tau_minutes
    tau, epoch = claim.in_steps(asked_tau, "tau"), claim.in_steps(claim.epoch_minutes, "the epoch")
    key = read_key_file(Path(key_path), declared=claim.records)
    check_claim(asked_k, tau, key.size, claim.steps)
    opened = open_source(raw_paths, **(source or {}))
    placed_by = open_sites(folder, **sites) if sites else None
    tables, boxes = tables_of(folder, claim, key, opened, placed_by, tell)
    index = build_index(tables)
    verified = verify_tables(tables, index, k=asked_k, tau=min(tau + 1, claim.steps), progress=tell)
    measured = None
    if windows:
        measured = measure_tables(
            tables, index, epoch=epoch, k=asked_k, tau=tau, seed=seed, windows=windows, progress=tell
        )
    return TrajectoryVerdict(
        claim=claim,
        k=asked_k,
        tau_minutes=asked_tau,
        verified=verified,
        measured=measured,
        samples=len(tables.t),
        boxes=boxes,
        key=key,
    )


def verify_written(
    folder: Path,
    key_path: Path,
    manifest: Mapping[str, Any],
    source: EventSource,
    sites: Sites | None,
    progress: Progress | None = None,
    apart: Apart | None = None,
) -> tuple[Verified, Key]:
    """The verdict on files just written, before they become a release, and the manifest they will have.

    Windows are one step longer than tau, as in `verify_trajectories`. `apart`:
    block by block on a cluster; a block that does not pass is no verdict, then all are looked at together.
    """
    tell = progress or Silent()
    claim = claim_of(manifest, folder)
    key = read_key_file(key_path, declared=claim.records)
    tau = min(claim.in_steps(claim.tau_minutes, "tau") + 1, claim.steps)
    samples, strangers = read_samples(source, claim, key, tell, sites)
    boxes = read_boxes(folder, key)
    if apart is not None:
        verified = _by_blocks(apart, samples, boxes, strangers, key, claim, tau, tell)
        if verified is not None:
            return verified, key
    tables = keyed_tables(samples, boxes, key, steps=claim.steps, strangers=strangers)
    verified = verify_tables(tables, build_index(tables), k=claim.k, tau=tau, progress=tell)
    return verified, key


@dataclass(frozen=True)
class Apart:
    """An engine that works elsewhere, and the blocks of users it is given."""

    engine: WorksElsewhere
    block_users: int | None


def _by_blocks(
    apart: Apart,
    samples: list[np.ndarray],
    boxes: Sequence[np.ndarray],
    strangers: int,
    key: Key,
    claim: Claim,
    tau: int,
    tell: Progress,
) -> Verified | None:
    """One verdict where every block passes and the key is whole; None where all must be looked at."""
    if strangers or any(key.structure.values()) or (np.asarray(boxes[0]) < 0).any():
        return None
    if not (np.bincount(samples[0], minlength=key.size) > 0).all():
        return None
    blocks = blocks_of(key.size, apart.block_users)
    verdicts = list(
        verify_blocks(
            *(apart.engine, samples, boxes, blocks),
            steps=claim.steps,
            k=claim.k,
            tau=tau,
            progress=tell,
        )
    )
    if not all(each.passed for each in verdicts):
        return None
    return Verified(
        k=claim.k,
        tau=tau,
        users=key.size,
        pairs_checked=sum(each.pairs_checked for each in verdicts),
        violations=0,
        users_hit=0,
        structure=dict.fromkeys((*verdicts[0].structure, *KEY_STRUCTURE), 0),
        examples=[],
    )


def tables_of(
    folder: Path, claim: Claim, key: Key, source: EventSource, sites: Sites | None, tell: Progress
) -> tuple[Tables, int]:
    """Raw samples and released boxes side by side, and the number of boxes."""
    samples, strangers = read_samples(source, claim, key, tell, sites)
    tell.stage("read boxes")
    columns = read_boxes(folder, key)
    tables = keyed_tables(samples, columns, key, steps=claim.steps, strangers=strangers)
    return tables, len(columns[0])


def open_sites(folder: Path, sites: str | None = None, **named: str) -> Sites:
    """The sites that records name; the release says which they were."""
    if sites is None:
        raise PlanError("sites-missing", "columns of sites are named, but no file.", "Pass --sites FILE.")
    opened = named_sites(sites, **named)
    recorded = json.loads((folder / "manifest.json").read_text("utf-8"))["public"].get("sites")
    if isinstance(recorded, dict) and recorded.get("sha256") != opened.digest():
        raise PlanError(
            "verify-sites", "the release was made with other sites.", "Pass the same --sites and columns."
        )
    return opened


def read_samples(
    source: EventSource, claim: Claim, key: Key, tell: Progress, sites: Sites | None = None
) -> tuple[list[np.ndarray], int]:
    """int32 columns user (row of the key), t, x, y of the window; and how many users are not in the key."""
    if not source.shape.has_sites:
        sites = None
    _check_places(source, claim, sites)
    known = _users_as(source, key)
    lookup = pc.SetLookupOptions(value_set=known)
    strangers: set[Any] = set()
    parts: list[list[np.ndarray]] = [[], [], [], []]
    tell.stage("read samples")
    for batch in scan(source, sites=None if sites is None else sites.ids, window_us=claim.window_us):
        rows = pc.call_function("index_in", [batch["user"].cast(known.type)], lookup)
        if rows.null_count:
            strangers.update(batch["user"].filter(rows.is_null()).unique().to_pylist())
        inside = rows.is_valid().to_numpy(zero_copy_only=False)
        placed = claim.snap(batch["time_us"].to_numpy(), *_points(batch, sites))
        user = rows.fill_null(-1).to_numpy()
        for part, column in zip(parts, (user, *placed), strict=True):
            part.append(column[inside])
    columns = []
    for part in parts:
        columns.append(np.concatenate(part) if part else np.empty(0, np.int32))
        part.clear()
    return columns, len(strangers)


def _check_places(source: EventSource, claim: Claim, sites: Sites | None) -> None:
    if source.shape.has_sites and sites is None:
        raise PlanError("sites-missing", "RAW names sites; their places are not known.", "Pass --sites FILE.")
    planar = source.planar if sites is None else sites.crs is None
    if planar != claim.planar or (sites is not None and sites.crs not in (None, LONLAT)):
        place = "x and y" if claim.planar else "longitude and latitude"
        what = "RAW" if sites is None else "sites"
        raise PlanError(
            "verify-places",
            f"{what} must have {place}, as the release's lattice.",
            "Pass --column ROLE=NAME." if sites is None else "Check --sites and --sites-crs.",
        )


def _points(batch: pa.RecordBatch, sites: Sites | None) -> tuple[np.ndarray, np.ndarray]:
    if sites is None:
        return batch["x"].to_numpy(), batch["y"].to_numpy()
    site = batch["site"].to_numpy()
    return sites.x[site], sites.y[site]


def _users_as(source: EventSource, key: Key) -> pa.Array:
    """The key's users in the type the source's are read as."""
    try:
        return pa.array(key.users).cast(pa.int64() if source.user_is_integer else pa.string())
    except pa.ArrowException:
        raise SourceError(
            "key-users",
            "users of the key and of RAW are of different kinds.",
            "Check --key and --column user.",
        ) from None
