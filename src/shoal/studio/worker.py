"""One run in a process of its own: it does the job, writes how far it is, and leaves its result.

    python -m shoal.studio.worker ROOT RUN

It ends with the server: the pipe that the server holds at its standard input closes when the server dies, and
the run then stops as if it had been cancelled. What was reserved stays spent; the ledger knows.

What a run does, by the name of its job, and what a run that was stopped left behind.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from shoal.errors import PlanError, ResourceError, ShoalError
from shoal.privacy.ledger import Ledger, open_ledger
from shoal.privacy.ledger.state import new_reservation
from shoal.release.manifest import MANIFEST
from shoal.studio.sources import SourceShelf, simulated_city
from shoal.studio.workspace import Workspace, read_json, write_json

EVERY_S = 0.15  # between two lines of progress
PATIENCE_S = 10.0  # between the request to stop and the kill


class RunProgress:
    """Progress as lines of JSON; stops where a stop was requested."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.stopped = threading.Event()
        self.orphaned = threading.Event()  # the server is gone
        self._stage: dict[str, Any] = {}
        self._told = 0.0

    def stage(self, name: str, total: float | None = None) -> None:
        self.check()
        self._stage = {"stage": name, "total": total, "done": 0.0}
        self._write({**self._stage, "at": now()})

    def advance(self, amount: float) -> None:
        self.check()
        if not self._stage:
            return
        self._stage["done"] += amount
        if time.monotonic() - self._told > EVERY_S:
            self._write(dict(self._stage))

    def note(self, **facts: Any) -> None:
        """Something that must be known even if this process dies now."""
        self._write({"note": facts})
        os.fsync(self.file.fileno())

    def check(self) -> None:
        """An interrupt that landed inside a library's callback is swallowed there; here it is not lost."""
        if self.stopped.is_set() and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    def _write(self, line: dict[str, Any]) -> None:
        self._told = time.monotonic()
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def main() -> None:
    root, run = Path(sys.argv[1]), sys.argv[2]
    work = Workspace(root)
    folder = work.runs / run
    with open(folder / "progress.jsonl", "a", encoding="utf-8") as file:
        progress = RunProgress(file)
        _listen(progress)
        outcome = _outcome(work, read_json(folder / "run.json"), progress)
        write_json(folder / "result.json", {**outcome, "at": now()})
    os._exit(0)  # threads of libraries must not keep a finished run alive


def _outcome(work: Any, request: dict[str, Any], progress: RunProgress) -> dict[str, Any]:
    try:
        return {"status": "done", "result": do(request["job"], work, progress)}
    except KeyboardInterrupt:
        return {"status": _stop_of(progress)}
    except MemoryError:
        error = ResourceError("out-of-memory", "this machine has not enough memory for it.")
    except Exception as failure:
        if progress.stopped.is_set():  # a flow wrapped the interrupt, or a library turned it into this
            return {"status": _stop_of(progress)}
        if not isinstance(failure, ShoalError):
            if os.environ.get("SHOAL_DEBUG"):
                raise
            message = f"shoal met a {type(failure).__name__} it did not expect."
            remedy = "Start the page with SHOAL_DEBUG=1 to see where, and please report it."
            failure = ShoalError("internal-error", message, remedy)
        error = failure
    shown = {"code": error.code, "message": error.message, "remedy": error.remedy}
    return {"status": "failed", "error": shown}


def _stop_of(progress: RunProgress) -> str:
    return "interrupted" if progress.orphaned.is_set() else "stopped"


def _listen(progress: RunProgress) -> None:
    """Stop on SIGINT, SIGTERM, and when the server is gone; for good if that takes too long."""

    def stop(*_: object) -> None:
        progress.stopped.set()
        threading.Timer(PATIENCE_S, os._exit, (137,)).start()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)

    def watch() -> None:
        sys.stdin.buffer.read()  # returns when the server's end is closed
        progress.orphaned.set()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def do(job: dict[str, Any], work: Workspace, progress: RunProgress) -> dict[str, Any]:
    """Do a job; plain values for the page."""
    return _JOBS[job["do"]](job, work, progress)


def _simulate(job: dict[str, Any], work: Workspace, progress: RunProgress) -> dict[str, Any]:
    from shoal.kinds.simulated import make_simulated

    city = simulated_city(job["city"])
    folder = work.city(city.name)
    settings = make_simulated(city, folder, open_ledger(), progress)
    card = SourceShelf(work).keep_simulated(city, folder, settings)
    return {"source": card.id}


