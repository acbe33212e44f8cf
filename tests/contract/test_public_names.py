"""The flat public names: each is there, comes from one module, and has the same name there."""

import ast
import re
from pathlib import Path

import pytest
from tests.loops import for_each

import shoal

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
