"""Driver and workers must have the same libraries: another version may read, place or choose differently."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version

from shoal.errors import EngineError

COMPARED = ("shoal", "duckdb", "numba", "numpy", "pyarrow", "shapely", "tzdata")


@lru_cache
def versions() -> tuple[tuple[str, str], ...]:
    """What is installed in this process."""
    return tuple((name, _version(name)) for name in COMPARED)


def check_versions(expected: tuple[tuple[str, str], ...]) -> None:
    if versions() == expected:
        return
    here = dict(versions())
    other = [f"{name} {here[name]}, not {wanted}" for name, wanted in expected if here[name] != wanted]
    raise EngineError(
        "worker-versions",
        f"a worker has other versions than this machine: {'; '.join(other)}.",
        "Install the same versions on every worker, and point PYSPARK_PYTHON at them.",
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"