def _check(job: dict[str, Any], work: Workspace, progress: RunProgress) -> dict[str, Any]:
    """The owner's own look at the rows: nothing is spent."""
    from shoal.events.source import summarise
    from shoal.kinds.run import checked_rows

    shelf = SourceShelf(work)
    card = shelf.find(job["source"])
    ledger = open_ledger()
    if card.population is not None and ledger.state().find(card.population) is not None:
        ledger.look(card.population, "inspection: exact numbers of rows and users")  # before it is seen
    source, sites = shelf.opened(card), shelf.sites(card)
    named = None if sites is None or not source.shape.has_sites else sites.ids
    report = checked_rows(source, progress, sites=named, stop=False)
    progress.stage("count users and times")
    summary = summarise(source, sites=named)
    reasons = [
        {"reason": reason, "rows": count, "meaning": report.meaning(reason), "where": report.where(reason)}
        for reason, count in report.by_reason.items()
    ]
    return {
        "rows": report.rows,
        "bad_rows": report.bad,
        "reasons": reasons,
        "remedy": report.remedy() if report.bad else "",
        "users": summary.exact_users,
        "first": summary.first.isoformat() if summary.first else None,
        "last": summary.last.isoformat() if summary.last else None,
        "places": {name: list(ends) for name, ends in (summary.place_range or {}).items()},
    }


def _release(job: dict[str, Any], work: Workspace, progress: RunProgress) -> dict[str, Any]:
    from shoal.kinds.run import run
    from shoal.studio.plans import Planner

    form, ledger = job["form"], NotingLedger(open_ledger().store, progress)
    planner = Planner(work, SourceShelf(work))
    settings = planner.settings(form)
    prepared = planner.prepared(form, settings)
    progress.stage("read the files' hashes")
    key = prepared.key()
    progress.note(population=form["population"], key=key, out=settings["out"])
    keep_plan(Path(settings["owner"]), key, form, settings)
    result = run(prepared, ledger, progress=progress, allow_empty=bool(job.get("allow_empty")))
    return {
        "release": work.relative(result.release),
        "reused": result.reused,
        "spends": prepared.mechanism is not None,
        "source_changed": result.source_changed,
        "verdict": result.verdict.to_plain(),
        "rows": result.rows,
        "bad_rows": result.bad_rows,
        "manifest_sha256": _recorded(ledger, result.release),
    }


def _recorded(ledger: Ledger, release: Path) -> str | None:
    releases = [each for _, each in ledger.releases() if each.path == str(release)]
    return releases[-1].manifest_sha256 if releases else None


def _attack(job: dict[str, Any], work: Workspace, progress: RunProgress) -> dict[str, Any]:
    from shoal.attacks.runs.adversaries import attack_release
    from shoal.attacks.runs.plans import ReleaseAttack

    release = Path(job["release"])
    owner = work.owner(release.name)
    out = owner / "attacks" / job["adversary"]
    progress.stage("read the files' hashes")
    request = ReleaseAttack(
        settings=_same_data(read_plan_of(owner, job["key"])["form"], job["key"], work),
        release=release,
        owner=owner,
        out=out,
        known_from=job.get("known_from"),
        prior=job.get("prior") or "freq_roi",
    )
    outcome = attack_release(job["adversary"], request, progress)
    summary = {**outcome, "release": release.name, "manifest_sha256": job["manifest_sha256"]}
    write_json(out / "told.json", summary)
    return outcome


def _same_data(form: dict[str, Any], key: str, work: Workspace) -> dict[str, Any]:
    """Settings of a release's plan, its paths judged again; refused where files are no longer the same."""
    from shoal.studio.plans import Planner

    planner = Planner(work, SourceShelf(work))
    settings = planner.settings(form)
    prepared = planner.prepared(form, settings)
    stored = open_ledger().find(prepared.plan.population, key)
    digest = None if stored is None else stored.source_digest
    # Releases made before the ledger recorded digests have a key that hashes the files.
    now = (prepared.earlier_key(), None) if digest is None else (prepared.key(), prepared.source_digest())
    if now != (key, digest):
        raise PlanError(
            "data-changed",
            "the source or its public files changed since the release: an attack would compare other people.",
            "Put the old files back, or release and attack anew.",
        )
    return settings


