"""Which values of a manifest its files determine, which the owner declares, and which are explanations.

DETERMINED   a file or another value states the same: `shoal verify` rejects a single change without a hash.
DECLARED     a statement of the owner that nothing in the folder repeats; a hash or a signature protects it.
FREE         an explanation: changed, it changes no meaning.

The first pattern that fits a leaf counts; `*` stands for one name, `**` for all that follows. docs/verify.md
shows this table, and test_leaves.py changes every leaf of every kind of release.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

DETERMINED, DECLARED, FREE = "determined", "declared", "free"
README_ALONE = "README.md"


class Leaf(NamedTuple):
    """A pattern of paths, what its values are, and what determines them."""

    path: str
    status: str
    by: str


LEAVES = (
    Leaf("unit", DETERMINED, README_ALONE),
    Leaf("promise", DETERMINED, "epsilon, delta and unit; k and tau"),
    Leaf("guarantee/epsilon", DETERMINED, "promise"),
    Leaf("guarantee/delta", DETERMINED, "promise"),
    Leaf("guarantee/rho", DETERMINED, "spends"),
    Leaf("guarantee/unit", DETERMINED, "unit, promise"),
    Leaf("guarantee/kind", DETERMINED, "spends, epsilon"),
    Leaf("guarantee/neighbours", DETERMINED, "unit"),
    Leaf("guarantee/promise_version", DETERMINED, "promise"),
    Leaf("guarantee/verified", DETERMINED, "promise"),
    Leaf("guarantee/**", DECLARED, ""),
    Leaf("public/zones/*", DETERMINED, "zones.parquet, zones.geojson; queries: README.md"),
    Leaf("public/window/*", DETERMINED, "slots of densities and queries, lattice; others: README.md"),
    Leaf("public/time_zone", DETERMINED, "slots of densities and queries, lattice; others: README.md"),
    Leaf("public/slot_minutes", DETERMINED, "window and slots"),
    Leaf("public/slots", DETERMINED, "rows, window"),
    Leaf("public/decimals", DETERMINED, "numbers of the tables"),
    Leaf("public/grid/**", DETERMINED, "metadata of the table"),
    Leaf("public/step_s", DETERMINED, "metadata of the table"),
    Leaf("public/synthetic", DETERMINED, "metadata of the table"),
    Leaf("public/given/**", DETERMINED, "rectangles drawn again from grid, number and seed"),
    Leaf("public/lattice/**", DETERMINED, "window; constants of the origin; README.md"),
    Leaf("public/epoch_minutes", DETERMINED, "boxes of the records; README.md"),
    Leaf("public/k", DETERMINED, "promise"),
    Leaf("public/tau_minutes", DETERMINED, "promise"),
    Leaf("public/queries", DETERMINED, "queries.jsonl, answers.csv"),
    Leaf("public/**", DETERMINED, README_ALONE),
    Leaf("spends/*/rho", DETERMINED, "rho of the guarantee"),
    Leaf("spends/*/epsilon", DETERMINED, "epsilon of a pure guarantee; otherwise a lower limit, by rho"),
    Leaf("spends/*/pays_for", FREE, ""),
    Leaf("spends/**", DECLARED, ""),
    Leaf("audit_case", DETERMINED, "method, spends, unit"),
    Leaf("population", DETERMINED, README_ALONE),
    Leaf("input/synthetic_trips", DETERMINED, "trips.parquet"),
    Leaf("input/shape", DETERMINED, README_ALONE),
    Leaf("input/columns/*", DETERMINED, README_ALONE),
    Leaf("input/peaks/**", DETERMINED, README_ALONE),
    Leaf("input/**", DECLARED, "a histogram's trips_with_noise: metadata of histogram.parquet"),
    Leaf("read_from_data/**", DETERMINED, README_ALONE),
    Leaf("columns/**", DETERMINED, "README.md; names: columns of the tables"),
    Leaf("verdict/**", DETERMINED, README_ALONE),
    Leaf("licence", DETERMINED, README_ALONE),
    Leaf("package/name", DETERMINED, "always shoal"),
    Leaf("package/version", DETERMINED, README_ALONE),
    Leaf("reproducible", DETERMINED, "README.md, note"),
    Leaf("note", DETERMINED, "reproducible"),
    Leaf("tuned_on_private_data", DETERMINED, README_ALONE),
    Leaf("created", DETERMINED, README_ALONE),
    Leaf("files/**", DETERMINED, "the file itself"),
    Leaf("**", DECLARED, ""),
)


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Path and value of every leaf of a manifest read from JSON."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from leaves(inner, (*path, str(number)))
    else:
        yield path, value


def leaf_of(path: tuple[str, ...]) -> Leaf:
    """The row of the table that a path belongs to."""
    return next(leaf for leaf in LEAVES if _fits(leaf.path.split("/"), path))


def leaf_table() -> str:
    """The table as Markdown, for docs/verify.md."""
    rows = [f"| `{leaf.path}` | {leaf.status} | {leaf.by or '-'} |" for leaf in LEAVES]
    return "\n".join(["| value | is | by |", "| --- | --- | --- |", *rows])


def _fits(pattern: list[str], path: tuple[str, ...]) -> bool:
    if pattern[-1] == "**":
        head = pattern[:-1]
        return len(path) >= len(head) and _fits_each(head, path[: len(head)])
    return len(pattern) == len(path) and _fits_each(pattern, path)


def _fits_each(pattern: list[str], path: tuple[str, ...]) -> bool:
    return all(want in ("*", name) for want, name in zip(pattern, path, strict=True))
