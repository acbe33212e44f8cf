"""A model of the ledger, with which the true one must agree everywhere.

The model walks every short sequence of operations, each more than a year after the one before, in both
currencies and with two pots, and compares each answer of the ledger with a few plain integers and with the
sum of the costs in the rows as they are stored. A planted bug counts as caught at its first wrong answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import count, product
from unittest.mock import patch

from shoal.errors import LedgerError
from shoal.privacy.accounting import Loss
from shoal.privacy.ledger import Ledger, Reservation, StoredRow, book
from shoal.privacy.ledger.state import Decide, Finding

RHO, PURE = Loss.gaussian(6), Loss.pure(100_001)  # epsilon^2 / 2 = 5.0001, so the pure one costs 6 as well
COSTS = {"rho": 6, "epsilon": 100_001}  # of each of the two in a currency, where it can be paid at all
POT_COSTS = {"gaussian": COSTS["rho"], "pure": COSTS["epsilon"]}
STEPS = ("reserve a", "reserve pure b", "reserve twice at once", "commit", "raise")
# Each pair of these steps is walked between a release and a further one.
RECORDS = ("reserve c that replaces", "list that replaces", "supersede", "disclose", "look")
FURTHER = (*STEPS, *RECORDS, "lower")


class MemoryStore:
    """Rows in a list. `rival` acts once, as another process would, at the next append."""

    rival: Callable[[], object] | None = None

    def __init__(self) -> None:
        self.stored: list[StoredRow] = []

    def where(self) -> str:
        return "in memory"

    def file(self) -> None:
        return None

    def rows(self, *, unchecked: bool = False) -> list[StoredRow]:
        return list(self.stored)

    def problems(self) -> list[Finding]:
        return []

    def append(self, decide: Decide) -> None:
        self._let_rival_in()
        row = decide(self.rows())
        self.stored += [row] if row else []

    def _let_rival_in(self) -> None:
        rival, self.rival = self.rival, None
        if rival is not None:
            rival()


def agrees(make: Callable[[], Ledger], length: int = 4) -> bool:
    """Whether the ledger answers like the model over every sequence of `length` steps, and of records."""
    begin, end = ("reserve a", "commit"), ("commit", "reserve pure b", "raise", "commit")
    walks = [("rho", steps) for steps in product(STEPS, repeat=length)]
    walks += [(each, (*begin, *two, *end)) for each in COSTS for two in product(FURTHER, repeat=2)]
    walks += [("pots", steps) for steps in product((*STEPS[:3], "lower"), repeat=length)]
    try:
        with years_apart():
            return all(_walk(make(), currency, steps) for currency, steps in walks)
    except LedgerError:  # it refuses where the model goes on
        return False


@contextmanager
def years_apart() -> Iterator[None]:
    """Every row that a ledger writes is dated more than a year after the one before, and all lie far back."""
    days = count(step=400)

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(1980, 1, 1, tzinfo=tz) + timedelta(days=next(days) % 15_000)

    with patch.object(book, "datetime", Clock):
        yield


def _walk(ledger: Ledger, currency: str, steps: tuple[str, ...]) -> bool:
    costs = POT_COSTS if currency == "pots" else {"one": COSTS[currency]}
    first_pot, cost = next(iter(costs.items()))
    limits = {pot: 2 * each - 1 for pot, each in costs.items()}
    spent = dict.fromkeys(costs, 0)
    if currency == "pots":
        ledger.create("town", pots=limits, delta=1e-6)
    else:
        ledger.create("town", currency=currency, limit_nano=limits["one"])
    reserves: list[tuple[str, Reservation, str | None]] = []  # key, reserve, the release that it replaces
    released: dict[str, str] = {}  # key to manifest hash
    replaced: set[str | None] = set()
    for number, step in enumerate(steps):
        first = next(iter(released.values()), None) if "replaces" in step else None
        if step in ("raise", "lower"):
            wanted = limits[first_pot] + cost if step == "raise" else limits[first_pot] - 1
            fits = _accepts(getattr(ledger, f"{step}_limit"), "town", wanted, pot=first_pot)
            fixed = step == "lower" and currency == "pots" and any(spent.values())
            if fits != (wanted >= spent[first_pot] and not fixed):
                return False
            limits[first_pot] = wanted if fits else limits[first_pot]
        elif step == "commit":
            for key, reservation, old in reserves[-1:]:
                manifest = f"{number:064x}"
                if _accepts(ledger.commit, reservation, manifest, "/release") != (key not in released):
                    return False
                replaced |= {old} if key not in released else set()
                released.setdefault(key, manifest)
        elif step.startswith("reserve"):
            loss, key = (PURE, "b") if step == "reserve pure b" else (RHO, "c" if first else "a")
            loss, times = PURE if currency == "epsilon" else loss, 2 if "twice" in step else 1
            pot = ("pure" if loss is PURE else "gaussian") if currency == "pots" else "one"
            refused = key in released or (first in replaced and first is not None)
            fitting = 0 if refused else min(times, (limits[pot] - spent[pot]) // costs[pot])
            admitted = _reserve(ledger, loss, key, twice=times == 2, supersedes=first)
            if len(admitted) != fitting:
                return False
            spent[pot] += costs[pot] * fitting
            reserves += [(key, each, first) for each in admitted]
        else:
            _record(ledger, step, number, released, replaced)
        sums = {name: pot.spent_nano for name, pot in ledger.state().population("town").pots.items()}
        if sums != spent or raw_spent(ledger, "town") != sum(spent.values()):
            return False
    return not ledger.verify()


def raw_spent(ledger: Ledger, population: str) -> int:
    """The sum of the costs of all reserves of a population, in the rows as they are stored."""
    rows = [json.loads(row.content) for row in ledger.store.rows()]
    return sum(
        row["cost_nano"] for row in rows if row["kind"] == "reserve" and row["population"] == population
    )


def _record(ledger: Ledger, step: str, number: int, released: dict[str, str], replaced: set) -> None:
    """Something that costs nothing; what it replaces cannot be replaced again."""
    hashes, manifest = list(released.values()), f"{number:064x}"
    if step == "supersede" and len(hashes) > 1 and _accepts(ledger.supersede, "town", hashes[0], hashes[-1]):
        replaced.add(hashes[0])
    elif step == "list that replaces" and hashes and hashes[0] not in replaced:
        key, what = f"listed {number}", ("trajectories", manifest, "/listed")
        ledger.list_release("town", key, *what, reservation="0", supersedes=hashes[0])
        released[key] = manifest
        replaced.add(hashes[0])
    elif step in ("disclose", "look"):
        getattr(ledger, step)("town", "an exact table")


def _reserve(
    ledger: Ledger, loss: Loss, key: str, *, twice: bool, supersedes: str | None
) -> list[Reservation]:
    admitted: list[Reservation] = []

    def once() -> None:
        try:
            answer = ledger.reserve("town", loss, key, "a release", supersedes=supersedes)
        except LedgerError:
            return
        admitted.extend([answer] if isinstance(answer, Reservation) else [])

    if twice and isinstance(ledger.store, MemoryStore):
        ledger.store.rival = once
    once()
    return admitted


def _accepts(step: Callable[..., object], *arguments: object, **named: object) -> bool:
    try:
        step(*arguments, **named)
    except LedgerError:
        return False
    return True
