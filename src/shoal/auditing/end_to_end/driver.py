"""One whole run under a driven noise: files, prepare, check, reserve, build, commit, the bytes of the folder.

While a run is driven, the methods of `OsNoise` answer from the noise of the audit, so nothing of the run is
replaced or left out but the source of randomness (and the owner's report, which comes after the commit).
Ledger, release and input lie in a temporary folder that is removed afterwards: nothing made here can be
published, and the package has no parameter that would do the same from outside.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

from shoal.auditing.end_to_end.worlds import Rows, World
from shoal.auditing.replay import (
    Call,
    CallsDiffer,
    over_claim,
    over_parts,
    transcript_gdp,
    transcript_loss,
    under_gdp,
)
from shoal.errors import ShoalError
from shoal.kinds import KINDS
from shoal.kinds.ask import Ask
from shoal.kinds.run import run as run_kind
from shoal.privacy.accounting import GDP, NANO, PURE, ZCDP, Loss, ceil_nano, cost_nano, rho_for
from shoal.privacy.ledger.book import open_ledger
from shoal.privacy.noise import OsNoise
from shoal.release import manifest as manifest_module
from shoal.release.manifest import MANIFEST, Manifest
from shoal.release.price import covers, spent_loss

POPULATION = "end-to-end audit"
LIMIT_NANO, DELTA = 10**6 * NANO, 1e-6
PRIMITIVES = ("run_key", "laplace", "gaussian", "choose", "first_above")


@dataclass(kw_only=True)
class Outcome:
    """All that an outsider may see of a run, and (for the audit) the noise calls behind it."""

    files: dict[str, bytes] = field(default_factory=dict)
    error: tuple[str, ...] | None = None  # class, code, and after the reserve the message
    differs: str | None = None  # a noise call that was not made on the other side
    spent_nano: int = 0  # reserved in the ledger
    law: str = ZCDP  # by which it was charged
    key: str | None = None  # of the run: whether it is stored already
    calls: list[Call] = field(default_factory=list)

    @property
    def manifest(self) -> Manifest | None:
        return Manifest.from_json(self.files[MANIFEST].decode()) if MANIFEST in self.files else None


def run(kind: str, world: World, rows: Rows, noise: Any, folder: Path) -> Outcome:
    """The release of one table; paths are the same for every table, as they are part of the plan."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return run_again(kind, world, rows, noise, folder)


def run_again(kind: str, world: World, rows: Rows, noise: Any, folder: Path) -> Outcome:
    """The same with the ledger and the releases that are in the folder; only the table is written anew."""
    settings = world.write(rows, folder)
    outcome = Outcome()
    path = folder / "ledger.sqlite"
    ledger = open_ledger(path)
    if POPULATION not in ledger.state().populations:
        if world.currency == "pots":
            pots = {"gaussian": rho_for(20.0, DELTA, GDP), "pure": LIMIT_NANO}
            ledger.create(POPULATION, pots=pots, delta=DELTA)
        else:
            ledger.create(POPULATION, currency=world.currency, limit_nano=LIMIT_NANO)
    try:
        # the price follows the population, which is looked up in the ledger in use
        with (
            patch.dict(os.environ, SHOAL_LEDGER=str(path)),
            driven(noise),
            without_report(KINDS[kind].build),
            fixed_clock(),
        ):
            prepared = prepared_of(kind, {**settings, "population": POPULATION})
            outcome.key = prepared.key()
            release = run_kind(prepared, ledger, engine=world.engine(folder), allow_empty=True).release
        outcome.files = {
            path.relative_to(release).as_posix(): path.read_bytes()
            for path in sorted(release.rglob("*"))
            if path.is_file()
        }
    except CallsDiffer as differs:
        outcome.differs = str(differs)
    except ShoalError as error:
        outcome.error = type(error).__name__, error.code, error.message
    except Exception as error:  # any other exception is an output too
        outcome.error = type(error).__name__, str(error)
    outcome.calls = getattr(noise, "calls", [])
    for pot in ledger.state().population(POPULATION).pots.values():
        if pot.spent_nano:
            outcome.spent_nano, outcome.law = pot.spent_nano, pot.law
    if outcome.error and not outcome.spent_nano:
        outcome.error = outcome.error[:2]  # before the reserve, messages are for the owner's eyes
    return outcome


def prepared_of(kind: str, settings: Mapping[str, Any]) -> Any:
    """What a kind of release is run from, by the settings of its plan."""
    if kind != "query":
        return KINDS[kind].prepare(KINDS[kind].plan.from_settings(dict(settings)))
    place = dict(settings)
    asks = tuple(Ask.of(each, number) for number, each in enumerate(place.pop("asks"), 1))
    flags = {name: place.pop(name) for name in ("epsilon", "out", "updates")}
    flags["mechanism"] = place.pop("method")
    return KINDS[kind].prepare(KINDS[kind].plan.from_settings(place, flags, asks))


