"""The run view: runs are started, followed and cancelled; attacks and audits are runs too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import StreamingResponse

from shoal.attacks.runs.adversaries import ADVERSARIES, adversary_named
from shoal.errors import PlanError
from shoal.release.manifest import MANIFEST, Manifest, case_of
from shoal.studio.context import Here, Studio
from shoal.studio.forms import AttackForm, AuditForm, Id, ReleaseForm, for_page
from shoal.studio.worker import read_plan_of

router = APIRouter(tags=["runs"])
EVERY_S = 0.25
BEAT_S = 10.0
LONGEST_S = 3600.0  # a stream ends then; the page asks again


@router.get("/runs")
def runs(studio: Here) -> list[dict[str, Any]]:
    """All runs of this folder, newest first."""
    return [_for_page(each) for each in studio.runs.all()]


@router.post("/runs", status_code=202)
def release(form: ReleaseForm, studio: Here) -> dict[str, Any]:
    """Start the run of a release, which spends budget; refused if the dry run has an obstacle."""
    fields = form.plan.model_dump()
    summary = studio.planner.dry_run(fields, studio.ledger())
    if summary["obstacles"] and not form.again:
        obstacle = for_page(summary["obstacles"][0])
        raise PlanError("would-stop", f"the run would stop: {obstacle}", "Change the plan.")
    job = {"do": "release", "form": fields, "allow_empty": form.allow_empty}
    return _for_page(studio.runs.start(job, f"{form.plan.kind}: {form.plan.name}"))


@router.get("/runs/{run}")
def run(run: Annotated[Id, Path()], studio: Here) -> dict[str, Any]:
    return _for_page(studio.runs.snapshot(run))


@router.post("/runs/{run}/cancel")
def cancel(run: Annotated[Id, Path()], studio: Here) -> dict[str, Any]:
    """Stop a run. Reserved budget stays spent."""
    return _for_page(studio.runs.cancel(run))


@router.get("/runs/{run}/events", response_class=StreamingResponse)
async def follow(run: Annotated[Id, Path()], request: Request, studio: Here) -> StreamingResponse:
    """Progress of a run as server-sent events, until it ends."""
    await asyncio.to_thread(studio.runs.snapshot, run)  # refuses an unknown name before the stream starts
    return StreamingResponse(_events(run, request, studio), media_type="text/event-stream")


async def _events(run: str, request: Request, studio: Studio) -> AsyncIterator[str]:
    sent, quiet, passed = "", 0.0, 0.0
    while passed < LONGEST_S and not await request.is_disconnected():
        ended = studio.runs.ended(run)  # read first: the snapshot below is then the last one
        now = json.dumps(_for_page(await asyncio.to_thread(studio.runs.snapshot, run)))
        if now != sent:
            sent, quiet = now, 0.0
            yield f"event: run\ndata: {now}\n\n"
        elif quiet >= BEAT_S:
            quiet = 0.0
            yield ": still here\n\n"
        if ended:
            return
        await asyncio.sleep(EVERY_S)
        quiet, passed = quiet + EVERY_S, passed + EVERY_S


@router.get("/adversaries")
def adversaries() -> list[dict[str, Any]]:
    """Adversaries that may attack a release, and what each knows."""
    fields = ("name", "goal", "knows", "kinds", "slow")
    return [{name: getattr(each, name) for name in fields} for each in ADVERSARIES.values()]


@router.post("/attacks", status_code=202)
def attack(form: AttackForm, studio: Here) -> dict[str, Any]:
    """Run an adversary on raw data and on the release; its results go to the owner's folder."""
    stored = studio.release(form.release)
    adversary = adversary_named(form.adversary)
    if stored.kind not in adversary.kinds:
        raise PlanError(
            "adversary-kind",
            f"{adversary.name} attacks {', '.join(adversary.kinds)}; this is a {stored.kind} release.",
            "Choose another adversary.",
        )
    read_plan_of(studio.work.owner(stored.name), stored.key)  # refuses an unknown key before the run starts
    job = {
        "do": "attack",
        "release": str(stored.path),
        "key": stored.key,
        "manifest_sha256": stored.id,
        "name": stored.name,
        "adversary": form.adversary,
        "prior": form.prior,
        "known_from": form.known_from or None,
    }
    return _for_page(studio.runs.start(job, f"Attack {stored.name}: {form.adversary}"))


@router.post("/audits", status_code=202)
def audit(form: AuditForm, studio: Here) -> dict[str, Any]:
    """A quick audit of the release's mechanism, for the evidence pack."""
    stored = studio.release(form.release)
    manifest = stored.manifest()
    case = case_of(Manifest.from_json((stored.path / MANIFEST).read_text("utf-8")))
    if case is None:
        raise PlanError("no-epsilon", "this release has no epsilon to audit.", "Attack it with the tracker.")
    guarantee = manifest["guarantee"]
    job = {
        "do": "audit",
        "mechanism": case.mechanism,
        "epsilon": guarantee["epsilon"],
        "delta": guarantee["delta"],
        "name": stored.name,
        "manifest_sha256": stored.id,
    }
    return _for_page(studio.runs.start(job, f"Audit {case.case}"))


def _for_page(run: dict[str, Any]) -> dict[str, Any]:
    """Paths of this machine become names, flags of the command become words."""
    error = run["error"]
    if error is not None:
        error = {**error, "message": for_page(error["message"]), "remedy": for_page(error["remedy"])}
    result = run["result"]
    if isinstance(result, dict) and isinstance(result.get("release"), str):
        result = {**result, "name": FilePath(result["release"]).name}
    return {**run, "error": error, "result": result}