class NotingLedger(Ledger):
    """Notes the id of a reserve before it is written, so that its run can be identified afterwards."""

    def __init__(self, store: Any, progress: RunProgress) -> None:
        super().__init__(store)
        self.progress = progress

    def reserve(self, *given: Any, reservation: str | None = None, **named: Any) -> Any:
        reservation = reservation or new_reservation()
        self.progress.note(reservation=reservation)
        return super().reserve(*given, reservation=reservation, **named)

    def list_release(self, *given: Any, reservation: str, **named: Any) -> Any:
        self.progress.note(reservation=reservation)
        return super().list_release(*given, reservation=reservation, **named)


def _audit(job: dict[str, Any], work: Workspace, progress: RunProgress) -> dict[str, Any]:
    """A quick audit of the mechanism of a release, at its price; kept for the evidence pack."""
    from shoal.auditing.run import AuditPlan, audit_mechanism

    epsilon, delta = job["epsilon"], job["delta"]
    plan = AuditPlan.quick(epsilon, delta or 1e-6)
    result = asdict(audit_mechanism(job["mechanism"], plan, progress))
    write_json(audit_file(work.owner(job["name"]), job["manifest_sha256"]), [result])
    return {name: value for name, value in result.items() if name != "caught_by"}


def audit_file(owner: Path, manifest_sha256: str) -> Path:
    """File of the audit of one release, which is at the price of that release."""
    return owner / f"audit-{manifest_sha256[:16]}.json"


def keep_plan(owner: Path, key: str, form: dict[str, Any], settings: dict[str, Any]) -> None:
    """Keeps form and settings of a run beside the owner's report, under the key of the run in the ledger."""
    owner.mkdir(parents=True, mode=0o700, exist_ok=True)
    plain = json.loads(json.dumps(settings, default=list))
    write_json(_plan_file(owner, key), {"form": form, "settings": plain})


def _plan_file(owner: Path, key: str) -> Path:
    return owner / f"plan-{key[:16]}.json"


def read_plan_of(owner: Path, key: str) -> dict[str, Any]:
    plan = read_json(_plan_file(owner, key))
    if not isinstance(plan, dict) or "settings" not in plan:
        raise PlanError(
            "plan-unknown",
            "this release was not made on this page, so it is not known which data it was made of.",
            "Use `shoal attack --plan` with its plan, or make it here.",
        )
    return plan


_JOBS: dict[str, Callable[[dict[str, Any], Workspace, Any], dict[str, Any]]] = {
    "simulate": _simulate,
    "check": _check,
    "release": _release,
    "attack": _attack,
    "audit": _audit,
}


@dataclass(frozen=True, kw_only=True)
class Aftermath:
    """`spent` in words, or empty; `released` where the folder of the release is in place."""

    words: str
    spent: str
    released: bool


def aftermath(ledger: Ledger, population: str, reservation: str, out: Path) -> Aftermath:
    """Outcome of the run that reserved, or listed, under this id, read off the ledger and the folders.

    The run noted the id before it reserved. A reserve is spent from the moment it is written. A run that died
    before it spent nothing; one that died after it and before its commit spent and published nothing; one
    that died after its commit is complete, or is completed by asking for it again, which is free.
    """
    owner = ledger.state().find(population)
    spend = next((each for each in owner.spends if each.reservation == reservation), None) if owner else None
    stored = (
        next((e for e in owner.released.values() if e.reservation == reservation), None) if owner else None
    )
    if owner is None or (spend is None and stored is None):
        return Aftermath(words="Nothing was reserved and nothing was spent.", spent="", released=False)
    cost = "" if spend is None else owner.pots[spend.pot].shown(spend.cost_nano)
    if stored is None and reservation in ledger.unfinished():
        words = (
            f"{cost} was spent. The release is complete, but its commit failed. Run it again: that commits "
            "it and is free."
        )
        return Aftermath(words=words, spent=cost, released=False)
    if stored is None:
        words = (
            f"The budget was reserved before it stopped: {cost} counts as spent, because noise may have been "
            f"drawn. It published nothing in {out.name}. Running it again spends again."
        )
        return Aftermath(words=words, spent=cost, released=False)
    paid = f"{cost} was spent. " if cost else ""
    if (Path(stored.path) / MANIFEST).is_file():
        return Aftermath(
            words=f"{paid}The release was recorded and is in its place.", spent=cost, released=True
        )
    words = f"{paid}The release was recorded, but not yet moved to its place. Run it again: that is free."
    return Aftermath(words=words, spent=cost, released=False)


if __name__ == "__main__":
    main()
