"""The package shoal-baselines: its names stand in shoal too, and everything else works without it."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import shoal_baselines.methods
from shoal import baselines
from shoal.kinds import KINDS
from shoal.kinds.trajectories.compare import METHODS as TRAJECTORIES
from shoal.kinds.trajectories.compare import compared_methods

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "shoal_baselines":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def without_baselines(code, *arguments):
    """Standard output of code that runs where shoal_baselines cannot be imported."""
    line = [sys.executable, "-c", HIDDEN + code, *arguments]
    ran = subprocess.run(line, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def command(*arguments):
    """Exit code and both outputs of a command without the package."""
    code = "from shoal.cli.main import main\nmain()"
    line = [sys.executable, "-c", HIDDEN + code, *map(str, arguments)]
    ran = subprocess.run(line, capture_output=True, text=True)
    return ran.returncode, ran.stdout, ran.stderr


def test_the_audit_cases_of_the_package_are_those_that_shoal_knows_by_name():
    cases = {
        baselines.AuditCase(case, method.kind, method.name, entry.family, entry.name)
        for table in shoal_baselines.methods.METHODS.values()
        for method in table.values()
        for case, entry in method.cases.items()
    }
    assert cases == set(baselines.CASES)
    assert len(cases) == len(baselines.CASES)


def test_baselines_say_that_they_are_and_comparators_are_known_by_name():
    assert set(baselines.COMPARATORS["density"]) == set(shoal_baselines.methods.COMPARATORS["density"])
    assert set(baselines.COMPARATORS["trajectories"]) == compared_methods().keys() - TRAJECTORIES.keys()
    from shoal.attacks.runs.synthetic_defences import DEFENCES

    assert set(baselines.COMPARATORS["synthetic"]) == {
        n for n, each in DEFENCES.items() if not each.sound and n != "raw"
    }
    for table in shoal_baselines.methods.METHODS.values():
        assert all(baselines.is_baseline(method.kind, method.name) for method in table.values())
    assert not baselines.is_baseline("density", "best")


def test_the_methods_of_shoal_are_there_without_the_package():
    code = """
import json
from shoal.kinds import KINDS
print(json.dumps({name: [*kind.methods] for name, kind in KINDS.items()}))
"""
    found = json.loads(without_baselines(code))
    for name, kind in KINDS.items():
        named = "synthetic" if name == "commute" else name
        own = [method for method in kind.methods if not baselines.is_baseline(named, method)]
        assert found[name] == own
        assert bool(own) == kind.is_private


ASKED = [
    ("kinds.density.plan", "method_named('efpag')", "efpag"),
    ("kinds.density.plan", "any_method('threshold')", "threshold"),
    ("kinds.histogram.plan", "METHODS.named('dqam')", "dqam"),
    ("kinds.synthetic.plan", "METHODS.named('markov')", "markov"),
    ("kinds.trajectories.compare", "TrajectoryComparison()", "comparison of trajectories"),
    ("kinds.histogram.compare", "published_methods()", "--compare"),
    ("attacks.runs.synthetic_defences", "defence_named('dpt')", "dpt"),
    ("attacks.runs.synthetic_defences", "DEFENCES['tgm']._tgm(None, None, 1, 1)", "tgm"),
]


def test_a_baseline_that_is_asked_for_says_how_to_install_it():
    code = f"""
from importlib import import_module
from shoal.errors import PlanError
for place, call, name in {ASKED!r}:
    module = import_module(f"shoal.{{place}}")
    try:
        eval(f"module.{{call}}")
        print(place, call, "went on")
    except PlanError as error:
        says = error.code == "baselines-missing" and name in error.message
        says = says and "pip install shoal-baselines" in error.remedy
        print(*([] if says else [place, call, error]))
"""
    assert without_baselines(code).split() == []


def test_the_command_says_it_too():
    code, _, told = command(
        "density", "compare", "--city", "town", "--method", "efpag", "--epsilon", "1", "--delta", "1e-6"
    )
    assert code == 2
    assert "baselines-missing" in told


@pytest.mark.parametrize("name", ["density-efpag", "density-laplace"])
def test_a_release_of_a_baseline_is_verified_and_inspected_without_the_package(name):
    release = GOLDEN / "v1" / "releases" / name
    for verb in ("verify", "inspect"):
        code, out, told = command(verb, release)
        assert (code, told) == (0, ""), (verb, out, told)


def test_every_release_finds_its_case_without_the_package():
    manifests = sorted(map(str, GOLDEN.glob("v*/**/manifest.json")))
    code = """
import json
from pathlib import Path
from shoal.release.manifest import CASES, case_of
from shoal.release.manifest import Manifest
found = [case_of(Manifest.from_json(Path(path).read_text("utf-8"))) for path in sys.argv[1:]]
print(json.dumps([sorted(CASES), [None if case is None else case.case for case in found]]))
"""
    cases, found = json.loads(without_baselines(code, *manifests))
    from shoal.release.manifest import CASES, Manifest, case_of

    with_them = [case_of(Manifest.from_json(Path(path).read_text("utf-8"))) for path in manifests]
    assert cases == sorted(CASES)
    assert found == [None if case is None else case.case for case in with_them]
    assert any(case is not None and baselines.is_baseline(case.kind, case.method) for case in with_them)


def test_the_audit_knows_the_mechanisms_of_shoal_without_the_package():
    code = "from shoal.mechanisms.registry import REGISTRY\nprint(*REGISTRY)"
    from shoal.mechanisms.registry import REGISTRY

    own = [name for name, entry in REGISTRY.items() if entry.mechanism.__module__.startswith("shoal.")]
    waves = [name for name in own if "fpa" in name or "scm" in name]  # of baselines, scaled up by shoal
    assert set(without_baselines(code).split()) == set(own) - set(waves)


def test_each_distribution_holds_its_own_package_and_both_have_one_version(tmp_path):
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder
    folders = {"shoal": ROOT, "shoal_baselines": ROOT / "src" / "shoal_baselines"}
    metadata = {}
    for package, folder in folders.items():
        (wheel,) = builder(str(folder)).build(directory=str(tmp_path), versions=["standard"])
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
            metadata[package] = archive.read(about).decode().splitlines()
        code = {name for name in names if ".dist-info/" not in name}
        sources = {
            path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / package).rglob("*.py")
        }
        assert sources <= code
        assert {name.split("/")[0] for name in code} == {package}
    (version,) = (line.split()[1] for line in metadata["shoal"] if line.startswith("Version:"))
    assert f"Version: {version}" in metadata["shoal_baselines"]
    assert f"Requires-Dist: shoal=={version}" in metadata["shoal_baselines"]
