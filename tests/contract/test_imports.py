"""The stage is a type: which package may import what, read off the source text.
The flat public names: each is there, comes from one module, and has the same name there.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.loops import for_each

import shoal

SOURCE = Path(__file__).parents[2] / "src"
BASELINES = "shoal_baselines"

EXACT = ("stages.bounded", "stages.exact", "stages.trips", "stages.commutes")
NOISY = ("stages.noisy", "stages.synthetic")
# files -> what they may import from this package, beside their own package, errors, scratch and setting;
# the longest prefix that fits a file decides
ALLOWED = {
    "stages": ("space",),  # the public grid and rectangles that a stage is about
    "space": (),
    "metrics": ("stages.trajectories", "space"),
    "privacy": (),
    "events": ("space",),
    "engine": ("space", *EXACT),
    "engine/spark": ("engine", "events", "space", "stages.trips"),  # reads sources where they lie
    "mechanisms": (
        *("stages.exact", "stages.trips", "stages.commutes"),
        *NOISY,
        *("postprocess", "privacy", "space", "baselines"),
    ),
    # records made alike: never an epsilon, so never noise or a budget
    "anonymise": ("stages.trajectories", "space"),
    "postprocess": (*NOISY, "stages.commutes.NoisyCommutes", "stages.commutes.SyntheticEvents", "space"),
    "attacks": ("space", "metrics"),
    # the table of methods names the audit case of a release and loads no mechanism; that of kinds names
    # the check of a release's files and loads no kind
    "release": (
        *(*NOISY, "stages.trajectories", "space", "privacy", "metrics"),
        *("mechanisms.methods", "kinds.kind", "baselines"),
    ),
    # drives whole runs, so it reaches what a run reaches
    "auditing/end_to_end": ("auditing", "engine", "kinds", "privacy", "release"),
    "auditing": (
        *("baselines", "engine", "events", "mechanisms", "postprocess"),
        *("privacy", "space", "stages"),
    ),
    # an adversary's whole run: opens sources as a release does, and runs what it attacks
    "attacks/runs": (
        *("attacks", "baselines", "engine", "events", "kinds", "mechanisms", "metrics"),
        *("postprocess", "privacy", "release", "space", "stages"),
    ),
    "kinds": (
        *("anonymise", "attacks", "baselines", "engine", "events", "mechanisms", "metrics"),
        *("postprocess", "privacy", "release", "space", "stages"),
    ),
    # the page calls the kinds; it may open public things and published files, never an engine or a mechanism
    "studio": (
        *("attacks.runs", "kinds", "events", "space", "privacy", "release", "metrics", "auditing.run"),
        "__version__",
    ),
    "cli": None,  # the command may reach everything
    "baselines.py": (),
    **dict.fromkeys(("errors.py", "intended.py", "scratch.py", "setting.py", "__init__.py", "__main__.py")),
}

# library -> the only places that may import it
ONLY_IN = {
    "opendp": ("privacy/noise.py",),
    # the ledger names reservations, the page its token: neither draws noise
    "secrets": ("privacy/noise.py", "privacy/ledger", "studio/guard.py"),
    "random": ("auditing",),  # pairs of neighbours for the replay, from a seed
    "duckdb": ("events", "engine"),
    "sqlite3": ("privacy/ledger", "auditing/planted/ledger.py", "space"),
    "plotly": ("release/page",),
    "fastapi": ("studio",),
    "starlette": ("studio",),
    "pydantic": ("studio",),
    "uvicorn": ("studio",),
    "shapely": ("space", "events/simulate", "release/page", "kinds"),
    "pyproj": ("space", "events/simulate"),
    "numba": ("anonymise", "comparators", "engine", "events", "space", "attacks", "metrics", "postprocess"),
    "ot": ("metrics",),
    "pyspark": ("engine/spark",),
    "py4j": ("engine/spark",),
    "rich": ("cli",),
    "click": ("cli",),
}


def files():
    """Every source file, by its place below the package shoal or as shoal_baselines/..."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix().removeprefix("shoal/"), path