def driven(noise: Any) -> AbstractContextManager[Any]:
    """Every OsNoise of the process answers from `noise`."""

    def forward(name: str) -> Callable:
        return lambda _self, *args: getattr(noise, name)(*args)

    forwarded: Any = {name: forward(name) for name in PRIMITIVES if hasattr(noise, name)}
    return patch.multiple(OsNoise, create=True, **forwarded)  # its first_above is added to it


def without_report(build: type) -> AbstractContextManager[Any]:
    """The owner's report is drawn after the commit, into another folder, and takes most of the time."""
    return patch.object(build, "report", lambda _self, owner, *_: Path(owner))


class _FixedClock(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime(2026, 1, 1, tzinfo=tz or UTC)


def fixed_clock() -> AbstractContextManager[Any]:
    """The day on which a manifest was written is the one field that two sides may differ in."""
    return patch.object(manifest_module, "datetime", _FixedClock)


def differences(first: Outcome, second: Outcome) -> list[str]:
    """Differences of two runs with the same answers; for any two tables, since steps of one unit add up."""
    if second.differs and first.error:
        return [f"outcomes differ: {first.error} and a run that went on to ask for noise"]
    if second.differs:
        return [f"noise calls differ: {second.differs}"]
    problems = []
    if len(second.calls) < len(first.calls):
        problems.append(f"noise calls differ: call {len(second.calls) + 1} was made on one side only")
    if first.error != second.error:
        problems.append(f"outcomes differ: {first.error or 'released'} and {second.error or 'released'}")
    if first.key != second.key:
        problems.append("the keys of the run differ")
    if (first.spent_nano, first.law) != (second.spent_nano, second.law):
        problems.append(f"the ledger was charged {first.spent_nano} and {second.spent_nano} nano")
    if first.error or second.error:
        return problems
    for name in sorted({*first.files, *second.files}):
        one, other = first.files.get(name), second.files.get(name)
        if one is None or other is None:
            problems.append(f"{name} was released on one side only")
        elif one != other:
            problems.append(f"{name} differs {where(name, one, other)}")
    return problems


def where(name: str, one: bytes, other: bytes) -> str:
    """The first byte that differs, with its surroundings where the file is text."""
    at = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    if name.endswith((".json", ".csv", ".md", ".geojson")):
        texts = (each[max(0, at - 24) : at + 16].decode("utf-8", "replace") for each in (one, other))
        return f"at byte {at}: " + " and ".join(json.dumps(text) for text in texts)
    return f"at byte {at}"


def loss_problems(first: Outcome, second: Outcome) -> tuple[list[str], float]:
    """Where the exact loss of the transcript exceeds a claim, and the largest share of a claim it reaches.

    Claims: what the ledger was charged, what the manifest lists as spent (in all and by name), and the
    epsilon and delta it states.
    """
    manifest = first.manifest
    if manifest is None:
        return [], 0.0
    rho, pure = transcript_loss(first.calls, second.calls)
    spent = spent_loss(manifest)
    if spent is None or not first.spent_nano:
        return ["the manifest or the ledger has no spend"], 0.0
    problems = [f"{problem} (manifest)" for problem in over_claim(rho, pure, spent)]
    problems += under_gdp(first.calls, second.calls, spent)
    gdp = transcript_gdp(first.calls, second.calls)
    charged, used = Fraction(first.spent_nano, NANO), {ZCDP: rho, GDP: gdp, PURE: pure}[first.law]
    if used is None or used > charged:
        shown = "no pure loss" if used is None else f"{float(used):.6g}"
        problems.append(f"loss above the claim: {shown} of {float(charged):.6g} charged in the ledger")
    if first.spent_nano != cost_nano(spent, first.law):
        problems.append(f"the ledger was charged {first.spent_nano} nano; the manifest lists other spends")
    whole = Loss(ceil_nano(rho), None if pure is None else ceil_nano(pure), ceil_nano(gdp), spent.tau)
    if not covers(manifest.guarantee, whole):
        problems.append(f"loss above the claim: epsilon = {manifest.guarantee['epsilon']} does not cover it")
    problems += over_parts(first.calls, second.calls, _parts(manifest))
    claimed = spent.pure_epsilon_nano
    share = rho * NANO / spent.rho_nano if claimed is None else (pure or rho) * NANO / claimed
    return problems, float(share)


def _parts(manifest: Manifest) -> dict[str, Loss]:
    """Claims by the names of the spends; a name that is listed twice has both."""
    parts: dict[str, Loss] = {}
    for spend in manifest.spends:
        loss = spent_loss(replace(manifest, spends=(spend,))) or Loss(0, 0)
        name = spend["name"]
        parts[name] = parts[name] + loss if name in parts else loss
    return parts
