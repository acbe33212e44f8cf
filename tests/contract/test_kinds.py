"""Every kind of release has its folder and its parts, and the table of kinds loads none of them."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from tests.golden.record import V1
from tests.loops import for_each

from shoal.events.schema import Shape
from shoal.kinds import KINDS, Kind
from shoal.kinds.run import Build
from shoal.release.manifest import CASES

FOLDER = Path(__file__).parents[2] / "src" / "shoal" / "kinds"


def test_every_folder_is_a_kind_with_the_methods_that_have_a_case():
    assert {path.parent.name for path in FOLDER.glob("*/__init__.py")} == set(KINDS)
    # A field that a single kind sets would belong to that kind.
    for field in fields(Kind):
        given = [kind for kind in KINDS.values() if getattr(kind, field.name) != field.default]
        assert len(given) > 1, field.name
    kinds = {"commute": "synthetic"}
    listed = {(kinds.get(name, name), method) for name, kind in KINDS.items() for method in kind.methods}
    assert listed == {(case.kind, case.method) for case in CASES.values()}


@for_each("kind", KINDS.values(), ids=KINDS)
def test_the_parts_of_a_kind_are_where_the_table_says(kind):
    assert hasattr(kind.plan, "from_settings")
    for part in (kind.prepare, kind.build):
        assert callable(part)
        assert part.__doc__
    assert (kind.build.check, kind.build.check_rows) != (Build.check, Build.check_rows)
    assert kind.releases.endswith(".")
    assert set(kind.shapes) <= set(Shape)
    assert kind.main_file in kind.files
    assert kind.problems.__doc__
    assert kind.verdict.__doc__
    assert (kind.view is not None) == kind.is_drawn


@for_each("kind", KINDS.values(), ids=KINDS)
def test_every_private_kind_has_methods_and_each_an_audit_case(kind):
    assert bool(kind.methods) == kind.is_private
    named = "synthetic" if kind.name == "commute" else kind.name
    assert set(kind.methods) <= {case.method for case in CASES.values() if case.kind == named}


def test_the_table_loads_no_kind():
    code = "import sys, shoal.kinds; print([m for m in sys.modules if 'shoal.kinds.' in m or m == 'numpy'])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "['shoal.kinds.kind']"


PLANNED = ("density-gaussian", "histogram-boxes", "synthetic-gaussian", "trajectories")


@for_each(("given", "asked"), [(given, asked) for given in PLANNED for asked in PLANNED if given != asked])
def test_a_plan_of_another_kind_is_refused_with_the_command_that_takes_it(command, given, asked):
    plan = V1 / "plans" / f"{given}.toml"
    code, _, error = command(*KINDS[asked.partition("-")[0]].command.split()[1:], "--plan", plan)
    assert (code, error.split(":")[0]) == (2, "plan-kind")
    assert f"`{KINDS[given.partition('-')[0]].command} --plan" in error


PLACES = ("mechanisms", "anonymise", "postprocess", "attacks", "engine")
LIGHT = {"shoal.mechanisms.method", "shoal.mechanisms.methods", "shoal.mechanisms.audit_size"}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_plan_loads_no_mechanism_of_another_kind(kind):
    """Nor a baseline, an anonymiser, compiled kernels, arrays or geometry: it names methods by their table.

    So a command or a page that reads plans starts quickly.
    """
    code = f"import sys\nfrom shoal.kinds import KINDS\nKINDS[{kind.name!r}].plan\nprint(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    of_shoal = {name for name in loaded if name.startswith(tuple(f"shoal.{place}." for place in PLACES))}
    assert not {"numba", "numpy", "pyarrow", "duckdb", "shapely", "scipy", "pyproj"} & set(loaded)
    assert of_shoal <= LIGHT
    assert not [name for name in loaded if name.startswith("shoal_baselines")]
