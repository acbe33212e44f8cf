"""A digest of the code that a method runs through, so that a benchmark knows which rows are still good.

It covers every module of the package that the mechanism, its post-processing, the engine and the metrics
import, directly or not, without comments and docstrings.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import shoal
from shoal.kinds.density.plan import any_method

ROOT = Path(shoal.__file__).parents[1]
ALWAYS_READ = (
    "shoal.engine.visits",
    "shoal.engine.clipped",
    "shoal.engine.visits",
    "shoal.metrics.density",
    "shoal.metrics.density",
    "shoal.postprocess.density.numbers",
)


@cache
def code_of_method(method_name: str | None) -> str:
    """Changes when any code changes that the method runs through; None: no method, metrics alone."""
    digest = hashlib.sha256()
    roots = set(ALWAYS_READ)
    if method_name is not None:
        method = any_method(method_name)
        digest.update(repr((method.make, dict(method.sets))).encode())
        places = (method.make.place, method.finish_at, *map(str, method.make.given.values()))
        roots |= {place.partition(":")[0] for place in places if ":" in place}
    for module in sorted(_imported(frozenset(roots))):
        digest.update(_text_of(module))
    return digest.hexdigest()[:12]


def code_of_modules(modules: Iterable[str]) -> str:
    """Changes when any code of these modules changes, or of what they import; messages are not code."""
    digest = hashlib.sha256()
    for module in sorted(_imported(frozenset(modules)) - {"shoal.errors"}):
        digest.update(_text_of(module))
    return digest.hexdigest()[:12]


@cache
def _tree_of(module: str) -> ast.Module | None:
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return ast.parse(path.read_text("utf-8")) if path.is_file() else None


def _imported(modules: frozenset[str]) -> set[str]:
    """These modules of shoal and shoal_baselines and all that they import, directly or not."""
    found: set[str] = set()
    left = set(modules)
    while left:
        module = left.pop()
        tree = _tree_of(module)
        if module in found or tree is None:
            continue
        found.add(module)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shoal"):
                left |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@cache
def _text_of(module: str) -> bytes:
    """The code of a module without comments and docstrings."""
    tree = _tree_of(module)
    if tree is None:
        return b""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(body, list) and isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            body[0] = ast.Pass()
    return ast.dump(tree).encode()
