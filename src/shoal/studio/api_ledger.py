"""The ledger view: populations, what was spent on them, the chain, and the evidence pack."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Path

from shoal.errors import PlanError
from shoal.privacy.accounting import epsilon_for, nano, rho_for, show_nano
from shoal.privacy.ledger import Population
from shoal.release.evidence import gather_evidence, write_evidence
from shoal.studio.context import Here, attacks_of, releases
from shoal.studio.forms import BudgetForm, EvidenceForm, PopulationForm, VerifyForm
from shoal.studio.worker import audit_file

router = APIRouter(tags=["ledger"])


@router.get("/ledger")
def ledger(studio: Here) -> dict[str, Any]:
    """Every population with its history."""
    book = studio.ledger()
    here = {(each.population, each.key): each.id for each in releases(studio.work, book)}
    populations = [_population(each, here) for each in book.state().populations.values()]
    return {"where": book.store.where(), "head": book.head(), "populations": populations}


@router.post("/ledger/verify")
def verify(form: VerifyForm, studio: Here) -> dict[str, Any]:
    """Walk the chain of hashes and check every rule at every row."""
    book = studio.ledger()
    findings = book.verify(expected_head=form.head)
    rows = 0 if findings else len(book.store.rows())
    problems = [{"row": each.seq, "message": each.message} for each in findings]
    return {"ok": not findings, "rows": rows, "findings": problems, "head": None if findings else book.head()}


@router.post("/populations", status_code=201)
def create(form: PopulationForm, studio: Here) -> dict[str, Any]:
    """Open a population: the people in the data, with one budget for all releases about them."""
    currency, limit = _limit(form)
    book = studio.ledger()
    delta = form.delta or None
    book.create(form.population, currency=currency, limit_nano=limit, delta=delta, note=form.note)
    return _population(book.state().population(form.population), {})


@router.post("/populations/{population}/raise")
def raise_limit(
    population: Annotated[str, Path(min_length=1, max_length=100)], form: BudgetForm, studio: Here
) -> dict[str, Any]:
    """Set a new lifetime budget, never below what is spent."""
    book = studio.ledger()
    owner = book.state().population(population)
    if owner.delta and form.delta and form.delta != float(owner.delta):
        raise PlanError(
            "budget-delta",
            f"the budget of this population is read at delta {owner.delta}; at another the same epsilon is "
            "another budget.",
            f"Give epsilon at delta {owner.delta}.",
        )
    currency, limit = _limit(form)
    if currency != owner.currency:
        words = "pure epsilon: leave delta at 0" if owner.currency == "epsilon" else "epsilon at a delta"
        raise PlanError(
            "budget-currency", f"this population is counted in {owner.currency}.", f"Give {words}."
        )
    change = book.raise_limit if limit >= owner.limit_nano else book.lower_limit
    change(population, limit, note=form.note)
    return _population(book.state().population(population), {})


@router.post("/evidence")
def evidence(form: EvidenceForm, studio: Here) -> dict[str, str]:
    """Write the evidence pack of a release and return an address that opens it for two minutes."""
    book = studio.ledger()
    stored = studio.release(form.release)
    owner = studio.work.owner(stored.name)
    audit = audit_file(owner, stored.id)
    gathered = gather_evidence(
        stored.path,
        book,
        audit=audit if audit.is_file() else None,
        attacks=attacks_of(studio.work, stored) if form.annex else None,
    )
    name = "evidence-with-annex.html" if form.annex else "evidence.html"
    path = write_evidence(owner / name, gathered)
    return {
        "address": f"/open/{studio.tickets.issue(path)}",
        "save": f"/open/{studio.tickets.issue(path, f'{stored.name}-{name}')}",
        "file": studio.work.relative(path),
    }


def _limit(form: BudgetForm) -> tuple[str, int]:
    if form.delta:
        return "rho", rho_for(form.epsilon, form.delta)
    return "epsilon", nano(form.epsilon)


def _population(owner: Population, here: dict[tuple[str, str], str]) -> dict[str, Any]:
    """A population with every spend and every note."""
    delta = float(owner.delta) if owner.delta else None
    epsilon = None
    if owner.currency == "rho" and delta:
        epsilon = {
            "limit": epsilon_for(owner.limit_nano, delta),
            "spent": epsilon_for(owner.spent_nano, delta) if owner.spent_nano else 0.0,
        }
    spends = [
        {
            "at": each.at,
            "what": each.what,
            "cost_nano": each.cost_nano,
            "cost": show_nano(each.cost_nano),
            "status": each.status,
            "name": FilePath(each.path).name if each.path else "",
            "release": here.get((owner.name, each.key)),
        }
        for each in owner.spends
    ]
    notes = [
        {
            "at": note["at"],
            "kind": note["kind"],
            "what": note.get("what") or note.get("note", ""),
            "release": here.get((owner.name, note.get("key", ""))),
        }
        for note in owner.notes
    ]
    return {
        "name": owner.name,
        "currency": owner.currency,
        "limit_nano": owner.limit_nano,
        "spent_nano": owner.spent_nano,
        "left_nano": owner.left_nano,
        "limit": show_nano(owner.limit_nano),
        "spent": show_nano(owner.spent_nano),
        "left": show_nano(owner.left_nano),
        "delta": delta,
        "epsilon": epsilon,
        "note": owner.note,
        "at": owner.at,
        "tuned": owner.tuned,
        "mixture": owner.mixture,
        "spends": spends,
        "notes": notes,
    }
