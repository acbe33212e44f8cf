"""The checks that a planted bug may name, and the child process that runs them on a patched package.

end-to-end density gaussian 12     replay of whole runs of a kind, a method of it, over so many pairs
composition synthetic-bridges      what a mechanism asks for at every size, against its loss()
replay query-laplace               replay, noise and lower bounds of the audit of a mechanism, quick
children                           scales of noise that child processes draw
ledger                             the ledger against its model
test tests/unit/.../test_x.py::y   a test of the source tree, by pytest
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from shoal.errors import PlanError

QUICK_PAIRS = 6


def problems(check: str) -> list[str]:
    """What a check finds in the package that this process imports."""
    kind, *rest = check.split()
    if kind == "end-to-end":
        from shoal.auditing.end_to_end import check as replay_runs

        pairs = int(rest.pop()) if rest[-1].isdecimal() else QUICK_PAIRS
        return [str(found) for found in replay_runs(*rest, pairs=pairs)]
    if kind == "composition":
        from shoal.auditing.composition import QUICK, composed
        from shoal.mechanisms.registry import entry_of

        return list(composed(rest[0], 1.0, None if entry_of(rest[0]).pure else 1e-6, QUICK).problems)
    if kind == "replay":
        from shoal.auditing.run import AuditPlan, audit_mechanism

        return list(audit_mechanism(rest[0], AuditPlan.quick(), bugs=False).problems)
    if kind == "children":
        from shoal.auditing.noise_faults import scale_faults

        return scale_faults()
    if kind == "ledger":
        from shoal.auditing.planted.ledger import MemoryStore, agrees
        from shoal.privacy.ledger import Ledger

        return [] if agrees(lambda: Ledger(MemoryStore())) else ["the ledger does not agree with its model"]
    if kind == "test":
        return _test(rest[0])
    return []


def _test(name: str) -> list[str]:
    """Whether a test of the source tree fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", name]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=source_tree())
    if ran.returncode > 1:
        raise PlanError(
            "planted-bug",
            f"the test {name} cannot be run here.",
            "It needs the source tree and pytest; other checks need neither.",
        )
    if ran.returncode == 1:
        failed = [line for line in ran.stdout.splitlines() if line.startswith("E ")]
        return [failed[0][1:].strip() if failed else "the test fails"]
    return []


def source_tree() -> Path:
    """The folder with the tests, where the package is run from its source; else the working folder."""
    import shoal.errors

    roots = Path(shoal.errors.__file__).resolve().parents
    return next((root for root in roots if (root / "tests").is_dir()), Path())


def all_checks() -> Iterator[str]:
    """Every check that needs no source tree, quick ones first."""
    from shoal.auditing.end_to_end import METHODS
    from shoal.mechanisms.registry import REGISTRY

    yield "ledger"
    yield from (f"composition {name}" for name in REGISTRY)
    yield from (f"end-to-end {kind} {method}" for kind, methods in METHODS.items() for method in methods)
    yield "children"
    yield from (f"replay {name}" for name in REGISTRY)


def _cpu_seconds() -> float:
    """Of this process and of those that it waited for: a busy machine does not change them."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def main(checks: list[str]) -> None:
    """Runs the checks, or all until one finds something; a line of JSON for each."""
    for check in checks or all_checks():
        start = _cpu_seconds()
        found = problems(check)
        seconds = round(_cpu_seconds() - start, 1)
        line = {"check": check, "problem": found[0] if found else "", "seconds": seconds}
        print(json.dumps(line), flush=True)
        if found and not checks:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
