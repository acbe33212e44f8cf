"""Bugs planted by module and text: every patch still fits, each is caught, and nothing leaks."""

import ast
import builtins
import hashlib
from pathlib import Path

import pytest

from shoal.auditing.planted import PLANTED, plant, read_bugs
from shoal.auditing.planted.patched import PACKAGE, all_checks, copy_package, source_tree
from shoal.errors import PlanError

BUGS = read_bugs(PLANTED)
FURTHER = read_bugs(source_tree() / "tests" / "planted" / "further.toml")
FAMILIES = {
    *("run logic", "composition", "state between users", "noise", "ledger"),
    *("bounds", "accounting", "reading", "trajectories"),
}
SIX = (
    "counts rescaled to the exact total",
    "an empty table answered with 0",
    "shares that add up to 1.1 to 1.4 on wide maps",
    "a user with rows on disk and in memory bounded twice",
    "the scale rounded in child processes",
    "spends older than a year not counted",
)
FIVE_LINES = """
[[bug]]
name = "reserves are not spent"
module = "shoal.privacy.ledger.rules"
old = "    pot.spent_nano += spend.cost_nano"
new = "    pot.spent_nano += 0"
"""


def digest(folder):
    files = sorted(path for path in folder.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def unbound_names(text):
    """Names that a module reads and binds nowhere: a patch with one fails, and is caught for that alone."""
    read, bound = set(), {*dir(builtins), "__file__"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, (ast.arg, ast.alias, ast.ExceptHandler)):
            name = node.arg if isinstance(node, ast.arg) else getattr(node, "asname", None) or node.name
            bound.add((name or "").split(".")[0])
    return read - bound


@pytest.mark.parametrize("bug", [*BUGS, *FURTHER], ids=lambda bug: bug.name)
def test_every_patch_fits_the_package_as_it_is(bug, tmp_path):
    copy_package(tmp_path / "shoal", bug.changes)
    for change in bug.changes:
        copied = (tmp_path / change.package.name / change.file).read_text("utf-8")
        assert change.new in copied
        assert unbound_names(copied) == set()
    assert bug.caught_by
    assert bug.effect
    assert bug.family in FAMILIES
    for check in bug.caught_by:
        kind, *rest = check.split()
        assert kind in {"end-to-end", "composition", "replay", "children", "ledger", "test"}
        if kind == "test":
            path, _, name = rest[0].partition("::")
            assert f"def {name}" in (source_tree() / path).read_text("utf-8")


def test_the_bugs_of_the_review_are_here_and_fit_together(tmp_path):
    assert len(BUGS) >= 16
    assert len({bug.name for bug in [*BUGS, *FURTHER]}) == len(BUGS) + len(FURTHER)
    copy_package(tmp_path / "shoal", [change for bug in BUGS if bug.name in SIX for change in bug.changes])


def test_a_bug_of_five_lines_is_caught_and_nothing_leaks(tmp_path, command):
    before = digest(PACKAGE)
    (tmp_path / "own.toml").write_text(FIVE_LINES)
    code, out, _ = command("audit", "--planted", str(tmp_path / "own.toml"))
    assert code == 0
    assert out.splitlines()[-1].startswith("| reserves are not spent | `ledger` |")
    assert digest(PACKAGE) == before


def test_a_bug_that_is_not_caught_or_does_not_run_fails(tmp_path, command):
    (tmp_path / "own.toml").write_text(
        FIVE_LINES.replace('+= 0"', '+= spend.cost_nano  # the same"') + 'caught_by = ["ledger"]\n'
    )
    code, _, err = command("audit", "--planted", str(tmp_path / "own.toml"))
    assert code == 6
    assert "reserves are not spent: missed by ledger" in err
    (tmp_path / "own.toml").write_text(
        FIVE_LINES.replace("+= 0", "+= no_such_name") + 'caught_by = ["ledger"]\n'
    )
    caught = plant(read_bugs(tmp_path / "own.toml"))
    assert not caught.detected
    assert "NameError" in caught.broken
    (tmp_path / "own.toml").write_text(FIVE_LINES + 'caught_by = ["test tests/no_such_file.py"]\n')
    caught = plant(read_bugs(tmp_path / "own.toml"))
    assert not caught.detected
    assert "cannot be run here" in caught.broken or "source tree" in caught.broken


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("pot.spent_nano +=", "pot.never +="), "occurs 0 times"),
        (("    pot.spent_nano += spend.cost_nano", "spend"), "occurs"),
        (("shoal.privacy.ledger.rules", "shoal.no.such"), "no module shoal.no.such"),
        (("shoal.privacy.ledger.rules", "../../etc"), "no module of the package"),
        (('module = "', 'modul = "'), "not known: modul"),
        (("[[bug]]", "[bug"), "cannot be read"),
        ((FIVE_LINES, "x = 1"), "has no bugs"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(change, message, tmp_path):
    (tmp_path / "own.toml").write_text(FIVE_LINES.replace(*change))
    with pytest.raises(PlanError, match=message):
        plant(read_bugs(tmp_path / "own.toml"))


def test_all_checks_are_known_quick_ones_first(command):
    code, _, err = command("audit", "--planted", "no such bug")
    assert code == 2
    assert "spends older than a year not counted" in err
    checks = list(all_checks())
    assert checks[0] == "ledger"
    assert {check.split()[0] for check in checks} == {
        "ledger",
        "composition",
        "end-to-end",
        "children",
        "replay",
    }
    assert not Path(source_tree() / "tests").samefile(PACKAGE)


@pytest.mark.exhaustive
@pytest.mark.parametrize("bug", [*BUGS, *FURTHER], ids=lambda bug: bug.name)
def test_every_planted_bug_is_caught(bug):
    caught = plant([bug])
    assert caught.detected, caught


@pytest.mark.exhaustive
def test_six_bugs_at_once_are_caught():
    caught = plant([bug for bug in BUGS if bug.name in SIX])
    assert caught.detected, caught
