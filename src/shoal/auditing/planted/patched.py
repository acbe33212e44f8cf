"""A bug as a patch: read from a file, planted in a copy of the package, and tried in a process of its own.

The copy is a folder of links to the package, in which only patched modules are files of their own; a child
process, and all that it starts, imports the package from there. Nothing is left behind and nothing leaks into
the process that asks. Where compiled code is patched, the child compiles all of it anew, since callers hold
compiled copies of what they call.

The checks that a planted bug may name, and the child process that runs them on a patched package.

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
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import shoal
from shoal.baselines import PACKAGE as BASELINES
from shoal.errors import PlanError

PACKAGE = Path(shoal.__file__).parent
PACKAGES = (PACKAGE, PACKAGE.with_name(BASELINES))
PLANTED = Path(__file__).with_name("bugs.toml")
FIELDS = {"name", "module", "old", "new", "caught_by", "family", "effect", "also"}
# A patch that does not run is no bug: these say that it is broken, not that a promise is.
BROKEN = ("SyntaxError", "NameError", "ImportError", "ModuleNotFoundError", "AttributeError", "TypeError")


@dataclass(frozen=True)
class Change:
    """One text in a module, and what stands there instead."""

    module: str
    old: str
    new: str

    @property
    def package(self) -> Path:
        """The folder of its package."""
        name = self.module.partition(".")[0]
        root = next((each for each in PACKAGES if each.name == name), None)
        if root is None:
            raise _wrong(f"{self.module!r} is no module of the package", "Write shoal.privacy.noise, say.")
        return root

    @property
    def file(self) -> Path:
        """The module's file, relative to the package."""
        parts = self.module.split(".")
        if not all(part.isidentifier() for part in parts):
            raise _wrong(f"{self.module!r} is no module of the package", "Write shoal.privacy.noise, say.")
        path = Path(*parts[1:])
        file = path / "__init__.py" if (self.package / path).is_dir() else path.with_suffix(".py")
        if not (self.package / file).is_file():
            raise _wrong(f"there is no module {self.module}")
        return file


@dataclass(frozen=True, kw_only=True)
class PatchedBug:
    """Something that is wrong, and the checks that must catch it; none: any of all checks."""

    name: str
    changes: tuple[Change, ...]
    caught_by: tuple[str, ...] = ()
    family: str = ""
    effect: str = ""


@dataclass(frozen=True, kw_only=True)
class Caught:
    """Result of the checks on some bugs that were planted together."""

    bugs: tuple[str, ...]
    by: dict[str, str]  # check and the first problem that it reports
    missed_by: tuple[str, ...]  # named checks that report nothing
    seconds: float
    broken: str = ""  # why the patch did not run at all

    @property
    def detected(self) -> bool:
        return bool(self.by) and not self.missed_by and not self.broken

    @property
    def why(self) -> str:
        """Why they are not caught."""
        if self.broken:
            return f"the patched package does not run: {self.broken}"
        return f"missed by {', '.join(self.missed_by)}" if self.missed_by else "no check found anything"


