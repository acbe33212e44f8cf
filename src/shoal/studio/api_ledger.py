"""The ledger view: populations, what was spent on them, the chain, and the evidence pack."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Path

from shoal.errors import PlanError
from shoal.privacy.accounting import ZCDP, nano, rho_for
from shoal.privacy.ledger import Population, pots_within
from shoal.privacy.ledger.pots import ONE_POT, raised_within
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
    book = studio.ledger()
    if form.delta:
        limits = pots_within(form.epsilon, form.delta, form.pure)
        book.create(form.population, pots=limits, delta=form.delta, note=form.note)
    else:
        book.create(form.population, currency="epsilon", limit_nano=nano(form.epsilon), note=form.note)
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
    for name, limit in _limits(form, owner).items():
        change = book.raise_limit if limit >= owner.pots[name].limit_nano else book.lower_limit
        change(population, limit, pot=name, note=form.note)
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


def _limits(form: BudgetForm, owner: Population) -> dict[str, int]:
    """The limits that a form asks for, by pot."""
    if not owner.has_one_limit:
        return raised_within(owner, form.epsilon, form.pure)
    currency = "rho" if form.delta else "epsilon"
    if currency != owner.currency:
        words = "pure epsilon: leave delta at 0" if owner.currency == "epsilon" else "epsilon at a delta"
        raise PlanError(
            "budget-currency", f"this population is counted in {owner.currency}.", f"Give {words}."
        )
    limit = rho_for(form.epsilon, form.delta, ZCDP) if form.delta else nano(form.epsilon)
    return {ONE_POT: limit}


def _population(owner: Population, here: dict[tuple[str, str], str]) -> dict[str, Any]:
    """A population with every spend and every note."""
    lifetime = owner.lifetime
    spends = [
        {
            "at": each.at,
            "what": each.what,
            "cost_nano": each.cost_nano,
            "pot": each.pot,
            "cost": owner.pots[each.pot].shown(each.cost_nano),
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
        "pots": owner.described(),
        "lifetime": owner.lifetime_line,
        "epsilon": None if lifetime is None else lifetime[0],
        "delta": float(owner.delta) if owner.delta else None,
        "note": owner.note,
        "at": owner.at,
        "tuned": owner.tuned,
        "mixture": owner.mixture,
        "spends": spends,
        "notes": notes,
    }
