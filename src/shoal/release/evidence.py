"""The evidence for a release, for the file: manifest, plan, accounting, audit; attacks as the owner's annex.

Everything comes from the objects that are there: the folder is checked as a recipient would, the ledger is
read and verified. Without the annex nothing in it was computed on raw data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.errors import LedgerError, OutputError, SourceError
from shoal.privacy.ledger import Ledger, Population
from shoal.release.manifest import NONE_RECORDED, RECORDED, Manifest, case_of, is_tuned
from shoal.release.page.page import render, write_page
from shoal.release.publish import sound_manifest
from shoal.release.staging import refuse_inside_release
from shoal.release.verify import check_release

OWNER_ONLY = (
    "Owner's eyes only: the annex holds figures computed on raw data. Do not publish; export without the "
    "annex to pass it on."
)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Contents of the evidence pack."""

    name: str  # of the folder
    manifest: Manifest
    manifest_sha256: str
    budget: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]] = field(repr=False)  # of the population, in the order they happened
    ledger_rows: int
    ledger_head: str
    ledger_findings: Sequence[str]
    audit: Sequence[Mapping[str, Any]] = ()  # results of `shoal audit --json`
    attacks: Sequence[Mapping[str, Any]] | None = None  # None: without the owner's annex


def gather_evidence(
    release: Path,
    ledger: Ledger,
    *,
    audit: Path | None = None,
    attacks: Sequence[Path] | None = None,
) -> Evidence:
    """Check the folder, read the ledger; `audit` and `attacks` are files of JSON, attacks make the annex."""
    checked = check_release(release)
    manifest = sound_manifest(checked)
    population = ledger.state().find(manifest.population)
    stored = {} if population is None else population.released
    recorded = [key for key, each in stored.items() if each.manifest_sha256 == checked.manifest_sha256]
    if population is None or not recorded:
        raise LedgerError(
            "not-committed",
            f"the ledger {ledger.store.where()} has no release with exactly this manifest.",
            "Use the ledger it was made with (SHOAL_LEDGER).",
        )
    findings = ledger.verify()
    return Evidence(
        name=Path(release).resolve().name,
        manifest=manifest,
        manifest_sha256=checked.manifest_sha256,
        budget={
            "population": population.name,
            "pots": [
                {
                    "title": pot.title,
                    "limit": pot.shown(pot.limit_nano),
                    "spent": pot.shown(pot.spent_nano),
                    "left": pot.shown(pot.left_nano, up=False),
                }
                for pot in population.pots.values()
            ],
            "lifetime": population.lifetime_line,
            "mixture": population.mixture,
        },
        rows=_rows(population, recorded[-1]),
        ledger_rows=len(ledger.store.rows()),
        ledger_head=ledger.head(),
        ledger_findings=[f"row {each.seq}: {each.message}" for each in findings],
        audit=[] if audit is None else _fitting(_read(audit, list), manifest),
        attacks=None if attacks is None else [_read(path, dict) for path in attacks],
    )


def write_evidence(path: Path, evidence: Evidence) -> Path:
    """One HTML file that needs nothing else; readable by the owner alone, to be passed on by hand."""
    refuse_inside_release(path)
    return write_page(Path(path), evidence_html(evidence))


def evidence_html(evidence: Evidence) -> str:
    """One page without scripts, made to be printed or filed."""
    manifest = evidence.manifest
    is_looked_at = is_tuned(manifest.tuned_on_private_data)
    case = case_of(manifest)
    counted = {"read_from_data": dict(manifest.read_from_data)} if manifest.read_from_data else {}
    return render(
        "evidence.html",
        title=f"Evidence pack of {evidence.name}, a release about {manifest.population}",
        banner=OWNER_ONLY if evidence.attacks is not None else "",
        evidence=evidence,
        looks=RECORDED if is_looked_at else f"{NONE_RECORDED}; that proves nothing",
        public={**manifest.public, **counted},
        audit_flag="" if case is None else f" --mechanism {case.case}",
    )


def _rows(population: Population, key: str) -> list[dict[str, Any]]:
    spends = [
        {
            "at": each.at,
            "what": each.what,
            "cost": population.pots[each.pot].shown(each.cost_nano),
            "status": each.status,
            "this": each.key == key and each.released is not None,
        }
        for each in population.spends
    ]
    listed = [
        {
            "at": note["at"],
            "what": note["what"],
            "cost": "",
            "status": "listed",
            "this": note.get("key") == key,
        }
        for note in population.notes
        if note["kind"] == "listing"
    ]
    rows = sorted([*spends, *listed], key=lambda row: row["at"])
    return [
        {**row, "at": row["at"][:10]} for row in rows
    ]  # the day: the minute would show when data was read


def _fitting(audits: list, manifest: Manifest) -> list[Mapping[str, Any]]:
    """The results that are about the audit case of this release."""
    case = case_of(manifest)
    if case is None:
        return []
    return [each for each in audits if isinstance(each, dict) and each.get("mechanism") == case.mechanism]


def _read(path: Path, kind: type) -> Any:
    try:
        value = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise OutputError(
            "evidence-file", f"{path} cannot be read ({error.strerror}).", "Check it."
        ) from error
    except ValueError:
        raise SourceError("evidence-file", f"{path} is not JSON.", "Pass what the command wrote.") from None
    if not isinstance(value, kind):
        raise SourceError(
            "evidence-file", f"{path} does not hold what is expected.", "Pass what was written."
        )
    return value
