"""The stage is a type: which room may import what, read off the source text."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "shoal"

# room -> what it may import from this package, beside itself, shoal.errors and shoal.scratch
ALLOWED = {
    "stages": ("space",),  # the public grid and rectangles that a stage is about
    "space": (),
    "metrics": ("stages.trajectories", "space"),
    "privacy": (),
    "events": ("space",),
    "engine": (
        "space",
        "stages.bounded",
        "stages.exact",
        "stages.cover",
        "stages.clipped",
        "stages.trips",
        "stages.paths",
        "stages.commutes",
    ),
    "engine/spark": ("engine", "events", "space", "stages.trips"),  # reads sources where they lie
    "mechanisms": (
        "stages.commutes",
        "stages.paths",
        "stages.synthetic",
        "stages.exact",
        "stages.cover",
        "stages.clipped",
        "stages.trips",
        "stages.noisy",
        "stages.answers",
        "stages.histogram",
        "postprocess",
        "privacy",
        "space",
    ),
    # as published, or without a guarantee: for comparison, never a release
    "comparators": (
        "stages.paths",
        "stages.synthetic",
        "stages.bounded",
        "stages.exact",
        "stages.cover",
        "stages.noisy",
        "stages.trajectories",
        "stages.trips",
        "stages.histogram",
        "anonymise",
        "postprocess",
        "privacy",
        "space",
    ),
    # records made alike: never an epsilon, so never noise or a budget
    "anonymise": ("stages.trajectories", "space"),
    "postprocess": (
        "stages.noisy",
        "stages.answers",
        "stages.histogram",
        "stages.synthetic",
        "stages.commutes.NoisyCommutes",
        "stages.commutes.SyntheticEvents",
        "space",
    ),
    "attacks": ("space", "metrics"),
    "release": (
        "stages.synthetic",
        "stages.noisy",
        "stages.answers",
        "stages.histogram",
        "stages.trajectories",
        "space",
        "privacy",
        "metrics",
    ),
    # drives whole runs, so it reaches what a run reaches
    "audit/end_to_end": ("audit", "engine", "kinds", "privacy", "release"),
    "audit": ("engine", "events", "mechanisms", "postprocess", "privacy", "space", "stages"),
    # an adversary's whole run: opens sources as a release does, and runs what it attacks
    "attacks/runs": (
        "attacks",
        "comparators",
        "engine",
        "events",
        "kinds",
        "mechanisms",
        "metrics",
        "postprocess",
        "privacy",
        "release",
        "space",
        "stages",
    ),
    "kinds": (
        "anonymise",
        "attacks",
        "comparators",
        "engine",
        "events",
        "mechanisms",
        "metrics",
        "postprocess",
        "privacy",
        "release",
        "space",
        "stages",
    ),
    # the page calls the kinds; it may open public things and published files, never an engine or a mechanism
    "studio": (
        *("attacks.runs", "kinds", "events", "space", "privacy", "release", "metrics", "audit.run"),
        "__version__",
    ),
    "cli": None,  # the command may reach everything
}

# library -> the only places that may import it
ONLY_IN = {
    "opendp": ("privacy/noise.py",),
    # the ledger names reservations, the page its token: neither draws noise
    "secrets": ("privacy/noise.py", "privacy/ledger", "studio/tokens.py"),
    "random": ("audit",),  # pairs of neighbours for the replay, from a seed
    "duckdb": ("events", "engine"),
    "sqlite3": ("privacy/ledger", "audit/ledger_mutants.py", "space"),
    "plotly": ("release/report",),
    "fastapi": ("studio",),
    "starlette": ("studio",),
    "pydantic": ("studio",),
    "uvicorn": ("studio",),
    "shapely": ("space", "events/simulate", "release/report"),
    "pyproj": ("space", "events/simulate"),
    "numba": ("anonymise", "comparators", "engine", "events", "space", "attacks", "metrics", "postprocess"),
    "ot": ("metrics", "attacks/transport.py"),  # there the flow itself is wanted
    "pyspark": ("engine/spark",),
    "py4j": ("engine/spark",),
    "rich": ("cli",),
    "click": ("cli",),
}


def files():
    return sorted(path for path in SOURCE.rglob("*.py"))


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


def place(path):
    return path.relative_to(SOURCE).as_posix()


@pytest.mark.parametrize("path", files(), ids=place)
def test_rooms_import_only_what_they_may(path):
    room = next((sub for sub in ALLOWED if "/" in sub and place(path).startswith(sub)), None)
    room = room or place(path).split("/")[0].removesuffix(".py")
    if room not in ALLOWED or ALLOWED[room] is None:
        assert room in {"cli", "errors", "scratch", "__init__", "__main__"}, (
            f"{room} is a new room: say what it may import"
        )
        return
    may = ("errors", "scratch", room, *ALLOWED[room])
    for name in imported(path):
        if name.startswith("shoal."):
            inner = name.removeprefix("shoal.")
            assert any(inner == m or inner.startswith(m + ".") for m in may), f"{place(path)} imports {name}"


@pytest.mark.parametrize("path", files(), ids=place)
def test_libraries_stay_in_their_rooms(path):
    for name in imported(path):
        library = name.split(".")[0]
        if library in ONLY_IN:
            rooms = ONLY_IN[library]
            assert place(path).startswith(rooms) if rooms else False, f"{place(path)} imports {library}"


RANDOM_CALLS = ("np.random", "numpy.random", "os.urandom", "uuid4")
SEEDED_FOR_OTHER_ENDS = (
    "privacy/noise.py",
    "events/simulate",
    "audit",
    "attacks",
    "comparators/spotme.py",
    "space/rectangles.py",  # a public workload from a public seed
)


@pytest.mark.parametrize("path", files(), ids=place)
def test_nothing_else_draws_randomness(path):
    text = path.read_text("utf-8")
    found = [call for call in RANDOM_CALLS if call in text]
    assert not found or place(path).startswith(SEEDED_FOR_OTHER_ENDS), f"{place(path)} uses {found}"


def test_the_rules_can_fail(tmp_path):
    """The reader of imports sees what the rules are about."""
    (tmp_path / "bad.py").write_text("def f():\n    from shoal.stages.exact import ExactCounts\n")
    assert list(imported(tmp_path / "bad.py")) == ["shoal.stages.exact.ExactCounts"]
    assert not any("stages.exact".startswith(m) for m in ALLOWED["postprocess"])


@pytest.mark.parametrize("module", ["shoal", "shoal.cli.main"])
def test_the_command_starts_without_heavy_imports(module):
    import subprocess
    import sys

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