def read_bugs(path: Path) -> list[PatchedBug]:
    """The bugs of a TOML file."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise _wrong(f"{path} cannot be read as a list of bugs ({error})") from None
    listed = content.get("bug", [])
    if not isinstance(listed, list) or not listed:
        raise _wrong(f"{path} has no bugs", "Write [[bug]] with name, module, old and new.")
    return [_bug(each) for each in listed]


def _bug(written: Any) -> PatchedBug:
    unknown = sorted(set(written) - FIELDS) if isinstance(written, dict) else ["?"]
    if unknown or not all(isinstance(written.get(each), str) for each in ("name", "module", "old", "new")):
        named = f" (not known: {', '.join(unknown)})" if unknown else ""
        raise _wrong(f"a bug has a name, a module, old and new, all of them text{named}")
    changes = [written, *written.get("also", [])]
    return PatchedBug(
        name=written["name"],
        changes=tuple(Change(each["module"], each["old"], each["new"]) for each in changes),
        caught_by=tuple(written.get("caught_by", ())),
        family=written.get("family", ""),
        effect=written.get("effect", ""),
    )


def plant(bugs: Sequence[PatchedBug]) -> Caught:
    """All of the bugs at once in one copy of the package, and the checks that they name."""
    checks = list(dict.fromkeys(check for bug in bugs for check in bug.caught_by))
    with tempfile.TemporaryDirectory(prefix="shoal-planted-") as scratch:
        compiled = copy_package(Path(scratch) / PACKAGE.name, [c for bug in bugs for c in bug.changes])
        environment = {
            **os.environ,
            "PYTHONPATH": scratch,
            "PYTHONDONTWRITEBYTECODE": "1",
            **({"NUMBA_CACHE_DIR": f"{scratch}/numba"} if compiled else {}),
        }
        command = [sys.executable, "-P", "-m", "shoal.auditing.planted.patched", *checks]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith('{"check"')]
    by = {line["check"]: line["problem"] for line in lines if line["problem"]}
    broken = "" if lines else (ran.stderr.strip().splitlines() or ["nothing ran"])[-1]
    if by and all(any(word in problem for word in BROKEN) for problem in by.values()):
        broken = next(iter(by.values()))
    return Caught(
        bugs=tuple(bug.name for bug in bugs),
        by=by,
        missed_by=tuple(check for check in checks if check not in by),
        seconds=sum(line["seconds"] for line in lines),
        broken=broken,
    )


def copy_package(folder: Path, changes: Sequence[Change]) -> bool:
    """A copy of the package, and of the baselines where they change; whether compiled code is among it."""
    copies: dict[Path, dict[Path, str]] = {PACKAGE: {}}
    for change in changes:
        texts = copies.setdefault(change.package, {})
        text = texts.get(change.file) or (change.package / change.file).read_text("utf-8")
        if text.count(change.old) != 1:
            raise _wrong(
                f"a text to replace occurs {text.count(change.old)} times in {change.module}",
                "It must occur exactly once; give more of its surroundings.",
            )
        texts[change.file] = text.replace(change.old, change.new)
    for package, texts in copies.items():
        _link(package, folder.with_name(package.name), texts)
    return any("njit" in text for texts in copies.values() for text in texts.values())


def _link(source: Path, target: Path, texts: dict[Path, str], inside: Path = Path()) -> None:
    """Links to what stays as it is, files of their own for what does not."""
    target.mkdir()
    for each in source.iterdir():
        here = inside / each.name
        if here in texts:
            (target / each.name).write_text(texts[here], "utf-8")
        elif any(here in path.parents for path in texts):
            _link(each, target / each.name, texts, here)
        elif each.name != "__pycache__":
            (target / each.name).symlink_to(each)


def _wrong(what: str, remedy: str = "") -> PlanError:
    return PlanError("planted-bug", f"{what}.", remedy)


QUICK_PAIRS = 6


def problems(check: str) -> list[str]:
    """Problems that a check reports in the package that this process imports."""
    kind, *rest = check.split()
    if kind == "end-to-end":
        from shoal.auditing.end_to_end import check as replay_runs

        pairs = int(rest.pop()) if rest[-1].isdecimal() else QUICK_PAIRS
        return [str(finding) for finding in replay_runs(*rest, pairs=pairs)]
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
    """Processor time of this process and its finished children: a busy machine does not change it."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def main(checks: list[str]) -> None:
    """Runs the checks, or all until one finds something; a line of JSON for each."""
    for check in checks or all_checks():
        start = _cpu_seconds()
        faults = problems(check)
        seconds = round(_cpu_seconds() - start, 1)
        line = {"check": check, "problem": faults[0] if faults else "", "seconds": seconds}
        print(json.dumps(line), flush=True)
        if faults and not checks:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