def imported(path, typing_too=False):
    """Full names of everything a file imports."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped = set()
    if not typing_too:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                skipped.update(id(inner) for inner in ast.walk(node))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def below(name, place):
    return name == place or name.startswith(f"{place}.")


# of the baselines: what compares and audits them, and tables, reaches what it is about
WIDE = {"comparators", "auditing", "counting.py", "methods.py", "__init__.py"}


def test_packages_import_only_what_they_may():
    faults = []
    for place, path in files():
        shoals = place.removeprefix(f"{BASELINES}/")  # baselines are pieces of packages, with the same rules
        if shoals != place and {shoals.split("/")[0], path.name} & WIDE:
            continue
        package = max((key for key in ALLOWED if f"{shoals}/".startswith(f"{key}/")), key=len, default=None)
        if package is None:
            faults.append(f"{place}: a new package; say what it may import")
        elif (allowed := ALLOWED[package]) is not None:
            may = ("errors", "scratch", "setting", package.replace("/", "."), *allowed)
            may += ("counting",) if shoals != place else ()  # cells of a cover, and their engine step
            own = [
                name.partition(".")[2] for name in imported(path) if name.startswith(("shoal.", BASELINES))
            ]
            faults += [f"{place} imports {name}" for name in own if not any(below(name, m) for m in may)]
    assert not faults, "\n".join(faults)


def test_one_file_of_shoal_imports_the_baselines():
    """Others reach them through it, so that shoal works where they are not installed."""
    own = [(place, path) for place, path in files() if not place.startswith(BASELINES)]
    faults = [
        f"{place} imports {name}"
        for place, path in own
        for name in imported(path, typing_too=True)
        if below(name, BASELINES)
    ]
    assert not faults, "\n".join(faults)
    naming = {place for place, path in own if f'"{BASELINES}' in path.read_text("utf-8")}
    assert naming == {"baselines.py"}


# The two commands that are made of two kinds: commutes are a method of `synthesize`, a query asks a density.
TOGETHER = {("commute", "synthetic"), ("synthetic", "commute"), ("query", "density")}
DRAWN = ("report*.py", "compare_report.py", "published.py")


def test_a_kind_imports_no_other_kind():
    faults = []
    for place, path in files():
        parts = place.split("/")
        if parts[0] == "kinds" and len(parts) == 3:
            others = {
                name.split(".")[2] for name in imported(path, typing_too=True) if below(name, "shoal.kinds")
            }
            others &= {folder.name for folder in (SOURCE / "shoal" / "kinds").iterdir() if folder.is_dir()}
            faults += [
                f"{place} imports {other}"
                for other in others - {parts[1]}
                if (parts[1], other) not in TOGETHER
            ]
    assert not faults, "\n".join(faults)


def test_what_writes_or_draws_published_things_sees_no_exact_stage():
    faults, drawn = [], set()
    for place, path in files():
        drawn |= {pattern for pattern in DRAWN if place.startswith("kinds/") and path.match(pattern)}
        if place.startswith("release/") or (place.startswith("kinds/") and any(map(path.match, DRAWN))):
            names = [name for name in imported(path, typing_too=True) if not name.endswith("SyntheticEvents")]
            faults += [
                f"{place} imports {name}" for name in names if any(below(name, f"shoal.{m}") for m in EXACT)
            ]
    assert drawn == set(DRAWN), "a pattern that no file matches"
    assert not faults, "\n".join(faults)


def test_libraries_stay_in_their_packages():
    faults = []
    for place, path in files():
        for name in imported(path):
            allowed = ONLY_IN.get(name.split(".")[0])
            if allowed is not None and not place.removeprefix(f"{BASELINES}/").startswith(allowed):
                faults.append(f"{place} imports {name}")
    assert not faults, "\n".join(faults)


RANDOM_CALLS = ("np.random", "numpy.random", "os.urandom", "uuid4")
SEEDED_FOR_OTHER_ENDS = (
    "privacy/noise.py",
    "events/simulate",
    "auditing",
    "attacks",
    "comparators/counts.py",
    "space/cells.py",  # a public workload from a public seed
)


def test_nothing_else_draws_randomness():
    faults = []
    for place, path in files():
        text = path.read_text("utf-8")
        found = [call for call in RANDOM_CALLS if call in text]
        if found and not place.removeprefix(f"{BASELINES}/").startswith(SEEDED_FOR_OTHER_ENDS):
            faults.append(f"{place} uses {found}")
    assert not faults, "\n".join(faults)


def test_the_rules_can_fail(tmp_path):
    """The reader of imports sees what the rules are about."""
    (tmp_path / "bad.py").write_text("def f():\n    from shoal.stages.exact import ExactCounts\n")
    assert list(imported(tmp_path / "bad.py")) == ["shoal.stages.exact.ExactCounts"]
    assert not any(below("stages.exact.ExactCounts", m) for m in ALLOWED["postprocess"])


@pytest.mark.parametrize("module", ["shoal", "shoal.cli.main"])
def test_the_command_starts_without_heavy_imports(module):
    heavy = (
        "numpy",
        "pyarrow",
        "duckdb",
        "numba",
        "scipy",
        "shapely",
        "pyproj",
        "opendp",
        "ot",
        "plotly",
        "rich",
        "pyspark",
        "fastapi",
        "uvicorn",
    )
    code = f"import sys, {module}; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


ROOT = Path(__file__).parents[2]


@for_each("name", [name for name in shoal.__all__ if name != "__version__"])
def test_each_public_name_is_there(name):
    assert getattr(shoal, name).__name__ == name
    assert name in dir(shoal)


def test_the_list_the_modules_and_the_types_agree():
    tree = ast.parse(Path(shoal.__file__).read_text("utf-8"))
    typed = {
        alias.name: node.module
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If)
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == {name: f"shoal.{module}" for name, module in shoal._MODULES.items()}
    assert set(shoal._MODULES) == set(shoal.__all__) - {"__version__"}


INTERNAL = (
    "shoal_baselines.attacks.interval_attack",
    "shoal_baselines.attacks.interval_audit",
)  # docs/attacks-queries.md
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


def test_examples_of_the_documentation_import_public_names_only():
    pages = (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    modules = {
        node.module
        for page in pages
        for example in EXAMPLE.findall(page.read_text("utf-8"))
        for node in ast.walk(ast.parse(example))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shoal")
    }
    assert modules == set(INTERNAL)


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = shoal.nothing
